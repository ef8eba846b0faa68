"""The faults: owns the kinds, the seeded plan of what happens when and to whom, and runs it. A plan depends only on seed,
mix and number of listeners, so the same seed gives the same faults."""
import asyncio
import random
import signal
import time
from operator import methodcaller

import postgres_faults as pg
import redis_faults as several
import spool_faults as spool
import channel
import leader
from acts import lasting, on_links
from fleet import DRAIN_S, clock
from proxy import CommitCut
from rig.waiting import RigError, comes_true

EFFECTS, PLAIN, CONSUMER = "effects", "plain", "consumer"      # what the fleet of a run is,
FAR = "far"                                                    # and whether its batches go by COPY
ALL = (EFFECTS, PLAIN, CONSUMER)
SINGLE, SENTINEL, CLUSTER = "single", "sentinel", "cluster"      # what its Redis is
READY_S = 5                     # after a restart
EXIT_S = DRAIN_S + 20           # on a busy machine
ANY, SEVERAL = (SINGLE, SENTINEL, CLUSTER), (SENTINEL, CLUSTER)


class Kind:
    """name; what it occupies, so that no two faults undo each other: a server, a listener, or a listener's
    network; shortest and longest duration; how often it is in the deck; its variants, which are dealt in turn; the
    fleets, and the kinds of Redis, for which it is anything; what it takes beyond its duration; how long a round
    has gone on by then, at least. Backends are a place of their own: the statement of a killed listener waits for a
    lock and would be committed after it, unless its backend goes too."""

    def __init__(self, name, occupies, least_s, most_s, act, weight=1, details=("",), fleets=ALL, redis=ANY,
                 more_s=0.0, first_s=0.0):
        self.name = name
        self.occupies = occupies
        self.least_s = least_s
        self.most_s = most_s
        self.act = act
        self.weight = weight
        self.details = details
        self.fleets = fleets
        self.redis = redis
        self.more_s = more_s
        self.first_s = first_s

    @property
    def is_at_leader(self):
        """Returns whether its target is the leader, which is known only when its time comes."""
        return self.family == "leader"

    @property
    def family(self):
        return {"pg": "postgres"}.get(self.name.split("-")[0], self.name.split("-")[0])


class Fault:
    def __init__(self, number, at, kind, target, duration, detail):
        self.number = number
        self.at = at                    # seconds from the start of the round
        self.kind = kind
        self.target = target            # number of a listener, or 0
        self.duration = duration
        self.detail = detail            # of this kind: a variant drawn with it
        self.began = self.ended = None
        self.outcome = ""

    def keeps_from_redis(self, number):
        if self.kind.occupies == "net":
            return self.target == number and "redis" in self.detail
        return (self.kind.family == "redis" or self.kind.occupies == "fleet" or self.detail == spool.AT_ONCE
                or (self.kind.occupies == "listener" and self.target == number))

    def describe(self):
        who = f"listener-{self.target}" if self.target else "all"
        return f"{self.kind.name:18} {who:11} {self.duration:5.2f} s  {self.detail}".rstrip()


# --- running them ---

kill = lasting(lambda rig, fault: rig.listener(fault.target).end(signal.SIGKILL, 5),
               lambda rig, fault: rig.listener(fault.target).start())
stop = lasting(lambda rig, fault: rig.listener(fault.target).signal(signal.SIGSTOP),
               lambda rig, fault: rig.listener(fault.target).signal(signal.SIGCONT))


async def leave(rig, listener):
    """Ends a listener. Returns how it ended."""
    ended = await listener.end(signal.SIGTERM, EXIT_S)
    left = listener.left_behind()
    if not ended:
        rig.verdict.find("bad_exits", f"{listener.now.name} did not end within {EXIT_S} s of SIGTERM")
    elif listener.now.status != (1 if left else 0) or left is None:
        rig.verdict.find("bad_exits", f"{listener.now.name} left {left} behind and exited with {listener.now.status}")
    return f"exit {listener.now.status}, left {left}"


async def term(rig, fault):
    listener = rig.listener(fault.target)
    fault.outcome = await leave(rig, listener)
    await asyncio.sleep(fault.duration)
    await listener.start()


