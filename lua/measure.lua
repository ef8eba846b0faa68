-- What a key takes. ARGV: a pattern, how many keys to look at. Tells the mean of MEMORY USAGE over those
-- that are done marks, rounded, or nil if there is none. KEYS is empty: the command is for a person.
local sum, count = 0, 0
for _, key in ipairs(redis.call('SCAN', 0, 'MATCH', ARGV[1], 'COUNT', ARGV[2])[2]) do
	local value = redis.pcall('GET', key)
	if type(value) == 'string' and string.sub(value, 1, 5) == 'done@' then
		sum = sum + redis.call('MEMORY', 'USAGE', key)
		count = count + 1
	end
end
return count > 0 and math.floor(sum / count + 0.5)
