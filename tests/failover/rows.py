"""The rows of the matrix: owns the servers of each row, and how they fail over. A row has a name that says so, what may be
missing afterwards, and how that is repaired."""
import asyncio
import os
import signal
import time

from pooler import Pooler
from rig.servers import Postgres, Redis
from rig.waiting import RigError, wait_until
from proxy import Link
from standby import READY_S, Standby
from trial import FEED_RATE, RATE, TIMEOUT_S

ONE, ANY = "*", "ANY 1 (*)"     # synchronous_standby_names
ARCHIVED = "archive_mode = on\narchive_command = 'cp %p {directory}/archive/%f'\n"
TRICKLE_RATE = 2
AT_WORK_S = 0.5                 # of the feed, that listeners at work have in memory at most
POINT = "before_the_loss"


class Row:
    """lost: how many seconds before the failover the oldest missing event may be; 0 if none may be missing.
    repair: how missing events come back: everything is sent again, or the audit stores them."""

    settings = ""
    again_s = 10                        # until rows are stored again
    warns = False                       # listeners, of a standby that is asynchronous; None: some may
    unheard = 0                         # events that may have reached nobody who lived to store them

    def __init__(self, name, lost=0, may_be_whole=False, repair="sent again", is_quick=False):
        self.name = name
        self.lost = lost
        self.may_be_whole = may_be_whole        # it shows something even if nothing is missing
        self.repair = repair
        self.is_quick = is_quick

    async def prepare(self, trial):
        """Starts the servers in addition to the first ones."""

    async def play(self, trial):
        raise NotImplementedError


# --- Postgres ---

class Pair(Row):
    """A primary with standbys. names: of the synchronous ones; none: asynchronous. commit: what synchronous_commit says.
    behind_s: so much of the load the first standby has not got at the failover. apply_s: so long after the commit it applies
    it. old: dead, or alive and at work until it is fenced. then: what becomes of the old primary. is_trickle: while the
    standby is behind, there is hardly any load. events: so many at least, half of them before the failover."""

    def __init__(self, name, names="", commit="on", standbys=1, behind_s=0, apply_s=0, old="dead", then="",
                 is_trickle=False, events=0, **others):
        super().__init__(name, **others)
        self.names = names
        self.warns = not names
        self.commit = commit
        self.standby_count = standbys
        self.behind_s = behind_s
        self.apply_s = apply_s
        self.old = old
        self.then = then
        self.is_trickle = is_trickle
        self.events = events
        self.standbys = []

    async def prepare(self, trial):
        primary = trial.postgres
        self.standbys = [Standby(primary, 2 + i) for i in range(self.standby_count)]
        for standby in self.standbys:
            trial.others.append(standby.node)
            await standby.start(False, f"recovery_min_apply_delay = '{self.apply_s}s'\n")
        if self.names:
            await self.be_synchronous(primary, self.standbys[0])
        trial.multi_host(primary, *(standby.node for standby in self.standbys))

    async def be_synchronous(self, primary, standby):
        await primary.set(synchronous_standby_names=self.names or ONE, synchronous_commit=self.commit)
        await wait_until(standby.is_synchronous, READY_S, "the standby is synchronous")

    async def play(self, trial):
        primary = trial.postgres
        await trial.goes_on(self.events / RATE / 2)
        await self.fail_over(trial, primary, self.standbys)
        await trial.goes_on(1 + self.events / RATE / 2)
        if self.then:
            await self.come_back(trial, primary)

    async def fail_over(self, trial, primary, standbys):
        await self.lag(trial, primary, standbys)
        if self.old == "alive":
            await self.leave_alone(trial, primary, standbys)
        trial.say("the primary ends")
        trial.failed_at = time.time()
        await primary.crash()
        if self.old == "dead":
            trial.postgres = await (await self.most_recent(standbys)).take_over()
            trial.promoted_at = time.time()
        trial.say("the standby is the primary")
        self.tell(trial.postgres)
        for standby in standbys:
            standby.link.close()
        await trial.keep_gone(primary)

    def tell(self, primary):
        """Tells clients that do not find the new primary by themselves."""

    async def lag(self, trial, primary, standbys):
        if not self.behind_s:
            return
        standbys[0].fall_behind()
        trial.say("the standby hears nothing")
        if self.names and len(standbys) == 1:
            await self.stand_still(trial)
        else:
            await trial.goes_on(self.behind_s, primary)

    async def stand_still(self, trial):
        """Blocks all commits. Under load the retried batches have new events as well; with a trickle some have none."""
        if self.is_trickle:
            await self.rest(trial)
        else:
            await asyncio.sleep(self.behind_s)

    async def rest(self, trial):
        load = trial.fleet.senders + [trial.fleet.source]
        for program in load:
            program.signal(signal.SIGSTOP)
        await trial.fleet.send("trickle", TRICKLE_RATE)
        await asyncio.sleep(self.behind_s)
        for program in load:
            program.signal(signal.SIGCONT)

    async def leave_alone(self, trial, primary, standbys):
        """Promotes the standby without telling the listeners."""
        for standby in standbys:
            standby.fall_behind()
        trial.postgres = await (await self.most_recent(standbys)).take_over()
        trial.say("there are two primaries")
        if self.names:
            await asyncio.sleep(2 * TIMEOUT_S)
        else:
            await trial.goes_on(1, primary)

    @staticmethod
    async def most_recent(standbys):
        """Returns the standby that has received most. If one of several is enough, it is the one to promote."""
        places = [float(await standby.node.sql("SELECT pg_last_wal_receive_lsn() - '0/0'")) for standby in standbys]
        return standbys[places.index(max(places))]

    async def come_back(self, trial, primary):
        """Rewinds the old primary, which becomes a standby of the new one. Until a checkpoint, pg_rewind sees only one
        timeline."""
        await trial.postgres.sql("CHECKPOINT")
        standby = Standby(trial.postgres, node=primary)
        await standby.rewind()
        trial.say("the old primary is a standby")
        await self.be_synchronous(trial.postgres, standby)
        await trial.goes_on(1)
        if self.then == "and back":
            await self.fail_over(trial, trial.postgres, [standby])
            await trial.goes_on(1)


