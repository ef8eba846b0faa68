"""The watch on a failover of several servers of Redis: tells when a new master is there and when each listener claims at
it again."""
import asyncio
import re
import time

from rig.several import READY_S
from rig.waiting import RigError

LOOK_S = 0.01
# A claim as a listener sends it; what a replica gets from its master has no NX.
CLAIM = re.compile(rb'^\+(\d+\.\d+) \[\d+ \d[^\]]*\] "SET" "[^"]+" "(fleet-\d+)-[^"]*" "NX"', re.I)


class Watch:
    """Of one failover, from the moment at which it begins."""

    def __init__(self, several, known, listeners):
        self.several = several
        self.known = known              # servers that cannot be the new master
        self.listeners = listeners      # how many are to claim
        self.began_at = time.time()
        self.master = None
        self.is_master_at = self.is_named_at = 0.0
        self.claimed_at = {}            # listener -> time of its first claim at the new master
        self.tasks = []

    async def run(self):
        """Until all claim at the new master."""
        try:
            await asyncio.wait_for(self.follow(), READY_S)
        except asyncio.TimeoutError:
            raise RigError("the listeners do not claim at a new master") from None
        finally:
            for task in self.tasks:
                task.cancel()

    async def follow(self):
        for server in self.several.servers:
            if server not in self.known:
                self.tasks.append(asyncio.get_running_loop().create_task(self.hear(server)))
        while not self.master:
            self.master = await self.several.other_master(self.known)
            await asyncio.sleep(LOOK_S)
        self.is_master_at = time.time()
        while not await self.several.has_named(self.master):
            await asyncio.sleep(LOOK_S)
        self.is_named_at = time.time()
        while len(self.claimed_at) < self.listeners:
            await asyncio.sleep(LOOK_S)

    async def hear(self, server):
        """Sentinels end connections of a server whose part changes."""
        while True:
            try:
                reader, writer = await asyncio.open_unix_connection(server.socket, limit=1 << 24)
                writer.write(b"MONITOR\r\n")
                while line := await reader.readline():
                    found = CLAIM.match(line)
                    if found:
                        self.claimed_at.setdefault(found.group(2), float(found.group(1)))
            except (OSError, asyncio.IncompleteReadError, ValueError):
                pass
            await asyncio.sleep(LOOK_S)

    @property
    def again_s(self):
        """From the moment at which somebody tells of the new master, to the last listener's first claim at it."""
        return max(0.0, max(self.claimed_at.values()) - self.is_named_at)

    def cells(self):
        return (f"{self.is_master_at - self.began_at:.2f} | {self.is_named_at - self.began_at:.2f} | "
                f"{max(self.claimed_at.values()) - self.is_master_at:.2f} | {self.again_s:.2f}")
