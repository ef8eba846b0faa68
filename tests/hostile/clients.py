"""The clients of a run: owns the crowds of hostile ones (crowd.c), and the ordinary producers, which are
wsonce-producer. The program run says what they must not cause."""
import asyncio
import signal

from rig.load import Producer
from rig.process import Process

ADDRESSES = {}                      # per kind, so that none runs out of ports


def source_address(kind):
    return ADDRESSES.setdefault(kind, f"127.0.0.{len(ADDRESSES) + 2}")


class Crowd(Process):
    """COUNT hostile clients of one kind in one process."""

    def __init__(self, rig, kind, count):
        super().__init__(f"{rig.directory}/{kind}")
        self.rig = rig
        self.kind = kind
        self.count = count
        self.figures = {}

    async def start(self, port):
        await self.launch_to_hear([f"{self.rig.tree}/build/tests/hostile/crowd", self.kind, str(port), str(self.count),
                                   source_address(self.kind)])

    def take(self, line):
        pairs = [word.split("=") for word in line.decode().split()]
        self.figures = {key: float(value) for key, value in pairs if key != "kind"}

    def figure(self, name):
        return self.figures.get(name, 0)

    async def leave(self):
        if self.is_alive:
            self.signal(signal.SIGTERM)
        if self.hearing:
            await asyncio.wait_for(self.hearing, 60)
            if self.process.returncode:
                self.fail(f"of {self.kind} clients ended with {self.process.returncode}")

    def describe(self):
        f = self.figure
        text = f"{self.kind}: {f('dialled'):.0f} dialled, {f('opened'):.0f} opened, {f('ended'):.0f} ended by the listener"
        if f("messages"):
            text += f", {f('messages'):.0f} messages, {f('bytes') / 1e6:.1f} MB"
        return text + f", {f('cpu_s'):.1f} s of CPU"


class Ordinary(Producer):
    """Producers that read their acks, at full speed from start to stop."""

    # Sockets are read in turn, up to 64 KiB of each, which is 390 messages of a flooding client: so 400 ordinary producers
    # with 300 events each get three quarters of a round, and 102 that flood get the rest.
    connections = 400
    WINDOW = 300

    async def begin(self, rig):
        await self.start(f"{rig.tree}/build", [rig.listener.port], "--connections", str(self.connections), "--window",
                         str(self.WINDOW), "--count", "0", "--retry-after", "120", "--timeout",
                         "120", "--verify", rig.conninfo)

    async def finish(self, seconds):
        """Waits for the last acks and the comparison with the table. Returns exit status and figures."""
        status = await self.end(signal.SIGINT, seconds)
        return status, self.told()
