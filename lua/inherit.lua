#!lua flags=allow-oom
-- Takes over the claims of a dead owner, each only if that owner still holds it or nobody does.
-- KEYS[i]          a claim's key
-- ARGV[1]          the beginning of the dead owner's claims: its name with its nonce, and @
-- ARGV[2]          our lease in seconds
-- ARGV[2 + i]      our claim's value
-- Result           for each key nil if the claim is now ours, else the value found
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
