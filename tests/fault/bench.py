"""The base of the figures: owns the private servers and the fleets on them, and compares what was sent with what is
stored. Unlike the torture rig it puts nothing between a listener and its neighbours, except in front of Postgres if a
figure needs that."""
import asyncio
import os
import sys
import time

from fleet import Listener
from load import Sender, Source
from proxy import Link
from rig.proc import memory_mib
from rig.servers import Servers
from rig.waiting import comes_true, wait_until

SETTLE_S = 180
# Postgres with its defaults (fsync on), except that it records the times of commits.
SETTINGS = "track_commit_timestamp = on\n"


class Member(Listener):
    """A listener of a fleet. It keeps its port when it is started again, as its producers expect."""

    def __init__(self, number, fleet, programs):
        super().__init__(number, fleet)
        self.programs = programs

    async def open_links(self):
        for name in self.rig.cuttable:
            server = getattr(self.rig.bench, name)
            self.links[name] = await Link(f"{name}-{self.number}", lambda server=server: server.socket).open()

    def instance(self):
        return f"{self.rig.name}-{self.number}-{len(self.incarnations)}"

    def command(self):
        bench, name = self.rig.bench, self.rig.name
        conninfo = self.far_conninfo(name) if "postgres" in self.links else bench.conninfo_of(name)
        redis = f"redis://127.0.0.1:{self.links['redis'].port}/0" if "redis" in self.links else bench.redis_url
        return self.words(f"{self.programs}/wsonce", redis, conninfo, "--source", self.rig.source.url, "--ingest",
                          f"127.0.0.1:{self.port}", "--claim-prefix", self.rig.claim_prefix, *self.rig.flags,
                          *(self.spool_words() if self.rig.has_spools else []))

    def peak_resident_mib(self):
        return memory_mib(self.process.pid, "VmHWM")


