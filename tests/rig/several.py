"""Several servers of Redis as one: owns the trio with its sentinels, the cluster, and how they fail over."""
import asyncio
import os
import signal

from rig.process import Process
from rig.servers import Redis
from rig.sockets import free_port
from rig.waiting import SLOW, RigError, comes_true, wait_until

READY_S = 90 * SLOW             # sentinels that were not elected wait before they try again
ASK_S = 1 * SLOW                # a server that is frozen does not answer
PASSWORD = "a-password-of-the-fleet"


class Server(Redis):
    def __init__(self, trial, number, *more):
        directory = f"{trial.directory}/redis-{number}"
        os.makedirs(directory, exist_ok=True)
        super().__init__(directory, free_port(), ("--repl-diskless-sync-delay", "0", *more))

    async def try_ask(self, *words):
        """Returns its answer, empty if it does not answer."""
        try:
            async with asyncio.timeout(ASK_S):      # wait_for() may swallow that the run ends
                return await self.ask(*words)
        except (OSError, ValueError, asyncio.IncompleteReadError):
            return b""

    async def is_master(self):
        return b"\nrole:master" in await self.try_ask("INFO", "replication")

    async def is_in_sync(self):
        return b"master_link_status:up" in await self.try_ask("INFO", "replication")


class Several:
    """The interface of one Redis, for all of them."""

    def __init__(self, trial):
        self.trial = trial
        self.servers = []

    async def claims(self, prefix, owner=""):
        found = set()
        for server in self.servers:
            if server.process.returncode is None and await server.is_master():
                found |= await server.claims(prefix, owner)
        return found

    async def those(self, question):
        """Returns the servers for which question(server) is true."""
        answers = await asyncio.gather(*(question(server) for server in self.servers))
        return [server for server, answer in zip(self.servers, answers) if answer]

    async def masters(self):
        return await self.those(Server.is_master)

    async def replicas(self):
        return await self.those(Server.is_in_sync)

    async def ask(self, *words):
        """Sends a command to each master."""
        for master in await self.masters():
            await master.ask(*words)

    def signal(self, number):
        for server in self.servers:
            server.signal(number)

    async def other_master(self, known):
        """Returns a master that is not one of the known ones."""
        masters = [server for server in await self.masters() if server not in known]
        return masters[0] if masters else None

    async def become_whole(self):
        """Returns the masters. Servers that this process, when it is late, takes for frozen are asked again."""
        masters = []
        while not masters:
            await wait_until(self.is_whole, READY_S, "each server of Redis has its part")
            masters = await self.masters()
        return masters

    async def stop(self):
        for server in self.servers:
            if server.process and server.process.returncode is None:
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
        user = ("--user", "fleet", "on", f">{PASSWORD}", "~*", "&*", "+@all")
        first = Server(self.trial, 1, *user)
        self.servers = [first, *(Server(self.trial, n, *user, "--replicaof", f"127.0.0.1 {first.port}") for n in (2, 3))]
        for server in self.servers:
            await server.start()
        for number in range(3):
            await self.start_sentinel(number, first)
        await self.become_whole()

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
        """Returns the whole answer of a sentinel."""
        process = await asyncio.create_subprocess_exec(
            "redis-cli", "-p", str(self.ports[number]), "SENTINEL", *words, stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.DEVNULL)
        return (await process.communicate())[0].decode()

    async def is_whole(self):
        masters, replicas = await self.masters(), await self.replicas()
        if len(masters) != 1 or len(replicas) != len(self.servers) - 1 or not await self.has_named(masters[0], all):
            return False
        return all([(await self.ask_sentinel(n, "CKQUORUM", "wsonce")).startswith("OK 3 ") for n in range(3)])

    async def become_whole(self):
        """When a failover overtakes another, all servers may be replicas of each other. Sentinel finds no good one then, for
        ever, so an operator frees the one that it names."""
        if not await comes_true(self.is_whole, READY_S) and not await self.masters():
            named = await self.names(self.ports[0])
            for server in self.servers:
                if server.port == named:
                    await server.ask("REPLICAOF", "NO", "ONE")
        return await super().become_whole()

    async def has_named(self, master, of=any):
        """Returns whether any (or all) of the sentinels name this master to listeners."""
        return of([await self.names(port) == master.port for port in self.ports])

    @staticmethod
    async def names(port):
        """Returns the second of two strings in the answer; 0 if there is no answer."""
        try:
            reader, writer = await asyncio.open_connection("127.0.0.1", port)
        except OSError:
            return 0
        try:
            writer.write(b"SENTINEL GET-MASTER-ADDR-BY-NAME wsonce\r\n")
            return int([await reader.readline() for _ in range(5)][-1])
        except (OSError, ValueError):
            return 0
        finally:
            writer.close()

    async def fail_over(self, known):
        """Requests a failover. A sentinel that has not finished the last one refuses."""
        async def has_begun():
            return (await self.ask_sentinel(0, "FAILOVER", "wsonce")).startswith("OK")
        await wait_until(has_begun, READY_S, "a sentinel begins a failover")

    async def cut_off(self, master):
        """Replicas and sentinels can no longer reach the master; listeners can, and it takes their writes."""
        await master.ask("CONFIG", "SET", "requirepass", "nobody-knows")
        await self.tell(master, "CLIENT KILL TYPE replica", "CLIENT KILL TYPE pubsub", "CLIENT KILL USER default SKIPME yes")

    async def join_again(self, master):
        await self.tell(master, "CONFIG SET requirepass ''")

    @staticmethod
    async def tell(server, *commands):
        """Sends commands as the fleet's user, whom a server that is cut off still accepts."""
        process = await asyncio.create_subprocess_exec(
            "redis-cli", "-s", server.socket, "--user", "fleet", "--pass", PASSWORD, "--no-auth-warning",
            stdin=asyncio.subprocess.PIPE, stdout=asyncio.subprocess.DEVNULL)
        await process.communicate("".join(f"{command}\n" for command in commands).encode())

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
            made.fail("did not make the cluster")
        await self.become_whole()

    async def is_whole(self):
        infos = await asyncio.gather(*(server.try_ask("CLUSTER", "INFO") for server in self.servers))
        return (len(await self.masters()) == len(await self.replicas()) == 3
                and all(b"cluster_state:ok" in info and b"cluster_known_nodes:6" in info for info in infos))

    async def has_named(self, master):
        """Returns whether another server redirects to this master for its slots."""
        for server in self.servers:
            if server is not master and server.process.returncode is None:
                nodes = (await server.try_ask("CLUSTER", "NODES")).decode()
                if any(f":{master.port}@" in line and " master " in line and "-" in line.split(" ", 8)[-1]
                       for line in nodes.splitlines()):
                    return True
        return False

    async def fail_over(self, known):
        """Requests a failover, from a replica."""
        for server in self.servers:
            if server not in known and f"master_port:{known[0].port}".encode() in await server.try_ask("INFO", "replication"):
                await server.ask("CLUSTER", "FAILOVER")
                return
        raise RigError("the master has no replica")

    async def run_tool(self, what, server, *words):
        """Tries again while the nodes do not agree, as just after a failover or a move."""
        async def works():
            tool = Process(f"{self.trial.directory}/{what}")
            await tool.launch(["redis-cli", "--cluster", what, f"127.0.0.1:{server.port}", "--cluster-yes", *words])
            return await tool.ends(READY_S) and not tool.process.returncode
        await wait_until(works, READY_S, f"redis-cli --cluster {what} moves slots")

    async def reshard(self, giver, taker, slots):
        """Moves slots while the fleet uses their keys. A failover may have cut off an earlier move, which leaves its slots open."""
        words = [(await server.ask("CLUSTER", "MYID")).decode() for server in (giver, taker)]
        await self.run_tool("fix", giver)
        await self.run_tool("reshard", giver, "--cluster-from", words[0], "--cluster-to", words[1], "--cluster-slots", str(slots))
