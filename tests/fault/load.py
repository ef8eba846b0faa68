"""The load of the figures: owns the feed and the producers of a fleet, and reads what they have sent."""
import signal

import rig.load
from rig.waiting import wait_until

ESTABLISHED = "01"


class Source(rig.load.Source):
    """The feed without replay. It begins when all listeners of the fleet are connected."""

    def __init__(self, fleet, name, rate):
        super().__init__(f"{fleet.directory}/{name}")
        self.fleet = fleet
        self.rate = rate
        self.payload_bytes = 100

    async def begin(self):
        await self.start(self.fleet.programs, "--count", "0", "--rate", str(self.rate), "--wait-listeners",
                         str(self.fleet.size), "--payload-bytes", str(self.payload_bytes), "--ledger", self.ledger)

    async def finish(self):
        await self.end(signal.SIGTERM, 60)

    def unsent_bytes(self):
        """Returns, per connection, the bytes that the feed has written and the other kernel has not taken. libwebsockets
        listens on an IPv6 socket that accepts both."""
        found = []
        for name in ("tcp", "tcp6"):
            with open(f"/proc/net/{name}") as file:
                for words in map(str.split, file):
                    if words[1].endswith(f":{self.port:04X}") and words[3] == ESTABLISHED:
                        found.append(int(words[4].split(":")[0], 16))
        return found


class Sender(rig.load.Producer):
    """A producer that wants acks, with two connections to each listener of the fleet."""

    def __init__(self, fleet, name, rate):
        super().__init__(f"{fleet.directory}/{name}")
        self.fleet = fleet
        self.rate = rate

    async def begin(self):
        connections = 2 * self.fleet.size
        wanted = await self.fleet.total("ingest_connections") + connections
        await self.start(self.fleet.programs, [listener.port for listener in self.fleet.listeners], "--count", "0", "--rate",
                         str(self.rate), "--connections", str(connections), "--timeout", "600", "--ledger", self.ledger)

        async def is_connected():
            return await self.fleet.total("ingest_connections") >= wanted
        await wait_until(is_connected, 20, f"{self.prefix} is connected")

    async def finish(self):
        """Ends the sending and waits for the acks."""
        await self.end(signal.SIGINT, 180)
