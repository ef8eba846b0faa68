"""The peers, which people would use instead of wsonce: owns their table, what each needs to run, and the processes.
Their own code is in loadtest/peers/. They report progress at most every TOLD_EVERY_S, so the end of a measurement may be
noticed that late: all of this time is subtracted, so that no doubt is in wsonce's favour."""
import asyncio
import json
import os
import shutil
import subprocess
import time
from dataclasses import dataclass

from rig.process import Process
from rig.run import TREE
from rig.waiting import RigError

READY_S = 60
STUCK_S = 30
INSTALL_S = 180
TOLD_EVERY_S = 0.1


@dataclass(frozen=True)
class Kind:
    words: str
    folder: str
    command: tuple                      # the program, its options, and its file in the folder
    flags: tuple = ()
    modules: tuple = ()                 # Python modules
    is_npm: bool = False
    is_worker: bool = False             # delivers the outbox; the others are listeners


NODE = ("node", "--max-semi-space-size=64", "listener.js")
BY_SCRIPT, BY_COPY = ("--claim-by", "script"), ("--store-by", "copy")
WORKER = ("node", "--max-semi-space-size=64", "worker.js")
FASTAPI = ("/usr/bin/python3", "listener.py")
MODULES = ("fastapi", "uvicorn", "uvloop", "redis", "hiredis", "asyncpg", "websockets")
KINDS = {
    "node": Kind("Node", "loadtest/peers/node", NODE, is_npm=True),
    # The same SETs, but in one script call per turn of its loop: cheaper, and less usual.
    "node-script": Kind("Node, claims by a script", "loadtest/peers/node", NODE, BY_SCRIPT, is_npm=True),
    "node-copy": Kind("Node, claims by a script, rows by COPY", "loadtest/peers/node", NODE, BY_SCRIPT + BY_COPY, is_npm=True),
    "node-worker": Kind("Node worker", "loadtest/peers/node", WORKER, is_npm=True, is_worker=True),
    "fastapi": Kind("FastAPI, one event at a time", "loadtest/peers/fastapi", FASTAPI, modules=MODULES),
    "fastapi-batched": Kind("FastAPI, in batches", "loadtest/peers/fastapi", FASTAPI, ("--batch",), modules=MODULES),
}


def install(folder):
    """Installs the packages in package-lock.json into the folder. Returns None, or why that failed."""
    with open(f"{folder}/package.json") as file:
        packages = json.load(file)["dependencies"]
    if all(os.path.isdir(f"{folder}/node_modules/{name}") for name in packages):
        return None
    if not shutil.which("npm"):
        return "there is no npm program to install its packages: install npm"
    try:
        done = subprocess.run(["npm", "ci", "--ignore-scripts", "--no-audit", "--no-fund"], cwd=folder, timeout=INSTALL_S,
                              stdin=subprocess.DEVNULL, capture_output=True, text=True)
    except subprocess.TimeoutExpired:
        return f"npm ci did not end within {INSTALL_S} s: is there a network?"
    if done.returncode:
        last = (done.stderr.strip().splitlines() or ["no words"])[0]
        return f"npm ci failed in {folder}: {last}"
    return None


def missing_module(modules):
    for module in modules:
        if subprocess.run(["/usr/bin/python3", "-c", f"import {module}"], capture_output=True).returncode:
            return module
    return None


def prepare(name):
    """Makes sure that a peer can run. Returns None, or why it cannot."""
    kind = KINDS[name]
    folder = f"{TREE}/{kind.folder}"
    if not os.path.exists(f"{folder}/{kind.command[-1]}"):
        return f"there is no {kind.folder}/{kind.command[-1]}"
    if not shutil.which(kind.command[0]):
        return f"there is no {kind.command[0]} program: run demo/deps bench"
    module = missing_module(kind.modules)
    if module:
        return f"Python has no module {module}: run demo/deps bench"
    return install(folder) if kind.is_npm else None


class Instance(Process):
    """A process that prints its figures on standard output, one JSON object per line."""

    def __init__(self, base):
        super().__init__(base)
        self.figures = {}
        self.told_at = 0.0              # when it printed them
        self.bad_lines = []
        self.news = asyncio.Event()

    async def start(self, servers, kind, url, *options):
        """Starts it on the feed at url, or for producers if there is none."""
        kind = KINDS[kind]
        where = ("--source", url) if url else ("--ingest", "127.0.0.1:0")
        await self.launch_to_hear(
            [*kind.command[:-1], f"{TREE}/{kind.folder}/{kind.command[-1]}", *where, "--redis", servers.redis_url,
             "--postgres", servers.conninfo, *kind.flags, *options])

    async def start_worker(self, servers, kind, *options):
        kind = KINDS[kind]
        await self.launch_to_hear([*kind.command[:-1], f"{TREE}/{kind.folder}/{kind.command[-1]}", "--postgres", servers.conninfo,
                                   *options])

    def take(self, line):
        try:
            self.figures.update(json.loads(line))
        except ValueError:
            self.bad_lines.append(line)
        self.told_at = time.time() - TOLD_EVERY_S
        self.news.set()

    def figure(self, name):
        return self.figures.get(name, 0)

    async def wait_for(self, is_done, seconds, what):
        while not is_done():
            self.news.clear()
            try:
                await asyncio.wait_for(self.news.wait(), seconds)
            except asyncio.TimeoutError:
                raise RigError(f"{self.name}: {what}: {self.figures}, and no more news for {seconds} s") from None
            if self.hearing.done() and not is_done():
                last = (self.last_words() or ["it said nothing"])[-1]
                raise RigError(f"{self.name} ended: see its log with --keep: {last}")

    async def settle(self, messages):
        await self.wait_for(lambda: self.figure("received") == self.figure("settled") == messages, STUCK_S,
                            f"not all of {messages} messages")
        return self.told_at


class Peers:
    """A fleet of a peer's listeners."""

    def __init__(self, rig, name, size, form="event"):
        self.rig = rig
        self.name = name
        self.size = size
        self.options = () if form == "event" else ("--form", form)
        self.members = []

    async def connect(self, url):
        for number in range(1, self.size + 1):
            member = self.rig.child(f"{self.name}-{number}", Instance)
            self.members.append(member)
            await member.start(self.rig, self.name, url, "--instance", member.name, *self.options)
        for member in self.members:
            await member.wait_for(lambda m=member: m.figure("ready"), READY_S, "not connected")

    async def open_ingest(self):
        """Starts the listeners without a feed; returns the port of the first one."""
        await self.connect(None)
        return self.members[0].figure("port")

    async def settle(self, messages):
        return max([await member.settle(messages) for member in self.members])

    def pids(self):
        return [member.process.pid for member in self.members]

    async def end(self):
        await asyncio.gather(*(self.rig.stop(member, member.name) for member in self.members))
        for member in self.members:
            await member.hearing


class Workers:
    """Workers of a peer, which deliver the outbox."""

    def __init__(self, rig, name, size, target, url, secret_file):
        self.rig = rig
        self.name = name
        self.size = size
        self.options = ("--target", target, "--url", url, "--secret-file", secret_file)
        self.members = []

    async def open(self):
        for number in range(1, self.size + 1):
            member = self.rig.child(f"{self.name}-{number}", Instance)
            self.members.append(member)
            await member.start_worker(self.rig, self.name, "--instance", member.name, *self.options)
        for member in self.members:
            await member.wait_for(lambda m=member: m.figure("ready"), READY_S, "not ready")

    def pids(self):
        return [member.process.pid for member in self.members]

    async def end(self):
        await asyncio.gather(*(self.rig.stop(member, member.name) for member in self.members))