async def hand_over(rig, listener):
    async with rig.timeline.place("postgres", 0), rig.timeline.place("listener", listener.number):
        rig.played.count("handovers in a rolling restart", listener is await rig.leader.find(rig.listeners))
        await leave(rig, listener)
        await listener.start()
        await comes_true(listener.is_ready, READY_S)


async def roll(rig, fault):
    """Restarts one listener after the other, as for a new version, each when the one before is ready, and then the leader
    once more. Nobody does that while Postgres is away."""
    for listener in rig.listeners:
        await hand_over(rig, listener)
    await hand_over(rig, await rig.leader.find(rig.listeners) or rig.listeners[0])


clock_step = lasting(lambda rig, fault: rig.clocks.set(fault.target, int(fault.detail)),
                     lambda rig, fault: rig.clocks.set(fault.target, 0))


def ask(*words):
    return lambda rig, _: rig.redis.ask(*words)


hold, let_pass = methodcaller("hold", True, True), methodcaller("hold", False, False)
slow, not_slow, reset = methodcaller("slow", 0.15, 0.15), methodcaller("slow", 0, 0), methodcaller("reset")
redis_kill = lasting(lambda rig, _: rig.redis.kill(), lambda rig, _: rig.redis.start())
redis_stop = lasting(lambda rig, _: rig.redis.signal(signal.SIGSTOP), lambda rig, _: rig.redis.signal(signal.SIGCONT))
redis_flush = lasting(ask("FLUSHALL"))
redis_script_flush = lasting(ask("SCRIPT", "FLUSH"))
redis_oom = lasting(ask("CONFIG", "SET", "maxmemory", "1"), ask("CONFIG", "SET", "maxmemory", "0"))
redis_slow = lasting(on_links(methodcaller("slow", 0, 2), "redis"), on_links(not_slow, "redis"))
redis_reset = lasting(on_links(reset, "redis"))
redis_blackhole = lasting(on_links(hold, "redis"), on_links(let_pass, "redis"))
handler_raise = lasting(lambda rig, _: rig.effects.set_mood(is_bad=True), lambda rig, _: rig.effects.set_mood(is_bad=False))
hook = lasting(lambda rig, fault: setattr(rig.receiver, "mood", fault.kind.name.partition("-")[2]),
               lambda rig, _: setattr(rig.receiver, "mood", None))

NETS = ("redis", "postgres", "feed", "ingest", "hook", "redis+postgres", "redis+postgres+feed+ingest+hook")
net_delay = lasting(on_links(slow), on_links(not_slow))
net_cut = lasting(on_links(hold), on_links(let_pass))
net_cut_up = lasting(on_links(methodcaller("hold", True, False)), on_links(let_pass))
net_cut_down = lasting(on_links(methodcaller("hold", False, True)), on_links(let_pass))
net_reset = lasting(on_links(reset))
leader_slow = lasting(on_links(methodcaller("slow", 0, 2)), on_links(not_slow))


async def net_commit_cut(rig, fault):
    cut = CommitCut(fault.detail)
    link = rig.listener(fault.target).links["postgres"]
    link.commit_cut = cut
    await comes_true(lambda: cut.hits, fault.duration, 0.02)
    link.commit_cut = None
    if cut.pair:
        cut.pair.close(is_reset=True)
        cut.hits += 1
    rig.played.count("COPYs cut" if fault.detail.endswith("copy") else "commits cut", cut.hits)
    fault.outcome = "cut" if cut.hits else "no statement came"


feed_drop = lasting(lambda rig, fault: rig.feed.end_all(fault.detail == "reset"))
feed_half_frame = lasting(lambda rig, fault: rig.feed.send_half_frames(fault.detail == "reset"))
feed_silent = lasting(lambda rig, _: setattr(rig.feed, "is_silent", True), lambda rig, _: setattr(rig.feed, "is_silent", False))
feed_refuse = lasting(on_links(methodcaller("refuse", True), "feed"), on_links(methodcaller("refuse", False), "feed"))

HOOKED = (EFFECTS, CONSUMER)

