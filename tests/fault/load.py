"""The load of the figures: owns the project's own load programs as children, and what they say they have sent. Both
keep a timetable of their own, so event number n of a prefix was due n / rate seconds after the first."""
import asyncio
import json
import os
import re
import signal

from servers import RigError, send_signal, start, wait_until

ESTABLISHED = "01"
PORT_LINE = re.compile(rb"listening on ws://[^ ]*:(\d+)")


class Program:
    def __init__(self, fleet, prefix, rate):
        self.fleet = fleet
        self.prefix = prefix
        self.rate = rate
        self.base = f"{fleet.directory}/{prefix}"
        self.process = None
        self.summary = {}

    async def launch(self, command):
        with open(f"{self.base}.json", "wb") as out:
            self.process = await start(command, f"{self.base}.log", stdout=out)

    async def stop(self, number, seconds):
        """Ends the sending, waits for the end of the program, and reads what it says."""
        send_signal(self.process.pid, number)
        try:
            await asyncio.wait_for(self.process.wait(), seconds)
        except asyncio.TimeoutError:
            raise RigError(f"{self.prefix} did not end within {seconds} s of its signal") from None
        with open(f"{self.base}.json") as file:
            text = file.read()
        if not text:
            raise RigError(f"{self.prefix} said nothing in the end, status {self.process.returncode}")
        self.summary = json.loads(text)


class Source(Program):
    """A wsonce-source: the feed without replay. It begins when all listeners of the fleet are connected."""

    def __init__(self, fleet, prefix, rate):
        super().__init__(fleet, prefix, rate)
        self.port = 0
        self.payload_bytes = 100

    async def start(self):
        await self.launch([f"{self.fleet.programs}/wsonce-source", "--listen", "127.0.0.1:0", "--count", "0", "--rate",
                           str(self.rate), "--id-prefix", self.prefix, "--wait-listeners", str(self.fleet.size),
                           "--stall-timeout", "0", "--payload-bytes", str(self.payload_bytes), "--ledger", f"{self.base}.ledger", "--json"])
        await wait_until(self.find_port, 20, "the feed listens")

    async def find_port(self):
        with open(f"{self.base}.log", "rb") as file:
            found = PORT_LINE.search(file.read())
        self.port = int(found.group(1)) if found else 0
        return bool(found)

    async def end(self):
        await self.stop(signal.SIGTERM, 60)

    def sent(self):
        with open(f"{self.base}.ledger") as file:
            return {line.rstrip("\n") for line in file}

    def unsent_bytes(self):
        """Of each connection: what the feed has written and the other side's kernel has not taken. A listening
        socket of libwebsockets is one of IPv6 that takes both."""
        found = []
        for name in ("tcp", "tcp6"):
            with open(f"/proc/net/{name}") as file:
                for words in map(str.split, file):
                    if words[1].endswith(f":{self.port:04X}") and words[3] == ESTABLISHED:
                        found.append(int(words[4].split(":")[0], 16))
        return found


class Sender(Program):
    """A wsonce-producer that wants acks, with two connections to each listener of the fleet."""

    async def start(self):
        command = [f"{self.fleet.programs}/wsonce-producer", "--count", "0", "--rate", str(self.rate), "--id-prefix",
                   self.prefix, "--connections", str(2 * self.fleet.size), "--timeout", "600", "--ledger",
                   f"{self.base}.ledger", "--json"]
        for listener in self.fleet.listeners:
            command += ["--to", f"ws://127.0.0.1:{listener.ingest_port}/events"]
        before = await self.fleet.total("ingest_connections")
        await self.launch(command)

        async def is_connected():
            return await self.fleet.total("ingest_connections") >= before + 2 * self.fleet.size
        await wait_until(is_connected, 20, f"{self.prefix} is connected")

    async def end(self):
        """Ends the sending and waits for the acks."""
        await self.stop(signal.SIGINT, 180)

    def acks(self):
        if not os.path.exists(f"{self.base}.ledger"):
            raise RigError(f"{self.prefix} left no ledger")
        with open(f"{self.base}.ledger") as file:
            return dict(line.rstrip("\n").split("\t") for line in file)
