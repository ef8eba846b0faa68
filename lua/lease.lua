#!lua flags=allow-oom
-- Takes a lease if it is free, or renews it if it is ours. A key without a TTL, or with more than ten seconds, does not
-- count as a lease: no listener asks for as much.
-- KEYS[1]  the lease's key
-- ARGV[1]  our value, which is unique
-- ARGV[2]  the lease in ms
-- Result   1 if it is now ours, 0 if it is another's
local owner = redis.call('GET', KEYS[1])
if owner and owner ~= ARGV[1] then
	local left = redis.pcall('PTTL', KEYS[1]) -- the user may lack the right
	if type(left) ~= 'number' or (left >= 0 and left <= 10000) then
		return 0
	end
end
redis.call('SET', KEYS[1], ARGV[1], 'PX', ARGV[2])
return 1