class Pooled(Pair):
    """A pooler between the listeners and the pair, which first connects to the standby by mistake, and again after its
    promotion."""

    pooler = None

    async def prepare(self, trial):
        await super().prepare(trial)
        self.pooler = Pooler(trial)
        trial.others.append(self.pooler)
        await self.pooler.start(trial.postgres)
        trial.conninfo_of = self.pooler.conninfo

    async def play(self, trial):
        primary = trial.postgres
        self.pooler.lead_to(self.standbys[0].node)
        before = await trial.fleet.total("store_retries_total")

        async def are_refused():
            return await trial.fleet.total("store_retries_total") >= before + 3
        await wait_until(are_refused, READY_S, "the standby refuses")
        trial.say("the pooler has led to the standby")
        self.pooler.lead_to(primary)
        await trial.goes_on(2)
        await self.fail_over(trial, primary, self.standbys)
        await trial.goes_on(1)

    def tell(self, primary):
        self.pooler.lead_to(primary)


class Restore(Row):
    """The cluster is restored from a base backup and its archive, to a point before the last events."""

    settings = ARCHIVED
    again_s = 60

    async def prepare(self, trial):
        self.archive = f"{trial.directory}/archive"
        trial.postgres.own(self.archive)
        self.backup = Postgres(trial.directory, with_disk=False, number=2)
        trial.others.append(self.backup)
        self.backup.make_home()
        self.backup.settings = trial.postgres.settings
        await Standby(trial.postgres, node=self.backup).run(
            "pg_basebackup", "-h", trial.postgres.home, "-U", "postgres", "-D", self.backup.data, "-c", "fast", "--no-sync")
        trial.multi_host(trial.postgres, self.backup)

    async def play(self, trial):
        primary, node = trial.postgres, self.backup
        await primary.sql(f"SELECT pg_create_restore_point('{POINT}')")
        await trial.goes_on(2)
        await primary.sql("SELECT pg_switch_wal()")
        await trial.goes_on(1)
        trial.failed_at = time.time()
        await primary.crash()
        await trial.keep_gone(primary)
        with open(f"{node.data}/postgresql.auto.conf", "a") as file:
            file.write(f"restore_command = 'cp {self.archive}/%f %p'\nrecovery_target_name = '{POINT}'\n"
                       "recovery_target_action = 'promote'\narchive_mode = off\n")
        open(f"{node.data}/recovery.signal", "w").close()
        await node.start()

        async def is_primary():
            return await node.sql("SELECT pg_is_in_recovery()") == "f"
        await wait_until(is_primary, READY_S, "the backup is restored")
        node.take_place()
        trial.postgres = node


