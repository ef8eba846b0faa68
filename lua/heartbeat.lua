-- Says that an instance is alive, and tells who else is. The clock is the server's, so those of the
-- hosts need not agree.
-- KEYS[1]  the heartbeats: a sorted set of instances by the time of the last one in ms
-- ARGV[1]  our name
-- ARGV[2]  for how many ms a heartbeat counts
-- ARGV[3]  the name that ours replaces, if there is one
-- Result   the names of all that are alive, ours included
local now = redis.call('TIME')
local ms = now[1] * 1000 + math.floor(now[2] / 1000)
redis.call('ZREMRANGEBYSCORE', KEYS[1], '-inf', ms - ARGV[2])
redis.call('ZREMRANGEBYSCORE', KEYS[1], '(' .. ms, '+inf') -- of a clock that was ahead of this server's
if ARGV[3] then
	redis.call('ZREM', KEYS[1], ARGV[3])
end
redis.call('ZADD', KEYS[1], ms, ARGV[1])
redis.call('PEXPIRE', KEYS[1], ARGV[2])
return redis.call('ZRANGE', KEYS[1], 0, -1)
