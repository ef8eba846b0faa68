"""The processes of a check: owns a peer and the figures that it tells, and a feed."""
import asyncio
import json
import os
import signal

from rig.load import Source
from rig.process import Process
from rig.run import TREE
from rig.waiting import SLOW, comes_true

DEADLINE_S = 60 * SLOW
BIN_DIR = os.environ.get("WSONCE_BIN_DIR") or f"{TREE}/build"
SOURCE = f"{BIN_DIR}/wsonce-source"
NODE, FASTAPI = f"{TREE}/loadtest/peers/node/listener.js", f"{TREE}/loadtest/peers/fastapi/listener.py"
PROGRAMS = {"node": [NODE], "node-script": [NODE, "--claim-by", "script"],
            "node-copy": [NODE, "--claim-by", "script", "--store-by", "copy"],
            "fastapi": [FASTAPI], "fastapi-batched": [FASTAPI, "--batch"]}


class Wrong(Exception):
    """What a peer did that it must not do."""


async def soon(predicate, what):
    """Waits until it is true."""
    if not await comes_true(predicate, DEADLINE_S):
        raise Wrong(f"{what}: not within {DEADLINE_S} s")


class Peer(Process):
    """Tells its figures on standard output."""

    def __init__(self, kind, base):
        super().__init__(base)
        self.kind = kind
        self.figures = {}
        self.bad_lines = []
        self.reader = None

    async def start(self, *options):
        await self.launch(PROGRAMS[self.kind] + list(options), stdout=asyncio.subprocess.PIPE)
        self.reader = asyncio.create_task(self.read())

    async def read(self):
        async for line in self.process.stdout:
            try:
                self.figures.update(json.loads(line))
            except ValueError:
                self.bad_lines.append(line)

    async def is_connected(self):
        await soon(lambda: self.figures.get("ready") or self.is_over, f"{self.kind} is ready")
        if self.is_over:
            raise Wrong(f"{self.kind} did not start: {self.log()[-300:]}")

    def figure(self, name):
        return self.figures.get(name, 0)

    @property
    def is_settled(self):
        return self.figure("received") == self.figure("settled") + self.figure("malformed")

    async def end(self, number=signal.SIGTERM):
        """Returns its exit status, when all that it said has been read."""
        self.signal(number)
        if not await self.ends(DEADLINE_S):
            raise Wrong(f"{self.name} did not end after signal {number}")
        await self.reader
        return self.process.returncode


class Feed(Source):
    async def figures(self):
        """Of a feed that comes to its end by itself."""
        await soon(lambda: self.is_over, "the feed ends")
        return self.told()
