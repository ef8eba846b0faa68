"""The contestant that this is about: owns a fleet of wsonce listeners, and knows when it has settled everything."""
import asyncio
import time

import admin
from servers import RigError, wait_until

STUCK_S = 30
LOOK_S = 0.02                           # the end of a measurement is seen so late at most
LOOK_SELDOM_S = 0.5


def pause_s(elapsed_s, share):
    """Until the next look, when so much is done: half of the time that is left at this pace. Looks cost CPU."""
    if share <= 0:
        return 0.1
    return min(LOOK_SELDOM_S, max(LOOK_S, elapsed_s * (1 - share) / share / 2))


class Listener:
    def __init__(self, fleet, number):
        self.fleet = fleet
        self.name = f"listener {number}"
        self.admin = f"{fleet.rig.directory}/admin-{number}.sock"
        self.child = self.log = None
        self.counted = {}

    async def start(self, where):
        rig = self.fleet.rig
        self.child, self.log = await rig.spawn(
            [f"{rig.programs}/wsonce", "listen", "--instance-id", self.name.replace(" ", "-"), "--admin",
             f"unix:{self.admin}", "--redis", self.fleet.redis, "--postgres", rig.conninfo] + where + self.fleet.flags,
            self.name.replace(" ", "-"))

    def ingest_port(self):
        with open(self.log, "rb") as file:
            return admin.find_port(file.read())

    async def metrics(self):
        if self.child.returncode is not None:
            with open(self.log, errors="replace") as file:
                last = (file.read().splitlines() or ["nothing"])[-1]
            raise RigError(f"{self.name} ended with status {self.child.returncode}, and its last words were: {last}")
        try:
            return admin.read_metrics(await asyncio.wait_for(admin.fetch(self.admin, "/metrics"), STUCK_S))
        except (OSError, asyncio.TimeoutError):
            return {}                   # it is not listening yet

    async def is_ready(self):
        return (await self.metrics()).get("postgres_up") == 1

    async def settle(self, messages):
        """Waits until that many are received and none is in flight."""
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
    def __init__(self, rig, size, redis=None, flags=()):
        self.rig = rig
        self.size = size
        self.redis = redis or f"unix://{rig.redis.socket}"
        self.flags = list(flags)
        self.members = [Listener(self, number) for number in range(1, size + 1)]

    async def start(self, url):
        for member in self.members:
            await member.start(["--source", url])

    async def open_ingest(self):
        """Without a feed; returns where producers connect to the first listener."""
        for member in self.members:
            await member.start(["--ingest", "127.0.0.1:0"])
        for member in self.members:
            await wait_until(member.is_ready, STUCK_S, f"{member.name} is ready")
        return f"ws://127.0.0.1:{self.members[0].ingest_port()}/events"

    async def settle(self, messages):
        """Waits until each has settled that many messages; returns when that was seen."""
        for member in self.members:
            await member.settle(messages)
        return time.time()

    def total(self, metric):
        """As they counted until their end."""
        return sum(member.counted.get(metric, 0) for member in self.members)

    def pids(self):
        return [member.child.pid for member in self.members]

    async def end(self):
        for member in self.members:
            member.counted = await member.metrics()
        await asyncio.gather(*(self.rig.stop(member.child, member.name) for member in self.members))
