"""The rows of Patroni: owns three Postgres servers managed by Patroni, with etcd and haproxy, and how their leader fails."""
import asyncio
import json
import signal
import time
import urllib.request

from rig.listener import fetch
from rig.process import Process, read_text, send_signal
from rig.servers import Postgres
from rig.sockets import free_port
from rig.waiting import SLOW, RigError, wait_until
from rows import Row

READY_S = 90 * SLOW
NODES = 3
TTL_S = 20                      # of the leader's key in etcd: Patroni's least
CONFIG = """scope: wsonce
name: {name}
restapi:
  listen: 127.0.0.1:{pages}
  connect_address: 127.0.0.1:{pages}
etcd3:
  host: 127.0.0.1:{etcd}
bootstrap:
  dcs:
    ttl: {ttl}
    loop_wait: 1
    retry_timeout: 3
    synchronous_mode: true
    postgresql:
      use_pg_rewind: true
      parameters:
        track_commit_timestamp: 'on'
        wal_log_hints: 'on'
        timezone: UTC
        dynamic_shared_memory_type: mmap
  initdb:
  - encoding: UTF8
  - no-locale
  - no-sync
  - auth: trust
postgresql:
  listen: 127.0.0.1:{port}
  connect_address: 127.0.0.1:{port}
  data_dir: {data}
  bin_dir: {bin}
  pgpass: {home}/pgpass
  parameters:
    unix_socket_directories: {home}
  pg_hba:
  - local all all trust
  - host all all 127.0.0.1/32 trust
  - host replication all 127.0.0.1/32 trust
  authentication:
    superuser:
      username: postgres
    replication:
      username: postgres
  basebackup:
  - checkpoint: fast
  - no-sync
"""
HAPROXY = """global
    maxconn 400
defaults
    mode tcp
    retries 0
    timeout connect 1s
    timeout client 30m
    timeout server 30m
    timeout check 1s
listen primary
    bind 127.0.0.1:{port}
    option httpchk OPTIONS /primary
    http-check expect status 200
    default-server inter 250ms fall 2 rise 1 on-marked-down shutdown-sessions
"""


class Node(Postgres):
    """A Postgres and its Patroni, which starts it, stops it and promotes it."""

    def __init__(self, trial, number, etcd):
        super().__init__(trial.directory, with_disk=False, number=number)
        self.name = f"p{number}"
        self.port, self.pages = free_port(), free_port()
        self.user = self.choose_user()
        self.own(self.home)
        self.patroni = Process(f"{trial.directory}/patroni-{number}")
        with open(f"{self.patroni.base}.yml", "w") as file:
            file.write(CONFIG.format(name=self.name, pages=self.pages, etcd=etcd, ttl=TTL_S, port=self.port, data=self.data,
                                     bin=self.bin, home=self.home))

    async def launch(self):
        await self.patroni.launch(["patroni", f"{self.patroni.base}.yml"], death="TERM", user=self.user, cwd=self.home)

    async def page(self, path):
        """Returns a page of Patroni; empty if it does not answer."""
        try:
            return await asyncio.wait_for(fetch(f"127.0.0.1:{self.pages}", path), 2)
        except (OSError, asyncio.TimeoutError):
            return ""

    async def is_leader(self):
        return " 200 " in (await self.page("/primary")).partition("\r\n")[0]

    async def takes_writes(self):
        return (await self.try_sql("SELECT pg_is_in_recovery()", "postgres"))[1] == "f"

    async def synchronous_standbys(self):
        page = (await self.page("/cluster")).partition("\r\n\r\n")[2]
        return [member["name"] for member in json.loads(page)["members"] if member["role"] == "sync_standby"] if page else []

    def conninfo(self, database="wsonce"):
        return f"host={self.home} port={self.port} user=wsonce dbname={database}"

    async def crash(self):
        """Kills both at once, by SIGKILL."""
        await self.patroni.kill()
        self.signal_postmaster(signal.SIGKILL)

    def signal_postmaster(self, number):
        pid = read_text(f"{self.data}/postmaster.pid").partition("\n")[0]
        if pid:
            send_signal(int(pid), number)

    async def stop(self):
        if self.patroni.process:
            await self.patroni.kill()
            self.signal_postmaster(signal.SIGQUIT)


class Etcd(Process):
    def __init__(self, trial):
        super().__init__(f"{trial.directory}/etcd")
        self.port = free_port()

    async def start(self):
        here, peers = f"http://127.0.0.1:{self.port}", f"http://127.0.0.1:{free_port()}"
        await self.launch(["etcd", "--data-dir", f"{self.base}.data", "--listen-client-urls", here, "--advertise-client-urls",
                           here, "--listen-peer-urls", peers, "--initial-advertise-peer-urls", peers, "--initial-cluster",
                           f"default={peers}", "--log-level", "error"])

    async def stop(self):
        await self.kill()


