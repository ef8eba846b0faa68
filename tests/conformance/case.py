"""A case: a sentence that is true, the section of the RFC that requires it, the side of the listener that it tests, and the
verdict. A case fails by raising Wrong, or any other exception."""
import asyncio

from peer import Dialler, Wrong, soon
from rig.frame import PING, TEXT, frame

STRICT = "strict"
DROPPED = "non-strict: dropped without a close frame"


class Case:
    def __init__(self, name, section, side, play, verdict=STRICT, code=None):
        self.name = name
        self.section = section
        self.side = side                # "ingest", "source", "door"
        self.play = play                # coroutine function of Play, or of Rig at the door
        self.verdict = verdict          # its verdict in README.md
        self.answer = None              # function of (rig, peer, response): how a source's handshake is answered
        self.number = 0
        self.error = None
        self.seen = set()               # verdicts that showed

    @property
    def title(self):
        return f"{self.side}: {self.name}"

    @property
    def path(self):
        return f"/{self.side}-{self.number}"


def cases_of(cases, side):
    """A decorator by which a file adds its cases of that side to the list."""
    def case(name, section):
        def declare(play):
            cases.append(Case(name, section, side, play))
            return play
        return declare
    return case


class Play:
    """A running case: a connection of the listener, and the steps of which cases are made."""

    def __init__(self, rig, case):
        self.rig = rig
        self.case = case
        self.peer = None
        self.connections = 0

    async def open(self):
        self.connections += 1
        if self.case.side == "ingest":
            self.peer = await Dialler(self.rig.main.port).open()
        else:
            self.peer = await self.rig.feed.nth(self.case.path, self.connections)
        return self.peer

    def id(self, suffix):
        return f"{self.case.side[0]}{self.case.number}-{suffix}"

    def event(self, suffix, pad=0, text=None):
        return self.rig.event(self.case.title, self.id(suffix), pad, text)

    def text(self, suffix):
        """Returns the frame of an event."""
        return frame(TEXT, self.event(suffix), mask=self.peer.masks)

    def never(self, suffix):
        """Returns the message of an event that must not become a row."""
        return self.rig.write(self.id(suffix), {})

    def letter(self, raw):
        return self.rig.letter(self.case.title, raw)

    def send(self, op, payload=b"", **kinds):
        self.peer.send(op, payload, **kinds)

    def allow(self, what, verdict):
        """Records a deviation from the RFC, which the table must name."""
        self.case.seen.add(verdict)
        if self.case.verdict != verdict:
            raise Wrong(what)

    async def pong(self, payload):
        before = self.peer.of(10).count(payload)
        self.send(PING, payload)
        await soon(lambda: self.peer.of(10).count(payload) > before or self.peer.end,
                   "a pong with the bytes of the ping")
        if self.peer.end:
            raise Wrong(f"expected: a pong; the connection ended: {self.peer.close or self.peer.end}")

    async def goes_on(self):
        """Checks that the same connection still works."""
        self.send(TEXT, self.event("then"))
        await self.pong(b"are you there?")
        self.peer.judge()

    async def fails(self, *codes):
        """Checks that the connection is ended with one of the codes, that no other is, and that it may be opened again."""
        got = await self.peer.ended(f"with {' or '.join(map(str, codes))}")
        if got is None and None not in codes:
            self.allow(f"expected: close {codes}; the connection was dropped without a close frame", DROPPED)
        elif got not in codes:
            raise Wrong(f"expected: close {codes}; got {self.peer.close}")
        await self.recovers()

    async def recovers(self):
        await self.rig.is_healthy()
        await self.open()
        self.send(TEXT, self.event("again"))
        await self.pong(b"again")


async def attempt(case, rig):
    """Runs a case. Sets case.error if it fails."""
    try:
        if case.side == "door":
            await case.play(rig)
            return
        play = Play(rig, case)
        try:
            await play.open()
            await case.play(play)
        finally:
            if play.peer and case.side == "ingest":
                play.peer.drop()
    except asyncio.CancelledError:
        raise
    except Wrong as wrong:
        case.error = str(wrong)
    except Exception as error:
        case.error = f"expected: the case runs; it stopped at {error!r}"
