"""Checks whether a run has exercised its faults: owns the paths that must have been taken, and how often. A run that took
one of them too rarely proves nothing about it, and fails."""
import collections

from faults import ALL, CONSUMER, EFFECTS, PLAIN

SHORTEST_S = 28                 # of faults; a shorter run may miss something


class Path:
    """name; counted: a counter of the listeners, or None if the rig counts it under the path's name; how often it must
    be met at least; the kinds that lead there, of which one must be in the mix; for which fleets it is demanded."""

    def __init__(self, name, counted, least, kinds, fleets=ALL):
        self.name = name
        self.counted = counted
        self.least = least
        self.kinds = set(kinds.split(","))
        self.fleets = fleets


PATHS = (
    Path("commits cut", None, 1, "net-commit-cut"),
    Path("COPYs", "copy_statements", 5, "net-copy-cut", (PLAIN,)),
    Path("COPYs cut", None, 1, "net-copy-cut", (PLAIN,)),
    Path("looks before COPY", None, 1, "net-copy-cut", (PLAIN,)),
    Path("COPYs refused", "copy_statements_refused", 1, "pg-hold,net-copy-cut", (PLAIN,)),
    Path("statements alone with effects", None, 1, "handler-raise,pg-refuse", (EFFECTS, CONSUMER)),
    Path("batches halved", "batch_splits", 5, "pg-refuse,pg-hold"),
    Path("rows refused", "rows_refused", 5, "pg-refuse,handler-raise"),
    Path("ids held", None, 1, "pg-hold", (EFFECTS, CONSUMER)),
    Path("commits forgotten", None, 1, "pg-forget", (PLAIN,)),
    Path("events put off", "rows_put_off", 1, "pg-hold", (EFFECTS, CONSUMER)),
    Path("held copies that went to the store", "hold_timeouts", 1, "pg-hold", (EFFECTS, CONSUMER)),
    Path("takeovers", "claims_inherited", 1, "kill"),
    Path("leases renewed", "claims_renewed", 5, "pg-lock,pg-hold"),
    Path("claims given back", "claims_released", 1, "pg-lock,pg-hold,pg-refuse"),
    Path("events without a claim", "claims_skipped", 5,
         "redis-kill,redis-stop,redis-blackhole,redis-master-kill,redis-master-stop,redis-all-stop"),
    Path("failovers", None, 1, "redis-master-kill,redis-master-stop,redis-failover"),
    Path("marks of a past epoch", "marks_past", 1, "pg-forget", (PLAIN,)),
    Path("all killed at once", None, 1, "fleet-kill"),
    Path("events that left memory", None, 1, "pg-away"),
    Path("events fed from a spool", "unspooled", 20, "fleet-kill,pg-away"),
    Path("events that only spools proved", None, 20, "fleet-kill"),
    Path("messages behind another", "variants", 5, "pg-lock,pg-hold,pg-refuse"),
    Path("copies left to the leader", "deferred", 100, "kill,leader-kill"),
    Path("copies that the channel settled", "done_told", 100, "kill,leader-kill"),
)
# Faults of the leader, of what listeners hear about each other, and from outside. A run ends with a line for each.
WEATHER = (
    Path("leader killed", None, 1, "leader-kill"),
    Path("leader frozen", None, 1, "leader-stop"),
    Path("leader cut off from Redis only", None, 1, "leader-cut"),
    Path("leader cut off from Postgres only", None, 1, "leader-cut"),
    Path("leader without half of the feed's frames", None, 1, "leader-half"),
    Path("leader slow by 2 s", None, 1, "leader-slow"),
    Path("seconds with two leaders", None, 1, "leader-two"),
    Path("presence flushed", None, 1, "redis-presence"),
    Path("channel cut during a batch", None, 1, "channel-cut"),
    Path("lies on the channel that were heard", None, 1, "channel-lie", (EFFECTS,)),
    Path("handovers in a rolling restart", None, 1, "fleet-roll"),
)
# Kinds without a path of their own that must have been played to their end.
ENDS = ("pg-role", "pg-promote")


class Played:
    def __init__(self, rig):
        self.rig = rig
        self.counts = collections.Counter()

    def count(self, name, n=1):
        self.counts[name] += n

    def numbers(self, paths):
        """Returns how often each path was taken."""
        return {path.name: self.rig.watch.total(path.counted) if path.counted else self.counts[path.name]
                for path in paths if self.rig.fleet_kinds.intersection(path.fleets)}

    @property
    def is_short(self):
        return self.rig.rounds * self.rig.options.round < SHORTEST_S

    def ended(self):
        return {fault.kind.name for fault in self.rig.timeline.done if fault.ended}

    def unmet(self, kinds):
        """Returns one kind for each path that was not taken so far: a slow machine gets through few faults."""
        numbers, names = self.numbers(PATHS + WEATHER), set(ENDS) - self.ended()
        for path in PATHS + WEATHER:
            if numbers.get(path.name, path.least) < path.least:
                names |= {next((kind.name for kind in kinds if kind.name in path.kinds), None)}
        return [kind for kind in kinds if kind.name in names and not self.is_short]

    def judge(self, kinds):
        if self.is_short:
            return
        names = {kind.name for kind in kinds}
        numbers = self.numbers(PATHS + WEATHER)
        for path in PATHS + WEATHER:
            if self.rig.fleet_kinds.intersection(path.fleets) and path.kinds & names and numbers[path.name] < path.least:
                self.rig.verdict.find("not_played", f"{path.name}: {numbers[path.name]} of {path.least}")
        for name in set(ENDS) & names - self.ended():
            self.rig.verdict.find("not_played", name)
