"""A producer that gets acks: owns the acks of one connection."""
import asyncio

from rig.client import Client
from rig.frame import TEXT


class Producer(Client):
    """Acks are noted as {id: status}; is_open turns False when the listener ends the connection."""

    def __init__(self):
        super().__init__()
        self.acks = {}
        self.is_open = False
        self.news = asyncio.Event()
        self.task = None

    async def open(self, port):
        await asyncio.wait_for(self.connect(port), 10)
        self.is_open = True
        self.task = asyncio.get_running_loop().create_task(self.read())
        return self

    async def read(self):
        try:
            await self.read_acks()
        except (OSError, asyncio.IncompleteReadError):
            pass
        finally:
            self.is_open = False
            self.news.set()

    def on_ack(self, ack):
        self.acks[ack["event_id"]] = ack["status"]
        self.news.set()

    def send_event(self, message):
        if self.is_open:
            self.send(TEXT, message)

    async def wait(self, ids, seconds):
        """Waits until all of ids are acked, or the connection has ended. Returns False after a timeout."""
        deadline = asyncio.get_running_loop().time() + seconds
        while self.is_open and not ids <= self.acks.keys():
            self.news.clear()
            try:
                await asyncio.wait_for(self.news.wait(), deadline - asyncio.get_running_loop().time())
            except asyncio.TimeoutError:
                return False
        return True

    def close(self):
        if self.task:
            self.task.cancel()
        self.hang_up()
