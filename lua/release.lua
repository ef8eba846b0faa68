#!lua flags=allow-oom
-- Releases claims, each only if it is still ours.
-- KEYS[i]  a claim's key
-- ARGV[i]  the value that we wrote; any other value is another owner's claim and stays
-- Result   the number of claims deleted
local deleted = 0
for i, key in ipairs(KEYS) do
	if redis.call('GET', key) == ARGV[i] then
		deleted = deleted + redis.call('DEL', key)
	end
end
return deleted
