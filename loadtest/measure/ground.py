"""The ground of all measurements: owns the private Redis and Postgres, the children of the current measurement, and the
check that rows equal events. Postgres has its default settings (fsync on), except that it notes the times of commits and how
long its log takes to be on disk, and for its log: as where many rows come for hours, its files are there to be used again,
and there is room for a run between two checkpoints. A backend that has to make a file of 16 MiB is busy for 50 ms, and
those of the other listeners wait for it."""
import signal
from dataclasses import dataclass

from rig.proc import cpu_s, tree_cpu_s
from rig.process import Process
from rig.servers import Servers
from rig.waiting import RigError

SETTINGS = "track_commit_timestamp = on\ntrack_wal_io_timing = on\nmin_wal_size = 1GB\nmax_wal_size = 4GB\n"
FILES = "SELECT pg_logical_emit_message(false, 'bench', 'x'), pg_switch_wal() FROM generate_series(1, 63)"    # makes files of the log, each 16 MiB
END_S = 20


@dataclass
class Cpu:
    """CPU seconds of the three parties so far; subtract two to get a span of time."""
    listeners_s: float
    redis_s: float
    postgres_s: float

    def __sub__(self, before):
        return Cpu(self.listeners_s - before.listeners_s, self.redis_s - before.redis_s,
                   self.postgres_s - before.postgres_s)


class Rig(Servers):
    def __init__(self, tree, directory):
        super().__init__(directory, settings=SETTINGS, with_disk=False)
        self.tree = tree
        self.programs = f"{tree}/build"
        self.children = []
        self.started = 0                # children so far, which number their files

    async def start_servers(self):
        await super().start_servers()
        await self.sql(FILES)
        await self.sql("CHECKPOINT")

    def child(self, name, kind=Process, *more):
        """Returns a child of this measurement, which the caller starts."""
        self.started += 1
        self.children.append(kind(f"{self.directory}/{self.started}-{name}", *more))
        return self.children[-1]

    async def stop(self, child, what):
        """Asks a child to end, which it must do with status 0."""
        status = await child.end(signal.SIGTERM, END_S)
        if status:
            raise RigError(f"{what} ended with status {status} after SIGTERM")

    async def end_children(self):
        for child in self.children:
            await child.kill()
        self.children.clear()

    async def end(self):
        await self.end_children()
        await self.stop_servers()

    async def empty(self):
        """Empties the servers, and waits until they have nothing left to write. Each measurement begins like this."""
        await self.redis.ask("FLUSHALL")
        await self.sql("TRUNCATE events, dead_letters, processed_events, outbox")
        await self.sql("CHECKPOINT")

    async def verify(self, events):
        rows, letters = (await self.sql("SELECT (SELECT count(*) FROM events), (SELECT count(*) FROM dead_letters)")).split("|")
        if (int(rows), int(letters)) != (events, 0):
            raise RigError(f"{events} events were sent, but the table has {rows} rows, and there are {letters} dead letters")

    def cpu_s(self, listeners=()):
        return Cpu(sum(map(cpu_s, listeners)), cpu_s(self.redis.process.pid), tree_cpu_s(self.postgres.process.pid))
