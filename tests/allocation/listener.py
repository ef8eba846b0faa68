"""A listener with an allocation or a call that fails: owns its process and its files, and reads the outcome from them."""
import asyncio
import glob
import os
import re
import struct
import time

import rig.listener
from rig.process import read_text

# What fails: an allocation, a call, or a call of a listener that stores in a file, without any server.
ALLOCATION, CALL, FILE_CALL = "allocation", "call", "call beside a file"
SENTENCE = re.compile(r'^(?:.*level=error (?:instance=\S+ )?event=|(?=wsonce: ))(.*)$', re.M)


class Listener(rig.listener.Listener):
    """Its allocations are counted in a file that preload.c maps: count, which one is to fail, which one did."""

    def __init__(self, rig, name, kind):
        super().__init__(f"{rig.directory}/{name}")
        self.kind = kind
        self.file = f"{self.base}.db"   # of a FILE_CALL, made anew in each life
        self.rig = rig
        self.allocations = self.base
        self.started = 0
        self.is_traced = False

    def command(self, number):
        env = {"LD_PRELOAD": self.rig.preload, "WSONCE_ALLOCATIONS": self.allocations, "SSL_CERT_FILE": self.rig.ca,
               "SSL_CERT_DIR": "/nonexistent"}
        if self.kind != ALLOCATION:
            env["WSONCE_FAILING"] = "calls"
        if self.is_traced:
            env["WSONCE_ALLOCATION_SITES"] = f"{self.allocations}.sites"
        stores = ["--redis", self.rig.redis_url, "--redis-timeout", "1", "--postgres", self.rig.conninfo,
                  "--postgres-timeout", "5", "--claim-ttl", "1"]
        return ["env", *(f"{name}={value}" for name, value in env.items()), f"{self.rig.programs}/wsonce", "listen",
                "--instance-id", self.name, "--admin", f"unix:{self.admin}",
                *(["--store", f"sqlite://{self.file}"] if self.kind == FILE_CALL else stores),
                "--source", f"ws://127.0.0.1:{self.rig.source.port}/{number}", "--source-ca", self.rig.ca,
                "--ingest", "127.0.0.1:0", "--drain-timeout", "4", "--handshake-timeout", "3"]

    async def start(self, number, failing):
        """number names the source's event."""
        for path in (self.log_path, self.admin, f"{self.allocations}.crash", f"{self.allocations}.failed",
                     *glob.glob(f"{self.file}*")):
            if os.path.exists(path):
                os.unlink(path)
        with open(self.allocations, "wb") as file:
            file.write(struct.pack("<3Q", 0, failing, 0))
        self.port = 0
        self.started = time.monotonic()
        await self.launch(self.command(number))

    # --- allocations ---

    def read(self):
        with open(self.allocations, "rb") as file:
            return struct.unpack("<3Q", file.read())

    def count(self):
        return self.read()[0]

    def failed(self):
        return self.read()[2]

    def sites(self):
        """Returns, as a number, where each allocation was made."""
        with open(f"{self.allocations}.sites", "rb") as file:
            data = file.read()
        return struct.unpack(f"<{len(data) // 8}Q", data)

    def arm(self, number):
        with open(self.allocations, "r+b", buffering=0) as file:
            file.seek(8)
            file.write(struct.pack("<2Q", number, 0))

    # --- states ---

    def is_late(self, seconds):
        return time.monotonic() - self.started > seconds

    async def ends_soon(self):
        """Waits for the end: a connection that ended may be the first sign of it."""
        return await self.ends(0.3)

    async def wait_until(self, predicate, seconds):
        """Returns False if it ended before the predicate was true, or if that took too long."""
        while not self.is_over and not self.is_late(seconds):
            if await predicate():
                return True
            await asyncio.sleep(0.005)
        return False

    async def is_ready(self):
        return await super().is_ready() and self.find_port()

    async def wait_ready(self, seconds):
        return await self.wait_until(self.is_ready, seconds)

    # --- what is left of it ---

    def sentence(self):
        """Returns its last log line if that is an error. An error of an earlier round does not count."""
        lines = self.log().splitlines()
        found = SENTENCE.match(lines[-1]) if lines else None
        return found.group(1) if found else None

    def says_once(self, words):
        return self.log().count(words) == 1

    def find_crash(self, known):
        """Returns the entry of known (library, function) in the crash's trace, or None."""
        trace = read_text(f"{self.allocations}.crash")
        for library, function in known:
            if re.search(rf"/{re.escape(library)}[^\n]*\({re.escape(function)}\+", trace):
                return library, function
        return None

    def story(self):
        parts = [("log", self.log()[-2000:]), ("the allocation", read_text(f"{self.allocations}.failed")),
                 ("the crash", read_text(f"{self.allocations}.crash"))]
        return "".join(f"--- {name}\n{text}" for name, text in parts if text)
