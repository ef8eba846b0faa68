-- Extends the leases of claims, each only if it is still ours.
-- KEYS[i]          a claim's key
-- ARGV[i]          the value that we wrote; any other value is another owner's claim and stays
-- ARGV[#KEYS + 1]  the lease in seconds, from now
-- Result           the number of leases extended
local extended = 0
local ttl = ARGV[#KEYS + 1]
for i, key in ipairs(KEYS) do
	if redis.call('GET', key) == ARGV[i] then
		extended = extended + redis.call('EXPIRE', key, ttl)
	end
end
return extended
