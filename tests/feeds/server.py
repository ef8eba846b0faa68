"""The server of a scripted feed on loopback: owns its connections. The feed's script (scripts.py) decides what it sends and
accepts."""
import json
import time

import rig.feed
from rig.frame import BINARY, PING, PONG, TEXT
from rig.sockets import reset_socket, serve


class Connection(rig.feed.Connection):
    """A listener's connection. listener: its name, from a header."""

    def __init__(self, feed):
        super().__init__()
        self.feed = feed
        self.subprotocol = feed.subprotocol
        self.refuses, self.http = feed.refuses, feed.http
        self.listener = None
        self.is_ready = False           # it gets events
        self.is_frozen = False
        self.opened = self.pinged = 0.0
        self.notes = {}                 # the script's

    @property
    def is_over(self):
        return not self.is_open

    def connection_lost(self, _):
        self.leave()

    def freeze(self):
        """From now on nothing is expected of this connection."""
        self.is_frozen, self.is_ready = True, False

    def leave(self):
        if self.is_open:
            self.is_open = self.is_ready = False
            self.feed.closed(self)

    def on_open(self, request):
        self.listener = request.headers.get("x-listener")
        self.opened = time.monotonic()
        self.feed.connections.append(self)
        self.feed.opened(self)

    def take(self, op, is_last, payload):
        if op == BINARY:
            self.broke("sent a binary message", 1003)
        else:
            super().take(op, is_last, payload)
        if op in (PING, PONG):
            self.feed.controlled(self, op)

    def hear(self, text):
        try:
            message, take = json.loads(text), self.feed.received
        except ValueError:
            message, take = text.decode(errors="replace"), self.feed.said
        self.feed.controlled(self, TEXT)
        if not self.is_over:
            take(self, message)

    def send(self, *messages):
        for message in messages:
            text = message.encode() if isinstance(message, str) else json.dumps(message, separators=(",", ":")).encode()
            self.write(BINARY if self.feed.pack else TEXT, self.feed.pack(text) if self.feed.pack else text)

    def ping(self):
        self.pinged = time.monotonic()
        self.write(PING, b"beat")

    def close(self, code, reason=b""):
        super().close(code, reason)
        self.leave()

    def reset(self):
        """Resets the connection. Bytes on their way may be lost."""
        if self.is_open:
            self.leave()
            reset_socket(self.transport)

    def broke(self, what, code=1008):
        """The listener violated the protocol."""
        self.feed.broken.append(f"{self.listener} {what}")
        self.close(code, what.encode()[:120])


class Server:
    def __init__(self, feed):
        self.feed = feed
        self.port = 0
        self.server = None

    async def start(self):
        self.server, self.port = await serve(lambda: Connection(self.feed))
        self.feed.port = self.port

    async def stop(self):
        self.server.close()
        for connection in list(self.feed.connections):
            connection.reset()
