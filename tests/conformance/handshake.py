"""The cases about opening a connection: what the listener accepts and answers as a server, and what it asks for and
accepts as a client."""
import asyncio
import base64
import zlib

from websockets.extensions.permessage_deflate import ClientPerMessageDeflateFactory

from case import STRICT, Case, Play
from peer import DEADLINE_S, OPEN, Dialler, Wrong, soon
from rig.frame import BINARY, PING, TEXT, frame

CASES = []


def case(name, section, side, verdict=STRICT):
    def declare(play):
        CASES.append(Case(name, section, side, play, verdict))
        return play
    return declare


def request(port, *changes, method="GET", path="/events", version="HTTP/1.1", key="dGhlIHNhbXBsZSBub25jZQ=="):
    """A handshake by hand. changes: (name, value) that replace a header, or drop it if value is None."""
    headers = {"Host": f"127.0.0.1:{port}", "Upgrade": "websocket", "Connection": "Upgrade", "Sec-WebSocket-Key": key,
               "Sec-WebSocket-Version": "13"}
    for name, value in changes:
        headers.pop(name, None)
        if value is not None:
            headers[name] = value
    lines = [f"{method} {path} {version}", *(f"{name}: {value}" for name, value in headers.items())]
    return ("\r\n".join(lines) + "\r\n\r\n").encode()


async def status_of(port, data):
    """Returns the status of the answer to these bytes, None if the connection just ends."""
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    try:
        writer.write(data)
        line = await asyncio.wait_for(reader.readline(), DEADLINE_S)
        return int(line.split()[1]) if line.startswith(b"HTTP/") else None
    except (ConnectionError, asyncio.TimeoutError):
        return None
    finally:
        writer.transport.abort()


# --- as a server ---

NO_STATUS = "non-strict: dropped without a status"


def refusal(name, section, *changes, statuses, verdict=STRICT, **line):
    """A case in which this handshake must be refused with one of the statuses."""
    @case(name, section, "ingest", verdict)
    async def play(p):
        port = p.rig.main.port
        status = await status_of(port, request(port, *changes, **line))
        if status is None:
            p.allow(f"expected: status {statuses}; the connection was dropped", NO_STATUS)
        elif status not in statuses:
            raise Wrong(f"expected: status {statuses}; got {status}")
        await p.recovers()


for version in ("8", "12", "14", "0", "13a", ""):
    refusal(f"a handshake of version {version or 'nothing'} is refused", "4.2.1, 4.4", ("Sec-WebSocket-Version", version),
            statuses=(400, 426))
refusal("a handshake without a version is refused", "4.2.1", ("Sec-WebSocket-Version", None), statuses=(400, 426))
refusal("a handshake without a key is refused", "4.2.1", ("Sec-WebSocket-Key", None), statuses=(400,))
refusal("a handshake with a key that is not of 16 bytes is refused", "4.2.1", key="c2hvcnQ=", statuses=(400,))
refusal("a handshake with a key that is not base64 is refused", "4.2.1", key="!" * 24, statuses=(400,))
refusal("a handshake by POST is refused", "4.2.1", method="POST", statuses=(400, 405))
refusal("a handshake by HEAD is refused", "4.2.1", method="HEAD", statuses=(400, 405, 426))
refusal("a handshake by HTTP/1.0 is refused", "4.2.1", version="HTTP/1.0", statuses=(400, 426, 505))
refusal("a handshake without Upgrade is told to upgrade", "4.2.1", ("Upgrade", None), statuses=(400, 426))
refusal("a handshake to upgrade to something else is refused", "4.2.1", ("Upgrade", "h2c"), statuses=(400, 426))
refusal("a handshake without Connection is refused", "4.2.1", ("Connection", None), statuses=(400, 426))
refusal("a handshake whose Connection does not say Upgrade is refused", "4.2.1", ("Connection", "keep-alive"),
        statuses=(400, 426))
refusal("a handshake without Host is refused", "4.2.1", ("Host", None), statuses=(400,))


def acceptance(name, section, *changes):
    @case(name, section, "ingest")
    async def play(p):
        port = p.rig.main.port
        dialler = Dialler(port)
        p.peer.drop()
        p.peer = await dialler.open(data=request(port, *changes, key=dialler.protocol.key))
        await p.goes_on()


for value in ("keep-alive, Upgrade", "Upgrade, keep-alive", "upgrade", "UPGRADE", "keep-alive,upgrade"):
    acceptance(f"Connection: {value} is accepted", "4.2.1", ("Connection", value))
for value in ("WebSocket", "WEBSOCKET"):
    acceptance(f"Upgrade: {value} is accepted", "4.2.1", ("Upgrade", value))
acceptance("header names in small letters are accepted", "4.2.1",
           *((name, None) for name in ("Upgrade", "Connection")), ("upgrade", "websocket"), ("connection", "Upgrade"))


@case("a handshake that arrives byte by byte is accepted", "4.2.1", "ingest")
async def play(p):
    """Uses a listener that waits, since this process may be slow."""
    patient = await p.rig.listener("patient", "--ingest", "127.0.0.1:0", "--handshake-timeout", "600")
    p.peer.drop()
    p.peer = await Dialler(patient.port).open(pieces=1)
    await p.goes_on()


