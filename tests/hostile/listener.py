"""The listener under attack: owns its process, and reads its metrics and what the kernel reports about it."""
import os
import signal

import rig.listener
from rig.proc import cpu_s, memory_mib
from rig.waiting import wait_until


class Listener(rig.listener.Listener):
    """A listener with the default settings, except flags."""

    def __init__(self, rig, name, *flags, admin=None):
        super().__init__(f"{rig.directory}/{name}", admin)
        self.rig = rig
        self.flags = flags

    async def start(self, *flags):
        await self.launch(self.words(f"{self.rig.programs}/wsonce", self.rig.redis_url, self.rig.conninfo, "--ingest",
                                     "127.0.0.1:0", *self.flags, *flags))
        await wait_until(self.is_at_work, 60, f"the listener is ready (see {self.log_path})")

    async def is_at_work(self):
        if self.is_over:
            self.fail("did not start")
        return self.find_port() and await self.metric("postgres_up") == 1

    def memory(self, name):
        """Returns VmRSS or VmHWM in bytes; 0 if the process is gone."""
        return int(memory_mib(self.process.pid, name) * (1 << 20))

    def files(self):
        return len(os.listdir(f"/proc/{self.process.pid}/fd")) if self.is_alive else 0

    def cpu_s(self):
        return cpu_s(self.process.pid)

    async def leave(self, seconds):
        """Ends it. Returns its exit status."""
        return await self.end(signal.SIGTERM, seconds)
