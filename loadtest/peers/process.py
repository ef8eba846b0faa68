"""The processes of a check: owns a peer and the figures that it tells, and a feed."""
import asyncio
import json
import os
import signal
import sys

HERE = os.path.dirname(os.path.realpath(__file__))
TREE = os.path.dirname(os.path.dirname(HERE))
sys.path.append(f"{TREE}/tests/fault")

from servers import RigError, send_signal, start, wait_until

SLOW = float(os.environ.get("WSONCE_TEST_SLOW", "1"))
DEADLINE_S = 60 * SLOW
SOURCE = f"{os.environ.get('WSONCE_BIN_DIR') or TREE + '/build'}/wsonce-source"
PROGRAMS = {"node": [f"{HERE}/node/listener.js"], "node-script": [f"{HERE}/node/listener.js", "--claim-by", "script"],
            "node-copy": [f"{HERE}/node/listener.js", "--claim-by", "script", "--store-by", "copy"],
            "fastapi": [f"{HERE}/fastapi/listener.py"], "fastapi-batched": [f"{HERE}/fastapi/listener.py", "--batch"]}


class Wrong(Exception):
    """What a peer did that it must not do."""


async def soon(predicate, what):
    """Waits until it is true."""
    async def is_true():
        return predicate()
    try:
        await wait_until(is_true, DEADLINE_S, what)
    except RigError as error:
        raise Wrong(str(error)) from error


class Process:
    """A child with text on standard output, which ends with the check."""

    def __init__(self, log):
        self.log_path = log
        self.process = None
        self.reader = None

    async def launch(self, command):
        self.process = await start(command, self.log_path, stdout=asyncio.subprocess.PIPE)
        self.reader = asyncio.create_task(self.read())

    async def read(self):
        async for line in self.process.stdout:
            self.take(line)

    def take(self, line):
        raise NotImplementedError

    def log(self):
        with open(self.log_path, errors="replace") as file:
            return file.read()

    @property
    def is_over(self):
        return self.process.returncode is not None

    async def end(self, number=signal.SIGTERM):
        """Returns its exit status, when all that it said has been read."""
        send_signal(self.process.pid, number)
        try:
            await asyncio.wait_for(self.process.wait(), DEADLINE_S)
        except asyncio.TimeoutError as error:
            raise Wrong(f"process {self.process.pid} did not end after signal {number}") from error
        await self.reader
        return self.process.returncode


class Peer(Process):
    def __init__(self, kind, log):
        super().__init__(log)
        self.kind = kind
        self.figures = {}
        self.bad_lines = []

    async def start(self, *options):
        await self.launch(PROGRAMS[self.kind] + list(options))

    async def is_connected(self):
        await soon(lambda: self.figures.get("ready") or self.is_over, f"{self.kind} is ready")
        if self.is_over:
            raise Wrong(f"{self.kind} did not start: {self.log()[-300:]}")

    def take(self, line):
        try:
            self.figures.update(json.loads(line))
        except ValueError:
            self.bad_lines.append(line)

    def figure(self, name):
        return self.figures.get(name, 0)

    @property
    def is_settled(self):
        return self.figure("received") == self.figure("settled") + self.figure("malformed")


class Feed(Process):
    def __init__(self, log):
        super().__init__(log)
        self.result = ""

    async def start(self, *options):
        await self.launch([SOURCE, "--listen", "127.0.0.1:0", "--stall-timeout", "0", "--json", *options])
        await soon(lambda: "listening on " in self.log() or self.is_over, "the feed listens")
        if self.is_over:
            raise RigError(f"the feed did not start: {self.log()}")

    @property
    def url(self):
        return self.log().split("listening on ", 1)[1].split()[0]

    def take(self, line):
        self.result += line.decode()

    def go_on(self):
        """Ends the pause after the warm-up."""
        send_signal(self.process.pid, signal.SIGUSR1)

    async def figures(self):
        """Of a feed that comes to its end by itself."""
        await soon(lambda: self.is_over, "the feed ends")
        await self.reader
        return json.loads(self.result)
