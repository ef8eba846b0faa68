-- Returns the id of another database whose live listeners use this prefix, "" if there is none. Not of those that drain.
-- KEYS[1]  as in presence.lua
-- ARGV[1]  the id of our database, - if it has none yet
-- ARGV[2]  how long a beat counts, in ms
local now, all = redis.call('TIME'), redis.call('HGETALL', KEYS[1])
for i = 2, #all, 2 do
	local at, id = string.match(all[i], '^(%d+) 2 %S+ [^d] (%S+)')
	if at and tonumber(at) > now[1] * 1000 - ARGV[2] and id ~= '-' and id ~= ARGV[1] then
		return id
	end
end
return ''
