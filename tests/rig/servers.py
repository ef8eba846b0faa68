"""The private servers of a run: owns one Redis and one Postgres in the run's directory, and asks, stops and breaks them.
fault/faults.py decides when a fault is due."""
import asyncio
import ctypes
import glob
import os
import pwd
import shutil
import signal
import subprocess

from rig.proc import children_of
from rig.process import clean_environment, send_signal, start
from rig.waiting import RigError, wait_until

CLONE_NEWNS = 0x00020000
MS_REC_PRIVATE = 0x4000 | 0x40000
TABLE_SPACE_BYTES = 8 << 30


# For the torture rig: small, and quick to start and to break.
SMALL = """shared_buffers = 64MB
max_wal_size = 256MB
min_wal_size = 64MB
max_wal_senders = 4
max_prepared_transactions = 8
autovacuum_naptime = 5s
deadlock_timeout = 20ms
jit = off
max_parallel_workers = 0
"""
# Enough for processes that are killed, but not for a machine that is.
CARELESS = "fsync = off\nfull_page_writes = off\n"
CLAIMS = """local found, at = {}, '0' repeat
local page = redis.call('SCAN', at, 'MATCH', ARGV[1] .. '*', 'COUNT', 1000) at = page[1]
for _, key in ipairs(page[2]) do local v = redis.call('GET', key)
if v and v:sub(1, #ARGV[2]) == ARGV[2] and v:sub(1, 5) ~= 'done@' and v:sub(1, 5) ~= 'dead@' then
found[#found + 1] = key:sub(#ARGV[1] + 1) end end
until at == '0' return table.concat(found, '\\n')"""


def enter_own_mounts():
    """From now on, mounts end with the rig's processes. Returns False if that is not allowed."""
    libc = ctypes.CDLL(None, use_errno=True)
    if os.getuid() != 0 or libc.unshare(CLONE_NEWNS) != 0:
        return False
    return libc.mount(b"none", b"/", None, MS_REC_PRIVATE, None) == 0


class Redis:
    """A redis-server, or the one that WSONCE_TEST_REDIS_SERVER names, on a unix socket in the directory. port: on loopback,
    too; more: words of its command line."""

    PROGRAM = os.environ.get("WSONCE_TEST_REDIS_SERVER", "redis-server")

    def __init__(self, directory, port=0, more=()):
        self.directory = directory
        self.port = port
        self.more = more
        self.socket = f"{directory}/redis.sock"
        self.log = f"{directory}/redis.log"
        self.process = None

    async def start(self):
        if not shutil.which(self.PROGRAM):
            raise RigError(f"no {self.PROGRAM} program: install it")
        if os.path.exists(self.socket):
            os.unlink(self.socket)
        self.process = await start(
            [self.PROGRAM, "--port", str(self.port), "--bind", "127.0.0.1", "--unixsocket", self.socket, "--unixsocketperm", "777", "--dir",
             self.directory, "--save", "", "--appendonly", "no", "--daemonize", "no",
             "--client-output-buffer-limit", "normal", "0", "0", "0", *self.more], self.log)
        await wait_until(self.answers, 60, "Redis answers")

    @property
    def url(self):
        return f"unix://{self.socket}"

    async def answers(self):
        try:
            return await asyncio.wait_for(self.ask("PING"), 2) == b"+PONG"
        except (OSError, asyncio.TimeoutError):
            return False

    async def ask(self, *words):
        """Returns the first line of the answer, or the whole of a string."""
        reader, writer = await asyncio.open_unix_connection(self.socket)
        try:
            parts = [word if isinstance(word, bytes) else word.encode() for word in words]
            writer.write(b"*%d\r\n" % len(parts) + b"".join(b"$%d\r\n%s\r\n" % (len(p), p) for p in parts))
            line = (await reader.readline()).rstrip()
            if line[:1] == b"$" and line != b"$-1":
                return await reader.readexactly(int(line[1:]))
            return line
        finally:
            writer.close()

    async def is_master(self):
        return True

    def signal(self, number):
        send_signal(self.process.pid, number)

    async def claims(self, prefix, owner=""):
        """Returns the ids, without the prefix, of keys that are claims and not marks, of owners whose names begin with
        owner."""
        return set((await self.ask("EVAL", CLAIMS, "0", prefix, owner)).decode().split())

    async def kill(self):
        self.signal(signal.SIGKILL)
        await self.process.wait()

    async def stop(self):
        if self.process and self.process.returncode is None:
            await self.kill()


