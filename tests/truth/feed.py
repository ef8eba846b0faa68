"""The feed of a cell: sends 20 events a second to each connection, and knows which it has sent. It can refuse, fall silent,
and change its format."""
import asyncio
import json

from rig.feed import Connection, event_message
from rig.frame import TEXT
from rig.sockets import free_port, serve

EVERY_S = 0.05


class Line(Connection):
    def __init__(self, feed):
        super().__init__()
        self.feed = feed
        self.listener = None            # its name, by the profile's header

    def on_open(self, request):
        self.listener = request.headers["x-listener"]
        self.feed.lines.append(self)
        for n in sorted(self.feed.unacked):
            self.write(TEXT, message_of(n))

    def hear(self, text):
        self.feed.unacked.discard(json.loads(text)["ack"])

    def connection_lost(self, _):
        if self in self.feed.lines:
            self.feed.lines.remove(self)


def message_of(n):
    return event_message(f"e-{n}", f'{{"n": {n}}}')


class Feed:
    def __init__(self, is_acked):
        self.is_acked = is_acked        # it sends an event again, on each new connection, until it is acked
        self.port = free_port()
        self.server = None
        self.lines = []
        self.unacked = set()
        self.sent = set()
        self.mood = "events"            # or "silent", or "strange"
        self.sending = None

    def profile(self, lines, members):
        rule = {"name": "event", "when": {"/event_id": {"exists": True}}, "action": "event", "id": [["/event_id"]],
                "type": "/event_type", "payload": "/payload"}
        if self.is_acked:
            rule["ack"] = {"ack": "${/payload/n}"}
        url = f"ws://127.0.0.1:{self.port}/"
        return {"name": "feed", "url": url, "headers": {"x-listener": "${env:LISTENER}"}, "idle_timeout_s": 4, "rules": [rule],
                **({"lines": lines, "mirrors": [f"{url}{n}" for n in range(1, lines)]} if lines > 1 else {}), **members}

    async def start(self):
        await self.accept()
        self.sending = asyncio.get_running_loop().create_task(self.send())

    async def accept(self):
        self.server, _ = await serve(lambda: Line(self), self.port)

    def refuse(self):
        self.server.close()
        for line in list(self.lines):
            line.close(1001)

    async def send(self):
        n = 0
        while True:
            await asyncio.sleep(EVERY_S)
            if not self.lines or self.mood == "silent":
                continue
            n += 1
            if self.mood == "events":
                self.sent.add(f"e-{n}")
                self.unacked |= {n} if self.is_acked else set()
            for line in self.lines:
                line.write(TEXT, message_of(n) if self.mood == "events" else b'{"kind": "other", "n": %d}' % n)

    def stop(self):
        if self.sending:
            self.sending.cancel()
        if self.server:
            self.refuse()
