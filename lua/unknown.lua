-- Returns a sentence about a live listener that cannot store and is not in ARGV, "" if there is none.
-- KEYS[1]  as in presence.lua
-- ARGV     names of listeners
local all, known = redis.call('HGETALL', KEYS[1]), {}
for _, name in ipairs(ARGV) do
	known[name] = true
end
for i = 1, #all, 2 do
	local trouble = string.match(all[i + 1], '\n(.+)$')
	if trouble and trouble ~= 'connecting' and not known[all[i]] then
		return string.match(all[i], '(.*)[.]') .. ' has not checked in, and cannot store: ' .. trouble
	end
end
return ''
