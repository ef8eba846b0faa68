"""What is measured: owns the scenarios in their order, each with its cases and their sizes, which are chosen so that a
measurement takes about three seconds on two cores of a server of 2021. Each function below is one round of a scenario."""
import asyncio

import measure.ceiling as ceiling
import measure.effects as effects
import measure.latency as latency
import measure.marks as marks
import measure.producer as producer
import measure.start as start
from measure.feed import Load
from measure.fleet import Fleet
from measure.peer import KINDS, Peers
from measure.race import Race
from rig.proc import memory_mib
from rig.waiting import RigError

WARM_UP = 20_000
FANOUT = {1: 500_000, 3: 400_000, 5: 300_000, 10: 200_000}          # listeners: events
PEERS = {("node", 1): (200_000, WARM_UP), ("node", 5): (60_000, 10_000), ("node-script", 1): (250_000, WARM_UP),
         ("node-script", 5): (100_000, WARM_UP), ("node-copy", 1): (300_000, WARM_UP), ("node-copy", 5): (100_000, WARM_UP),
         ("fastapi", 1): (1500, 200), ("fastapi-batched", 1): (20_000, 4_000), ("fastapi-batched", 5): (8_000, 2_000)}
# Messages like those of real feeds, read by profiles: form, profile, events per message, messages in wsonce's run and Node's.
FEEDS = {"commits": ("commit", "jetstream", 1, 60_000, 30_000), "trades": ("trades", "kraken", 10, 10_000, 4_000)}
FEEDS_LISTENERS = 5
LATENCY_LISTENERS, LATENCY_S, LATENCY_WARM_UP_S = 3, 6, 1
SHARES = (50, 90)                                                   # percent of the maximum
LATE_EVENTS, LATE_PERCENT, DEDUP_WINDOW_S = 200_000, 20, 1
ACKS_EVENTS, ACKS_CONNECTIONS = 150_000, (1, 100, 1000, 10_000)
PRODUCERS = ("--ingest-max-connections", "12000")                   # those of the warm-up may still be connected
ACKS_PEER = "node-copy"                                             # the best peer with one listener
ACKS_PEER_EVENTS, ACKS_PEER_CONNECTIONS = 60_000, (1000, 10_000)
PAYLOADS = {200: 200_000, 2048: 100_000, 100 * 1024: 4000}          # bytes: events
EFFECTS = {"none": "no effects", "handler": "--handler, a function that does nothing", "consumer": "--consumer",
           "outbox": "a row of the outbox for each event"}
EFFECTS_EVENTS = 150_000
RELAY = {1: 60_000, 3: 60_000}                                      # listeners: deliveries
RELAY_PEER, RELAY_PEER_ROWS = "node-worker", {1: 20_000, 3: 20_000}
SPOOL = {"none": ("no spool", None), "late": ("--spool", ()), "first": ("--spool-after 0", ("--spool-after", "0"))}
SPOOL_RATE, SPOOL_S = 20_000, 4                                     # a rate that Postgres can follow
WIDE, WIDE_RATE, WIDE_S, WIDE_WARM_UP_S = (5, 10, 20, 100), 2000, 10, 3
REDIS_DOWN = {1: 250_000, 3: 100_000, 10: 50_000}                          # listeners: events
REDIS_LOST = (1, 3, 10, 20)
REDIS_NONE = (1, 3, 10)


def size_words(size):
    return f"{size // 1024} KiB" if size % 1024 == 0 else f"{size} B"


def count(number, noun):
    return f"{number:,} {noun}" + ("" if number == 1 else "s")


