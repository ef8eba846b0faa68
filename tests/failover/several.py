"""Several servers of Redis as one: owns the trio with its sentinels, the cluster, how they fail over, and the watch that
tells when a new master is there and when each listener claims at it again."""
import asyncio
import os
import re
import signal
import time

from rig.process import Process
from rig.servers import Redis
from rig.sockets import free_port
from rig.waiting import SLOW, RigError, wait_until

READY_S = 30 * SLOW
LOOK_S = 0.01
ASK_S = 0.3                     # a server that is frozen does not answer
PASSWORD = "a-password-of-the-fleet"
# A claim as a listener sends it; what a replica gets from its master has no NX.
CLAIM = re.compile(rb'^\+(\d+\.\d+) \[\d+ \d[^\]]*\] "SET" "[^"]+" "(fleet-\d+)-[^"]*" "NX"', re.I)


class Server(Redis):
    def __init__(self, trial, number, *more):
        directory = f"{trial.directory}/redis-{number}"
        os.makedirs(directory)
        super().__init__(directory, free_port(), ("--repl-diskless-sync-delay", "0", *more))

    async def try_ask(self, *words):
        """Empty if it does not answer."""
        try:
            return await asyncio.wait_for(self.ask(*words), ASK_S)
        except (OSError, ValueError, asyncio.TimeoutError, asyncio.IncompleteReadError):
            return b""

    async def is_master(self):
        return b"\nrole:master" in await self.try_ask("INFO", "replication")

    async def is_in_sync(self):
        return b"master_link_status:up" in await self.try_ask("INFO", "replication")


class Several:
    """What a trial asks of one Redis, of all of them."""

    def __init__(self, trial):
        self.trial = trial
        self.servers = []

    async def claims(self, prefix, owner=""):
        found = set()
        for server in self.servers:
            if server.process.returncode is None and await server.is_master():
                found |= await server.claims(prefix, owner)
        return found

    async def masters(self):
        return [server for server in self.servers if await server.is_master()]

    async def other_master(self, known):
        """Not one of those."""
        masters = [server for server in await self.masters() if server not in known]
        return masters[0] if masters else None

    async def stop(self):
        for server in self.servers:
            if server.process:
                server.signal(signal.SIGCONT)
            await server.stop()


class Sentinels(Several):
    """A master, two replicas, and three sentinels."""

    def __init__(self, trial):
        super().__init__(trial)
        self.sentinels = []
        self.ports = []

    @property
    def url(self):
        hosts = ",".join(f"127.0.0.1:{port}" for port in self.ports)
        return f"redis-sentinel://fleet:{PASSWORD}@{hosts}/wsonce/0"

    async def start(self):
        first = Server(self.trial, 1)
        self.servers = [first, *(Server(self.trial, n, "--replicaof", f"127.0.0.1 {first.port}") for n in (2, 3))]
        for server in self.servers:
            await server.start()
            await server.ask("ACL", "SETUSER", "fleet", "on", f">{PASSWORD}", "~*", "&*", "+@all")
        for number in range(3):
            await self.start_sentinel(number, first)
        await wait_until(self.is_whole, READY_S, "the sentinels know each other")

    async def start_sentinel(self, number, master):
        sentinel = Process(f"{self.trial.directory}/sentinel-{number}")
        self.ports.append(free_port())
        with open(f"{sentinel.base}.conf", "w") as file:
            file.write(f"port {self.ports[-1]}\nbind 127.0.0.1\ndir {self.trial.directory}\n"
                       f"sentinel monitor wsonce 127.0.0.1 {master.port} 2\n"
                       "sentinel down-after-milliseconds wsonce 1000\nsentinel failover-timeout wsonce 4000\n")
        await sentinel.launch([Redis.PROGRAM, f"{sentinel.base}.conf", "--sentinel"])
        self.sentinels.append(sentinel)

    async def ask_sentinel(self, number, *words):
        """All that it says."""
        process = await asyncio.create_subprocess_exec(
            "redis-cli", "-p", str(self.ports[number]), "SENTINEL", *words, stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.DEVNULL)
        return (await process.communicate())[0].decode()

    async def is_whole(self):
        in_sync = [await server.is_in_sync() for server in self.servers[1:]]
        quorums = [(await self.ask_sentinel(n, "CKQUORUM", "wsonce")).startswith("OK 3 ") for n in range(3)]
        return all(in_sync + quorums)

    async def has_named(self, master):
        """Whether one of them tells listeners of it."""
        return any([await self.names(port) == master.port for port in self.ports])

    @staticmethod
    async def names(port):
        """Of an array of two strings the second."""
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        try:
            writer.write(b"SENTINEL GET-MASTER-ADDR-BY-NAME wsonce\r\n")
            return int([await reader.readline() for _ in range(5)][-1])
        finally:
            writer.close()

    async def fail_over(self, known):
        """On request. A sentinel that is not over the last one refuses."""
        async def has_begun():
            return (await self.ask_sentinel(0, "FAILOVER", "wsonce")).startswith("OK")
        await wait_until(has_begun, READY_S, "a sentinel begins a failover")

    async def cut_off(self, master):
        """Replicas and sentinels do not reach it any more; the listeners do, and it takes their writes."""
        await master.ask("CONFIG", "SET", "requirepass", "nobody-knows")
        link = f"unix://{master.socket}"
        commands = "CLIENT KILL TYPE replica\nCLIENT KILL TYPE pubsub\nCLIENT KILL USER default SKIPME yes\n"
        process = await asyncio.create_subprocess_exec(
            "redis-cli", "-s", link.removeprefix("unix://"), "--user", "fleet", "--pass", PASSWORD, "--no-auth-warning",
            stdin=asyncio.subprocess.PIPE, stdout=asyncio.subprocess.DEVNULL)
        await process.communicate(commands.encode())

    async def stop(self):
        for sentinel in self.sentinels:
            await sentinel.kill()
        await super().stop()