refusal("a handshake for a page elsewhere is refused", "4.2.2, 10.2", ("Origin", "https://elsewhere.example"), statuses=(403,))


@case("a frame in the segment of the handshake, which no client may send, is taken", "4.1", "ingest")
async def play(p):
    p.peer.drop()
    p.peer = await Dialler(p.rig.main.port).open(after=frame(PING, b"early", mask=True))
    await soon(lambda: b"early" in p.peer.of(10), "a pong")
    await p.goes_on()


GARBLED = "non-strict: garbled on its way: rejected or dropped, never stored"


@case("a long message in the segment of the handshake, which no client may send, is never stored as another", "4.1",
      "ingest", GARBLED)
async def play(p):
    p.peer.drop()
    p.peer = await Dialler(p.rig.main.port).open(after=frame(BINARY, p.never("early") + b" " * 3000, mask=True))
    await soon(lambda: p.peer.of(TEXT) or p.peer.end, "an ack or the end")
    if any(b"persisted" in ack for ack in p.peer.of(TEXT)):
        p.event("early")
    else:
        p.rig.garbled.append(p.id("early").encode())
        p.allow("expected: an event", GARBLED)
    await p.recovers()


def subprotocol(name, offered, chosen, verdict=STRICT):
    @case(name, "4.2.2, 1.9", "ingest", verdict)
    async def play(p):
        p.peer.drop()
        p.peer = await Dialler(p.rig.main.port, subprotocols=offered).open()
        if p.peer.protocol.subprotocol != chosen:
            raise Wrong(f"expected: subprotocol {chosen}; got {p.peer.protocol.subprotocol}")
        p.send(TEXT, p.event("asked"))
        await p.pong(b"after")
        if chosen:
            await soon(lambda: p.peer.of(TEXT), "an ack")
        elif p.peer.of(TEXT):
            raise Wrong("expected: no ack without the subprotocol; there is one")


subprotocol("wsonce.ack.v1 is chosen where it is offered", ("wsonce.ack.v1",), "wsonce.ack.v1")
subprotocol("wsonce.ack.v1 is chosen among others, wherever it stands", ("a.b", "wsonce.ack.v1", "z"), "wsonce.ack.v1")
subprotocol("where no subprotocol is offered none is answered", None, None)


@case("where other subprotocols alone are offered, none of them is chosen", "4.2.2", "ingest", NO_STATUS)
async def play(p):
    p.peer.drop()
    dialler = Dialler(p.rig.main.port, subprotocols=("a.b", "wsonce.ack.v2"))
    p.peer = await dialler.dial()
    await soon(lambda: dialler.protocol.state is OPEN or dialler.protocol.handshake_exc or p.peer.end, "an answer")
    if dialler.protocol.subprotocol:
        raise Wrong(f"expected: no subprotocol; got {dialler.protocol.subprotocol}")
    if dialler.protocol.state is not OPEN:
        p.allow("expected: an open connection without a subprotocol", NO_STATUS)
    await p.recovers()


@case("permessage-deflate is offered and declined, and nothing is compressed", "9.1", "ingest")
async def play(p):
    p.peer.drop()
    dialler = Dialler(p.rig.main.port, extensions=[ClientPerMessageDeflateFactory()])
    p.peer = await dialler.open()
    if p.peer.protocol.extensions:
        raise Wrong(f"expected: no extension; got {p.peer.protocol.extensions}")
    p.peer.text(p.event("plain"))
    await soon(lambda: p.peer.of(TEXT), "an ack")
    await p.goes_on()


@case("a compression bomb that nobody agreed to is refused unread", "9.1, 10.4", "ingest")
async def play(p):
    p.peer.drop()
    p.peer = await Dialler(p.rig.main.port, extensions=[ClientPerMessageDeflateFactory()]).open()
    bomb = zlib.compressobj(wbits=-15)
    first, again = (bomb.compress(bytes(1 << 20)) + bomb.flush(zlib.Z_SYNC_FLUSH) for _ in range(2))
    p.send(BINARY, (first + 49 * again)[:-4], rsv=4)
    await p.fails(1002)


# --- as a client ---

@case("the request of the source has what RFC 6455 demands", "4.1", "source")
async def play(p):
    headers = p.peer.request.headers
    found = {name.lower(): headers.get_all(name) for name, _ in headers.raw_items()}
    expected = {"host": [f"127.0.0.1:{p.rig.feed.port}"], "upgrade": ["websocket"], "sec-websocket-version": ["13"]}
    for name, value in expected.items():
        if [text.lower() for text in found.get(name, [])] != value:
            raise Wrong(f"expected: {name} {value}; got {found.get(name)}")
    if "upgrade" not in [word.strip().lower() for word in found["connection"][0].split(",")]:
        raise Wrong(f"expected: Connection with Upgrade; got {found['connection']}")
    keys = found.get("sec-websocket-key", [])
    if len(keys) != 1 or len(base64.b64decode(keys[0], validate=True)) != 16:
        raise Wrong(f"expected: one key of 16 bytes; got {keys}")
    if "sec-websocket-protocol" in found or "origin" in found:
        raise Wrong("expected: neither subprotocols nor an origin; there are")
    if [text.split(";")[0] for text in found.get("sec-websocket-extensions", [])] != ["permessage-deflate"]:
        raise Wrong(f"expected: permessage-deflate is offered; got {found.get('sec-websocket-extensions')}")
    p.peer.reset()
    again = await p.open()
    if again.request.headers["Sec-WebSocket-Key"] == keys[0]:
        raise Wrong("expected: a new key with each request; it is the same")


