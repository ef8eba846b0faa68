"""A producer as small as can be: owns one connection to an ingest port, sends events and reads their acks."""
import asyncio
import base64
import json
import os
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.dirname(os.path.realpath(__file__))), "fault"))

from feed import OP_CLOSE, OP_PING, OP_PONG, OP_TEXT, frame


def mask(data):
    """A client's frame: the mask is 0, so the payload stays."""
    size = 2 if data[1] < 126 else 4
    return bytes([data[0], data[1] | 0x80]) + data[2:size] + bytes(4) + data[size:]


class Producer:
    """Acks are noted as {id: status}; is_open turns False when the listener ends the connection."""

    def __init__(self):
        self.acks = {}
        self.is_open = False
        self.news = asyncio.Event()
        self.writer = None
        self.task = None

    async def connect(self, port):
        reader, self.writer = await asyncio.open_connection("127.0.0.1", port)
        key = base64.b64encode(os.urandom(16)).decode()
        self.writer.write(("GET /events HTTP/1.1\r\nHost: rig\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n"
                           f"Sec-WebSocket-Version: 13\r\nSec-WebSocket-Key: {key}\r\n"
                           "Sec-WebSocket-Protocol: wsonce.ack.v1\r\n\r\n").encode())
        head = await asyncio.wait_for(reader.readuntil(b"\r\n\r\n"), 10)
        if not head.startswith(b"HTTP/1.1 101"):
            raise ConnectionError(head.split(b"\r\n")[0].decode())
        self.is_open = True
        self.task = asyncio.get_running_loop().create_task(self.read(reader))
        return self

    async def read(self, reader):
        try:
            while True:
                op, size = await reader.readexactly(2)
                if size > 125:
                    size = int.from_bytes(await reader.readexactly(2), "big")
                text = await reader.readexactly(size)
                if op & 15 == OP_CLOSE:
                    return
                if op & 15 == OP_PING:
                    self.writer.write(mask(frame(OP_PONG, text)))
                if op & 15 == OP_TEXT:
                    ack = json.loads(text)
                    self.acks[ack["event_id"]] = ack["status"]
                    self.news.set()
        except (OSError, asyncio.IncompleteReadError):
            pass
        finally:
            self.is_open = False
            self.news.set()

    def send(self, message):
        if self.is_open and not self.writer.transport.is_closing():
            self.writer.write(mask(frame(OP_TEXT, message)))

    async def wait(self, ids, seconds):
        """Until all of ids are acked, or the connection has ended. False if the time was not enough."""
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
        if self.writer:
            self.writer.close()
