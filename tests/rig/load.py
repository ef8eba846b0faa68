"""The project's own load programs as children: starts feeds and producers, and reads what they have sent. Both keep a
timetable, so event number n of a prefix was due n / rate seconds after the first."""
import re
import signal

from rig.process import Process
from rig.waiting import RigError, wait_until

PORT_LINE = re.compile(r"listening on ws://[^ ]*:(\d+)")
LETTERS = "abcdefghijklmnopqrstuvwxyz"


def producer_payload(n, size=100):
    """Returns the payload with number n of both (loadtest/message.c), as jsonb prints it."""
    cents = (1213 + n * 37) % 1000000
    start = f'{{"n":{n},"amount":{cents // 100}.{cents % 100:02d}'
    room = size - len(start) - len(',"comment":""}')
    text = ((LETTERS * 2)[n % 26:n % 26 + 26] * (room // 26 + 1))[:room]
    return f'{{"n": {n}, "amount": {cents // 100}.{cents % 100:02d}, "comment": "{text}"}}'


class Load(Process):
    """prefix: start of the ids; by default the program's name."""

    def __init__(self, base, prefix=None):
        super().__init__(base)
        self.prefix = prefix or self.name
        self.ledger = f"{base}.ledger"

    def read_ledger(self):
        """Returns, by id, the status of a producer's last ack, which is empty in a feed's ledger."""
        with open(self.ledger) as file:
            return dict(line.rstrip("\n").partition("\t")[::2] for line in file)


class Source(Load):
    """A wsonce-source."""

    port = 0

    async def start(self, programs, *flags):
        await self.launch_to_tell([f"{programs}/wsonce-source", "--listen", "127.0.0.1:0", "--stall-timeout", "0", "--json",
                                   "--id-prefix", self.prefix, *flags])
        await wait_until(self.find_port, 60, "the feed listens")

    def find_port(self):
        if self.is_over:
            raise RigError(f"the feed did not start: {self.log()}")
        found = PORT_LINE.search(self.log())
        self.port = int(found.group(1)) if found else 0
        return bool(found)

    def go_on(self):
        """Ends the pause after the warm-up."""
        self.signal(signal.SIGUSR1)

    @property
    def url(self):
        return f"ws://127.0.0.1:{self.port}/"


class Producer(Load):
    """A wsonce-producer, connected to the ingest ports."""

    async def start(self, programs, ports, *flags):
        to = [word for port in ports for word in ("--to", f"ws://127.0.0.1:{port}/events")]
        await self.launch_to_tell([f"{programs}/wsonce-producer", *to, "--json", "--id-prefix", self.prefix, *flags])
