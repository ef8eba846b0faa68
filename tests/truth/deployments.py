"""The rows of the table: ways to deploy wsonce. Each owns its servers, and the words of its listeners' command lines."""
import os
import sqlite3
import subprocess
from types import SimpleNamespace
from typing import NamedTuple

from pooler import Pooler
from rig.servers import SMALL, Postgres, Redis
from rig.several import Cluster, Sentinels
from rig.run import TREE

PROGRAM = os.environ.get("WSONCE_TEST_BIN", f"{TREE}/build/wsonce")


class Deployment(NamedTuple):
    listeners: int = 2
    redis: type = Redis             # or None
    is_file: bool = False           # events go to an SQLite file
    is_acked: bool = False          # the feed is: otherwise what only a killed listener has read is lost
    is_pooled: bool = False
    lines: int = 1
    layout: str = ""
    path: str = ""                  # the schema of the tables
    options: tuple = ()
    consumers: tuple = ("",)        # one fleet each
    members: dict = {}              # of the profile
    has_hook: bool = False          # each event goes to a webhook
    has_holes: bool = False         # listeners ask for events that no connection brings
    has_ways: bool = False          # faults of one listener are tried,
    is_for_one: bool = False        # and no others
    is_one_idle: bool = False       # one of the listeners has nothing to store, and does not know of all faults


DEPLOYMENTS = {
    "plain": Deployment(has_ways=True),
    "lines": Deployment(lines=2, is_acked=True),
    "sqlite": Deployment(listeners=1, redis=None, is_file=True, is_acked=True),
    "no-redis": Deployment(redis=None),
    "sentinel": Deployment(redis=Sentinels),
    "cluster": Deployment(redis=Cluster, lines=2),
    "pooler": Deployment(is_pooled=True),
    "consumers": Deployment(consumers=("one", "two"), options=("--handler", "public.nothing"), has_ways=True),
    "webhook": Deployment(has_hook=True, has_ways=True),
    "exclusive": Deployment(is_acked=True, members={"fleet": "exclusive"}, is_one_idle=True, has_ways=True),
    "readers": Deployment(listeners=3, options=("--readers", "2"), is_one_idle=True),
    "partitions": Deployment(layout="partitioned=4", lines=2),
    "reader": Deployment(options=("--readers", "1"), is_acked=True, members={"idle_timeout_s": 8}, is_one_idle=True,
                         has_ways=True, is_for_one=True),
    "fill": Deployment(has_holes=True, has_ways=True, is_for_one=True),
    "leases": Deployment(redis=None, is_acked=True, members={"fleet": "exclusive"}, is_one_idle=True, has_ways=True,
                         is_for_one=True),
    "schema": Deployment(path="own", options=("--claim-prefix", "own:events"), is_acked=True),
}


class File:
    """An SQLite file in a folder of its own, on a disk that can be full (tests/sqlite/disk.c)."""

    def __init__(self, directory, library):
        self.path = f"{directory}/file/e.db"
        self.disk = f"{directory}/disk"
        self.env = {"LD_PRELOAD": library, "WSONCE_DISK": self.disk}
        self.words = ["--store", f"sqlite://{self.path}", "--redis", "none"]
        self.writer = None
        os.makedirs(os.path.dirname(self.path))
        os.makedirs(f"{self.disk}/after")

    def move(self, source, target):
        os.rename(f"{self.path}{source}", f"{self.path}{target}")

    def lock(self):
        self.writer = sqlite3.connect(self.path, isolation_level=None)
        self.writer.execute("BEGIN IMMEDIATE")

    def unlock(self):
        self.writer.close()

    def fill(self):
        open(f"{self.disk}/full", "w").close()

    def empty(self):
        os.unlink(f"{self.disk}/full")

    async def prepare(self, _):
        pass

    async def ids(self, _):
        with sqlite3.connect(self.path, timeout=10) as db:
            return [row[0] for row in db.execute("SELECT event_id FROM events")]

    async def stop(self):
        pass


class Server(Postgres):
    """A Postgres that keeps what it commits, so that nobody warns, perhaps behind a pooler."""

    env = {}

    def __init__(self, directory, how):
        super().__init__(directory, settings=SMALL)
        self.how = how
        self.pooler = None

    async def prepare(self, redis):
        await self.create()
        await self.sql("CREATE FUNCTION nothing(text, text, jsonb) RETURNS void LANGUAGE sql AS ''", "wsonce")
        place = self.conninfo()
        if self.how.path:
            await self.sql(f"CREATE SCHEMA {self.how.path} AUTHORIZATION wsonce", "wsonce")
            place += f" options='-c search_path={self.how.path}'"
        if self.how.layout:
            made = subprocess.run([PROGRAM, "schema", "--layout", self.how.layout], stdout=subprocess.PIPE, text=True, check=True)
            await self.sql(f"SET ROLE wsonce; SET default_tablespace = small; {made.stdout}", "wsonce")
        if self.how.is_pooled:
            self.pooler = Pooler(SimpleNamespace(directory=self.base))
            await self.pooler.start(self)
            place = self.pooler.conninfo("wsonce")
        self.words = ["--postgres", place, "--redis", redis.url if redis else "none"]

    @property
    def table(self):
        return f"{self.how.path or 'public'}.events"

    async def ids(self, fleet):
        """Returns the ids that a fleet has stored, or if it is a consumer's, processed."""
        where = f"processed_events WHERE consumer = '{fleet}'" if fleet in self.how.consumers else self.table
        return (await self.sql(f"SELECT event_id FROM {where}", "wsonce")).split()

    async def stop(self):
        if self.pooler:
            await self.pooler.stop()
        await super().stop()
        self.remove()
