#!lua flags=allow-oom
-- Deletes marks, which record how an event ended. Claims of events in flight stay.
-- KEYS[i]  a claim's key
-- ARGV[j]  the beginning of values to delete: dead@, done@
-- Result   the number of marks deleted
local deleted = 0
for _, key in ipairs(KEYS) do
	local value = redis.call('GET', key)
	for _, head in ipairs(ARGV) do
		if value and string.sub(value, 1, #head) == head then
			deleted = deleted + redis.call('DEL', key)
			value = nil
		end
	end
end
return deleted
