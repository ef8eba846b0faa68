#!lua flags=allow-oom
-- Records that a listener is alive, and returns all that are. Uses the server's clock, so the clocks of the hosts need
-- not agree.
-- KEYS[1]  a hash from the listeners' names to the time of their last beat in ms, a blank, and what they said
-- ARGV[1]  our name
-- ARGV[2]  what we say
-- ARGV[3]  how long a beat counts, in ms
-- Result   the names of all live listeners, ours included, each followed by what it said
local now = redis.call('TIME')
local ms = now[1] * 1000 + math.floor(now[2] / 1000)
redis.call('HSET', KEYS[1], ARGV[1], string.format('%.0f ', ms) .. ARGV[2])
local all = redis.call('HGETALL', KEYS[1])
local live, kept = {}, {}
for i = 1, #all, 2 do
	local at, said = string.match(all[i + 1], '^(%d+) (.*)$')
	at = tonumber(at)
	if at and at > ms - ARGV[3] and at <= ms then -- later: written by a server whose clock was ahead
		live[#live + 1] = all[i]
		live[#live + 1] = said
		kept[#kept + 1] = all[i]
		kept[#kept + 1] = all[i + 1]
	end
end
if #kept < #all then
	redis.call('DEL', KEYS[1])
	redis.call('HSET', KEYS[1], unpack(kept))
end
redis.call('PEXPIRE', KEYS[1], ARGV[3])
return live
