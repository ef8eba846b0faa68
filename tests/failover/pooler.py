"""A PgBouncer in transaction mode: owns its settings and its target."""
import os
import shutil
import signal

from rig.process import Process
from rig.waiting import RigError, wait_until

SETTINGS = """[databases]
* = host={home} port=5432 user=wsonce
[pgbouncer]
listen_addr =
listen_port = 5432
unix_socket_dir = {place}
unix_socket_mode = 0777
auth_type = any
pool_mode = transaction
default_pool_size = 4
server_login_retry = 0.1
"""


class Pooler(Process):
    def __init__(self, trial):
        super().__init__(f"{trial.directory}/pooler")
        self.place = f"{trial.directory}/pooler"
        self.settings = f"{self.place}/pgbouncer.ini"
        self.socket = f"{self.place}/.s.PGSQL.5432"

    async def start(self, node):
        if not shutil.which("pgbouncer"):
            raise RigError("no pgbouncer program: install it")
        node.own(self.place)
        self.write(node)
        await self.launch(["pgbouncer", self.settings], user=node.user)
        await wait_until(lambda: os.path.exists(self.socket), 15, "PgBouncer listens")

    def write(self, node):
        with open(self.settings, "w") as file:
            file.write(SETTINGS.format(home=node.home, place=self.place))

    def lead_to(self, node):
        """Changes the target. Existing connections end after their transaction."""
        self.write(node)
        self.signal(signal.SIGHUP)

    async def stop(self):
        await self.kill()

    def conninfo(self, database):
        return f"host={self.place} port=5432 user=wsonce dbname={database}"