KINDS = (
    Kind("kill", "listener", 0.0, 1.5, kill, 8),
    Kind("stop", "listener", 3.5, 6.0, stop),
    Kind("term", "listener", 0.0, 1.0, term, 2),
    Kind("fleet-kill", "fleet", 0.0, 1.0, spool.fleet_kill, first_s=3.0),
    Kind("fleet-roll", "fleet", 0.0, 0.0, roll, first_s=3.0, more_s=5.0),
    Kind("leader-kill", "listener", 0.0, 1.5, kill, 2),
    Kind("leader-stop", "listener", 3.5, 6.0, stop),
    Kind("leader-cut", "net", 1.0, 5.0, net_cut, 2, ("redis", "postgres")),
    Kind("leader-half", "leader", 1.0, 4.0, leader.half),
    Kind("leader-slow", "net", 3.0, 5.0, leader_slow, 2, ("feed", "postgres")),
    Kind("leader-two", "presence", 6.0, 8.0, leader.two),
    Kind("channel-cut", "channel", 1.0, 4.0, channel.cut, redis=(SINGLE,)),
    Kind("channel-lie", "lies", 2.0, 5.0, channel.lie, fleets=(EFFECTS,), redis=(SINGLE,)),
    Kind("clock-step", "clock", 0.5, 6.0, clock_step, 1, ("+3600", "-3600")),
    Kind("redis-kill", "redis", 0.0, 2.0, redis_kill, redis=(SINGLE,)),
    Kind("redis-presence", "presence", 1.0, 3.0, leader.flush_presence),
    Kind("redis-flush", "redis", 0.0, 0.0, redis_flush),
    Kind("redis-stop", "redis", 0.5, 3.0, redis_stop, redis=(SINGLE,)),
    Kind("redis-oom", "redis", 0.5, 2.0, redis_oom),
    Kind("redis-script-flush", "redis", 0.0, 0.0, redis_script_flush),
    Kind("redis-slow", "redis", 1.0, 3.0, redis_slow, redis=(SINGLE,)),
    Kind("redis-reset", "redis", 0.0, 0.0, redis_reset, redis=(SINGLE,)),
    Kind("redis-blackhole", "redis", 0.5, 3.0, redis_blackhole, redis=(SINGLE,)),
    Kind("redis-master-kill", "redis", 0.0, 3.0, several.master_kill, 2, redis=SEVERAL, more_s=3.0),
    Kind("redis-master-stop", "redis", 1.5, 4.0, several.master_stop, redis=SEVERAL, more_s=1.0),
    Kind("redis-failover", "redis", 0.0, 0.0, several.failover, redis=SEVERAL, more_s=1.5),
    Kind("redis-failover-twice", "redis", 0.0, 0.0, several.failover_twice, redis=SEVERAL, more_s=3.0),
    Kind("redis-cut-off", "redis", 2.0, 4.0, several.cut_off, redis=(SENTINEL,), more_s=1.0),
    Kind("redis-replica-kill", "redis", 0.0, 0.0, several.replica_kill, redis=SEVERAL, more_s=1.0),
    Kind("redis-all-stop", "redis", 0.5, 3.0, several.all_stop, redis=SEVERAL, more_s=2.0),
    Kind("redis-hang-up", "redis", 0.0, 0.0, several.hang_up, redis=SEVERAL, more_s=0.2),
    Kind("redis-reshard", "redis", 0.0, 0.0, several.reshard, redis=(CLUSTER,), more_s=2.0),
    Kind("pg-kill", "postgres", 0.0, 1.5, pg.pg_kill),
    Kind("pg-stop", "postgres", 0.5, 6.0, pg.pg_stop),
    Kind("pg-away", "postgres", 5.0, 6.0, spool.pg_away, 1, (spool.AT_ONCE, ""), more_s=2.0),
    Kind("pg-terminate", "backends", 0.0, 0.0, pg.pg_terminate, 2),
    Kind("pg-full", "postgres", 0.3, 2.0, pg.pg_full),
    Kind("pg-readonly", "postgres", 0.3, 2.0, pg.pg_readonly),
    Kind("pg-disk", "postgres", 0.5, 2.5, pg.pg_disk),
    Kind("pg-lock", "postgres", 0.3, 4.0, pg.pg_lock),
    Kind("pg-refuse", "postgres", 1.0, 4.0, pg.pg_refuse),
    Kind("pg-null", "postgres", 0.5, 2.0, pg.pg_null, 1, fleets=(EFFECTS, PLAIN)),
    Kind("pg-role", "postgres", 0.5, 2.5, pg.pg_role, 1, ("statement_timeout=150ms", "lock_timeout=200ms")),
    Kind("pg-hold", "ids", 9.0, 11.0, pg.pg_hold, 1, ("rollback", "commit")),
    Kind("pg-promote", "postgres", 0.5, 2.0, pg.pg_promote),
    Kind("pg-forget", "postgres", 1.0, 1.5, pg.pg_forget, 2, ("standby", "restart"), (PLAIN,)),
    Kind("handler-raise", "postgres", 1.0, 4.0, handler_raise, 2, fleets=HOOKED),
    Kind("hook-fail", "hook", 0.5, 3.0, hook, fleets=HOOKED),
    Kind("hook-later", "hook", 0.5, 2.0, hook, fleets=HOOKED),
    Kind("hook-reset", "hook", 0.5, 3.0, hook, fleets=HOOKED),
    Kind("hook-hang", "hook", 0.5, 3.0, hook, fleets=HOOKED),
    Kind("hook-slow", "hook", 0.5, 3.0, hook, fleets=HOOKED),
    Kind("net-delay", "net", 0.5, 3.0, net_delay, 1, NETS),
    Kind("net-cut", "net", 0.5, 6.0, net_cut, 1, NETS),
    Kind("net-cut-up", "net", 0.5, 6.0, net_cut_up, 1, NETS),
    Kind("net-cut-down", "net", 0.5, 6.0, net_cut_down, 1, NETS),
    Kind("net-reset", "net", 0.0, 0.0, net_reset, 2, NETS),
    Kind("net-commit-cut", "net", 2.0, 3.0, net_commit_cut, 3,
         ("before", "during", "after", "during relay", "after", "after relay")),
    Kind("net-copy-cut", "net", 2.0, 3.0, net_commit_cut, 4, ("before copy", "during copy", "after copy"), (FAR,)),
    Kind("feed-drop", "feed", 0.0, 0.0, feed_drop, 1, ("closed", "reset")),
    Kind("feed-silent", "feed", 0.5, 6.0, feed_silent),
    Kind("feed-refuse", "feed", 0.3, 2.0, feed_refuse),
    Kind("feed-half-frame", "feed", 0.0, 0.0, feed_half_frame, 1, ("closed", "reset")),
)
FAMILIES = sorted({kind.family for kind in KINDS})


