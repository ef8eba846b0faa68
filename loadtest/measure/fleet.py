"""wsonce itself: owns a fleet of listeners, and finds out when it has settled everything."""
import asyncio
import json
import time

import rig.listener
from rig.waiting import RigError, wait_until

STUCK_S = 30
LOOK_S = 0.02                           # the end of a measurement is noticed at most this late
LOOK_SELDOM_S = 0.5


def pause_s(elapsed_s, share):
    """Returns the time to the next look: half of the remaining time, judging by the share that is done. Looks cost CPU."""
    if share <= 0:
        return 0.1
    return min(LOOK_SELDOM_S, max(LOOK_S, elapsed_s * (1 - share) / share / 2))


class Listener(rig.listener.Listener):
    """A listener of a fleet, which must not end by itself."""

    PATIENCE_S = STUCK_S
    counted = {}

    async def metrics(self):
        """Returns its metrics, or nothing if it is not listening yet."""
        if self.is_over:
            last = (self.last_words() or ["nothing"])[-1]
            raise RigError(f"{self.name} ended with status {self.process.returncode}, and its last words were: {last}")
        return await super().metrics()

    async def has_postgres(self):
        return await self.metric("postgres_up") == 1

    async def settle(self, messages):
        """Waits until that many messages are received and none is in flight."""
        began = moved = time.monotonic()
        first = last = None
        while True:
            metrics = await self.metrics()
            received, waiting = metrics.get("received_total", 0), metrics.get("in_flight", 0)
            if received == messages and not waiting:
                return
            now, done = time.monotonic(), received - waiting
            if (received, waiting) != last:
                first, last, moved = done if first is None else first, (received, waiting), now
            if received > messages or now - moved > STUCK_S:
                raise RigError(f"{self.name} received {received:.0f} of {messages} messages and holds {waiting:.0f}; nothing "
                               f"moved for {now - moved:.0f} s")
            await asyncio.sleep(pause_s(now - began, (done - first) / max(1, messages - first)))


class Fleet:
    """profile: the shipped profile that reads the feed, instead of pointers."""

    def __init__(self, rig, size, redis=None, flags=(), profile=None, has_spools=False):
        self.rig = rig
        self.size = size
        self.redis = redis or rig.redis_url
        self.flags = flags
        self.profile = profile
        self.has_spools = has_spools
        self.members = []

    async def start(self, *where):
        for number in range(1, self.size + 1):
            member = self.rig.child(f"listener-{number}", Listener)
            self.members.append(member)
            await member.launch(member.words(f"{self.rig.programs}/wsonce", self.redis, self.rig.conninfo, *where, *self.flags,
                                             *(member.spool_words() if self.has_spools else [])))

    async def connect(self, url):
        """Connects the listeners to a feed."""
        if not self.profile:
            await self.start("--source", url)
            return
        config = f"{self.rig.directory}/{self.profile}.json"
        with open(config, "w") as file:
            json.dump({"sources": [{"profile": self.profile, "url": url, "url_resume": url, "on_open": [], "mirrors": []}]},
                      file)
        await self.start("--config", config)

    async def open_ingest(self):
        """Starts the listeners without a feed; returns the port of the first one."""
        await self.start("--ingest", "127.0.0.1:0")
        for member in self.members:
            await wait_until(member.has_postgres, STUCK_S, f"{member.name} is ready")
        self.members[0].find_port()
        return self.members[0].port

    async def settle(self, messages):
        """Waits until each listener has settled that many messages; returns when this was noticed."""
        for member in self.members:
            await member.settle(messages)
        return time.time()

    def total(self, metric):
        """Returns the sum of a metric over all listeners, as counted until they ended."""
        return sum(member.counted.get(metric, 0) for member in self.members)

    def pids(self):
        return [member.process.pid for member in self.members]

    async def end(self):
        for member in self.members:
            member.counted = await member.metrics()
        await asyncio.gather(*(self.rig.stop(member, member.name) for member in self.members))
