"""The receiver of webhooks: owns the HTTP of a listener's connection, and verifies signatures by the specification alone,
without code of the program under test."""
import asyncio
import base64
import hashlib
import hmac


def is_signed(secret, headers, body):
    """secret: bytes; headers: by lower-case name."""
    signed = b".".join([headers.get("webhook-id", "").encode(), headers.get("webhook-timestamp", "").encode(), body])
    wanted = "v1," + base64.b64encode(hmac.new(secret, signed, hashlib.sha256).digest()).decode()
    return any(hmac.compare_digest(wanted, one) for one in headers.get("webhook-signature", "").split(" "))


class Caller(asyncio.Protocol):
    """A connection. Calls on_request(caller, first line, headers, body) for one request after the other."""

    def __init__(self, on_request):
        self.on_request = on_request
        self.transport = None
        self.buffer = b""

    def connection_made(self, transport):
        self.transport = transport

    def data_received(self, data):
        self.buffer += data
        head, end, rest = self.buffer.partition(b"\r\n\r\n")
        first, *lines = head.decode().split("\r\n")
        headers = {name.lower(): value.strip() for name, _, value in (line.partition(":") for line in lines)}
        size = int(headers.get("content-length", "0")) if end else 0
        if end and len(rest) >= size:
            self.buffer = rest[size:]
            self.on_request(self, first, headers, rest[:size])

    def write(self, data):
        if not self.transport.is_closing():
            self.transport.write(data)

    def answer(self, status, body=b"", **headers):
        """Answers a request. Underscores in names of headers become hyphens."""
        head = "".join(f"{name.replace('_', '-')}: {value}\r\n" for name, value in headers.items())
        self.write(f"HTTP/1.1 {status} so\r\n{head}content-length: {len(body)}\r\n\r\n".encode() + body)
