"""What all measurements stand on: owns the private Redis and Postgres, the children of the present measurement, and the
account that rows must be events. Postgres has its default settings (fsync on), but for noting the
times of commits and how long its log takes to be on disk."""
import asyncio
import signal

from servers import Postgres, Redis, RigError, send_signal, start

from measure.process import Cpu, cpu_s, tree_cpu_s

SETTINGS = "track_commit_timestamp = on\ntrack_wal_io_timing = on\n"
END_S = 20


class Rig:
    def __init__(self, tree, directory):
        self.tree = tree
        self.directory = directory
        self.programs = f"{tree}/build"
        self.redis = Redis(directory)
        self.postgres = Postgres(directory, SETTINGS, with_disk=False)
        self.children = []
        self.started = 0                # children so far; their logs are numbered

    async def start(self):
        await asyncio.gather(self.redis.start(), self.postgres.create())

    @property
    def conninfo(self):
        return f"host={self.postgres.directory} port=5432 user=wsonce dbname=wsonce"

    async def sql(self, sql):
        return await self.postgres.sql(sql, "wsonce")

    async def spawn(self, command, name, stdout=None):
        """A child of this measurement. Returns it and its log."""
        self.started += 1
        log = f"{self.directory}/{self.started}-{name}.log"
        child = await start(command, log, stdout=stdout)
        self.children.append(child)
        return child, log

    async def stop(self, child, what):
        """Asks it to end. It must do so with status 0."""
        send_signal(child.pid, signal.SIGTERM)
        try:
            status = await asyncio.wait_for(child.wait(), END_S)
        except asyncio.TimeoutError:
            raise RigError(f"{what} did not end within {END_S} s of SIGTERM") from None
        if status:
            raise RigError(f"{what} ended with status {status} after SIGTERM")

    async def end_children(self):
        for child in self.children:
            if child.returncode is None:
                send_signal(child.pid, signal.SIGKILL)
        for child in self.children:
            await child.wait()
        self.children.clear()

    async def end(self):
        await self.end_children()
        await self.postgres.stop()
        if self.redis.process and self.redis.process.returncode is None:
            await self.redis.kill()

    async def empty(self):
        """Each measurement begins with empty servers that have nothing left to write."""
        await self.redis.ask("FLUSHALL")
        await self.sql("TRUNCATE events, dead_letters, processed_events, outbox")
        await self.sql("CHECKPOINT")

    async def verify(self, events):
        rows, letters = (await self.sql("SELECT (SELECT count(*) FROM events), (SELECT count(*) FROM dead_letters)")).split("|")
        if (int(rows), int(letters)) != (events, 0):
            raise RigError(f"{events} events were sent, but the table has {rows} rows, and there are {letters} dead letters")

    def cpu_s(self, listeners=()):
        return Cpu(sum(map(cpu_s, listeners)), cpu_s(self.redis.process.pid), tree_cpu_s(self.postgres.process.pid))
