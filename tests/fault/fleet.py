"""The programs under test: owns the listeners with their links, and the producers. Each start of a listener is an
Incarnation, whose end decides whether what it had received is judged."""
import asyncio
import json
import os
import re
import signal
import time

import rig.listener
import rig.load
import spool_faults
from proxy import Link
from rig.waiting import comes_true

CLAIM_TTL_S = 3
DRAIN_S = 4
START_S = 60                    # on a busy machine
MAX_ATTEMPTS = 5                # the default
LEFT_LINE = re.compile(r'event="?drained"? .*left=(\d+)')


class Incarnation:
    """One process of a listener, from its start to its end."""

    def __init__(self, listener, number):
        self.listener = listener
        self.number = number
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
        """Returns whether what it received must be stored: it still runs, or it reported at its end that nothing was left."""
        return self.ended is None or (not self.is_killed and self.status == 0)

    def describe(self):
        if self.ended is None:
            return f"{self.name} runs"
        how = "killed" if self.is_killed else f"exit {self.status}"
        return f"{self.name} {how} at {clock(self.ended)}"


def clock(at):
    return time.strftime("%H:%M:%S", time.localtime(at)) + f".{int(at % 1 * 1000):03d}"


class Listener(rig.listener.Listener):
    """Listener number n (from 1), its links and its current incarnation."""

    PATIENCE_S = 3

    def __init__(self, number, rig):
        super().__init__(f"{rig.directory}/listener-{number}")
        self.number = number
        self.rig = rig
        self.config = f"{self.base}.config"
        self.incarnations = []
        self.now = None
        self.links = {}

    async def open_links(self):
        targets = {"postgres": lambda: self.rig.postgres.socket,
                   "feed": lambda: ("127.0.0.1", self.rig.feed.port),
                   "ingest": lambda: ("127.0.0.1", self.port or 1),
                   "hook": lambda: ("127.0.0.1", self.rig.receiver.port)}
        if self.rig.has_one_redis:
            targets["redis"] = lambda: self.rig.redis.socket
        for name, target in targets.items():
            far_s = self.rig.options.postgres_far_s if name == "postgres" else 0.0
            self.links[name] = await Link(f"{name}-{self.number}", target, far_s).open()
        self.links["postgres"].on_words = self.rig.ear.on_postgres
        with open(self.config, "w") as file:
            json.dump(self.rig.outbox.config(self.links["hook"].port), file)

    def command(self):
        links = self.links
        redis = f"redis://127.0.0.1:{links['redis'].port}/0" if "redis" in links else self.rig.redis_url
        return self.rig.clocks.wrap(self.number, self.words(
                f"{self.rig.programs}/wsonce", redis, self.far_conninfo("wsonce"),
                "--source", self.rig.feed.url(self.number), "--source-proxy",
                f"http://127.0.0.1:{links['feed'].port}", *self.rig.key_words(), "--ingest", "127.0.0.1:0",
                "--redis-timeout", "1", "--postgres-timeout", "3", "--claim-ttl", str(CLAIM_TTL_S), "--drain-timeout", str(DRAIN_S),
                "--ping-interval", "2", "--idle-timeout", "4", *self.effects(), *self.rig.consumer_words(),
                *spool_faults.words(self)))

    def far_conninfo(self, database):
        """Returns the conninfo of Postgres behind its link."""
        return (f"host=127.0.0.1 port={self.links['postgres'].port} user=wsonce dbname={database} sslmode=disable "
                "gssencmode=disable")

    def was_with_redis(self, since):
        """Returns whether it was connected to Redis since then, judging by its link."""
        return "redis" not in self.links or self.links["redis"].broke_at < since

    def effects(self):
        return [] if self.rig.options.plain else ["--handler", self.rig.effects.handler, "--config", self.config]

    async def start(self):
        self.now = Incarnation(self, len(self.incarnations) + 1)
        self.incarnations.append(self.now)
        self.now.log_offset = os.path.getsize(self.log_path) if os.path.exists(self.log_path) else 0
        if os.path.exists(self.admin):
            os.unlink(self.admin)
        await self.launch(self.command())
        self.rig.keep(asyncio.get_running_loop().create_task(self.watch(self.now, self.process)))
        if not await comes_true(lambda: self.now.ended or self.find_port(), START_S, 0.02) or self.now.ended:
            self.fail("did not start")

    def log(self):
        """Returns the log of the current incarnation."""
        with open(self.log_path, errors="replace") as file:
            file.seek(self.now.log_offset)
            return file.read()

    async def watch(self, incarnation, process):
        incarnation.status = await process.wait()
        incarnation.ended = time.time()
        if not incarnation.is_killed and not incarnation.is_termed and not self.rig.is_ending:
            self.rig.verdict.crash(incarnation, self.last_words())

    async def end(self, number, seconds):
        """Sends the signal and waits for the end; SIGKILL after this many seconds. Returns whether that was not needed."""
        self.now.is_killed = number == signal.SIGKILL
        self.now.is_termed = not self.now.is_killed
        self.signal(number)
        ended = await self.ends(seconds)
        if not ended:
            self.now.is_killed = True
            await self.kill()
        while self.now.ended is None:
            await asyncio.sleep(0.005)
        return ended

    def left_behind(self):
        """Returns how many messages it left in memory at its end, by its log; None if it did not log that."""
        found = LEFT_LINE.findall(self.log())
        return int(found[-1]) if found else None

    async def close(self):
        await self.kill()
        for link in self.links.values():
            link.close()


class Producer(rig.load.Producer):
    """One wsonce-producer for one round, connected to every listener."""

    def __init__(self, rig, prefix, seed):
        super().__init__(f"{rig.directory}/{prefix}")
        self.rig = rig
        self.seed = seed

    async def send(self):
        listeners = self.rig.listeners
        await self.start(self.rig.programs, [listener.links["ingest"].port for listener in listeners], "--count", "0",
                         "--rate", str(self.rig.producer_rate), "--seed", str(self.seed), "--duplicates", "2",
                         "--malformed", "1", "--retry-after", "3", "--timeout", str(120 + self.rig.options.away),
                         "--connections", str(2 * len(listeners)), "--ledger", self.ledger, "--refused", f"{self.base}.refused")

    def stop_sending(self):
        self.signal(signal.SIGINT)

    async def wait(self, seconds):
        if not await self.ends(seconds):
            await self.end(signal.SIGINT, 60)   # the second one ends the wait for acks; the ledger is written
