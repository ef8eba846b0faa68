-- Takes the place of a mark that says nothing of our event, or is of another epoch, only if it is still that mark.
-- KEYS[1]  the claim's key
-- ARGV[1]  the mark's value
-- ARGV[2]  our claim's value
-- ARGV[3]  its lease in seconds
-- Result   as of SET NX GET: nil, the claim is ours; else the value that is there
local value = redis.call('GET', KEYS[1])
if value and value ~= ARGV[1] then
	return value
end
redis.call('SET', KEYS[1], ARGV[2], 'EX', ARGV[3])
return false
