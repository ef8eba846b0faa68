"""The cases about frames, which hold for both sides: lengths, fragments, text, control frames, masking, closing.

Where a connection must fail, an event is sent just before, in the same segment: it was whole, so it is stored."""
import asyncio

from case import DROPPED, STRICT, Case
from ground import HEAD_BYTES, MAX_MESSAGE
from peer import Wrong, soon
from rig.frame import BINARY, CLOSE, CONT, PING, PONG, TEXT, close_payload, frame, heads

CASES = []
BOTH = ("ingest", "source")
WIDE = "\u00e9\u20ac\U0001F600 zwölf Boxkämpfer"


def case(name, section, sides=BOTH, ingest=STRICT, source=STRICT):
    """Declares the decorated function as a case of each side."""
    def declare(play):
        for side in sides:
            CASES.append(Case(name, section, side, play, {"ingest": ingest, "source": source}[side]))
        return play
    return declare


def taken(name, section, act, **how):
    """A case in which act(p) sends correct frames, and the connection stays."""
    @case(name, section, **how)
    async def play(p):
        act(p)
        await p.goes_on()


def violation(name, section, *frames, code=1002, ingest=STRICT, sides=BOTH):
    """A case in which these frames, each (op, payload, kinds), must end the connection. As a server, libwebsockets 4.1
    just ends it for some: section 7.1.7 says that a close frame SHOULD be sent."""
    @case(name, section, sides, ingest)
    async def play(p):
        data = p.text("before")
        for op, payload, kinds in frames:
            data += frame(op, payload, **{"mask": p.peer.masks, **kinds})
        p.peer.write(data)
        await p.fails(code)


# --- 5.2: lengths ---

for size in (0, 1, 125, 126, 127, 65535, 65536, MAX_MESSAGE):
    for kind, op in (("text", TEXT), ("binary", BINARY)):
        taken(f"a {kind} message of {size} bytes is taken", "5.2, 5.6", lambda p, op=op, size=size: p.send(
            op, p.event("sized", pad=size) if size > 99 else p.letter(b"7" * size)))


@case("a message of one byte more than --max-message is closed by 1009", "7.4.1, 10.4", ["ingest"])
async def play(p):
    p.send(TEXT, p.rig.write(p.id("long"), "a" * MAX_MESSAGE)[:MAX_MESSAGE + 1])
    await p.fails(1009)


@case("fragments that together pass --max-message are closed by 1009", "7.4.1, 10.4", ["ingest"])
async def play(p):
    p.send(TEXT, b" " * 60000, fin=False)
    p.send(CONT, b" " * 60000)
    await p.fails(1009)


def send_pieces(p, message, size, op=TEXT):
    for at in range(0, max(1, len(message)), size):
        p.send(CONT if at else op, message[at:at + size], fin=at + size >= len(message))


def send_long(p, size, pieces):
    message = p.rig.write(p.id("long"), "a" * MAX_MESSAGE)[:size]
    p.letter(message[:HEAD_BYTES])
    send_pieces(p, message, pieces)


taken("a message of one byte more than --max-message is a dead letter with its head, and the connection goes on", "10.4",
      lambda p: send_long(p, MAX_MESSAGE + 1, 1 << 20), sides=["source"])
taken("fragments that together pass --max-message are a dead letter, and the connection goes on", "10.4",
      lambda p: send_long(p, None, 7000), sides=["source"])


violation("a 64-bit length with the top bit set is refused", "5.2", (TEXT, b"{}", {"says": 1 << 63 | 2, "form": 8}),
          ingest=DROPPED)
violation("a frame that claims four terabytes is closed by 1009", "10.4", (TEXT, b"{}", {"says": 4 << 40}), code=1009,
          sides=["ingest"])


@case("a frame that claims four terabytes takes no memory, and leaves nothing when its connection ends", "10.4",
      ["source"])
async def play(p):
    p.send(TEXT, p.event("before"))
    p.send(TEXT, b"x" * 500000, says=4 << 40)
    await p.peer.writer.drain()
    p.peer.finish()
    await p.fails(None)


violation("a length in two bytes where one would do is refused", "5.2", (TEXT, b"12345", {"form": 2}), sides=["source"])
violation("a length in eight bytes where two would do is refused", "5.2", (TEXT, b"1" * 200, {"form": 8}),
          sides=["source"])


