"""The rows of Sentinel and of Redis Cluster: owns how their masters fail, and judges the claims meanwhile."""
import math
import signal
import time

from rig.several import Cluster, Sentinels
from rig.waiting import SLOW, wait_until
from rows import READY_S, RATE, Row
from trial import LISTENERS
from watch import Watch

AGAIN_S = 1 * SLOW              # from the announcement of the new master to claims of all listeners there


class Master(Row):
    """The master fails. how: killed, frozen (and resumed at the end), asked (a requested failover), cut off (it takes writes,
    but replicas and sentinels cannot reach it). times: how many failovers, one after the other. dies: a listener with
    claims dies, too, so that others take them over."""

    made_of = Sentinels

    def __init__(self, name, how, times=1, dies=False, **others):
        super().__init__(name, **others)
        self.how = how
        self.times = times
        self.dies = dies
        self.watches = []

    async def prepare(self, trial):
        trial.several = self.made_of(trial)
        trial.others += [trial.redis, trial.several]
        await trial.several.start()
        trial.redis = trial.several

    async def play(self, trial):
        known = []
        trial.failed_at = time.time()
        for _ in range(self.times):
            known = await self.fail_over(trial, known)
        await trial.goes_on(2)
        for server in trial.several.servers:
            server.signal(signal.SIGCONT)
        await trial.goes_on(1)
        self.judge(trial)

    async def fail_over(self, trial, known):
        """Returns the servers that may not be the next master. One that comes back may."""
        masters = [server for server in await trial.several.masters() if server not in known or self.times > 1]
        victim = masters[0]
        before, received = await self.counts(trial)
        pids = trial.postgres.freeze() if self.dies else []
        if self.dies:
            await self.gather_claims(trial)
        watch = Watch(trial.several, masters, LISTENERS)
        await self.strike(trial, victim)
        if self.dies:
            await trial.fleet.listeners[0].end(signal.SIGKILL, READY_S)
            trial.postgres.thaw(pids)
            await trial.fleet.listeners[0].start()
        await watch.run()
        after, received_then = (before, received) if self.dies else await self.counts(trial)
        watch.skipped, watch.copies = after - before, received_then - received
        trial.say(f"all claim at the new master, {watch.again_s:.2f} s after it was named")
        self.watches.append(watch)
        return masters

    @staticmethod
    async def counts(trial):
        return await trial.fleet.total("claims_skipped_total"), await trial.fleet.total("received_total")

    @staticmethod
    async def gather_claims(trial):
        async def are_many():
            return len(await trial.several.claims(trial.fleet.claim_prefix)) >= RATE / 2
        await wait_until(are_many, READY_S, "there are claims")

    async def strike(self, trial, victim):
        trial.say(f"the master is {self.how}")
        if self.how == "killed":
            await victim.kill()
        elif self.how == "frozen":
            victim.signal(signal.SIGSTOP)
        elif self.how == "cut off":
            await trial.several.cut_off(victim)
        else:
            await trial.several.fail_over([victim])

    def judge(self, trial):
        for watch in self.watches:
            trial.figure.note("seconds until there was another master", watch.is_master_at - watch.began_at, "s")
            trial.figure.note("seconds until somebody told of it", watch.is_named_at - watch.began_at, "s")
            trial.figure.at_most("seconds from then until all listeners claimed there", watch.again_s, AGAIN_S, "s")
            if not self.dies:
                self.judge_skipped(trial, watch)
        trial.watches = self.watches

    def judge_skipped(self, trial, watch):
        trial.figure.note("copies whose claims were skipped, of those received until then", watch.skipped)
        trial.figure.note("received", watch.copies)


class MasterOfThree(Master):
    """One master of a cluster fails: claims in its slots are skipped, about a third of all, within three standard
    deviations."""

    made_of = Cluster

    def judge_skipped(self, trial, watch):
        super().judge_skipped(trial, watch)
        if watch.copies:
            share = 1 / 3        # of the slots, which one master of three has
            trial.figure.at_most("share of the claims that were skipped", watch.skipped / watch.copies,
                                 share + 3 * math.sqrt(share * (1 - share) * LISTENERS / watch.copies))


ROWS = [
    Master("Redis Sentinel: the master is killed", "killed", is_quick=True),
    Master("Redis Sentinel: the master is frozen, and comes back", "frozen"),
    Master("Redis Sentinel: SENTINEL FAILOVER", "asked"),
    Master("Redis Sentinel: SENTINEL FAILOVER twice in a row", "asked", times=2),
    Master("Redis Sentinel: the old master is cut off, and takes writes", "cut off"),
    Master("Redis Sentinel: the master and a listener die while claims are held", "killed", dies=True),
    MasterOfThree("Redis Cluster: a master is killed", "killed", is_quick=True),
    MasterOfThree("Redis Cluster: a master is frozen, and comes back", "frozen"),
    MasterOfThree("Redis Cluster: CLUSTER FAILOVER", "asked"),
    MasterOfThree("Redis Cluster: a master and a listener die while claims are held", "killed", dies=True),
]