class Scenarios:
    def __init__(self, rig, plan, book, peers):
        self.rig = rig
        self.plan = plan
        self.book = book
        self.peers = peers              # names of the peers that can run

    async def attempt(self, name, about, measuring):
        """Runs one case of this round. A case that cannot be measured fails the run, which continues with the next case."""
        try:
            self.book.note(name, about, await measuring)
        except RigError as error:
            self.book.fail(f"{name}: {error}")
        finally:
            await self.rig.end_children()

    async def warm_up(self):
        """Makes the tables, and the files of Postgres's log."""
        await Fleet(self.rig, 1).open_ingest()
        await self.rig.end_children()
        await Race(self.rig, Fleet(self.rig, 1), self.load(FANOUT[1])).run()

    def load(self, events, warm_up=WARM_UP, **more):
        return Load(self.plan.events(warm_up), self.plan.events(events), **more)

    # --- one idle listener ---

    async def idle(self):
        async def measure():
            fleet = Fleet(self.rig, 1)
            await fleet.open_ingest()
            await asyncio.sleep(0.5)
            return {"resident_idle_mib": memory_mib(fleet.pids()[0], "VmRSS")}
        await self.attempt("idle", {"scenario": "idle", "words": "wsonce, idle"}, measure())

    # --- starting a listener ---

    async def start(self):
        await self.attempt("start", {"scenario": "start", "words": "wsonce, from its start"}, start.measure(self.rig))

    # --- the servers alone ---

    async def ceilings(self):
        rows, claims = self.plan.events(ceiling.ROWS), self.plan.events(ceiling.CLAIMS)
        for way, words in ceiling.WAYS.items():
            await self.attempt(f"postgres-{way}", {"scenario": "ceilings", "words": words, "events": rows},
                               ceiling.postgres(self.rig, way, rows))
        await self.attempt("redis-claim", {"scenario": "ceilings", "words": "Redis, the listener's claim", "events": claims},
                           ceiling.redis(self.rig, claims))

    # --- every listener gets every event, as fast as the slowest takes them ---

    async def fanout(self):
        for listeners in FANOUT:
            await self.race_fleet(listeners)

    async def race_fleet(self, listeners):
        load = self.load(FANOUT[listeners])
        await self.attempt(f"wsonce-{listeners}", {
            "scenario": "fanout", "words": f"wsonce, {count(listeners, 'listener')}", "program": "wsonce",
            "listeners": listeners, "events": load.events}, Race(self.rig, Fleet(self.rig, listeners), load).run())

    async def race_peers(self):
        for (name, instances), (events, warm_up) in PEERS.items():
            if name not in self.peers:
                continue
            load = self.load(events, warm_up)
            await self.attempt(f"{name}-{instances}", {
                "scenario": "peers", "words": f"{KINDS[name].words}, {count(instances, 'instance')}", "program": name,
                "listeners": instances, "events": load.events}, Race(self.rig, Peers(self.rig, name, instances), load).run())

    # --- messages that a profile reads ---

    async def feeds(self):
        for words, (form, profile, each, messages, node_messages) in FEEDS.items():
            about = {"scenario": "feeds", "listeners": FEEDS_LISTENERS}
            load = self.load(messages, messages // 5, form=form, each=each)
            await self.attempt(f"{words}-wsonce", about | {
                "words": f"{words}, wsonce", "events": load.events * each},
                Race(self.rig, Fleet(self.rig, FEEDS_LISTENERS, profile=profile), load).run())
            load = self.load(node_messages, node_messages // 5, form=form, each=each)
            for name in [name for name in self.peers if name.startswith("node") and not KINDS[name].is_worker]:
                await self.attempt(f"{words}-{name}", about | {
                    "words": f"{words}, {KINDS[name].words}", "events": load.events * each},
                    Race(self.rig, Peers(self.rig, name, FEEDS_LISTENERS, form), load).run())

    # --- a rate that is a share of the maximum ---

    async def latencies(self):
        case = f"wsonce-{LATENCY_LISTENERS}"
        if case not in self.book.cases:         # fan-out is not a part of this run
            await self.race_fleet(LATENCY_LISTENERS)
        most = self.book.median(case, "events_per_s")
        for share in SHARES if most else ():
            await self.attempt(f"latency-{share}", {
                "scenario": "latency", "words": f"at {share} % of the maximum", "listeners": LATENCY_LISTENERS,
                "share_percent": share}, self.measure_latency(round(most * share / 100)))

    async def measure_latency(self, rate):
        seconds = self.plan.seconds(LATENCY_S)
        load = Load(rate * LATENCY_WARM_UP_S, round(rate * seconds), rate=rate)
        race = Race(self.rig, Fleet(self.rig, LATENCY_LISTENERS), load)
        await latency.forget_flushes(self.rig)
        figures = await race.run(prepare=lambda: marks.fill(self.rig.redis, load.warm_up + load.events), read_more=latency.figures)
        return {"rate_per_s": rate} | figures

    # --- copies that arrive when their mark in Redis has expired ---

    async def duplicates(self):
        """The warm-up's events are stored and --dedup-window is over when the measurement begins: after every fifth new
        event, the feed sends a copy of one of the warm-up's. Each copy is claimed like a new event, and refused by the unique
        key. The rate is of deliveries, copies included; the other run is the same without copies."""
        for percent in (0, LATE_PERCENT):
            load = self.load(LATE_EVENTS, LATE_EVENTS * LATE_PERCENT // 100, late_percent=percent)
            await self.attempt(f"duplicates-{percent}", {
                "scenario": "duplicates", "words": f"{percent} % late duplicates", "listeners": 1, "events": load.events,
                "copies": load.copies}, self.measure_duplicates(load))

    async def measure_duplicates(self, load):
        fleet = Fleet(self.rig, 1, flags=["--dedup-window", str(DEDUP_WINDOW_S)])
        figures = await Race(self.rig, fleet, load).run(pause_s=DEDUP_WINDOW_S + 0.5)
        marks = fleet.total("claims_done_total")
        if marks:
            raise RigError(f"{marks:.0f} of the late copies found a mark in Redis: they were not late")
        return figures

    # --- producers instead of a feed ---

    async def acks(self):
        for connections, wants_acks in [(1, False)] + [(connections, True) for connections in ACKS_CONNECTIONS]:
            events, warm_up = self.plan.events(ACKS_EVENTS), self.plan.events(WARM_UP)
            words = f"{count(connections, 'producer')}, {'acks' if wants_acks else 'no acks'}"
            await self.attempt(f"acks-{connections}" if wants_acks else "acks-none", {
                "scenario": "acks", "words": words, "listeners": 1, "producers": connections, "events": events},
                producer.measure(self.rig, Fleet(self.rig, 1, flags=PRODUCERS), warm_up, events, connections, wants_acks))
        for connections in ACKS_PEER_CONNECTIONS if ACKS_PEER in self.peers else ():
            events, warm_up = self.plan.events(ACKS_PEER_EVENTS), self.plan.events(WARM_UP)
            await self.attempt(f"acks-{connections}-{ACKS_PEER}", {
                "scenario": "acks", "words": f"{KINDS[ACKS_PEER].words}: {count(connections, 'producer')}, acks", "listeners": 1,
                "producers": connections, "events": events},
                producer.measure(self.rig, Peers(self.rig, ACKS_PEER, 1), warm_up, events, connections, True))

    # --- larger payloads ---

    async def payloads(self):
        for size, events in PAYLOADS.items():
            load = self.load(events, events // 10, payload_bytes=size)
            await self.attempt(f"payload-{size}", {
                "scenario": "payloads", "words": f"payloads of {size_words(size)}", "listeners": 1, "events": load.events,
                "payload_bytes": size}, self.measure_payload(load))
            await self.attempt(f"copy-{size}", {
                "scenario": "payloads", "words": f"Postgres alone, binary COPY of {size_words(size)}", "events": load.events,
                "payload_bytes": size}, ceiling.payloads(self.rig, load.events, size))

    async def measure_payload(self, load):
        figures = await Race(self.rig, Fleet(self.rig, 1), load).run()
        return figures | {"payload_mb_per_s": figures["events_per_s"] * load.payload_bytes / 1e6}

    # --- events on disk before they are stored ---

    async def spool(self):
        """One listener without a spool, with the default (events that wait for 100 ms are written), and writing each event
        before it is claimed: as fast as possible, and at a rate at which nothing waits."""
        paced = Load(SPOOL_RATE, round(SPOOL_RATE * self.plan.seconds(SPOOL_S)), rate=SPOOL_RATE)
        for how, load, suffix in (("", self.load(FANOUT[1]), ""), (f", {SPOOL_RATE:,} events/s", paced, "-paced")):
            for kind, (words, flags) in SPOOL.items():
                await self.attempt(f"spool-{kind}{suffix}", {
                    "scenario": "spool", "words": words + how, "listeners": 1, "events": load.events},
                    self.measure_spool(flags, load))

    async def measure_spool(self, flags, load):
        fleet = Fleet(self.rig, 1, flags=flags or (), has_spools=flags is not None)
        figures = await Race(self.rig, fleet, load).run()
        return figures | {"written_percent": 100 * fleet.total("spooled_total") / (load.warm_up + load.events)}

    # --- many listeners at a moderate rate ---

    async def wide(self):
        """At this rate no process is busy, so the figures show what an event costs, and not what is left of two cores."""
        for listeners in WIDE:
            load = Load(WIDE_RATE * WIDE_WARM_UP_S, round(WIDE_RATE * self.plan.seconds(WIDE_S)), rate=WIDE_RATE)
            await self.attempt(f"wide-{listeners}", {
                "scenario": "wide", "words": f"{listeners} listeners", "listeners": listeners, "events": load.events},
                Race(self.rig, Fleet(self.rig, listeners), load).run())

    # --- no Redis: the unique key alone ---

    async def redis_down(self):
        for listeners, events in REDIS_DOWN.items():
            load = self.load(events)
            fleet = Fleet(self.rig, listeners, redis=f"unix://{self.rig.directory}/nobody.sock")
            await self.attempt(f"redis-down-{listeners}", {
                "scenario": "redis-down", "words": f"Redis down, {count(listeners, 'listener')}", "listeners": listeners,
                "events": load.events}, Race(self.rig, fleet, load).run())

    async def redis_lost(self):
        """Redis is killed while a fleet that knows its members runs at a rate at which no process is busy."""
        for listeners in REDIS_LOST:
            load = Load(WIDE_RATE * WIDE_WARM_UP_S, round(WIDE_RATE * self.plan.seconds(WIDE_S)), rate=WIDE_RATE)
            try:
                await self.attempt(f"redis-lost-{listeners}", {
                    "scenario": "redis-lost", "words": f"Redis lost, {count(listeners, 'listener')}", "listeners": listeners,
                    "events": load.events}, Race(self.rig, Fleet(self.rig, listeners), load).run(prepare=self.rig.redis.kill))
            finally:
                await self.rig.redis.start()

    async def redis_none(self):
        """The same rate for a fleet that starts with --redis none."""
        for listeners in REDIS_NONE:
            load = Load(WIDE_RATE * WIDE_WARM_UP_S, round(WIDE_RATE * self.plan.seconds(WIDE_S)), rate=WIDE_RATE)
            await self.attempt(f"redis-none-{listeners}", {
                "scenario": "redis-none", "words": f"--redis none, {count(listeners, 'listener')}", "listeners": listeners,
                "events": load.events}, Race(self.rig, Fleet(self.rig, listeners, redis="none"), load).run())

    # --- effects ---

    async def what_follows(self):
        """One listener; the target of the outbox does not answer, so only storing is measured."""
        for kind, words in EFFECTS.items():
            await self.attempt(f"effects-{kind}", {
                "scenario": "effects", "words": words, "listeners": 1, "events": self.load(EFFECTS_EVENTS).events},
                self.measure_effects(kind))

    async def measure_effects(self, kind):
        fleet = Fleet(self.rig, 1, flags=await effects.flags_of(self.rig, kind))
        return await Race(self.rig, fleet, self.load(EFFECTS_EVENTS)).run()

    async def relay(self):
        for listeners, rows in RELAY.items():
            await self.deliver(f"relay-{listeners}", f"wsonce, {count(listeners, 'listener')}", listeners, rows,
                               lambda url, size=listeners: effects.open_listeners(self.rig, size, url))
        for instances, rows in RELAY_PEER_ROWS.items() if RELAY_PEER in self.peers else ():
            await self.deliver(f"relay-{RELAY_PEER}-{instances}", f"{KINDS[RELAY_PEER].words}, {count(instances, 'instance')}",
                               instances, rows,
                               lambda url, size=instances: effects.open_workers(self.rig, RELAY_PEER, size, url))

    async def deliver(self, name, words, listeners, rows, opening):
        rows = self.plan.events(rows)
        await self.attempt(name, {"scenario": "relay", "words": words, "listeners": listeners, "events": rows},
                           effects.relay(self.rig, opening, rows))


# In order; the names are the words of --only.
SCENARIOS = {"idle": Scenarios.idle, "start": Scenarios.start, "ceilings": Scenarios.ceilings, "fanout": Scenarios.fanout,
             "peers": Scenarios.race_peers, "feeds": Scenarios.feeds,
             "latency": Scenarios.latencies, "duplicates": Scenarios.duplicates, "acks": Scenarios.acks,
             "payloads": Scenarios.payloads, "spool": Scenarios.spool, "wide": Scenarios.wide, "redis-down": Scenarios.redis_down,
             "redis-lost": Scenarios.redis_lost, "redis-none": Scenarios.redis_none,
             "effects": Scenarios.what_follows, "relay": Scenarios.relay}
