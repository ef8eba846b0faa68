"""The base of all cases: owns the directory's servers, the listeners, and the record of what must be in the tables."""
import asyncio
import json
import os
import signal

import rig.listener
from peer import DEADLINE_S, Dialler, Feed, Wrong, soon, stop_all
from rig.run import TREE
from rig.servers import Servers
from rig.waiting import SLOW, RigError, comes_true

PROGRAM = os.environ.get("WSONCE_TEST_BIN") or f"{TREE}/build/wsonce"
MAX_MESSAGE = 100000
HEAD_BYTES = 4096                       # bytes kept of a source's message that is too long


class Listener(rig.listener.Listener):
    def __init__(self, rig, name):
        super().__init__(f"{rig.directory}/{name}")
        self.rig = rig

    async def start(self, *options, redis=None, postgres=None, admin=None, env=None):
        await self.launch(self.words(
            PROGRAM, redis or self.rig.redis_url, postgres or self.rig.conninfo, "--claim-ttl", "3", "--max-message",
            str(MAX_MESSAGE), "--drain-timeout", "5", *options, admin=admin), env=env)
        last = "ingest is open" if "--ingest" in options else "admin is open"
        await soon(lambda: last in self.log() or self.is_over, f"{self.name} starts: see {self.log_path}")
        if self.is_over:
            raise RigError(f"{self.name} did not start: {self.log()[-300:]}")
        self.find_port()
        return self

    async def ask(self, path, method="GET"):
        """Returns the whole answer of the admin socket."""
        return await asyncio.wait_for(rig.listener.fetch(self.admin, path, method), DEADLINE_S)

    async def leave(self, number=signal.SIGTERM):
        """Ends it. Returns its exit status."""
        self.signal(number)
        if not await self.ends(20 * SLOW):
            await self.kill()
            raise Wrong(f"expected: {self.name} ends after SIGTERM; it had to be killed")
        return self.process.returncode


class Producer:
    """A healthy producer that stays connected throughout, and awaits the ack of each event."""

    def __init__(self, port):
        self.port = port
        self.peer = None
        self.read = 0
        self.acks = {}

    async def open(self):
        self.peer = await Dialler(self.port).open()
        return self

    def has_ack(self, event_id):
        for frame in self.peer.frames[self.read:]:
            ack = json.loads(bytes(frame.data)) if frame.opcode == 1 else {}
            self.acks[ack.get("event_id")] = ack.get("status")
        self.read = len(self.peer.frames)
        return event_id in self.acks

    async def send(self, message, event_id):
        self.peer.text(message)
        await soon(lambda: self.has_ack(event_id) or self.peer.end,
                   "a healthy producer on the same listener gets its ack")
        if self.acks.get(event_id) != "persisted":
            raise Wrong(f"expected: a healthy producer's event is persisted; got {self.acks.get(event_id)}, "
                        f"connection {self.peer.end or 'open'}")


class Rig(Servers):
    def __init__(self, directory):
        super().__init__(directory)
        self.feed = Feed()
        self.listeners = []
        self.rows = {}                  # event_id -> (payload, name of the case)
        self.letters = {}               # raw bytes of a dead letter -> names of the cases, one for each time it is sent
        self.garbled = []               # ids in dead letters whose other bytes nobody foresees
        self.healthy = None             # Producer
        self.healthy_events = 0

    async def listener(self, name, *options, **servers):
        listener = Listener(self, name)
        self.listeners.append(listener)
        return await listener.start(*options, **servers)

    # --- expectations ---

    def event(self, case, event_id, pad=0, text=None):
        """Returns the message of an event that must become a row, exactly pad bytes long if pad is given."""
        payload = {"text": text if text is not None else ""}
        message = self.write(event_id, payload)
        if pad:
            payload["text"] = "a" * (pad - len(message))
            message = self.write(event_id, payload)
        self.rows[event_id] = (payload, case)
        return message

    @staticmethod
    def write(event_id, payload):
        return json.dumps({"event_id": event_id, "payload": payload}, ensure_ascii=False).encode()

    def letter(self, case, raw):
        self.letters.setdefault(raw, []).append(case)
        return raw

    async def is_healthy(self):
        """Returns whether another producer of the same listener is served."""
        self.healthy_events += 1
        event_id = f"healthy-{self.healthy_events}"
        await self.healthy.send(self.event("healthy producer", event_id), event_id)

    # --- the tables ---

    async def read_rows(self):
        out = await self.sql("SELECT encode(convert_to(event_id, 'UTF8'), 'hex') || ' ' || "
                             "encode(convert_to(payload::text, 'UTF8'), 'hex') FROM events")
        pairs = (line.split(" ") for line in out.splitlines())
        return {bytes.fromhex(i).decode(): json.loads(bytes.fromhex(p)) for i, p in pairs}

    async def read_letters(self):
        """Returns a dictionary: raw bytes -> how often they were seen."""
        out = await self.sql("SELECT encode(raw, 'hex') || ' ' || seen FROM dead_letters")
        pairs = (line.partition(" ") for line in out.splitlines())
        return {bytes.fromhex(raw): int(seen) for raw, _, seen in pairs}

    async def settle(self):
        """Waits until all expected rows are there. Returns the tables."""
        rows, letters = {}, {}

        async def are_there():
            rows.update(await self.read_rows())
            letters.update(await self.read_letters())
            return self.rows.keys() <= rows.keys() and all(letters.get(raw, 0) >= len(cases) for raw, cases in self.letters.items())
        await comes_true(are_there, DEADLINE_S, 0.2)
        return rows, letters

    async def start(self):
        if not os.access(PROGRAM, os.X_OK):
            raise RigError(f"no {PROGRAM}: run make programs")
        await asyncio.gather(self.start_servers(), self.feed.start())

    async def stop(self):
        """Ends all children by pid, the servers last."""
        for listener in self.listeners:
            await listener.kill()
        stop_all()
        if self.feed.server:
            self.feed.stop()
        await self.stop_servers()
