"""A feed's server by hand, on loopback: owns HTTP, the WebSocket handshake and the frames. What the feed says and what
it accepts is its script's (scripts.py)."""
import asyncio
import base64
import hashlib
import json
import struct
import time
import urllib.parse

from rig.feed import GUID
from rig.frame import BINARY, CLOSE, CONT, PING, PONG, TEXT, close_payload, frame
from rig.sockets import reset_socket, serve

REASONS = {400: "Bad Request", 401: "Unauthorized", 404: "Not Found", 429: "Too Many Requests"}


class Request:
    def __init__(self, head, body):
        lines = head.decode("latin-1").split("\r\n")
        self.method, target, _ = lines[0].split(" ", 2)
        self.path, _, query = target.partition("?")
        self.query = urllib.parse.parse_qs(query)
        self.headers = {key.strip().lower(): value.strip() for key, _, value in (line.partition(":") for line in lines[1:])}
        self.body = body

    def asks(self, name, default=None):
        """The last value of a parameter of the query."""
        return self.query.get(name, [default])[-1]

    def subprotocols(self):
        return [word.strip() for word in self.headers.get("sec-websocket-protocol", "").split(",") if word.strip()]


class Connection(asyncio.Protocol):
    """One of a listener's. listener: its name, which it says in a header; number: they count from 1."""

    def __init__(self, server):
        self.server = server
        self.feed = server.feed
        self.transport = None
        self.buffer = b""
        self.parts = b""                # of a message in several frames
        self.request = None             # once it is a WebSocket connection
        self.listener = None
        self.is_ready = False           # it gets events
        self.is_over = self.is_frozen = False
        self.opened = self.heard = self.pinged = 0.0
        self.notes = {}                 # the script's

    def connection_made(self, transport):
        self.transport = transport

    def connection_lost(self, _):
        if self.request and not self.is_over:
            self.leave()

    def freeze(self):
        """Nothing is expected of it any more, and it is in nobody's way."""
        self.is_frozen, self.is_ready = True, False

    def leave(self):
        self.is_over, self.is_ready = True, False
        self.feed.closed(self)

    def data_received(self, data):
        self.buffer += data
        if not self.request and not self.read_request():
            return
        while not self.is_over and self.read_frame():
            pass

    # ---- HTTP ----

    def read_request(self):
        """Whether the connection is one for frames now."""
        head, end, rest = self.buffer.partition(b"\r\n\r\n")
        if not end:
            return False
        request = Request(head, b"")
        size = int(request.headers.get("content-length", "0"))
        if len(rest) < size:
            return False
        request.body, self.buffer = rest[:size], rest[size:]
        if request.headers.get("upgrade", "").lower() != "websocket":
            self.answer(*self.feed.http(request))
            return False
        self.listener = request.headers.get("x-listener")
        refusal = self.feed.refuses(request)
        if refusal:
            self.answer(*refusal)
            return False
        self.shake_hands(request)
        return True

    def answer(self, status, body):
        text = body if isinstance(body, bytes) else json.dumps(body).encode()
        self.transport.write(f"HTTP/1.1 {status} {REASONS.get(status, 'OK')}\r\nContent-Type: application/json\r\n"
                             f"Content-Length: {len(text)}\r\nConnection: close\r\n\r\n".encode() + text)
        self.transport.close()

    def shake_hands(self, request):
        accept = base64.b64encode(hashlib.sha1(request.headers["sec-websocket-key"].encode() + GUID).digest()).decode()
        chosen = self.feed.subprotocol
        self.transport.write(f"HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n"
                             f"Sec-WebSocket-Accept: {accept}\r\n".encode() +
                             (f"Sec-WebSocket-Protocol: {chosen}\r\n".encode() if chosen else b"") + b"\r\n")
        self.request = request
        self.opened = self.heard = time.monotonic()
        self.feed.connections.append(self)
        self.feed.opened(self)

    # ---- frames ----

    def read_frame(self):
        """Whether there was a whole one."""
        if len(self.buffer) < 2:
            return False
        size, at = self.buffer[1] & 127, 2
        if size > 125:
            width = 2 if size == 126 else 8
            if len(self.buffer) < at + width:
                return False
            size, at = int.from_bytes(self.buffer[at:at + width], "big"), at + width
        if len(self.buffer) < at + 4 + size:
            return False
        op, is_last = self.buffer[0] & 15, self.buffer[0] & 128
        mask, masked = self.buffer[at:at + 4], self.buffer[at + 4:at + 4 + size]
        self.buffer = self.buffer[at + 4 + size:]
        self.take(op, is_last, bytes(byte ^ mask[i & 3] for i, byte in enumerate(masked)))
        return True

    def take(self, op, is_last, payload):
        self.heard = time.monotonic()
        if op == CLOSE:
            self.close(struct.unpack(">H", payload[:2])[0] if payload else 1000)
        elif op in (PING, PONG):
            if op == PING:
                self.write(PONG, payload)
            self.feed.controlled(self, op)
        elif op == BINARY:
            self.broke("sent a binary message", 1003)
        elif op in (TEXT, CONT):
            self.parts += payload
            if is_last:
                whole, self.parts = self.parts, b""
                self.hear(whole)

    def hear(self, text):
        try:
            message = json.loads(text)
        except ValueError:
            self.broke(f"sent what is not JSON: {text[:80]!r}", 1003)
            return
        self.feed.controlled(self, TEXT)
        if not self.is_over:
            self.feed.received(self, message)

    def write(self, op, payload):
        if not self.is_over and not self.transport.is_closing():
            self.transport.write(frame(op, payload))

    def send(self, *messages):
        for message in messages:
            self.write(TEXT, message.encode() if isinstance(message, str) else
                       json.dumps(message, separators=(",", ":")).encode())

    def ping(self):
        self.pinged = time.monotonic()
        self.write(PING, b"beat")

    def close(self, code, reason=b""):
        if not self.is_over:
            self.write(CLOSE, close_payload(code, reason))
            self.leave()
            self.transport.close()

    def reset(self):
        """What is on its way may be lost."""
        if not self.is_over:
            self.leave()
            reset_socket(self.transport)

    def broke(self, what, code=1008):
        """The listener did what the protocol forbids."""
        self.feed.broken.append(f"{self.listener} {what}")
        self.close(code, what.encode()[:120])


class Server:
    def __init__(self, feed):
        self.feed = feed
        self.port = 0
        self.server = None

    async def start(self):
        self.server, self.port = await serve(lambda: Connection(self))
        self.feed.port = self.port

    async def stop(self):
        self.server.close()
        for connection in list(self.feed.connections):
            connection.reset()