def wrong_answer(name, section, answer, verdict=STRICT):
    """A case in which the first two handshakes get this answer, and must be refused; the third gets a correct one."""
    entry = Case(name, section, "source", None, verdict)
    wrong = []

    def respond(rig, peer, response):
        if len(wrong) < 2:
            wrong.append(peer)
            answer(peer, response)
        else:
            peer.protocol.send_response(response)
            peer.flush()

    async def play(p):
        for peer in (p.peer, await p.open()):
            await peer.ended("after a wrong answer")
            if peer.frames:
                raise Wrong(f"expected: no frames on a connection that did not open; got {peer.frames}")
        await p.open()
        await p.goes_on()
        await p.rig.is_healthy()

    entry.play = play
    entry.answer = respond
    CASES.append(entry)


def raw(text, then=b""):
    def answer(peer, response):
        peer.write(text.format(accept=response.headers["Sec-WebSocket-Accept"]).replace("\n", "\r\n").encode() + then)
    return answer


UPGRADE = "HTTP/1.1 101 Switching Protocols\nUpgrade: websocket\nConnection: Upgrade\nSec-WebSocket-Accept: {accept}\n"
EVENT = frame(TEXT, b'{"event_id":"never: the connection did not open"}', mask=False)
# What else a wrong answer may be: tests/unit/test_upgrade.c, tests/unit/test_deflate.c.
for status, more in ((302, "Location: ws://elsewhere.invalid/\n"), (503, "Retry-After: 1\n")):
    wrong_answer(f"a handshake that is answered by {status} is tried again", "4.1",
                 raw(f"HTTP/1.1 {status} No\nContent-Length: 0\nConnection: close\n{more}\n"))
wrong_answer("an answer whose Sec-WebSocket-Accept is in the wrong case is refused", "4.1",
             lambda peer, response: raw(UPGRADE.replace(
                 "{accept}", response.headers["Sec-WebSocket-Accept"].swapcase()) + "\n", EVENT)(peer, response))
wrong_answer("an answer that is not HTTP is refused", "4.1", raw("SSH-2.0-OpenSSH_9.2\n", b"\x00" * 2000))
wrong_answer("an answer with 1,000 headers is refused", "10.4",
             raw(UPGRADE.replace("Upgrade: websocket\n", "") + "".join(f"X-{i}: {'y' * 60}\n" for i in range(1000)) + "\n"))
wrong_answer("an answer of status 101 that is cut off is tried again", "4.1",
             lambda peer, response: (peer.write(b"HTTP/1.1 101 Switching Protocols\r\nUpgrade: webs"), peer.writer.close()))
wrong_answer("a connection that is ended without an answer is tried again", "4.1",
             lambda peer, response: peer.writer.close())


def right_answer(name, section, answer):
    """A case in which the handshake gets this answer, and must be accepted at once. answer returns the bytes to write at
    once, and those to write one by one."""
    entry = Case(name, section, "source", None)

    async def play(p):
        await p.goes_on()
        if len(p.rig.feed.peers[p.case.path]) > 1:
            raise Wrong("expected: the first answer is accepted; the source connected again")

    def respond(rig, peer, response):
        peer.protocol.send_response(response)
        head = b"".join(peer.protocol.data_to_send())
        at_once, slowly = answer(Play(rig, entry), response, head)
        peer.write(at_once)
        for n, byte in enumerate(slowly):
            asyncio.get_running_loop().call_later(0.1 + n * 0.002, peer.write, bytes([byte]))

    entry.play = play
    entry.answer = respond
    CASES.append(entry)


def in_one_segment(p, response, head):
    messages = [p.event(f"early-{i}") for i in range(30)] + [p.event("long", pad=60000)]
    return head + b"".join(frame(TEXT, message, mask=False) for message in messages), b""


def in_two_halves(p, response, head):
    data = head + frame(TEXT, p.event("early"), mask=False)
    return data[:-9], data[-9:]


right_answer("header names and values of any case are accepted", "4.1", lambda p, response, head: (
    b"HTTP/1.1 101 switching\r\nupgrade: WebSocket\r\nCONNECTION: keep-alive, upgrade\r\nsec-websocket-accept: "
    + response.headers["Sec-WebSocket-Accept"].encode() + b"\r\n\r\n", b""))
right_answer("an answer that arrives byte by byte is accepted", "4.1", lambda p, response, head: (b"", head))
right_answer("frames in the segment of the answer are not lost", "4.1", in_one_segment)
right_answer("a frame that begins in the segment of the answer is whole", "4.1", in_two_halves)
