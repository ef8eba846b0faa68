"""One running row: owns its servers and its fleet, the rows of a server that is gone, and the judgement: which events are
missing, whether the audit names them, whether they come back when they are sent again, and whether any is doubled."""
import copy
import time

from bench import SETTINGS, Bench, Fleet
from figure import Figure
from rig.feed import event_message
from rig.load import Producer, producer_payload
from rig.process import Process
from rig.waiting import SLOW, comes_true, wait_until

LISTENERS = 3
FEED_RATE, PRODUCER_RATE = 200, 100
RATE = FEED_RATE + PRODUCER_RATE
TIMEOUT_S = 3                   # of both servers, as the listeners have it
CLAIM_TTL_S = 5
BACK_S = 1 * SLOW               # from the promotion of a standby to a commit on it
AWAKE_S = 60                    # until a fleet stores again, at the longest
FLAGS = ["--claim-ttl", str(CLAIM_TTL_S), "--redis-timeout", "1", "--postgres-timeout", str(TIMEOUT_S)]
REWINDABLE = "wal_log_hints = on\nwal_keep_size = 512MB\n"


class Trial(Bench):
    def __init__(self, row, options, programs, directory):
        super().__init__(options, programs, directory)
        self.row = row
        self.postgres.settings = SETTINGS + REWINDABLE + row.settings.format(directory=directory)
        self.figure = Figure(row.name, {})
        self.fleet = None
        self.others = [self.postgres]   # servers not in use, which are stopped at the end
        self.place = None               # of Redis, for listeners; else that of the one there is
        self.several = None             # several Redis servers instead of one
        self.conninfo_of = self.postgres.conninfo
        self.gone = {}                  # event id -> time of its commit on a server that is no longer used
        self.failed_at = 0.0
        self.promoted_at = 0.0          # of Postgres, once it takes writes
        self.ended_at = 0.0             # of the load
        self.cells = {}
        self.watches = []               # of failovers of Redis

    @property
    def redis_url(self):
        return self.several.url if self.several else f"unix://{self.place or self.redis.socket}"

    async def start(self):
        await self.start_servers()
        await self.row.prepare(self)
        self.fleet = Fleet(self, "fleet", LISTENERS, FEED_RATE, FLAGS)
        await self.fleet.start()
        await self.fleet.send("acks", PRODUCER_RATE)
        await self.goes_on(1)

    async def end(self):
        await super().end()
        for server in self.others:
            await server.stop()

    def multi_host(self, *nodes):
        """From now on listeners choose among these nodes."""
        homes = ",".join(node.home for node in nodes)
        self.conninfo_of = lambda database: (f"host={homes} port=5432 user=wsonce dbname={database} "
                                             "target_session_attrs=read-write")

    # --- what a row waits for ---

    async def count(self, node=None):
        return int(await (node or self.postgres).sql("SELECT count(*) FROM events", "fleet"))

    async def goes_on(self, seconds, node=None):
        """Waits until this many seconds of the load have been stored."""
        before = await self.count(node)

        async def are_stored():
            return await self.count(node) >= before + RATE * seconds
        await wait_until(are_stored, 3 * seconds + AWAKE_S, f"{seconds} s of the load are stored")

    async def keep_gone(self, node):
        """Reads the rows of a server that is down, after starting it where no listener finds it."""
        aside = copy.copy(node)
        aside.home = f"{node.base}/aside"
        aside.own(aside.home)
        await aside.start()
        rows = await aside.copy_out("SELECT event_id, extract(epoch FROM pg_xact_commit_timestamp(xmin)) FROM events",
                                    f"{self.directory}/gone", "fleet")
        await aside.crash()
        self.gone.update((event_id, float(at)) for event_id, at in rows)

    # --- the judgement ---

    async def judge(self):
        fleet, figure = self.fleet, self.figure
        await self.goes_on(1)
        self.ended_at = time.time()
        await fleet.settle()
        await comes_true(self.are_claims_over, 2 * CLAIM_TTL_S)
        counts = await fleet.account()
        missing = fleet.wanted - fleet.rows.keys()
        had = missing & self.gone.keys()
        pause, again_at = self.longest_pause()
        # The clock is read when the promotion is known, which may be later than the first commit.
        back = max(0.0, again_at - self.promoted_at) if self.promoted_at else None
        lost = self.row.lost
        figure.note("events sent", counts.pop("sent"))
        figure.note("rows", counts.pop("rows"))
        figure.at_most("not stored", counts.pop("lost"), len(self.gone) if lost else self.row.unheard)
        figure.at_most("of them acked", counts.pop("falsely_acked"), len(self.gone) if lost else 0)
        figure.at_most("not stored, and no server that is gone had it", len(missing - had), self.row.unheard)
        figure.at_most("seconds without a commit", round(pause, 3), self.row.again_s, "s")
        if back is not None:
            figure.at_most("seconds from the promotion to the next commit", back, BACK_S, "s")
        for name, count in counts.items():
            figure.at_most(name.replace("_", " "), count, 0)
        self.cells = {"missing": len(missing), "acked": len(missing & fleet.acked), "had": len(had), "pause": pause, "back": back,
                      "lag": self.failed_at - min((self.gone[event_id] for event_id in had), default=self.failed_at)}
        if lost:
            figure.at_least("not stored, or the row shows nothing", len(missing), int(not self.row.may_be_whole))
            figure.at_most("age of what the lag held", round(self.cells["lag"], 3), lost, "s")
        if self.row.warns is not None:
            self.judge_warnings()
        await self.judge_repair(missing)

    def judge_warnings(self):
        warnings = sum("standbys that commits do not wait for" in listener.log() for listener in self.fleet.listeners)
        self.figure.at_most("listeners that warn of asynchronous standbys wrongly, or do not",
                            abs(warnings - self.row.warns * LISTENERS), 0)

    async def are_claims_over(self):
        """Waits until claims of dead listeners, and of events whose marks a replica did not get, have expired."""
        return not await self.redis.claims(self.fleet.claim_prefix)

    def longest_pause(self):
        """Returns the longest pause between two commits since the failover, on any server; and when it ended."""
        times = sorted(at for at in {**self.gone, **self.fleet.rows}.values() if self.failed_at < at <= self.ended_at)
        return max((later - at, later) for at, later in zip([self.failed_at] + times, times + [self.ended_at]))

    async def judge_repair(self, missing):
        fleet, figure = self.fleet, self.figure
        told = await self.audit("ids", sorted(fleet.wanted))
        figure.at_most("ids that the audit names wrongly, or not", len(set(told["missing_ids"]) ^ missing), 0)
        if self.row.repair == "resubmit":
            await self.audit("events", map(self.message_of, sorted(fleet.wanted)), "--resubmit")
        elif missing:
            for prefix in sorted({event_id.rpartition("-")[0] for event_id in fleet.wanted}):
                await self.send_again(prefix)
        counts = await fleet.account()
        self.cells |= {"again": len(missing) - counts["lost"], "doubled": counts["doubled"]}
        for name in ("lost", "doubled", "altered", "falsely_acked", "unexpected", "refused_or_dead_letters", "left_in_memory"):
            figure.at_most(f"after redelivery: {name.replace('_', ' ')}", counts[name], 0)

    @staticmethod
    def message_of(event_id):
        return event_message(event_id, producer_payload(int(event_id.rpartition("-")[2]))).decode()

    async def audit(self, kind, lines, *options):
        """Returns the result of wsonce audit for a list."""
        program = Process(f"{self.directory}/audit-{kind}")
        with open(f"{program.base}.list", "w") as file:
            file.writelines(f"{line}\n" for line in lines)
        await program.launch_to_tell([f"{self.programs}/wsonce", "audit", "--expected", f"{program.base}.list", "--json",
                                      "--redis", self.redis_url, "--postgres", self.postgres.conninfo("fleet"),
                                      "--claim-prefix", self.fleet.claim_prefix, *options])
        if not await program.ends(AWAKE_S):
            program.fail("did not end")
        return program.told()

    async def send_again(self, prefix):
        """Sends everything again, as for somebody who does not know which events are missing."""
        numbers = [int(event_id.rpartition("-")[2]) for event_id in self.fleet.wanted if event_id.startswith(f"{prefix}-")]
        program = Producer(f"{self.directory}/again-{prefix}", prefix)
        await program.start(self.programs, [listener.port for listener in self.fleet.listeners], "--count",
                            str(max(numbers)), "--connections", str(LISTENERS), "--ledger", program.ledger)
        if not await program.ends(AWAKE_S):
            program.fail("did not send everything again")
        unanswered = max(numbers) - len(program.read_ledger())
        self.figure.at_most(f"{prefix} sent again: without an ack", program.told()["unanswered"] + unanswered, 0)

    def line(self):
        """Returns its line of the table."""
        cells = self.cells
        verdict = "yes" if self.figure.is_met else "**no**"
        if not cells:
            return f"| {self.row.name} | | | | | | | **no** |"
        missing = f"{cells['missing']}, {cells['acked']}" if cells["missing"] else "0"
        held = f"{cells['had']}, {cells['lag']:.1f} s" if cells["had"] else "0"
        back = "" if cells["back"] is None else f"{cells['back']:.2f}"
        return (f"| {self.row.name} | {missing} | {held} | {cells.get('doubled', '?')} | {cells.get('again', '?')} | "
                f"{cells['pause']:.1f} | {back} | {verdict} |")