def choose(mix):
    """Returns the kinds of a mix: names of families and kinds, or all."""
    words = set(mix.split(","))
    chosen = [kind for kind in KINDS if "all" in words or kind.name in words or kind.family in words]
    known = {"all"} | set(FAMILIES) | {kind.name for kind in KINDS}
    if words - known or not chosen:
        raise RigError(f"MIX: {', '.join(sorted(words - known)) or 'empty'}: choose from all, {', '.join(FAMILIES)}, "
                       f"or kinds: {', '.join(kind.name for kind in KINDS)}")
    return chosen


class Plan:
    """Deals the faults of each round from a deck with every kind of the mix, so that none is rare."""

    def __init__(self, seed, kinds, listeners, pace_s):
        self.random = random.Random(f"plan {seed}")
        self.kinds = kinds
        self.listeners = listeners
        self.pace_s = pace_s
        self.deck = []
        self.details = {}               # per kind, the variants still to come
        self.number = 0

    def draw(self):
        if not self.deck:
            self.deck = [kind for kind in self.kinds for _ in range(kind.weight)]
            self.random.shuffle(self.deck)
        return self.deck.pop()

    def spared(self, number):
        """Returns the listener that is neither killed nor ended in this round, so that there is a witness; 0 if there is
        only one."""
        return number % self.listeners + 1 if self.listeners > 1 else 0

    def target(self, kind, spared):
        if kind.occupies not in ("listener", "net", "clock") or kind.is_at_leader:
            return 0
        others = [n for n in range(1, self.listeners + 1) if kind.name not in ("kill", "term") or n != spared]
        return self.random.choice(others)

    def places(self, kind, target):
        if kind.occupies == "fleet":
            return [("listener", n) for n in range(1, self.listeners + 1)]
        if kind.is_at_leader:
            return [("leader", 0)]
        return [(kind.occupies, target)]

    def detail(self, kind):
        """Returns the next variant: all come before one is repeated."""
        if not self.details.get(kind.name):
            self.details[kind.name] = self.random.sample(kind.details, len(kind.details))
        return self.details[kind.name].pop()

    def round(self, number, seconds):
        """Plans a round. A fault whose place is occupied until the end of the round waits for the next one."""
        faults, free, waiting, at = [], {}, [], 0.5
        while at <= seconds:
            kind = self.draw()
            target = self.target(kind, self.spared(number))
            places = self.places(kind, target)
            duration = self.random.uniform(kind.least_s, kind.most_s)
            detail = self.detail(kind)
            start = max(at, kind.first_s, *(free.get(place, 0) for place in places))
            if start > seconds:
                waiting.append(kind)
            else:
                self.number += 1
                faults.append(Fault(self.number, start, kind, target, duration, detail))
                free.update(dict.fromkeys(places, start + duration + kind.more_s + self.random.uniform(0.2, 1.0)))
            at += self.random.uniform(0.2, 1.8) * self.pace_s
        self.deck += reversed(waiting)
        return sorted(faults, key=lambda fault: fault.at)