class Cluster(Several):
    """Three masters with a replica each."""

    @property
    def url(self):
        return "redis://" + ",".join(f"127.0.0.1:{server.port}" for server in self.servers[:3]) + "/0"

    async def start(self):
        self.servers = [Server(self.trial, n, "--cluster-enabled", "yes", "--cluster-node-timeout", "1500", "--cluster-port",
                               str(free_port()), "--cluster-require-full-coverage", "no") for n in range(6)]
        for server in self.servers:
            await server.start()
        made = Process(f"{self.trial.directory}/cluster")
        await made.launch(["redis-cli", "--cluster", "create", *(f"127.0.0.1:{server.port}" for server in self.servers),
                           "--cluster-replicas", "1", "--cluster-yes"])
        if not await made.ends(READY_S):
            raise RigError(f"the cluster is not made: see {made.log_path}")
        await wait_until(self.is_whole, READY_S, "the cluster is whole")

    async def is_whole(self):
        infos = [await server.try_ask("CLUSTER", "INFO") for server in self.servers]
        in_sync = [await server.is_in_sync() for server in self.servers[3:]]
        return all(in_sync) and all(b"cluster_state:ok" in info and b"cluster_known_nodes:6" in info for info in infos)

    async def has_named(self, master):
        """Whether another one sends there for its slots."""
        for server in self.servers:
            if server is not master and server.process.returncode is None:
                nodes = (await server.try_ask("CLUSTER", "NODES")).decode()
                if any(f":{master.port}@" in line and " master " in line and "-" in line.split(" ", 8)[-1]
                       for line in nodes.splitlines()):
                    return True
        return False

    async def fail_over(self, known):
        """On request, which a replica takes."""
        for server in self.servers[3:]:
            if server not in known and f"master_port:{known[0].port}".encode() in await server.try_ask("INFO", "replication"):
                await server.ask("CLUSTER", "FAILOVER")
                return
        raise RigError("the master has no replica")


class Watch:
    """Of one failover, from the moment at which it begins."""

    def __init__(self, several, known, listeners):
        self.several = several
        self.known = known              # servers that cannot be the new master
        self.listeners = listeners      # how many are to claim
        self.began_at = time.time()
        self.master = None
        self.is_master_at = self.is_named_at = 0.0
        self.claimed_at = {}            # listener -> time of its first claim at the new master
        self.tasks = []

    async def run(self):
        """Until all claim at the new master."""
        try:
            await asyncio.wait_for(self.follow(), READY_S)
        except asyncio.TimeoutError:
            raise RigError("the listeners do not claim at a new master") from None
        finally:
            for task in self.tasks:
                task.cancel()

    async def follow(self):
        for server in self.several.servers:
            if server not in self.known:
                self.tasks.append(asyncio.get_running_loop().create_task(self.hear(server)))
        while not self.master:
            self.master = await self.several.other_master(self.known)
            await asyncio.sleep(LOOK_S)
        self.is_master_at = time.time()
        while not await self.several.has_named(self.master):
            await asyncio.sleep(LOOK_S)
        self.is_named_at = time.time()
        while len(self.claimed_at) < self.listeners:
            await asyncio.sleep(LOOK_S)

    async def hear(self, server):
        """Sentinels end connections of a server whose part changes."""
        while True:
            try:
                reader, writer = await asyncio.open_unix_connection(server.socket, limit=1 << 24)
                writer.write(b"MONITOR\r\n")
                while line := await reader.readline():
                    found = CLAIM.match(line)
                    if found:
                        self.claimed_at.setdefault(found.group(2), float(found.group(1)))
            except (OSError, asyncio.IncompleteReadError, ValueError):
                pass
            await asyncio.sleep(LOOK_S)

    @property
    def again_s(self):
        """From the moment at which somebody tells of the new master, to the last listener's first claim at it."""
        return max(0.0, max(self.claimed_at.values()) - self.is_named_at)

    def cells(self):
        return (f"{self.is_master_at - self.began_at:.2f} | {self.is_named_at - self.began_at:.2f} | "
                f"{max(self.claimed_at.values()) - self.is_master_at:.2f} | {self.again_s:.2f}")
