"""A listener on an SQLite file, and a producer of its events: owns the command line, what was sent and what was acked."""
import asyncio
import json
import sqlite3

from rig.client import Client
from rig.frame import TEXT
from rig.listener import Listener as Base
from rig.waiting import SLOW, comes_true, wait_until

WHOLE_S = 20 * SLOW
OPEN = []                               # all producers so far


class Listener(Base):
    def __init__(self, rig, name):
        super().__init__(f"{rig.directory}/{name}")
        self.rig = rig

    async def start(self, file, *options, is_waited_for=True, **how):
        self.port = 0
        await self.launch([f"{self.rig.programs}/wsonce", "listen", "--instance-id", self.name, "--store",
                           f"sqlite://{file}", "--admin", f"unix:{self.admin}", "--ingest", "127.0.0.1:0",
                           *options], **how)
        if is_waited_for:
            await wait_until(self.has_started, WHOLE_S, f"{self.name} opens its port: {self.last_words()}")

    async def has_started(self):
        """Its last line about a port: the log may be that of several runs, of which the last one may have no port yet."""
        self.port = 0
        for line in reversed(self.log().splitlines()):
            if 'event="ingest is open"' in line:
                self.port = int(line.split(" port=")[1].split()[0])
            elif "event=starting" in line:
                return self.port != 0 and await self.page("/healthz") != ""
        return False


class Producer(Client):
    """Sends events with its own numbers. acked: status by id."""

    def __init__(self, prefix):
        super().__init__()
        self.prefix = prefix
        self.next = 1
        self.acked = {}
        self.answers = []
        self.reading = None

    def event_id(self, n):
        return f"{self.prefix}-{n}"

    def send_event(self, n):
        self.send(TEXT, json.dumps({"event_id": self.event_id(n), "event_type": "t",
                                    "payload": {"n": n, "x": "y" * (n % 300)}}).encode())

    def send_new(self, count):
        for _ in range(count):
            self.send_event(self.next)
            self.next += 1

    def on_ack(self, ack):
        self.acked[ack["event_id"]] = ack["status"]
        self.answers.append(ack["status"])

    def unacked(self):
        return [n for n in range(1, self.next) if self.event_id(n) not in self.acked]

    async def open(self, port):
        await self.connect(port)
        OPEN.append(self)               # the loop drops tasks without a reference
        self.reading = asyncio.get_running_loop().create_task(self.read())

    async def read(self):
        try:
            await self.read_acks()
        except (OSError, asyncio.IncompleteReadError):
            pass

    async def close(self):
        self.hang_up()
        if self.reading:
            await self.reading

    async def are_all_acked(self, seconds=WHOLE_S):
        return await comes_true(lambda: len(self.acked) == self.next - 1, seconds)


def ask(file, sql, *values):
    """Queries the file over a connection that ends at once."""
    with sqlite3.connect(f"file:{file}", uri=True, timeout=10) as db:
        rows = db.execute(sql, values).fetchall()
    db.close()
    return rows


def stored_ids(file):
    return [row[0] for row in ask(file, "SELECT event_id FROM events")]