class Single:
    """A plan with one fault in each round."""

    def __init__(self, name, at, target, duration, detail):
        self.kind = next(kind for kind in KINDS if kind.name == name)
        self.about = target, duration, detail
        self.at = at

    def spared(self, _):
        return 0

    def round(self, _number, _seconds):
        return [Fault(0, self.at, self.kind, *self.about)]


class InTurn:
    """A plan with one kind after the other, each in all its variants."""

    def __init__(self, kinds, at):
        self.kinds = kinds
        self.at = at

    def spared(self, _):
        return 0

    def round(self, _number, _seconds):
        planned, at = [], self.at
        for kind, detail in [(kind, detail) for kind in self.kinds for detail in kind.details]:
            planned.append(Fault(0, at, kind, 0, kind.most_s, detail))
            at += kind.most_s + self.at
        return planned


class Timeline:
    """Runs the faults of a plan at their times, prints them, and records them for histories."""

    def __init__(self, rig):
        self.rig = rig
        self.done = []
        self.missing = {}
        self.places = {}

    def unavailable(self, name):
        self.missing[name] = self.missing.get(name, 0) + 1

    def place(self, occupies, target):
        """Returns the lock of a place, which a fault holds while it lasts."""
        return self.places.setdefault((occupies, target), asyncio.Lock())

    async def play(self, faults):
        start = time.monotonic()
        tasks = []
        for fault in faults:
            await asyncio.sleep(max(0, fault.at - (time.monotonic() - start)))
            tasks.append(asyncio.get_running_loop().create_task(self.do(fault)))
        for task in tasks:
            await task

    async def do(self, fault):
        """Runs a fault, one at a time in each place: one that takes longer than planned, as a start may, delays the next."""
        if fault.kind.is_at_leader:
            await leader.aim(self.rig, fault)
        async with self.place(fault.kind.occupies, fault.target):
            fault.began = time.time()
            self.done.append(fault)
            await leader.note(self.rig, fault)
            self.rig.say(f"{clock(fault.began)} +{fault.at:6.2f}  {fault.describe()}")
            await fault.kind.act(self.rig, fault)
            fault.ended = time.time()

    def around(self, at):
        lines = []
        for fault in self.done:
            if fault.began - 3 < at < (fault.ended or fault.began) + 8 or at - 3 < fault.began < at + 8:
                lines.append(f"fault {clock(fault.began)} {fault.describe()} {fault.outcome}".rstrip())
        return lines[-25:]

    def had_trouble(self, number, began, ended):
        """Returns whether a fault of that time has kept the listener from running, or from Redis."""
        return any(fault.keeps_from_redis(number) and fault.began < ended and (fault.ended or ended) >= began
                   for fault in self.done)

    def counts(self):
        counts = {}
        for fault in self.done:
            counts[fault.kind.name] = counts.get(fault.kind.name, 0) + 1
        for name, count in self.missing.items():
            counts[name] -= count
        return counts
