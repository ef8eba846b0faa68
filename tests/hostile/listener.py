"""The listener under attack: owns its process, and reads what it says of itself and what the kernel says of it."""
import asyncio
import os
import re
import signal

import admin
from servers import RigError, send_signal, start, wait_until

TICKS = os.sysconf("SC_CLK_TCK")


class Listener:
    def __init__(self, rig, flags, name="listener", admin_port=0):
        self.rig = rig
        self.flags = flags
        self.log = f"{rig.directory}/{name}.log"
        self.admin = f"127.0.0.1:{admin_port}" if admin_port else f"{rig.directory}/{name}.sock"
        self.port = 0
        self.process = None

    async def start(self):
        command = [f"{self.rig.programs}/wsonce", "listen", "--ingest", "127.0.0.1:0", "--admin", self.admin if ":" in self.admin else f"unix:{self.admin}",
                   "--redis", f"unix://{self.rig.redis.socket}", "--postgres", self.rig.conninfo, *self.flags]
        self.process = await start(command, self.log)
        await wait_until(self.is_ready, 20, f"the listener is ready (see {self.log})")

    async def is_ready(self):
        if not self.is_alive():
            raise RigError(f"the listener did not start: see {self.log}")
        with open(self.log, "rb") as file:
            self.port = admin.find_port(file.read())
        return self.port and (await self.metrics()).get("postgres_up") == 1

    def is_alive(self):
        return self.process.returncode is None

    async def metrics(self):
        """Empty if it does not answer."""
        try:
            text = await asyncio.wait_for(admin.fetch(self.admin, "/metrics"), 5)
        except (OSError, asyncio.TimeoutError):
            return {}
        return admin.read_metrics(text)

    def memory(self, name):
        """VmRSS or VmHWM, in bytes; 0 when the process is gone."""
        try:
            with open(f"/proc/{self.process.pid}/status") as file:
                return int(re.search(rf"^{name}:\s+(\d+) kB", file.read(), re.M).group(1)) << 10
        except (OSError, AttributeError):
            return 0

    def files(self):
        return len(os.listdir(f"/proc/{self.process.pid}/fd")) if self.is_alive() else 0

    def cpu_s(self):
        return cpu_s(self.process.pid)

    def log_lines(self):
        with open(self.log, "rb") as file:
            return file.read().splitlines()

    async def stop(self, seconds):
        send_signal(self.process.pid, signal.SIGTERM)
        await asyncio.wait_for(self.process.wait(), seconds)
        return self.process.returncode

    async def end(self):
        if self.process and self.is_alive():
            send_signal(self.process.pid, signal.SIGKILL)
            await self.process.wait()


def cpu_s(pid):
    """Seconds of CPU of a process so far, user and system (proc(5), stat)."""
    try:
        with open(f"/proc/{pid}/stat") as file:
            words = file.read().rpartition(")")[2].split()
    except OSError:
        return 0.0
    return (int(words[11]) + int(words[12])) / TICKS