class Postgres:
    """A cluster on a unix socket. The listeners are its role wsonce, which is not a superuser, so that limits and
    read-only mode hold for them; the rig is the superuser postgres. Everybody finds the cluster in use at one place,
    a link to its home: a standby (standby.py) has another home, and the link leads there once it is promoted."""

    port = 5432

    def __init__(self, directory, settings=SMALL + CARELESS, with_disk=True, number=1):
        self.base = directory
        self.number = number
        self.directory = f"{directory}/postgres"
        self.home = f"{directory}/postgres-{number}"
        self.settings = settings
        self.with_disk = with_disk
        self.data = f"{self.home}/data"
        self.space = f"{self.home}/space"
        self.socket = f"{self.directory}/.s.PGSQL.5432"
        self.log = f"{directory}/postgres.log"
        self.user = None
        self.process = None
        self.has_disk = False           # the tables are on a file system of their own, which can be full
        self.bin = self.find_programs()

    @staticmethod
    def find_programs():
        found = sorted(glob.glob("/usr/lib/postgresql/*/bin/postgres"), key=lambda path: int(path.split("/")[4]))
        if not found:
            raise RigError("no postgres program: install the Postgres server")
        return os.path.dirname(found[-1])

    def choose_user(self):
        if os.getuid() != 0:
            return None
        for name in ("postgres", "nobody"):
            try:
                pwd.getpwnam(name)
                return name
            except KeyError:
                continue
        raise RigError("Postgres refuses to run as root, and there is neither a user postgres nor nobody")

    def own(self, path):
        os.makedirs(path, exist_ok=True)
        if self.user:
            shutil.chown(path, self.user)

    def mount_space(self):
        if not enter_own_mounts():
            return False
        mounted = subprocess.run(["mount", "-t", "tmpfs", "-o", f"size={TABLE_SPACE_BYTES}", "none", self.space],
                                 stderr=subprocess.DEVNULL)
        if mounted.returncode == 0:
            self.own(self.space)
        return mounted.returncode == 0

    def make_home(self):
        self.user = self.choose_user()
        self.own(self.home)
        self.own(self.space)
        self.has_disk = self.with_disk and self.mount_space()

    def take_place(self):
        """From now on everybody finds this cluster."""
        os.symlink(self.home, f"{self.directory}.new")
        os.replace(f"{self.directory}.new", self.directory)

    async def create(self):
        self.make_home()
        self.take_place()
        process = await start([f"{self.bin}/initdb", "-D", self.data, "-U", "postgres", "-A", "trust", "-E", "UTF8",
                               "--no-locale", "--no-sync", "--no-instructions"], self.log, user=self.user,
                              cwd=self.home)
        if await process.wait():
            raise RigError(f"initdb failed: see {self.log}")
        with open(f"{self.data}/postgresql.conf", "a") as file:
            file.write("listen_addresses = ''\nunix_socket_permissions = 0777\nmax_connections = 200\n"
                       "timezone = UTC\ndynamic_shared_memory_type = mmap\nlog_line_prefix = '%m [%p] %q%u %e '\n"
                       "restart_after_crash = on\n" + self.settings)
        await self.start()
        await self.sql("CREATE ROLE wsonce LOGIN")
        await self.sql("CREATE DATABASE wsonce OWNER wsonce")
        if self.has_disk:
            await self.sql(f"CREATE TABLESPACE small OWNER wsonce LOCATION '{self.space}'")
            await self.sql("ALTER ROLE wsonce SET default_tablespace = 'small'")

    async def start(self):
        await self.launch()
        await wait_until(self.answers, 120, "Postgres answers")

    async def launch(self):
        self.process = await start([f"{self.bin}/postgres", "-D", self.data, "-k", self.home], self.log,
                                   death="QUIT", user=self.user, cwd=self.home)

    async def answers(self):
        if self.process.returncode is not None:     # a last backend of the one before may have been in the way
            await self.launch()
        return (await self.try_sql("SELECT 1", "postgres"))[0] == 0

    async def try_sql(self, sql, database="wsonce", output=None):
        command = ["setpriv", "--pdeathsig", "KILL", "psql", "-XAtq", "-v", "ON_ERROR_STOP=1", "-h", self.home,
                   "-p", str(self.port), "-U", "postgres", "-d", database, "-c", sql]
        process = await asyncio.create_subprocess_exec(
            *command, stdin=subprocess.DEVNULL, stdout=output or subprocess.PIPE, stderr=subprocess.PIPE,
            env=clean_environment())
        try:
            out, err = await process.communicate()
        except asyncio.CancelledError:
            send_signal(process.pid, signal.SIGKILL)
            await process.wait()
            raise
        return process.returncode, (out or b"").decode().strip(), err.decode().strip()

    async def sql(self, sql, database="postgres"):
        status, out, err = await self.try_sql(sql, database)
        if status:
            raise RigError(f"{sql}: {err}")
        return out

    async def set(self, **settings):
        """Changes settings of the whole cluster from now on; None resets one."""
        for name, value in settings.items():
            await self.sql(f"ALTER SYSTEM RESET {name}" if value is None else f"ALTER SYSTEM SET {name} = '{value}'")
        await self.sql("SELECT pg_reload_conf()")

    def conninfo(self, database="wsonce"):
        """Returns the conninfo of the listeners' role."""
        return f"host={self.directory} port=5432 user=wsonce dbname={database}"

    async def copy_out(self, query, path, database="wsonce"):
        """Returns the rows of a query, each with its columns as COPY writes them; path: a file to make for it."""
        with open(path, "wb") as out:
            status, _, error = await self.try_sql(f"COPY ({query}) TO STDOUT", database, output=out)
        if status:
            raise RigError(f"{query}: {error}")
        with open(path, encoding="utf-8", newline="\n") as file:
            rows = [line.rstrip("\n").split("\t") for line in file]
        os.unlink(path)
        return rows

    def all_pids(self):
        return [self.process.pid] + children_of(self.process.pid)

    def freeze(self):
        """Stops the postmaster first, so that no process escapes."""
        pids = self.all_pids()
        for pid in pids:
            send_signal(pid, signal.SIGSTOP)
        return pids

    @staticmethod
    def thaw(pids):
        for pid in reversed(pids):
            send_signal(pid, signal.SIGCONT)

    async def crash(self):
        """Immediate shutdown: no checkpoint, recovery from the log at the next start."""
        send_signal(self.process.pid, signal.SIGQUIT)
        await self.process.wait()

    def resize_space(self, size):
        return subprocess.run(["mount", "-o", f"remount,size={size}", self.space],
                              stderr=subprocess.DEVNULL).returncode == 0

    def used_space(self):
        stat = os.statvfs(self.space)
        return (stat.f_blocks - stat.f_bfree) * stat.f_frsize

    def fill_space(self):
        """Fills the disk of the tables. They may grow between the check and the mount, which then fails."""
        return any(self.resize_space(self.used_space() + 4096) for _ in range(20))

    def empty_space(self):
        return self.resize_space(TABLE_SPACE_BYTES)

    def remove(self):
        if self.has_disk:
            subprocess.run(["umount", self.space], stderr=subprocess.DEVNULL)
        shutil.rmtree(self.home, ignore_errors=True)

    async def stop(self):
        if not self.process or self.process.returncode is not None:
            return
        self.thaw(self.all_pids())
        send_signal(self.process.pid, signal.SIGQUIT)
        await self.process.wait()


class Servers:
    """Both servers, which a rig extends. how: as for Postgres."""

    def __init__(self, directory, **how):
        self.directory = directory
        self.redis = Redis(directory)
        self.postgres = Postgres(directory, **how)

    async def start_servers(self):
        await asyncio.gather(self.redis.start(), self.postgres.create())

    async def stop_servers(self):
        await self.postgres.stop()
        await self.redis.stop()

    @property
    def redis_url(self):
        return self.redis.url

    @property
    def conninfo(self):
        return self.postgres.conninfo()

    async def sql(self, sql):
        return await self.postgres.sql(sql, "wsonce")
