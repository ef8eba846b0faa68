#!lua flags=allow-oom
-- Deletes dead marks. Claims of events in flight and done marks stay.
-- KEYS[i]  a claim's key
-- ARGV[1]  the beginning of a dead mark: dead@
-- Result   the number of marks deleted
local deleted = 0
for _, key in ipairs(KEYS) do
	local value = redis.call('GET', key)
	if value and string.sub(value, 1, #ARGV[1]) == ARGV[1] then
		deleted = deleted + redis.call('DEL', key)
	end
end
return deleted