# --- Redis ---

class Replica(Redis):
    """A replica of another Redis, behind a link."""

    def __init__(self, master):
        directory = f"{master.directory}/replica"
        os.makedirs(directory)
        super().__init__(directory)
        self.link = Link("replica", lambda: master.socket)

    async def follow(self):
        await self.link.open()
        await self.ask("REPLICAOF", "127.0.0.1", str(self.link.port))
        await wait_until(self.is_following, READY_S, "the replica follows")

    async def is_following(self):
        return b"master_link_status:up" in await self.ask("INFO", "replication")

    async def take_over(self):
        self.link.close()
        await self.ask("REPLICAOF", "NO", "ONE")


class Keys(Row):
    """A Redis with a replica, which is promoted without the keys of the last second. old: as of a Pair."""

    def __init__(self, name, old="dead", is_held=False, **others):
        super().__init__(name, **others)
        self.old = old
        self.is_held = is_held          # Postgres stands still meanwhile, so that events wait with claims
        self.replica = None

    async def prepare(self, trial):
        self.replica = Replica(trial.redis)
        trial.others += [trial.redis, self.replica]
        await self.replica.start()
        await self.replica.follow()
        trial.place = f"{trial.directory}/redis.now"
        self.lead_to(trial, trial.redis)

    @staticmethod
    def lead_to(trial, redis):
        """Changes the target, like a DNS name: existing connections stay."""
        os.symlink(redis.socket, f"{trial.place}.new")
        os.replace(f"{trial.place}.new", trial.place)

    async def play(self, trial):
        master = trial.redis
        self.replica.link.hold(True, True)
        await trial.goes_on(1)
        if self.is_held:
            await self.hold_claims(trial, master)
        else:
            await self.exchange(trial, master)
        await trial.goes_on(2)

    async def exchange(self, trial, master):
        trial.failed_at = time.time()
        if self.old == "dead":
            await master.kill()
        await self.replica.take_over()
        self.lead_to(trial, self.replica)
        trial.redis = self.replica
        if self.old == "alive":
            await self.live_apart(trial, master)

    async def hold_claims(self, trial, master):
        """Kills a listener that has claims, too."""
        pids = trial.postgres.freeze()

        async def are_many():
            return len(await master.claims(trial.fleet.claim_prefix)) >= RATE / 2
        await wait_until(are_many, READY_S, "there are claims")
        victim = trial.fleet.listeners[0]
        await victim.end(signal.SIGKILL, READY_S)
        await self.exchange(trial, master)
        trial.postgres.thaw(pids)
        await victim.start()

    async def live_apart(self, trial, master):
        """Moves one listener to the new master, while the others claim at the old one until it is demoted."""
        connections = [line for line in (await master.ask("CLIENT", "LIST", "TYPE", "normal")).decode().splitlines()
                       if "cmd=client" not in line]
        if not connections:
            raise RigError("no listener is connected to Redis")
        await master.ask("CLIENT", "KILL", "ID", connections[0].split()[0].removeprefix("id="))
        await trial.goes_on(2)
        link = await Link("old-master", lambda: self.replica.socket).open()
        await master.ask("REPLICAOF", "127.0.0.1", str(link.port))
        trial.say("the old master is a replica")

        async def have_all_come():
            ups = [metrics.get("redis_up") for metrics in await trial.fleet.metrics()]
            clients = (await self.replica.ask("CLIENT", "LIST", "TYPE", "normal")).decode()
            return all(ups) and len([line for line in clients.splitlines() if "cmd=client" not in line]) == len(ups)
        await wait_until(have_all_come, READY_S, "all listeners claim at the new master")
        await master.kill()
        link.close()


