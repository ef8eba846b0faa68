#!lua flags=allow-oom
-- Deletes marks, which say how an event ended; claims, by which somebody is at work, stay.
-- KEYS[i]  a claim's key
-- ARGV[j]  how the values begin that go: dead@, done@
-- Result   how many marks were deleted
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
