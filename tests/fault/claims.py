"""The watch on claims: owns a model of Redis's keys, fed by MONITOR, and reports a listener that deletes or extends a claim
of another (I4). It reports only when it is sure: a key whose value it does not know, or that may have expired within
SLACK_S, is nobody's fault."""
import asyncio
import math

from fleet import CLAIM_TTL_S, clock

SLACK_S = 0.1
RECOVERY_S = 3                  # from the end of a fault until leases are renewed again
UNSEEN_S = 10                   # from the first command seen until no key is left that was set unseen: late copies have come


class ClaimWatches:
    """One watch per Redis server."""

    def __init__(self, rig):
        self.watches = [ClaimWatch(rig, server, self) for server in getattr(rig.redis, "servers", [rig.redis])]
        self.seen = set()               # keys that a server had: another one may have them, too, as its replica or by a move

    async def run(self):
        await asyncio.gather(*(watch.run() for watch in self.watches))

    @property
    def commands(self):
        return sum(watch.commands for watch in self.watches)

    @property
    def known_from(self):
        """From then on, a key that no watch has seen is on no server."""
        return max((watch.known_from for watch in self.watches if watch.known_from is not None), default=math.inf)

    def history_of(self, event_id):
        return [line for watch in self.watches for line in watch.history_of(event_id)]

    def forget_round(self):
        for watch in self.watches:
            watch.trace.clear()


class ClaimWatch:
    def __init__(self, rig, redis, all_watches):
        self.rig = rig
        self.redis = redis
        self.all_watches = all_watches
        self.prefix = rig.claim_prefix.encode()
        self.keys = {}                  # key -> (value, expires)
        self.trace = {}                 # key -> [(time, words)]
        self.script = {}                # of the EVAL under way: key -> value that it may touch
        self.commands = 0
        self.known_from = None          # before this time, a key that was never seen may be there all the same

    async def run(self):
        while True:
            try:
                if await self.redis.is_master():
                    await self.listen()
            except (OSError, asyncio.IncompleteReadError, ValueError):
                pass
            self.keys.clear()           # Redis is gone, and with it what it knew
            self.known_from = None
            await asyncio.sleep(0.1)

    async def listen(self):
        reader, writer = await asyncio.open_unix_connection(self.redis.socket, limit=1 << 24)
        try:
            writer.write(b"MONITOR\r\n")
            while True:
                line = await reader.readline()
                if not line or line[:1] == b"-" or self.is_replicated(line):       # it is cut off, or has a master now
                    return
                self.on_line(line)
        finally:
            writer.close()

    def is_replicated(self, line):
        """Returns whether a master sent it. Listeners delete only by scripts; a master deletes expired keys."""
        return b'"PXAT"' in line or (not self.rig.has_one_redis and b'] "DEL" ' in line and b" lua] " not in line)

    def on_line(self, line):
        at, _, rest = line[1:].partition(b" ")
        words = rest.split(b'"')[1::2]
        if not words:
            return
        self.commands += 1
        if self.known_from is None:
            self.known_from = float(at) + UNSEEN_S
        name = words[0].upper()
        is_lua = b" lua] " in rest[:12]
        now = float(at) if at[:1].isdigit() else 0.0
        if name == b"SET" and words[1].startswith(self.prefix):
            self.on_set(now, words)
        elif name == b"EVAL" and (b"Extends the leases" in words[1] or b"Releases claims" in words[1]):
            count = int(words[2])
            self.script = dict(zip(words[3:3 + count], words[3 + count:3 + 2 * count]))
        elif name in (b"DEL", b"EXPIRE") and words[1].startswith(self.prefix):
            self.on_touch(now, name, words, is_lua)
        elif name.startswith(b"RESTORE"):       # a key of a slot that moves here, with what it held elsewhere
            self.note(words[1], now, words[:1])
            self.all_watches.seen.add(words[1])
            self.keys[words[1]] = (None, math.inf)
        elif name in (b"FLUSHALL", b"FLUSHDB"):
            self.keys.clear()
            self.known_from = now

    def note(self, key, now, words):
        self.trace.setdefault(key, []).append((now, b" ".join(words).decode(errors="replace")))

    def on_set(self, now, words):
        key, value = words[1], words[2]
        self.note(key, now, words)
        expires = now + float(words[-1])
        old = self.keys.get(key)
        is_new = key not in self.all_watches.seen and now >= self.all_watches.known_from
        self.all_watches.seen.add(key)
        if b"NX" not in words or is_new:
            self.keys[key] = (value, expires)
        elif old is None or old[0] is None:     # whether it was there, and until when, is not known
            self.keys[key] = (None, expires)
        elif old[1] + SLACK_S < now:
            self.judge_lease(key, now, *old)
            self.keys[key] = (value, expires)
        elif old[1] - SLACK_S <= now:
            self.keys[key] = (None, expires)

    def judge_lease(self, key, now, value, expires):
        """A claim ran out, and another was made: the event was not stored meanwhile. A listener that lives renews its
        claims. Judged only where nothing kept it from that: it ran all the time, as the feed knows, and kept its
        connection to Redis."""
        name, dot, _ = (value or b"").partition(b".")
        number = name.rpartition(b"-")[2]
        if not dot or not number.isdigit() or not now - expires < CLAIM_TTL_S:
            return
        began, number = expires - CLAIM_TTL_S, int(number)
        listener = self.rig.listener(number)
        ran = listener.now.started < began and listener.now.ended is None and self.rig.feed.was_heard(number, began, now)
        if ran and listener.was_with_redis(began - RECOVERY_S) and not self.rig.timeline.had_trouble(number, began - RECOVERY_S, now):
            self.rig.verdict.find("leases_lost", key.decode(errors="replace"),
                                  [f"{name.decode()} was there all the time"] + self.history(key))

    def on_touch(self, now, name, words, is_lua):
        key = words[1]
        self.note(key, now, ([b"lua"] if is_lua else []) + words)
        value, expires = self.keys.get(key, (None, 0))
        allowed = self.script.get(key) if is_lua else None
        if value is not None and now < expires - SLACK_S and value != allowed:
            self.rig.verdict.find("foreign_claims", key.decode(),
                                  [f"{name.decode()} by the owner of {allowed!r} while the claim was {value!r}"]
                                  + self.history(key))
        if name == b"DEL":
            self.keys.pop(key, None)
        else:
            self.keys[key] = (value, now + float(words[2]))

    def history_of(self, event_id):
        return self.history(self.prefix + event_id.encode())

    def history(self, key):
        return [f"redis {clock(at)} {text}" for at, text in self.trace.get(key, [])[-12:]]
