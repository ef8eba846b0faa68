-- Records that an instance is alive, and returns all that are. Uses the server's clock, so the clocks of
-- the hosts need not agree.
-- KEYS[1]  a sorted set of instances by the time of their last heartbeat in ms
-- ARGV[1]  our name
-- ARGV[2]  how long a heartbeat counts, in ms
-- ARGV[3]  optional: the name that ours replaces
-- Result   the names of all live instances, ours included
local now = redis.call('TIME')
local ms = now[1] * 1000 + math.floor(now[2] / 1000)
redis.call('ZREMRANGEBYSCORE', KEYS[1], '-inf', ms - ARGV[2])
redis.call('ZREMRANGEBYSCORE', KEYS[1], '(' .. ms, '+inf') -- written by a server whose clock was ahead
if ARGV[3] then
	redis.call('ZREM', KEYS[1], ARGV[3])
end
redis.call('ZADD', KEYS[1], ms, ARGV[1])
redis.call('PEXPIRE', KEYS[1], ARGV[2])
return redis.call('ZRANGE', KEYS[1], 0, -1)
