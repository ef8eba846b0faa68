#!lua flags=allow-oom
-- Takes over the claims of an owner that is dead, each only if it is still that owner's, or nobody's.
-- KEYS[i]          a claim's key
-- ARGV[1]          how the dead owner's claims begin: its name with its nonce, and @
-- ARGV[2]          our lease in seconds
-- ARGV[2 + i]      our claim's value
-- Result           for each key nil, the claim is ours; else the value that is there
local values = {}
for i, key in ipairs(KEYS) do
	local value = redis.call('GET', key)
	if value and string.sub(value, 1, #ARGV[1]) ~= ARGV[1] then
		values[i] = value
	else
		redis.call('SET', key, ARGV[2 + i], 'EX', ARGV[2])
		values[i] = false
	end
end
return values
