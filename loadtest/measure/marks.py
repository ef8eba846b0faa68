"""Marks of events that were stored earlier: puts them into Redis.

Redis doubles its tables when they are full, and moves the keys with each command: for as long as that lasts, it takes
nearly twice the CPU for a claim. A Redis that was just emptied does so at each power of two, three times in a latency
run; one of a fleet that has been at work for --dedup-window has as many keys as it will have, and does not."""

PAGE = 10_000
VALUE = "done@1700000000000.0123456789abcdef0123456789abcdef"
EACH = "for i = tonumber(ARGV[1]), tonumber(ARGV[2]) do local key = 'dedup:old-' .. i %s end"
SET, DELETE = EACH % f"redis.call('SET', key, '{VALUE}', 'EX', 3600)", EACH % "redis.call('DEL', key)"
TOUCH = EACH % "redis.call('EXISTS', key)"


async def each(redis, script, begin, end):
    for first in range(begin, end, PAGE):
        await redis.ask("EVAL", script, "0", str(first), str(min(end, first + PAGE) - 1))


async def fill(redis, room):
    """Leaves `room` marks, and room for as many keys more. The last commands make Redis finish moving keys."""
    await each(redis, SET, 0, 2 * room)
    await each(redis, DELETE, 0, room)
    await each(redis, TOUCH, room, 2 * room)
