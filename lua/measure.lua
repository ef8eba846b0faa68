-- Measures the memory of a done mark. Only an operator's command runs this, so KEYS is empty.
-- ARGV[1]  a pattern of keys
-- ARGV[2]  the beginning of a done mark
-- Result   the rounded mean of MEMORY USAGE over about 100 matching marks, or nil if there is none among the
--          first 100,000 keys
local sum, count, cursor = 0, 0, '0'
for _ = 1, 100 do
	local page = redis.call('SCAN', cursor, 'MATCH', ARGV[1], 'COUNT', 1000)
	cursor = page[1]
	for _, key in ipairs(page[2]) do
		local value = redis.pcall('GET', key)
		if count < 100 and type(value) == 'string' and string.sub(value, 1, #ARGV[2]) == ARGV[2] then
			sum = sum + redis.call('MEMORY', 'USAGE', key)
			count = count + 1
		end
	end
	if cursor == '0' or count == 100 then
		break
	end
end
return count > 0 and math.floor(sum / count + 0.5)
