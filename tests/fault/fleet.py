"""The programs under test: owns the listeners with their links, and the producers. Each start of a listener is an
Incarnation, whose end decides whether what it had received is judged."""
import asyncio
import json
import os
import re
import signal
import time

import admin
from proxy import Link
from servers import RigError, send_signal, start

CLAIM_TTL_S = 3
DRAIN_S = 4
MAX_ATTEMPTS = 5                # as it comes
LEFT_LINE = re.compile(rb'event="?drained"? .*left=(\d+)')


class Incarnation:
    """One process of a listener, from its start to its end."""

    def __init__(self, listener, number):
        self.listener = listener
        self.number = number
        self.process = None
        self.started = time.time()
        self.ended = None
        self.is_killed = False          # by the rig
        self.is_termed = False
        self.status = None
        self.log_offset = 0

    @property
    def name(self):
        return f"listener-{self.listener.number}#{self.number}"

    @property
    def is_witness(self):
        """What it received must be stored: it still runs, or it left saying that nothing was left."""
        return self.ended is None or (not self.is_killed and self.status == 0)

    def describe(self):
        if self.ended is None:
            return f"{self.name} runs"
        how = "killed" if self.is_killed else f"exit {self.status}"
        return f"{self.name} {how} at {clock(self.ended)}"


def clock(at):
    return time.strftime("%H:%M:%S", time.localtime(at)) + f".{int(at % 1 * 1000):03d}"


class Listener:
    """Listener number n (from 1 on), its links and its present incarnation."""

    def __init__(self, number, rig):
        self.number = number
        self.rig = rig
        self.log = f"{rig.directory}/listener-{number}.log"
        self.admin = f"{rig.directory}/admin-{number}.sock"
        self.config = f"{rig.directory}/listener-{number}.config"
        self.ingest_port = 0
        self.incarnations = []
        self.now = None
        self.is_wanted_down = False
        self.links = {}

    async def open_links(self):
        targets = {"redis": lambda: self.rig.redis.socket, "postgres": lambda: self.rig.postgres.socket,
                   "feed": lambda: ("127.0.0.1", self.rig.feed.port),
                   "ingest": lambda: ("127.0.0.1", self.ingest_port or 1),
                   "hook": lambda: ("127.0.0.1", self.rig.receiver.port)}
        for name, target in targets.items():
            far_s = self.rig.options.postgres_far_s if name == "postgres" else 0.0
            self.links[name] = await Link(f"{name}-{self.number}", target, far_s).open()
        self.links["postgres"].on_words = self.rig.ear.on_postgres
        self.links["redis"].on_words = self.rig.ear.on_redis
        with open(self.config, "w") as file:
            json.dump(self.rig.outbox.config(self.links["hook"].port), file)

    def command(self):
        links = self.links
        return self.rig.clocks.wrap(self.number, [
                f"{self.rig.programs}/wsonce", "listen", "--instance-id", f"listener-{self.number}",
                "--source", f"ws://127.0.0.1:{links['feed'].port}/{self.number}",
                "--ingest", "127.0.0.1:0", "--admin", f"unix:{self.admin}",
                "--redis", f"redis://127.0.0.1:{links['redis'].port}/0", "--redis-timeout", "1",
                "--postgres", f"host=127.0.0.1 port={links['postgres'].port} user=wsonce dbname=wsonce "
                              "sslmode=disable gssencmode=disable",
                "--postgres-timeout", "3", "--claim-ttl", str(CLAIM_TTL_S), "--drain-timeout", str(DRAIN_S),
                "--ping-interval", "2", "--idle-timeout", "4"] + self.effects() + self.rig.consumer_words())

    def effects(self):
        """Without any, batches go by COPY."""
        return [] if self.rig.options.plain else ["--handler", self.rig.effects.handler, "--config", self.config]

    async def start(self):
        self.now = Incarnation(self, len(self.incarnations) + 1)
        self.incarnations.append(self.now)
        self.now.log_offset = os.path.getsize(self.log) if os.path.exists(self.log) else 0
        if os.path.exists(self.admin):
            os.unlink(self.admin)
        self.now.process = await start(self.command(), self.log)
        watcher = asyncio.get_running_loop().create_task(self.watch(self.now))
        self.rig.keep(watcher)
        deadline = time.monotonic() + 20
        while not self.find_port():
            if self.now.ended or time.monotonic() > deadline:
                raise RigError(f"{self.now.name} did not start: see {self.log}")
            await asyncio.sleep(0.02)

    def find_port(self):
        with open(self.log, "rb") as file:
            file.seek(self.now.log_offset)
            port = admin.find_port(file.read())
        self.ingest_port = port or self.ingest_port
        return bool(port)

    async def watch(self, incarnation):
        incarnation.status = await incarnation.process.wait()
        incarnation.ended = time.time()
        if not incarnation.is_killed and not incarnation.is_termed and not self.rig.is_ending:
            self.rig.verdict.crash(incarnation, self.log)

    async def end(self, number, seconds):
        """Sends the signal and waits for the end; SIGKILL after so many seconds."""
        if number == signal.SIGKILL:
            self.now.is_killed = True
        else:
            self.now.is_termed = True
        send_signal(self.now.process.pid, number)
        try:
            await asyncio.wait_for(asyncio.shield(self.now.process.wait()), seconds)
        except asyncio.TimeoutError:
            self.now.is_killed = True
            send_signal(self.now.process.pid, signal.SIGKILL)
            await self.now.process.wait()
            return False
        while self.now.ended is None:
            await asyncio.sleep(0.005)
        return True

    def left_behind(self):
        """How many messages it said it left in memory at its end; None if it did not say."""
        with open(self.log, "rb") as file:
            file.seek(self.now.log_offset)
            found = LEFT_LINE.findall(file.read())
        return int(found[-1]) if found else None

    async def metric(self, name):
        """None if it does not answer."""
        return (await self.metrics()).get(name)

    async def metrics(self):
        """Empty if it does not answer."""
        try:
            text = await asyncio.wait_for(self.fetch("/metrics"), 3)
        except (OSError, asyncio.TimeoutError):
            return {}
        return admin.read_metrics(text)

    async def fetch(self, path):
        return await admin.fetch(self.admin, path)


class Producer:
    """One wsonce-producer for one round, connected to every listener."""

    def __init__(self, rig, prefix, seed):
        self.rig = rig
        self.prefix = prefix
        self.seed = seed
        self.base = f"{rig.directory}/{prefix}"
        self.process = None

    def command(self):
        command = [f"{self.rig.programs}/wsonce-producer", "--count", "0", "--rate", str(self.rig.producer_rate),
                   "--id-prefix", self.prefix, "--seed", str(self.seed), "--duplicates", "2", "--malformed", "1",
                   "--retry-after", "3", "--timeout", "60", "--connections", str(2 * len(self.rig.listeners)),
                   "--ledger", f"{self.base}.ledger", "--refused", f"{self.base}.refused", "--json"]
        for listener in self.rig.listeners:
            command += ["--to", f"ws://127.0.0.1:{listener.links['ingest'].port}/events"]
        return command

    async def start(self):
        with open(f"{self.base}.json", "wb") as out:
            self.process = await start(self.command(), f"{self.base}.log", stdout=out)

    def stop_sending(self):
        send_signal(self.process.pid, signal.SIGINT)

    async def wait(self, seconds):
        try:
            await asyncio.wait_for(asyncio.shield(self.process.wait()), seconds)
        except asyncio.TimeoutError:
            self.stop_sending()         # the second one ends the wait for acks; the ledger is written
            await asyncio.wait_for(self.process.wait(), 20)
