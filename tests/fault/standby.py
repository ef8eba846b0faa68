"""A standby of the rig's Postgres: owns its making, the way by which it hears of commits, and how it takes the
primary's place. What was not replicated by then is gone, as after any failover."""
from proxy import Link
from rig.process import start
from rig.servers import Postgres
from rig.waiting import RigError, wait_until

READY_S = 30


class Standby:
    def __init__(self, primary):
        self.primary = primary
        self.node = Postgres(primary.base, primary.settings, primary.with_disk, primary.number + 1)
        self.link = Link("standby", lambda: f"{primary.home}/.s.PGSQL.5432")

    async def start(self, is_synchronous):
        node = self.node
        node.make_home()
        await self.link.open()
        command = [f"{node.bin}/pg_basebackup", "-h", "127.0.0.1", "-p", str(self.link.port), "-U", "postgres", "-D", node.data,
                   "-R", "-c", "fast", "--no-sync", "--no-manifest"]
        if self.primary.has_disk:
            command += ["-T", f"{self.primary.space}={node.space}"]
        process = await start(command, node.log, user=node.user, cwd=node.home)
        if await process.wait():
            raise RigError(f"pg_basebackup failed: see {node.log}")
        await node.start()
        await wait_until(self.is_streaming, READY_S, "the standby streams")
        if is_synchronous:
            await self.primary.sql("ALTER SYSTEM SET synchronous_standby_names = '*'")
            await self.primary.sql("SELECT pg_reload_conf()")
            await wait_until(self.is_synchronous, READY_S, "the standby is synchronous")

    async def is_streaming(self):
        return await self.primary.sql("SELECT count(*) FROM pg_stat_replication WHERE state = 'streaming'") == "1"

    async def is_synchronous(self):
        return await self.primary.sql("SELECT count(*) FROM pg_stat_replication WHERE sync_state <> 'async'") == "1"

    def fall_behind(self):
        """From here on it hears of no commit."""
        self.link.hold(True, True)

    async def promote(self):
        """The primary dies at once; what was on its way to the standby is lost."""
        node = self.node
        await self.primary.crash()
        self.link.close()
        if await node.sql("SELECT pg_promote(true, 30)") != "t":
            raise RigError(f"the standby was not promoted: see {node.log}")
        node.take_place()
        self.primary.remove()
        return node
