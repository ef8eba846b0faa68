"""The other end of a connection of the listener: owns the socket. python3-websockets, which is independent of
libwebsockets, makes and judges the frames and handshakes. If it finds an error in what the listener sends, the case
fails."""
import asyncio

from websockets.frames import Frame
from websockets.http11 import Request
from websockets.uri import parse_uri

try:
    from websockets.client import ClientProtocol
    from websockets.protocol import CONNECTING, OPEN
    from websockets.server import ServerProtocol
except ImportError:                     # the names of python3-websockets 10, of Debian 12
    from websockets.client import ClientConnection as ClientProtocol
    from websockets.connection import CONNECTING, OPEN
    from websockets.server import ServerConnection as ServerProtocol

from rig.frame import frame
from rig.waiting import SLOW, comes_true

DEADLINE_S = 15 * SLOW
READ_LIMIT = 1 << 20


class Wrong(Exception):
    """An expectation failed: says what was expected, and what came instead."""


async def soon(predicate, what, seconds=DEADLINE_S):
    if not await comes_true(predicate, seconds, 0.005):
        raise Wrong(f"expected: {what}; it did not come within {seconds:.0f} s")


pumps = set()


def stop_all():
    for pump in pumps:
        pump.cancel()


class Peer:
    """A connection and what the listener sent on it."""

    def __init__(self, reader, writer, protocol):
        self.reader = reader
        self.writer = writer
        self.protocol = protocol        # of python3-websockets, without a socket of its own
        self.frames = []                # received
        self.raw = bytearray()          # the same, as bytes
        self.request = None             # of the listener
        self.end = None                 # how TCP ended: "FIN" or "reset"
        self.is_mute = False            # reads, and neither answers pings nor close frames
        self.is_deaf = False            # does not read either
        self.pump = None

    @property
    def masks(self):
        return isinstance(self.protocol, ClientProtocol)

    def start(self):
        self.pump = asyncio.get_running_loop().create_task(self.run())
        pumps.add(self.pump)
        self.pump.add_done_callback(pumps.discard)
        return self

    async def run(self):
        while self.end is None:
            try:
                data = await self.reader.read(65536)
            except OSError:
                self.end = "reset"
                return
            while self.is_deaf:
                await asyncio.sleep(0.02)
            try:
                self.take(data)
            except (EOFError, ValueError) as error:     # of the library: what came is no handshake
                self.end = self.end or repr(error)
            if not data:
                self.end = "FIN"

    def take(self, data):
        was_open = self.protocol.state is not CONNECTING
        if data:
            self.protocol.receive_data(data)
        else:
            self.protocol.receive_eof()
        if was_open:
            self.raw += data
        for event in self.protocol.events_received():
            if isinstance(event, Frame):
                self.frames.append(event)
            elif isinstance(event, Request):
                self.request = event
        if not self.is_mute and self.protocol.state is not CONNECTING:
            self.flush()

    def flush(self, more=b""):
        """Sends the library's output, and more, in one segment."""
        writes = self.protocol.data_to_send()
        self.write(b"".join(writes) + more)
        if b"" in writes:
            self.finish()

    def write(self, data):
        if data and not self.writer.is_closing():
            self.writer.write(data)

    def finish(self):
        """Ends this side of TCP. The listener may have ended its side meanwhile, which a read shows."""
        if self.writer.can_write_eof() and not self.writer.is_closing():
            try:
                self.writer.write_eof()
            except OSError:
                pass

    def send(self, op, payload=b"", **kinds):
        """Sends a frame, masked as this side must, unless kinds say otherwise."""
        self.write(frame(op, payload, **{"mask": self.masks, **kinds}))

    def text(self, payload):
        self.protocol.send_text(payload)
        self.flush()

    def of(self, op):
        return [bytes(f.data) for f in self.frames if f.opcode == op]

    @property
    def close(self):
        return self.protocol.close_rcvd

    async def ended(self, what):
        """Waits for the end; returns the code of the close frame, or None if there was none."""
        await soon(lambda: self.end, f"the connection ends {what}")
        self.judge()
        return self.close.code if self.close else None

    def judge(self):
        error = self.protocol.parser_exc
        if error and not isinstance(error, EOFError):
            raise Wrong(f"expected: frames that are right; the listener sent what python3-websockets calls {error!r}")

    def reset(self):
        self.writer.transport.abort()

    def drop(self):
        if self.pump:
            self.pump.cancel()
        self.writer.transport.abort()


class Dialler:
    """Connects as a producer, by a request from the library, which may be changed before it is sent."""

    def __init__(self, port, path="/events", subprotocols=("wsonce.ack.v1",), extensions=None):
        self.port = port
        self.protocol = ClientProtocol(parse_uri(f"ws://127.0.0.1:{port}{path}"), max_size=1 << 24,
                                         subprotocols=subprotocols and list(subprotocols), extensions=extensions)
        self.request = self.protocol.connect()

    async def dial(self, data=None, after=b"", pieces=None):
        """data: sent instead of the library's request; after: in the same segment; pieces: bytes per write."""
        reader, writer = await asyncio.open_connection("127.0.0.1", self.port, limit=READ_LIMIT)
        data = (self.request.serialize() if data is None else data) + after
        peer = Peer(reader, writer, self.protocol).start()
        for at in range(0, len(data), pieces or len(data)):
            peer.write(data[at:at + (pieces or len(data))])
            if pieces:
                await asyncio.sleep(0.001)
        return peer

    async def open(self, **how):
        peer = await self.dial(**how)
        await soon(lambda: self.protocol.state is not CONNECTING or self.protocol.handshake_exc or peer.end,
                   "an answer to the handshake")
        if self.protocol.state is not OPEN and not peer.frames:
            raise Wrong(f"expected: an open connection; got {self.protocol.handshake_exc or peer.end!r}")
        return peer


class Feed:
    """A server that listeners dial, each case at a path of its own. A path may have its own answer instead of the library's
    101."""

    def __init__(self):
        self.port = 0
        self.server = None
        self.peers = {}                 # path -> connections whose request has come, the newest last
        self.answers = {}               # path -> function of (peer, response), which writes
        self.tasks = set()

    async def start(self):
        self.server = await asyncio.start_server(self.accept, "127.0.0.1", 0, limit=READ_LIMIT, backlog=500)
        self.port = self.server.sockets[0].getsockname()[1]

    async def accept(self, reader, writer):
        peer = Peer(reader, writer, ServerProtocol(max_size=1 << 24))
        while peer.request is None:
            data = await reader.read(65536)
            if not data:
                writer.close()
                return
            peer.take(data)
        path = peer.request.path
        response = peer.protocol.accept(peer.request)
        answer = self.answers.get(path)
        if answer:
            answer(peer, response)
        else:
            peer.protocol.send_response(response)
            peer.flush()
        self.peers.setdefault(path, []).append(peer)
        peer.start()

    async def nth(self, path, n):
        """Returns connection number n (from 1) to the path, once it exists."""
        await soon(lambda: len(self.peers.get(path, ())) >= n, f"connection number {n} of the source to {path}")
        return self.peers[path][n - 1]

    def stop(self):
        self.server.close()
        for peers in self.peers.values():
            for peer in peers:
                peer.drop()
