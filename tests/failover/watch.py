"""The watch on a failover of several Redis servers: reports when there is a new master and when each listener claims there
again."""
import asyncio
import re
import time

from rig.several import READY_S
from rig.waiting import RigError

LOOK_S = 0.01
# A claim as a listener sends it; commands from a master to its replica have no NX.
CLAIM = re.compile(rb'^\+(\d+\.\d+) \[\d+ \d[^\]]*\] "SET" "[^"]+" "(fleet-\d+)-[^"]*" "NX"', re.I)


class Watch:
    """Watches one failover, from its beginning."""

    def __init__(self, several, known, listeners):
        self.several = several
        self.known = known              # servers that cannot be the new master
        self.listeners = listeners      # how many must claim
        self.began_at = time.time()
        self.master = None
        self.is_master_at = self.is_named_at = 0.0
        self.claimed_at = {}            # listener -> time of its first claim at the new master
        self.tasks = []

    async def run(self):
        """Runs until all claim at the new master."""
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
        """Reads commands of a server. Sentinels end its connections when its role changes."""
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
        """Returns the time from the first announcement of the new master to the last listener's first claim there."""
        return max(0.0, max(self.claimed_at.values()) - self.is_named_at)

    def cells(self):
        return (f"{self.is_master_at - self.began_at:.2f} | {self.is_named_at - self.began_at:.2f} | "
                f"{max(self.claimed_at.values()) - self.is_master_at:.2f} | {self.again_s:.2f}")
