"""The feed of a cell: sends 20 events a second to each connection, and knows which it has sent. It can refuse, fall silent,
and change its format."""
import asyncio
import collections
import json

from rig.feed import Connection, event_message
from rig.frame import TEXT
from rig.sockets import free_port, serve

EVERY_S = 0.05
OTHER = {"strange": b'{"kind": "other"}', "garbled": b'{"event_id": "", "payload": 1}'}     # no rule matches; the id is not one


class Line(Connection):
    def __init__(self, feed):
        super().__init__()
        self.feed = feed
        self.listener = None            # its name, by the profile's header: FLEET-NUMBER

    def refuses(self, request):
        return (503, {"error": "maintenance"}) if self.feed.is_closed else None

    @property
    def fleet(self):
        return self.listener.rpartition("-")[0]

    def on_open(self, request):
        self.listener = request.headers["x-listener"]
        self.feed.lines.append(self)
        if self.listener != self.feed.forgotten:
            for n in sorted(self.feed.unacked):
                self.write(TEXT, message_of(n))

    def http(self, request):
        """Answers `fill` of the profile: /FROM/TO."""
        first, last = request.path.strip("/").split("/")
        return 200, {"list": [json.loads(message_of(n)) for n in range(int(first), int(last) + 1)]}

    def hear(self, text):
        self.feed.unacked.discard(json.loads(text)["ack"])

    def connection_lost(self, _):
        if self in self.feed.lines:
            self.feed.lines.remove(self)


def message_of(n):
    return event_message(f"e-{n}", f'{{"n": {n}, "text": "{"x" * 500}"}}')


class Feed:
    def __init__(self, is_acked, has_holes):
        self.has_holes = has_holes      # no connection gets every 20th event, only who asks for it
        self.is_acked = is_acked        # it sends an event again, on each new connection, until it is acked
        self.port = free_port()
        self.server = None
        self.lines = []
        self.unacked = set()
        self.sent = collections.defaultdict(set)        # ids by fleet
        self.mood = "events"            # or "silent", or a key of OTHER
        self.forgotten = None           # the listener to which it sends nothing, though it answers pings
        self.is_closed = False          # it answers handshakes with 503
        self.sending = None

    def profile(self, host, http, lines, members):
        rule = {"name": "event", "when": {"/event_id": {"exists": True}}, "action": "event", "id": [["/event_id"]],
                "type": "/event_type", "payload": "/payload"}
        if self.is_acked:
            rule["ack"] = {"ack": "${/payload/n}"}
        if self.has_holes:
            members = {**members, "gap": {"key": "/event_type", "seq": "/payload/n", "contiguous": True},
                       "fill": {"http": {"url": f"{http}/${{gap_from}}/${{gap_to}}"}, "events": "/list"}}
        url = f"ws://{host}:{self.port}/"
        return {"name": "feed", "url": url, "headers": {"x-listener": "${env:LISTENER}"}, "idle_timeout_s": 4, "rules": [rule],
                **({"lines": lines, "mirrors": [f"{url}{n}" for n in range(1, lines)]} if lines > 1 else {}), **members}

    async def start(self):
        await self.accept()
        self.sending = asyncio.get_running_loop().create_task(self.send())

    async def accept(self):
        self.server, _ = await serve(lambda: Line(self), self.port)

    def refuse(self):
        self.server.close()
        self.hang_up()

    def forbid(self, is_closed):
        self.is_closed = is_closed
        self.hang_up()

    def hang_up(self):
        for line in list(self.lines):
            line.close(1001)

    async def send(self):
        n = 0
        while True:
            await asyncio.sleep(EVERY_S)
            lines = [line for line in self.lines if not line.transport.is_closing()]
            if not lines or self.mood == "silent":
                continue
            n += 1
            if self.mood == "events":
                if self.has_holes and n % 20 == 0:
                    n += 1              # which shows that there is a hole
                for line in lines:
                    self.sent[line.fleet] |= {f"e-{n}", f"e-{n - (self.has_holes and n % 20 == 1 and n > 1)}"}
                self.unacked |= {n} if self.is_acked else set()
            for line in lines:
                if line.listener == self.forgotten:
                    continue
                line.write(TEXT, OTHER.get(self.mood) or message_of(n))

    def stop(self):
        if self.sending:
            self.sending.cancel()
        if self.server:
            self.refuse()
