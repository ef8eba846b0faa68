"""A feed by hand: owns the server's end of a listener's connection, with its handshake and its frames, and the messages
of events."""
import asyncio
import base64
import hashlib

from rig.frame import CLOSE, PING, PONG, frame

GUID = b"258EAFA5-E914-47DA-95CA-C5AB0DC85B11"
CREATED = "order.created"       # the type of most events


def event_message(event_id, payload, event_type=CREATED):
    return f'{{"event_id":"{event_id}","event_type":"{event_type}","payload":{payload}}}'.encode()


class Connection(asyncio.Protocol):
    """A listener's, which sends control frames only. The user's class has what follows from its opening and its pongs."""

    def __init__(self):
        self.transport = None
        self.buffer = b""
        self.is_open = False

    def connection_made(self, transport):
        self.transport = transport

    def data_received(self, data):
        self.buffer += data
        if not self.is_open:
            self.shake_hands()
        if self.is_open:
            while self.read_frame():
                pass

    def shake_hands(self):
        head, end, rest = self.buffer.partition(b"\r\n\r\n")
        if not end:
            return
        lines = head.split(b"\r\n")
        headers = {key.strip().lower(): value.strip() for key, _, value in (line.partition(b":") for line in lines[1:])}
        accept = base64.b64encode(hashlib.sha1(headers[b"sec-websocket-key"] + GUID).digest())
        self.transport.write(b"HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n"
                             b"Sec-WebSocket-Accept: " + accept + b"\r\n\r\n")
        self.buffer = rest
        self.is_open = True
        self.on_open(int(lines[0].split(b" ")[1].strip(b"/")))

    def read_frame(self):
        """Whether there was a whole one."""
        if len(self.buffer) < 6:
            return False
        op, size = self.buffer[0] & 15, self.buffer[1] & 127
        if size > 125:
            self.transport.abort()
            return False
        if len(self.buffer) < 6 + size:
            return False
        mask = self.buffer[2:6]
        payload = bytes(byte ^ mask[i & 3] for i, byte in enumerate(self.buffer[6:6 + size]))
        self.buffer = self.buffer[6 + size:]
        if op == PONG and len(payload) == 8:
            self.on_pong(int.from_bytes(payload, "big"))
        elif op == PING and self.answers():
            self.transport.write(frame(PONG, payload))
        elif op == CLOSE:
            self.transport.write(frame(CLOSE, payload[:2]))
            self.transport.close()
        return True

    def answers(self):
        """Whether pings are answered."""
        return True

    def on_open(self, number):
        """number: the path that was asked for."""
        raise NotImplementedError

    def on_pong(self, number):
        """number: what a ping of ours had in its eight bytes."""
        raise NotImplementedError
