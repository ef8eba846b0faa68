#!lua flags=allow-oom
-- Registers a key prefix for a database, unless another database has it or a prefix that could make the same keys.
-- KEYS[1]  the registry: a hash from prefixes to databases
-- ARGV[1]  our prefix
-- ARGV[2]  the id of our database
-- Result   nil if it is ours, else the conflicting prefix and the id of its database
local known = redis.call('HGETALL', KEYS[1])
for i = 1, #known, 2 do
	local n = math.min(#known[i], #ARGV[1])
	if known[i + 1] ~= ARGV[2] and string.sub(known[i], 1, n) == string.sub(ARGV[1], 1, n) then
		return {known[i], known[i + 1]}
	end
end
if redis.call('HGET', KEYS[1], ARGV[1]) ~= ARGV[2] then
	redis.call('HSET', KEYS[1], ARGV[1], ARGV[2])
end
return false
