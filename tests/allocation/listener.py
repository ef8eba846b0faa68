"""A listener with an allocation that fails: owns its process, its files, and what can be told from them."""
import asyncio
import os
import re
import signal
import struct
import time

import admin
from servers import send_signal, start

SENTENCE = re.compile(r'^(?:.*level=error (?:instance=\S+ )?event=|(?=wsonce: ))(.*)$', re.M)


class Listener:
    """Its allocations are counted in a file that preload.c maps: count, which one is to fail, which one did."""

    def __init__(self, rig, name):
        self.rig = rig
        self.name = name
        self.allocations = f"{rig.directory}/{name}"
        self.log = f"{rig.directory}/{name}.log"
        self.admin = f"{rig.directory}/{name}.sock"
        self.process = None
        self.port = None
        self.started = 0
        self.is_traced = False

    def command(self, number):
        return ["env", f"LD_PRELOAD={self.rig.preload}", f"WSONCE_ALLOCATIONS={self.allocations}",
                f"SSL_CERT_FILE={self.rig.ca}", "SSL_CERT_DIR=/nonexistent",
                *([f"WSONCE_ALLOCATION_SITES={self.allocations}.sites"] if self.is_traced else []),
                f"{self.rig.programs}/wsonce", "listen", "--instance-id", self.name,
                "--source", f"ws://127.0.0.1:{self.rig.source.port}/{number}", "--source-ca", self.rig.ca,
                "--ingest", "127.0.0.1:0", "--admin", f"unix:{self.admin}",
                "--redis", f"unix://{self.rig.redis.socket}", "--redis-timeout", "1",
                "--postgres", f"host={self.rig.postgres.directory} user=wsonce dbname=wsonce",
                "--postgres-timeout", "5", "--claim-ttl", "1", "--drain-timeout", "4", "--handshake-timeout", "3"]

    async def start(self, number, failing):
        """number names the source's event."""
        for path in (self.log, self.admin, f"{self.allocations}.crash", f"{self.allocations}.failed"):
            if os.path.exists(path):
                os.unlink(path)
        with open(self.allocations, "wb") as file:
            file.write(struct.pack("<3Q", 0, failing, 0))
        self.port = None
        self.started = time.monotonic()
        self.process = await start(self.command(number), self.log)

    # --- allocations ---

    def read(self):
        with open(self.allocations, "rb") as file:
            return struct.unpack("<3Q", file.read())

    def count(self):
        return self.read()[0]

    def failed(self):
        return self.read()[2]

    def sites(self):
        """Of each allocation, where it was asked for, as a number."""
        with open(f"{self.allocations}.sites", "rb") as file:
            data = file.read()
        return struct.unpack(f"<{len(data) // 8}Q", data)

    def arm(self, number):
        with open(self.allocations, "r+b", buffering=0) as file:
            file.seek(8)
            file.write(struct.pack("<2Q", number, 0))

    # --- states ---

    def has_ended(self):
        return self.process.returncode is not None

    def is_late(self, seconds):
        return time.monotonic() - self.started > seconds

    async def ends_soon(self):
        """A connection that ended may be the first that is seen of the process's end."""
        try:
            await asyncio.wait_for(asyncio.shield(self.process.wait()), 0.3)
        except asyncio.TimeoutError:
            return False
        return True

    async def page(self, path):
        try:
            return await asyncio.wait_for(admin.fetch(self.admin, path), 5)
        except (OSError, asyncio.TimeoutError):
            return ""

    async def wait_until(self, predicate, seconds):
        """False if it ended before, or was not so in time."""
        while not self.has_ended() and not self.is_late(seconds):
            if await predicate():
                return True
            await asyncio.sleep(0.005)
        return False

    async def is_ready(self):
        if not os.path.exists(self.admin) or not (await self.page("/readyz")).endswith("\r\n\r\nready\n"):
            return False
        with open(self.log, "rb") as file:
            self.port = admin.find_port(file.read()) or 1
        return True

    async def wait_ready(self, seconds):
        return await self.wait_until(self.is_ready, seconds)

    # --- the end ---

    async def end(self, seconds):
        send_signal(self.process.pid, signal.SIGTERM)
        try:
            await asyncio.wait_for(asyncio.shield(self.process.wait()), seconds)
        except asyncio.TimeoutError:
            return False
        return True

    async def kill(self):
        if self.process and not self.has_ended():
            send_signal(self.process.pid, signal.SIGKILL)
            await self.process.wait()

    # --- what is left of it ---

    def text(self, path):
        if not os.path.exists(path):
            return ""
        with open(path, errors="replace") as file:
            return file.read()

    def sentence(self):
        """The last thing that it said, if that is an error. An error of an earlier round does not count."""
        lines = self.text(self.log).splitlines()
        found = SENTENCE.match(lines[-1]) if lines else None
        return found.group(1) if found else None

    def find_crash(self, known):
        """The entry of known (library, function) that is in the crash's trace, or None."""
        trace = self.text(f"{self.allocations}.crash")
        for library, function in known:
            if re.search(rf"/{re.escape(library)}[^\n]*\({re.escape(function)}\+", trace):
                return library, function
        return None

    def story(self):
        parts = [("log", self.text(self.log)[-2000:]), ("the allocation", self.text(f"{self.allocations}.failed")),
                 ("the crash", self.text(f"{self.allocations}.crash"))]
        return "".join(f"--- {name}\n{text}" for name, text in parts if text)
