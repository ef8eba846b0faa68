#!lua flags=allow-oom
-- Gives claims back, each only if it is still ours.
-- KEYS[i]  a claim's key
-- ARGV[i]  the value that we wrote there; another value is another owner's claim and stays
-- Result   how many claims were deleted
local deleted = 0
for i, key in ipairs(KEYS) do
	if redis.call('GET', key) == ARGV[i] then
		deleted = deleted + redis.call('DEL', key)
	end
end
return deleted
