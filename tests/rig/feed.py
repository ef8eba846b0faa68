"""A feed by hand: owns the server's end of a listener's connection (HTTP, the WebSocket handshake and the frames), and
the messages of events."""
import asyncio
import base64
import hashlib
import json
import urllib.parse

from rig.frame import CLOSE, CONT, PING, PONG, TEXT, close_payload, frame

GUID = b"258EAFA5-E914-47DA-95CA-C5AB0DC85B11"
CREATED = "order.created"       # the type of most events
REASONS = {400: "Bad Request", 401: "Unauthorized", 404: "Not Found", 429: "Too Many Requests"}


def event_message(event_id, payload, event_type=CREATED):
    return f'{{"event_id":"{event_id}","event_type":"{event_type}","payload":{payload}}}'.encode()


class Request:
    def __init__(self, head):
        lines = head.decode("latin-1").split("\r\n")
        self.method, target, _ = lines[0].split(" ", 2)
        self.path, _, query = target.partition("?")
        self.query = urllib.parse.parse_qs(query)
        self.headers = {key.strip().lower(): value.strip() for key, _, value in (line.partition(":") for line in lines[1:])}
        self.body = b""

    @property
    def number(self):
        """Returns the path as a number, for feeds whose paths are numbers."""
        return int(self.path.strip("/"))

    def user(self):
        """Returns the name of the user in the URL."""
        return base64.b64decode(self.headers["authorization"].split()[1]).decode().partition(":")[0]

    def asks(self, name, default=None):
        """Returns the last value of a query parameter."""
        return self.query.get(name, [default])[-1]

    def subprotocols(self):
        return [word.strip() for word in self.headers.get("sec-websocket-protocol", "").split(",") if word.strip()]


class Connection(asyncio.Protocol):
    """The connection of a listener. Subclasses override the methods at the end to react to what it sends."""

    subprotocol = None                  # the one that the server chooses

    def __init__(self):
        self.transport = None
        self.buffer = b""
        self.parts = b""                # of a message in several frames
        self.request = None             # once its frames are read
        self.is_open = False

    def connection_made(self, transport):
        self.transport = transport

    def data_received(self, data):
        self.buffer += data
        if not self.request:
            self.read_request()
        while self.is_open and self.read_frame():
            pass

    def read_request(self):
        head, end, rest = self.buffer.partition(b"\r\n\r\n")
        if not end:
            return
        request = Request(head)
        size = int(request.headers.get("content-length", "0"))
        if len(rest) < size:
            return
        request.body, self.buffer = rest[:size], rest[size:]
        refusal = self.refuses(request) if request.headers.get("upgrade", "").lower() == "websocket" else self.http(request)
        if refusal:
            self.answer(*refusal)
        else:
            self.shake_hands(request)

    def answer(self, status, body):
        text = body if isinstance(body, bytes) else json.dumps(body).encode()
        self.transport.write(f"HTTP/1.1 {status} {REASONS.get(status, 'OK')}\r\nContent-Type: application/json\r\n"
                             f"Content-Length: {len(text)}\r\nConnection: close\r\n\r\n".encode() + text)
        self.transport.close()

    def shake_hands(self, request):
        accept = base64.b64encode(hashlib.sha1(request.headers["sec-websocket-key"].encode() + GUID).digest()).decode()
        chosen = f"Sec-WebSocket-Protocol: {self.subprotocol}\r\n" if self.subprotocol else ""
        self.transport.write(f"HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n"
                             f"Sec-WebSocket-Accept: {accept}\r\n{chosen}\r\n".encode())
        self.request, self.is_open = request, True
        self.on_open(request)

    def read_frame(self):
        """Reads a frame. Returns whether there was a whole one."""
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
        if op == CLOSE:
            self.close(int.from_bytes(payload[:2], "big") if payload else 1000)
        elif op == PING and self.answers():
            self.write(PONG, payload)
        elif op == PONG:
            self.on_pong(int.from_bytes(payload, "big") if len(payload) == 8 else None)
        elif op in (TEXT, CONT):
            self.parts += payload
            if is_last:
                whole, self.parts = self.parts, b""
                self.hear(whole)

    def write(self, op, payload):
        if self.is_open and not self.transport.is_closing():
            self.transport.write(frame(op, payload))

    def close(self, code, reason=b""):
        self.write(CLOSE, close_payload(code, reason))
        self.transport.close()

    # ---- for subclasses ----

    def http(self, request):
        """Returns (status, body) for a request that is not for WebSocket."""
        return 404, {}

    def refuses(self, request):
        """Returns (status, body) to refuse the connection, or None to accept it."""

    def answers(self):
        """Returns whether to answer pings."""
        return True

    def on_open(self, request):
        pass

    def on_pong(self, number):
        """A pong came. number: the eight bytes of our ping as a number; None if it had another length."""

    def hear(self, text):
        """A whole message came."""