class Fleet:
    """Listeners on a feed and a database of their own. It is the rig of its members, each of which has its own link to the
    servers that can be cut off."""

    def __init__(self, bench, name, size, rate, flags, cuttable=()):
        self.bench = bench
        self.name = name
        self.size = size
        self.flags = flags
        self.cuttable = cuttable
        self.has_spools = False
        self.claim_prefix = f"{name}:"
        self.programs = bench.programs
        self.directory = f"{bench.directory}/{name}"
        self.verdict = self
        self.crashes = []
        self.listeners = []
        self.senders = []
        self.source = Source(self, f"{name}-feed", rate)
        self.rows = {}                  # event id -> time of its commit, once they are read
        self.row_count = 0
        self.wanted = set()             # ids that were sent or acked, once they are read
        self.acked = set()
        bench.fleets.append(self)

    # --- for its members ---

    @property
    def is_ending(self):
        return self.bench.is_ending

    def keep(self, task):
        self.bench.keep(task)

    def crash(self, incarnation, last_words):
        self.crashes.append(f"{incarnation.name}: status {incarnation.status}, {last_words}")

    # --- life ---

    async def start(self):
        await self.begin()
        await self.add(range(1, self.size + 1), self.programs)

    async def begin(self):
        os.makedirs(self.directory)
        await self.bench.postgres.sql(f"CREATE DATABASE {self.name} OWNER wsonce")
        await self.source.begin()

    async def add(self, numbers, programs):
        added = [Member(number, self, programs) for number in numbers]
        self.listeners += added
        for listener in added:
            await listener.open_links()
        await asyncio.gather(*(listener.start() for listener in added))
        await wait_until(self.is_ready, 30, f"{self.name} is ready")

    async def is_ready(self):
        return all(await asyncio.gather(*(listener.is_ready() for listener in self.listeners)))

    async def send(self, name, rate):
        sender = Sender(self, f"{self.name}-{name}", rate)
        self.senders.append(sender)
        await sender.begin()
        return sender

    async def total(self, metric):
        return sum(metrics.get(metric, 0) for metrics in await self.metrics())

    async def metrics(self):
        return await asyncio.gather(*(listener.metrics() for listener in self.listeners))

    async def settle(self):
        """Ends the load, and waits until all messages have settled. Returns how many have not."""
        for program in self.senders + [self.source]:
            if program.is_alive:
                await program.finish()
        await comes_true(self.is_settled, SETTLE_S)
        await self.read_rows()
        return int(await self.total("in_flight"))

    async def is_settled(self):
        """Returns whether every listener has noticed the end of the feed, so has read all of it, and nothing is in memory."""
        return all(metrics.get("sources_open") == 0 and metrics.get("in_flight") == 0
                   for metrics in await self.metrics())

    # --- the account ---

    async def read_rows(self):
        rows = await self.bench.postgres.copy_out(
            "SELECT event_id, extract(epoch FROM pg_xact_commit_timestamp(xmin)) FROM events", f"{self.directory}/rows", self.name)
        self.row_count = len(rows)
        self.rows = {event_id: float(at) for event_id, at in rows}

    async def sql_number(self, sql):
        return int(await self.bench.postgres.sql(sql, self.name))

    async def account(self):
        """Returns the counts that must be zero, and the two numbers of which each is the difference."""
        left = await self.settle()
        sent = self.source.read_ledger().keys()
        told = self.source.told()
        unanswered = refused = 0
        acks = {}
        for sender in self.senders:
            acks.update(sender.read_ledger())
            unanswered += sender.told()["unanswered"]
        for event_id, status in acks.items():
            refused += status == "rejected"
        self.acked = {event_id for event_id, status in acks.items() if status in ("persisted", "duplicate")}
        self.wanted = wanted = sent | acks.keys()
        altered = await self.sql_number("SELECT count(*) FROM events WHERE payload->>'n' IS DISTINCT FROM "
                                        "substring(event_id FROM '[0-9]+$')")
        letters = await self.sql_number("SELECT count(*) FROM dead_letters")
        claims = len(await self.bench.redis.claims(self.claim_prefix))
        for crash in self.crashes:
            print(f"ended by itself: {crash}", file=sys.stderr)
        return {"sent": len(wanted), "rows": self.row_count, "lost": len(wanted - self.rows.keys()),
                "doubled": self.row_count - len(self.rows), "falsely_acked": len(self.acked - self.rows.keys()),
                "unanswered": unanswered, "unexpected": len(self.rows.keys() - wanted), "altered": altered,
                "refused_or_dead_letters": refused + letters, "left_in_memory": left,
                "claims_left_behind": claims, "crashes": len(self.crashes),
                "feed_cut_somebody_off": told["overruns"] + told["stalls"]}

    def stored_between(self, begin, end):
        return sum(begin <= at < end for at in self.rows.values())

    async def end(self):
        for listener in self.listeners:
            await listener.close()
        for program in self.senders + [self.source]:
            await program.kill()


class Bench(Servers):
    """The servers of one figure, fresh for each, and its fleets."""

    def __init__(self, options, programs, directory):
        super().__init__(directory, settings=SETTINGS, with_disk=False)
        self.options = options
        self.programs = programs
        self.fleets = []
        self.background = set()
        self.is_ending = False

    def conninfo_of(self, database):
        """Returns a conninfo for listeners."""
        return self.postgres.conninfo(database)

    def keep(self, task):
        self.background.add(task)
        task.add_done_callback(self.background.discard)

    def say(self, text):
        if not self.options.silent:
            print(time.strftime("%H:%M:%S  ") + text, file=sys.stderr, flush=True)

    async def end(self):
        """Ends all children by pid, the servers last."""
        self.is_ending = True
        for fleet in self.fleets:
            await fleet.end()
        for task in list(self.background):
            task.cancel()
        await self.stop_servers()


def add_accounts(accounts):
    return {name: sum(account[name] for account in accounts) for name in accounts[0]}