@case("a length in more bytes than it needs is read all the same", "5.2", ["ingest"],
      ingest="accepted: the RFC binds the sender only")
async def play(p):
    p.send(TEXT, p.letter(b"12345"), form=2)
    p.send(TEXT, p.event("wide", pad=200), form=8)
    await p.goes_on()


# --- 5.4: fragments ---

def send_fragments(p, *parts, op=TEXT):
    """Sends a message in fragments, one per payload."""
    for n, part in enumerate(parts, 1):
        p.send(op if n == 1 else CONT, part, fin=n == len(parts))


def send_hollow(p):
    message = p.event("hollow")
    send_fragments(p, b"", message[:9], b"", b"", message[9:], b"")


taken("a message in 1,000 fragments is one message", "5.4", lambda p: send_pieces(p, p.event("many", pad=3000), 3))
taken("a message of one byte per fragment is one message", "5.4",
      lambda p: send_pieces(p, p.event("bytes", pad=300), 1, BINARY))
taken("empty fragments at the begin, in the middle and at the end do not matter", "5.4", send_hollow)
taken("a message of empty fragments is an empty message", "5.4", lambda p: send_fragments(p, p.letter(b""), b"", b""))


@case("pings between fragments are answered in order with their bytes, and the message is whole", "5.4, 5.5.2")
async def play(p):
    message = p.event("pinged", pad=200)
    pings = [bytes(range(i, i + 100)) for i in range(4)]
    for i in range(4):
        p.send(CONT if i else TEXT, message[50 * i:50 * i + 50], fin=i == 3)
        await p.pong(pings[i])
    if p.peer.of(PONG) != pings:
        raise Wrong(f"expected: pongs {pings}; got {p.peer.of(PONG)}")
    await p.goes_on()


@case("pongs between fragments are ignored, and the message is whole", "5.4, 5.5.3")
async def play(p):
    message = p.event("ponged")
    p.send(TEXT, message[:10], fin=False)
    p.send(PONG, b"unasked")
    p.send(CONT, message[10:20], fin=False)
    p.send(PONG)
    p.send(CONT, message[20:])
    await p.goes_on()


violation("a text frame between fragments is refused", "5.4", (TEXT, b'{"event_id":"a', {"fin": False}),
          (TEXT, b"{}", {}))
violation("a binary frame between fragments is refused", "5.4", (TEXT, b'{"event_id":"b', {"fin": False}),
          (BINARY, b"{}", {}))
violation("a new fragmented message between fragments is refused", "5.4", (TEXT, b'{"event_id":"c', {"fin": False}),
          (TEXT, b"{}", {"fin": False}))
violation("a continuation without a start is refused", "5.4", (CONT, b"{}", {}))
violation("a continuation without a start and without an end is refused", "5.4", (CONT, b"{}", {"fin": False}))
@case("a continuation after a message that has ended is refused", "5.4")
async def play(p):
    message = p.event("before")
    p.peer.write(b"".join(frame(op, part, fin=fin, mask=p.peer.masks) for op, part, fin in (
        (BINARY, message[:9], False), (CONT, message[9:], True), (CONT, b"{}", True))))
    await p.fails(1002)


# --- 5.6, 8.1: text ---

taken("code points split over frames are whole again", "5.6", lambda p: send_pieces(p, p.event("split", text=WIDE), 1))


@case("a frame that arrives byte by byte is whole again", "5.2")
async def play(p):
    for byte in frame(TEXT, p.event("slow", text=WIDE), mask=p.peer.masks):
        p.peer.write(bytes([byte]))
        await asyncio.sleep(0.001)
    await p.goes_on()


DEAD_LETTER = "non-strict: a dead letter, and the connection goes on"
BAD_TEXTS = (
    ("a byte that no UTF-8 has", b"\xff"), ("a continuation byte alone", b"\x80"), ("an overlong slash", b"\xc0\xaf"),
    ("an overlong NUL", b"\xe0\x80\x80"), ("an overlong of four bytes", b"\xf0\x80\x80\xaf"),
    ("a surrogate", b"\xed\xa0\x80"), ("a pair of surrogates", b"\xed\xa0\x81\xed\xb0\x80"),
    ("a code point past U+10FFFF", b"\xf4\x90\x80\x80"), ("a sequence of five bytes", b"\xf8\x88\x80\x80\x80"),
)