# --- the fleet ---

class Death(Row):
    """All listeners are killed at once, with all existing copies. The feed pauses for that moment, so all of its events have
    reached them, and then it ends. Postgres may have been frozen before, for away_s."""

    def __init__(self, name, away_s=0):
        super().__init__(name)
        self.away_s = away_s
        self.unheard = round(FEED_RATE * (away_s + AT_WORK_S))

    async def play(self, trial):
        fleet = trial.fleet
        pids = trial.postgres.freeze() if self.away_s else []
        await asyncio.sleep(self.away_s)
        fleet.source.signal(signal.SIGSTOP)
        trial.failed_at = time.time()
        await asyncio.gather(*(listener.end(signal.SIGKILL, READY_S) for listener in fleet.listeners))
        fleet.source.signal(signal.SIGTERM)
        fleet.source.signal(signal.SIGCONT)
        trial.postgres.thaw(pids)
        await asyncio.gather(*(listener.start() for listener in fleet.listeners))
        await trial.goes_on(1)


ROWS = [
    Pair("Postgres, synchronous: the primary dies", ONE, is_quick=True),
    Pair("Postgres, synchronous: the primary dies among 10,000 events", ONE, events=10000),
    Pair("Postgres, synchronous: remote_apply, the standby applies 1 s late", ONE, "remote_apply", apply_s=1),
    Pair("Postgres, synchronous: the standby applies 60 s late", ONE, apply_s=60),
    Pair("Postgres, synchronous: the standby is cut off from the primary, then promoted", ONE, behind_s=3 * TIMEOUT_S),
    Pair("Postgres, synchronous: the same with two events a second", ONE, behind_s=4 * TIMEOUT_S, is_trickle=True,
         is_quick=True),
    Pair("Postgres, synchronous: the old primary lives on", ONE, old="alive"),
    Pair("Postgres, synchronous: pg_rewind, and back", ONE, then="and back"),
    Pair("Postgres, quorum ANY 1 of 2: the primary dies", ANY, standbys=2),
    Pair("Postgres, quorum ANY 1 of 2: one standby is 1 s behind", ANY, standbys=2, behind_s=1),
    Pair("Postgres, quorum ANY 1 of 2: one standby is 60 s behind", ANY, standbys=2, behind_s=60),
    Pair("Postgres, quorum ANY 1 of 2: the old primary lives on", ANY, standbys=2, old="alive"),
    Pair("Postgres, asynchronous: the primary dies", lost=1, may_be_whole=True),
    Pair("Postgres, asynchronous: 1 s behind", behind_s=1, lost=3, is_quick=True),
    Pair("Postgres, asynchronous: 60 s behind", behind_s=60, lost=70, repair="resubmit"),
    Pair("Postgres, asynchronous: the old primary lives on", old="alive", lost=5),
    Pair("Postgres, asynchronous: 1 s behind, the old primary lives on, then pg_rewind", behind_s=1, old="alive",
         then="a standby", lost=8, repair="resubmit"),
    Pooled("Postgres, synchronous, behind a pooler that leads to the standby first", ONE, is_quick=True),
    Pooled("Postgres, asynchronous, behind a pooler: 1 s behind", behind_s=1, lost=3),
    Restore("Postgres, restored to a point before the last 3 s", lost=8, repair="resubmit"),
    Keys("Redis: the master dies, the replica has not the keys of the last second", is_quick=True),
    Keys("Redis: the old master lives on and takes claims, then is demoted", old="alive"),
    Keys("Redis: the master and a listener die while claims are held", is_held=True),
    Death("All listeners are killed at once"),
    Death("All listeners are killed at once, after Postgres was away for 2 s", away_s=2),
]