class Haproxy(Process):
    """Sends all connections to the node whose Patroni says that it leads. With retries it would keep a connection without a
    target for seconds."""

    def __init__(self, trial):
        super().__init__(f"{trial.directory}/haproxy")
        self.port = free_port()

    async def start(self, nodes):
        with open(f"{self.base}.cfg", "w") as file:
            file.write(HAPROXY.format(port=self.port))
            for node in nodes:
                file.write(f"    server {node.name} 127.0.0.1:{node.port} check port {node.pages}\n")
        await self.launch(["haproxy", "-db", "-f", f"{self.base}.cfg"])

    async def stop(self):
        await self.kill()

    def conninfo(self, database):
        return f"host=127.0.0.1 port={self.port} user=wsonce dbname={database}"


class Led(Row):
    """how: killed, or asked (a switchover). by: haproxy, or hosts. After a promotion Patroni does not wait for a standby until
    it has chosen one."""

    warns = None

    def __init__(self, name, how, by, **others):
        super().__init__(name, **others)
        self.how = how
        self.by = by
        self.again_s = (TTL_S + 10 if how == "killed" else 10) * SLOW
        self.nodes = []

    async def prepare(self, trial):
        etcd = Etcd(trial)
        trial.others.append(etcd)
        await etcd.start()
        self.nodes = [Node(trial, 11 + i, etcd.port) for i in range(NODES)]
        trial.others += self.nodes
        for node in self.nodes:
            await node.launch()
        await wait_until(self.has_leader, READY_S, "Patroni has a leader")
        trial.postgres = await self.leader()
        await wait_until(self.is_synchronous, READY_S, "the leader has a synchronous standby")
        await trial.postgres.sql("CREATE ROLE wsonce LOGIN")
        await self.lead(trial)

    async def lead(self, trial):
        if self.by == "haproxy":
            haproxy = Haproxy(trial)
            trial.others.append(haproxy)
            await haproxy.start(self.nodes)
            trial.conninfo_of = haproxy.conninfo
            return
        hosts, ports = ",".join(["127.0.0.1"] * NODES), ",".join(str(node.port) for node in self.nodes)
        trial.conninfo_of = lambda database: (f"host={hosts} port={ports} user=wsonce dbname={database} "
                                              "target_session_attrs=read-write")

    async def leader(self):
        for node in self.nodes:
            if await node.is_leader():
                return node
        return None

    async def has_leader(self):
        return await self.leader() is not None

    async def is_synchronous(self):
        leader = await self.leader()
        return leader is not None and await leader.synchronous_standbys() != []

    async def play(self, trial):
        old = trial.postgres
        others = [node for node in self.nodes if node is not old]
        trial.failed_at = time.time()
        trial.say(f"the leader is {self.how}")
        if self.how == "killed":
            await old.crash()
        else:
            await asyncio.to_thread(self.switch_over, old)
        found = []

        async def is_promoted():
            found[:] = [node for node, is_there in zip(others, await asyncio.gather(*(node.takes_writes() for node in others)))
                        if is_there]
            return found != []
        await wait_until(is_promoted, READY_S, "another one is promoted")
        trial.promoted_at = time.time()
        trial.postgres = found[0]
        trial.figure.note("seconds until another one took writes", trial.promoted_at - trial.failed_at, "s")
        if self.by == "haproxy":
            await wait_until(found[0].is_leader, READY_S, "Patroni says so")
            trial.promoted_at = time.time()     # haproxy follows Patroni
            trial.figure.note("seconds until Patroni said so", trial.promoted_at - trial.failed_at, "s")
        trial.say(f"{found[0].name} leads")
        if self.how == "killed":
            await old.launch()
        await trial.goes_on(3)
        await wait_until(self.is_synchronous, READY_S, "the new leader has a synchronous standby")

    @staticmethod
    def switch_over(node):
        request = urllib.request.Request(f"http://127.0.0.1:{node.pages}/switchover", method="POST",
                                         data=json.dumps({"leader": node.name}).encode())
        opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
        with opener.open(request, timeout=READY_S) as answer:
            if answer.status != 200:
                raise RigError(f"Patroni refuses a switchover: {answer.read()}")


ROWS = [
    Led("Patroni, by haproxy: switchover", "asked", "haproxy"),
    Led("Patroni, by haproxy: the leader is killed", "killed", "haproxy"),
    Led("Patroni, by several hosts: switchover", "asked", "hosts"),
    Led("Patroni, by several hosts: the leader is killed", "killed", "hosts"),
]
