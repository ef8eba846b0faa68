"""A producer by hand: owns one connection to an ingest port, its handshake and its frames."""
import asyncio
import base64
import json
import os
import struct

from rig.frame import CLOSE, PING, PONG, TEXT, frame

REQUEST = ("GET /events HTTP/1.1\r\nHost: rig\r\nUpgrade: websocket\r\nConnection: Upgrade\r\nSec-WebSocket-Key: {}\r\n"
           "Sec-WebSocket-Version: 13\r\nSec-WebSocket-Protocol: wsonce.ack.v1\r\n\r\n")


class Client:
    """Calls on_ack(ack), a method of the subclass, for each ack."""

    def __init__(self):
        self.reader = None
        self.writer = None              # None unless it is open

    async def connect(self, port):
        """Connects. Raises ConnectionError if the listener refuses."""
        self.reader, writer = await asyncio.open_connection("127.0.0.1", port)
        try:
            writer.write(REQUEST.format(base64.b64encode(os.urandom(16)).decode()).encode())
            status = (await self.reader.readuntil(b"\r\n\r\n")).split(b"\r\n")[0]
            if b" 101 " not in status:
                raise ConnectionError(status.decode())
            self.writer = writer
        finally:
            if not self.writer:
                writer.close()

    def send(self, op, payload):
        if self.writer and not self.writer.transport.is_closing():
            self.writer.write(frame(op, payload, mask=True))

    async def read_acks(self):
        """Reads acks until the listener ends the connection, by a close frame or otherwise."""
        while await self.read_frame():
            pass

    async def read_frame(self):
        """Reads a frame. Returns False if it closes the connection."""
        op, size = await self.reader.readexactly(2)
        if size == 126:
            size = struct.unpack(">H", await self.reader.readexactly(2))[0]
        payload = await self.reader.readexactly(size)
        if op & 15 == PING:
            self.send(PONG, payload)
        elif op & 15 == TEXT:
            self.on_ack(json.loads(payload))
        return op & 15 != CLOSE

    def on_ack(self, ack):
        raise NotImplementedError

    def hang_up(self):
        if self.writer:
            self.writer.close()
        self.writer = None