def bad_text(what, message, pieces=1 << 20):
    """message: has %s in place of an id."""
    @case(f"text {what}", "8.1", source=DEAD_LETTER)
    async def play(p):
        p.send(TEXT, p.event("before"))
        send_pieces(p, p.letter(message.replace(b"%s", p.id("bad").encode())), pieces)
        if p.case.side == "ingest":
            await p.fails(1007)
        else:
            await p.goes_on()


for what, data in BAD_TEXTS:
    bad_text(f"with {what} is refused", b'{"event_id":"%s","payload":"' + data + b'"}')
bad_text("that ends within a code point is refused", b'{"event_id":"%s"}\xf0\x9f\x98')
bad_text("that is wrong in a later fragment is refused", b'{"event_id":"%s","payload":"' + b"a" * 100 + b'\xed\xa0\x80"}', 37)
bad_text("that is wrong in its first fragment is refused, at the latest when it ends",
         b'{"event_id":"\xff%s","payload":"' + b"a" * 100 + b'"}', 20)


# --- 5.5: control frames ---

@case("a ping of 125 bytes, all values, is answered with the same bytes", "5.5.2")
async def play(p):
    await p.pong(bytes(range(131, 256)))
    await p.pong(b"")
    await p.goes_on()


@case("of ten pings sent at once the last is answered", "5.5.3", ingest="non-strict: only the first is sure of an answer")
async def play(p):
    pings = [b"ping %d" % i for i in range(10)]
    p.peer.write(b"".join(frame(PING, ping, mask=p.peer.masks) for ping in pings))
    await soon(lambda: p.peer.of(PONG), "a pong")
    await p.pong(b"end")
    answered = p.peer.of(PONG)[:-1]
    if any(pong not in pings for pong in answered) or answered != sorted(answered):
        raise Wrong(f"expected: pongs of pings, in order; got {answered}")
    if pings[-1] not in answered:
        p.allow(f"expected: a pong for {pings[-1]}; got {answered}", "non-strict: only the first is sure of an answer")
    await p.goes_on()


@case("a pong that nobody asked for is ignored", "5.5.3")
async def play(p):
    p.send(PONG, b"")
    p.send(PONG, bytes(125))
    await p.goes_on()


for op, what in ((PING, "ping"), (PONG, "pong"), (CLOSE, "close frame")):
    payload = close_payload(1000, b"a" * 124) if op == CLOSE else bytes(126)
    violation(f"a {what} of 126 bytes is refused", "5.5", (op, payload, {}), ingest=DROPPED)
    violation(f"a {what} in fragments is refused", "5.5", (op, payload[:2], {"fin": False}))
for op in (3, 4, 5, 6, 7, 11, 12, 13, 14, 15):
    violation(f"a frame of the unknown opcode {op} is refused", "5.2", (op, b"{}", {}))
for bit, rsv in ((1, 4), (2, 2), (3, 1)):
    violation(f"a text frame with reserved bit {bit} is refused", "5.2", (TEXT, b"{}", {"rsv": rsv}))
    violation(f"a ping with reserved bit {bit} is refused", "5.2", (PING, b"", {"rsv": rsv}))
    violation(f"a continuation with reserved bit {bit} is refused", "5.2", (TEXT, b"{", {"fin": False}),
              (CONT, b"}", {"rsv": rsv}))


# --- 5.3: masking ---

UNMASKED = "non-strict: taken like any other frame"


violation("a masked frame of a server is refused", "5.1", (TEXT, b"{}", {"mask": True}), sides=["source"])


@case("a frame of a client that is not masked is refused, behind one that is", "5.1", ["ingest"], ingest=UNMASKED)
async def play(p):
    p.send(TEXT, p.event("before"))
    p.send(TEXT, p.event("unmasked"), mask=False)
    p.allow("expected: close 1002", UNMASKED)
    await p.goes_on()


@case("a first frame of a client that is not masked is refused", "5.1", ["ingest"])
async def play(p):
    p.send(TEXT, p.never("unmasked"), mask=False)
    await p.fails(1002)


@case("what the listener sends as a client is masked, by a new key each time", "5.3", ["source"])
async def play(p):
    for i in range(8):
        await p.pong(b"ping %d" % i)
    keys = [key for _, key in heads(bytes(p.peer.raw))]
    if None in keys or len(set(keys)) < 8 or bytes(4) in keys:
        raise Wrong(f"expected: 8 different masking keys; got {keys}")


