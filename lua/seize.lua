-- Replaces a mark that does not count, such as one of another epoch, with our claim, only if the mark is unchanged.
-- KEYS[1]  the claim's key
-- ARGV[1]  the mark's value
-- ARGV[2]  our claim's value
-- ARGV[3]  its lease in seconds
-- Result   as from SET NX GET: nil if the claim is ours, else the value found
local value = redis.call('GET', KEYS[1])
if value and value ~= ARGV[1] then
	return value
end
redis.call('SET', KEYS[1], ARGV[2], 'EX', ARGV[3])
return false
