"""The leader of a source and its faults: reads presence, which the listeners keep in Redis, and chooses the leader like
listener/fleet/roster.c."""
import asyncio
import time

from acts import lasting

ASK_S = 1
ALIVE_MS = 3000
TWO_S = 60                      # in the last round of a run
FEW = 0.1                       # a listener that leaves less than this share to others leads itself
MASK = (1 << 64) - 1
DIGITS = {digit: n for n, digit in enumerate("0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz-_")}
SOURCE_SIZE, ID_SIZE = 21, 11
MAY_LEAD = 1
WORKING = "w"
SAID = "return table.concat(redis.call('HGETALL', KEYS[1]), '\\0')"
HIDE = """for _, name in ipairs(redis.call('HKEYS', KEYS[1])) do
if name:sub(1, #ARGV[1]) == ARGV[1] then redis.call('HDEL', KEYS[1], name) end end return ''"""


def hash_text(text):
    found = 0xcbf29ce484222325
    for byte in text.encode():
        found = (found ^ byte) * 0x100000001b3 & MASK
    return found


def score(listener, source):
    x = listener ^ source * 0x9e3779b97f4a7c15 & MASK
    x = (x ^ x >> 30) * 0xbf58476d1ce4e5b9 & MASK
    x = (x ^ x >> 27) * 0x94d049bb133111eb & MASK
    return x ^ x >> 31


def may_lead(said, source):
    """Returns whether a listener reports that it works and may lead the source."""
    words = said.partition("\n")[0].split(" ")
    if len(words) < 7 or words[1] != "2" or words[3] != WORKING or int(words[0]) < time.time() * 1000 - ALIVE_MS:
        return False
    for at in range(0, len(words[6]), SOURCE_SIZE):
        number = 0
        for digit in words[6][at:at + ID_SIZE]:
            number = number << 6 | DIGITS[digit]
        if number & MASK == source:
            return bool(DIGITS[words[6][at + ID_SIZE]] & MAY_LEAD)
    return False


class Leader:
    """The leader of the source with this URL."""

    def __init__(self, redis, claim_prefix, url):
        self.redis = redis
        self.key = f"wsonce:{{alive}}:{claim_prefix}"
        scheme, _, rest = url.partition("://")
        self.source = (hash_text(f"{scheme}://") * 31 + hash_text(rest)) & MASK
        self.last = None                # the last known leader, which stays without Redis

    async def ask(self, script, *words):
        """Asks the server that has the key. Returns its answer, empty if none answers."""
        for server in getattr(self.redis, "servers", [self.redis]):
            try:
                answer = await asyncio.wait_for(server.ask("EVAL", script, "1", self.key, *words), ASK_S)
            except (OSError, ValueError, asyncio.TimeoutError, asyncio.IncompleteReadError):
                continue
            if answer and answer[:1] != b"-":
                return answer.decode(errors="replace")
        return ""

    async def find(self, listeners):
        """Returns the listener that leads by all reports; None before there is one."""
        said = (await self.ask(SAID)).split("\0")
        names = [name for name, text in zip(said[::2], said[1::2]) if may_lead(text, self.source)]
        if names:
            name = max(names, key=lambda name: score(hash_text(name), self.source))
            self.last = next((one for one in listeners if name.startswith(f"{one.instance()}.")), self.last)
        return self.last


async def aim(rig, fault):
    """Sets the fault's target to the listener that leads now."""
    leader = await rig.leader.find(rig.listeners)
    fault.target = leader.number if leader else 1


async def note(rig, fault):
    """Counts a fault that hits the leader, whatever its target was meant to be."""
    name = weather_of(fault)
    if name and await rig.leader.find(rig.listeners) is rig.listener(fault.target):
        rig.played.count(name)


def weather_of(fault):
    name = fault.kind.name.partition("-")[2] if fault.kind.is_at_leader else fault.kind.name
    if name in ("cut", "net-cut") and fault.detail in ("redis", "postgres"):
        return f"leader cut off from {fault.detail.capitalize()} only"
    return {"kill": "leader killed", "stop": "leader frozen", "half": "leader without half of the feed's frames",
            "slow": "leader slow by 2 s"}.get(name)


half = lasting(lambda rig, fault: setattr(rig.feed, "half", fault.target), lambda rig, _: setattr(rig.feed, "half", 0))


async def left_to_others(rig):
    return {listener.now: (await listener.metrics()).get("deferred_total") for listener in rig.listeners}


async def hide(rig, number):
    while True:
        await rig.leader.ask(HIDE, f"listener-{number}.")
        await asyncio.sleep(0.01)


async def two(rig, fault):
    """Hides the leader from the others, so another one leads, too. A listener that leaves nothing to others leads."""
    hiding = asyncio.get_running_loop().create_task(hide(rig, fault.target))
    after, until, seconds = await left_to_others(rig), time.monotonic() + fault.duration, 0
    while time.monotonic() < until:
        before = after
        await asyncio.sleep(1)
        after = await left_to_others(rig)
        left = [n - before[now] for now, n in after.items() if n is not None and before.get(now) is not None]
        seconds += sum(n <= FEW * max(left) for n in left) > 1 if left and max(left) else 0
    hiding.cancel()
    fault.outcome = f"{seconds} s with two leaders"
    rig.played.count("seconds with two leaders", seconds)


async def flush_presence(rig, fault):
    until = time.monotonic() + fault.duration
    while time.monotonic() < until:
        await rig.leader.ask("return redis.call('DEL', KEYS[1]) .. ''")
        rig.played.count("presence flushed")
        await asyncio.sleep(0.1)
