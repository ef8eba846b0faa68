"""A standby of a rig's Postgres: makes it, delays its replication, and promotes it. Commits that were not replicated by
then are lost, as after any failover."""
from proxy import Link
from rig.process import start
from rig.servers import Postgres
from rig.waiting import RigError, wait_until

READY_S = 90


class Standby:
    """node: an existing cluster to rewind; else a new one is made."""

    def __init__(self, primary, number=None, node=None):
        self.primary = primary
        self.node = node or Postgres(primary.base, primary.settings, primary.with_disk, number or primary.number + 1)
        self.name = f"standby{self.node.number}"
        self.link = Link(self.name, lambda: f"{primary.home}/.s.PGSQL.5432")

    async def start(self, is_synchronous, settings=""):
        """settings: in addition to the primary's."""
        node = self.node
        node.make_home()
        await self.link.open()
        words = ["-h", "127.0.0.1", "-p", str(self.link.port), "-U", "postgres", "-D", node.data, "-c", "fast", "--no-sync",
                 "--no-manifest"]
        if self.primary.has_disk:
            words += ["-T", f"{self.primary.space}={node.space}"]
        await self.run("pg_basebackup", *words)
        await self.follow(settings)
        if is_synchronous:
            await self.primary.set(synchronous_standby_names="*")
            await wait_until(self.is_synchronous, READY_S, "the standby is synchronous")

    async def rewind(self):
        """Removes what the node has and the primary does not have; then it follows the primary."""
        await self.link.open()
        await self.run("pg_rewind", "-D", self.node.data, "--no-sync",
                       "--source-server", f"host=127.0.0.1 port={self.link.port} user=postgres dbname=postgres")
        await self.follow()

    async def run(self, program, *words):
        node = self.node
        process = await start([f"{node.bin}/{program}", *words], node.log, user=node.user, cwd=node.home)
        if await process.wait():
            raise RigError(f"{program} failed: see {node.log}")

    async def follow(self, settings=""):
        node = self.node
        with open(f"{node.data}/postgresql.auto.conf", "w") as file:
            file.write(f"primary_conninfo = 'host=127.0.0.1 port={self.link.port} user=postgres "
                       f"application_name={self.name}'\n{settings}")
        open(f"{node.data}/standby.signal", "w").close()
        await node.start()
        await wait_until(self.is_streaming, READY_S, "the standby streams")

    async def told(self, condition):
        """Returns whether the condition holds for it, according to the primary."""
        return await self.primary.sql("SELECT count(*) FROM pg_stat_replication WHERE application_name = "
                                      f"'{self.name}' AND {condition}") == "1"

    async def is_streaming(self):
        return await self.told("state = 'streaming'")

    async def is_synchronous(self):
        return await self.told("sync_state <> 'async'")

    def fall_behind(self):
        """From now on it receives no commits."""
        self.link.hold(True, True)

    async def take_over(self):
        """Takes over. Data on its way from the primary is lost."""
        self.link.close()
        if await self.node.sql("SELECT pg_promote(true, 90)") != "t":
            raise RigError(f"the standby was not promoted: see {self.node.log}")
        self.node.take_place()
        return self.node

    async def promote(self):
        """Kills the primary and promotes the standby."""
        await self.primary.crash()
        await self.take_over()
        self.primary.remove()
        return self.node
