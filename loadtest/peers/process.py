"""The processes of a check: owns a peer, judged by its figures, and a feed."""
import os
import signal

from measure.peer import Instance
from rig.load import Source
from rig.run import TREE
from rig.waiting import SLOW, comes_true

DEADLINE_S = 60 * SLOW
BIN_DIR = os.environ.get("WSONCE_BIN_DIR") or f"{TREE}/build"


class Wrong(Exception):
    """A peer did something that it must not do."""


async def soon(predicate, what):
    """Waits until the predicate is true."""
    if not await comes_true(predicate, DEADLINE_S):
        raise Wrong(f"{what}: not within {DEADLINE_S} s")


class Peer(Instance):
    async def is_connected(self):
        await soon(lambda: self.figure("ready") or self.is_over, f"{self.name} is ready")
        if self.is_over:
            raise Wrong(f"{self.name} did not start: {self.log()[-300:]}")

    @property
    def is_settled(self):
        return self.figure("received") == self.figure("settled") + self.figure("malformed")

    async def end(self, number=signal.SIGTERM):
        """Sends a signal. Returns the exit status once the whole output has been read."""
        self.signal(number)
        if not await self.ends(DEADLINE_S):
            raise Wrong(f"{self.name} did not end after signal {number}")
        await self.hearing
        return self.process.returncode


class Feed(Source):
    async def figures(self):
        """Waits for a feed that ends by itself."""
        await soon(lambda: self.is_over, "the feed ends")
        return self.told()


class Worker(Peer):
    """A worker that delivers the outbox."""

    @property
    def is_settled(self):
        return self.figure("taken") == self.figure("delivered") + self.figure("failed")
