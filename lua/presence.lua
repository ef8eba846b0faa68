#!lua flags=allow-oom
-- Records that a listener is alive, and returns all others that are. Uses the server's clock, so the clocks of the
-- hosts need not agree.
-- KEYS[1]  a hash from the listeners' names to the time of their last beat in ms, a blank, and their report
-- KEYS[i]  the same for other prefixes, which is only read
-- ARGV[1]  our name
-- ARGV[2]  our report
-- ARGV[3]  how long a beat counts, in ms
-- Result   the names of the other live listeners, "" for those of other prefixes, each followed by its report
local now = redis.call('TIME')
local ms = now[1] * 1000 + math.floor(now[2] / 1000)
local live, kept, known = {}, {}, 0
redis.call('HSET', KEYS[1], ARGV[1], string.format('%.0f ', ms) .. ARGV[2])
for k, key in ipairs(KEYS) do
	local all = redis.call('HGETALL', key)
	for i = 1, #all, 2 do
		local at, said = string.match(all[i + 1], '^(%d+) ()')
		at = tonumber(at)
		if at and at > ms - ARGV[3] and at <= ms then -- a later time is from a server whose clock was ahead
			if all[i] ~= ARGV[1] then
				live[#live + 1] = k == 1 and all[i] or ''
				live[#live + 1] = string.sub(all[i + 1], said)
			end
			if k == 1 then
				kept[#kept + 1] = all[i]
				kept[#kept + 1] = all[i + 1]
			end
		end
	end
	known = k == 1 and #all or known
end
if #kept < known then
	redis.call('DEL', KEYS[1])
	redis.call('HSET', KEYS[1], unpack(kept))
end
redis.call('PEXPIRE', KEYS[1], ARGV[3])
return live