@case("what the listener sends as a server is not masked", "5.1", ["ingest"])
async def play(p):
    p.send(TEXT, p.event("acked"))
    await p.pong(b"ping")
    await soon(lambda: p.peer.of(TEXT), "an ack")
    if any(key for _, key in heads(bytes(p.peer.raw))):
        raise Wrong("expected: no masking keys; got some")


# --- 5.5.1, 7: closing ---

async def close(p, before, payload, code, after=b""):
    """Sends a close frame between others. Checks that the answer has the code, and that TCP ends."""
    p.peer.is_mute = True               # the library would answer the answer
    p.peer.write(before + frame(CLOSE, payload, mask=p.peer.masks) + after)
    if p.case.side == "source":         # the server ends TCP first, as soon as it has the answer
        await soon(lambda: p.peer.of(CLOSE) or p.peer.end or p.peer.protocol.parser_exc, "an answer to a close frame")
        p.peer.finish()
    await p.fails(code)


def closing(name, section, payload, answer):
    @case(name, section)
    async def play(p):
        await close(p, p.text("before"), payload, answer)


def with_code(code, answer, what):
    closing(f"a close frame of code {code}{what}", "7.4", close_payload(code, b"bye" if code % 2 else b""), answer)


SINCE = "non-strict: registered since, answered with 1002"
for code in (1000, 1001, 1002, 1003, 1007, 1008, 1009, 1010, 1011, 3000, 3999, 4000, 4999):
    with_code(code, code, " is answered with the same code, then TCP ends")
for code in (0, 999, 1004, 1005, 1006, 1015, 1016, 1100, 2000, 2999, 5000, 65535):
    with_code(code, 1002, ", which is not to be sent, is answered with 1002")


def with_later_code(code):
    @case(f"a close frame of code {code} is answered with the same code", "7.4.2", ingest=SINCE)
    async def play(p):
        if p.case.side == "ingest":
            p.allow("expected: the same code", SINCE)
        await close(p, p.text("before"), close_payload(code), 1002 if p.case.side == "ingest" else code)


for code in (1012, 1013, 1014):
    with_later_code(code)


closing("a close frame without a code is answered with one without a code", "5.5.1", b"", 1005)
closing("a close frame of one byte is refused", "5.5.1", b"\x03", 1002)
closing("a close frame whose reason is not UTF-8 is refused", "5.5.1, 8.1", close_payload(1000, b"\xed\xa0\x80"), 1007)
closing("a close frame with a reason of 123 bytes is answered", "5.5.1", close_payload(1000, b"a" * 123), 1000)


@case("what comes after a close frame is not read", "5.5.1")
async def play(p):
    await close(p, p.text("before"), close_payload(1000), 1000,
                frame(TEXT, p.never("after"), mask=p.peer.masks) + frame(PING, b"after", mask=p.peer.masks))


@case("a close frame between fragments ends the connection, and the half message is nothing", "5.4, 5.5.1")
async def play(p):
    half = frame(TEXT, p.never("half")[:20], fin=False, mask=p.peer.masks)
    await close(p, p.text("before") + half, close_payload(1000), 1000)


@case("a half-close after an event ends the connection, and the event is stored", "7.1.1")
async def play(p):
    p.send(TEXT, p.event("before"))
    p.peer.finish()
    await p.fails(None)


@case("a reset after an event ends the connection, and the event is stored", "7.1.1")
async def play(p):
    p.send(TEXT, p.event("before"))
    await p.peer.writer.drain()
    p.peer.reset()
    await p.recovers()


@case("half a frame and the end of TCP are nothing", "7.1.1")
async def play(p):
    whole = frame(TEXT, p.never("half"), mask=p.peer.masks)
    p.send(TEXT, p.event("before"))
    p.peer.write(whole[:-5])
    p.peer.finish()
    await p.fails(None)


@case("a server that answers no TCP end after the close frames is left all the same", "7.1.1", ["source"])
async def play(p):
    p.peer.is_mute = True
    p.send(CLOSE, close_payload(1001))
    await soon(lambda: p.peer.of(CLOSE), "an answer to a close frame")
    await p.recovers()
