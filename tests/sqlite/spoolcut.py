"""Power cuts under a spool: owns the lives of a listener whose events nobody resends, and checks Postgres after them."""
import os
import re
import signal

from powercut import LIFE_S, must_be_cut, on_disk, put_on_disk, take_from_disk
from rig.feed import Connection, event_message
from rig.frame import TEXT
from rig.listener import Listener
from rig.load import producer_payload
from rig.servers import Servers
from rig.sockets import serve
from rig.waiting import RigError, comes_true

ID = re.compile(rb'"event_id":"(s-\d+)"')
SYNC = "10ms"
BUDGET = "1MiB"                         # so that events leave memory


def payload_of(n):
    return producer_payload(n, 60 + n % 900)


class Line(Connection):
    def __init__(self, feed):
        super().__init__()
        self.feed = feed

    def on_open(self, request):
        self.feed.line = self

    def connection_lost(self, _exc):
        if self.feed.line is self:
            self.feed.line = None


class Feed:
    """Sends each event once."""

    def __init__(self):
        self.sent = 0
        self.line = None                # the listener's connection
        self.server = None
        self.url = ""

    async def start(self):
        self.server, port = await serve(lambda: Line(self))
        self.url = f"ws://127.0.0.1:{port}/"

    def push(self, count):
        for _ in range(count if self.line else 0):
            self.sent += 1
            self.line.write(TEXT, event_message(f"s-{self.sent}", payload_of(self.sent)))


class Trial:
    """A listener with its servers, its feed and its spool, through all of its lives."""

    def __init__(self, rig, name):
        self.rig = rig
        self.feed = Feed()
        self.servers = Servers(f"{rig.directory}/{name}", with_disk=False)
        self.folder = f"{self.servers.directory}/spool"
        self.synced = set()             # ids that a sync has put on the disk
        self.stored = 0

    async def start(self):
        os.makedirs(self.folder)
        await self.servers.start_servers()
        await self.feed.start()

    async def launch(self, is_postgres_there, *options, **how):
        servers = self.servers
        listener = Listener(f"{servers.directory}/listener")
        nowhere = f"host={servers.directory}/nowhere user=wsonce dbname=wsonce"
        await listener.launch(listener.words(
            f"{self.rig.programs}/wsonce", servers.redis_url, servers.conninfo if is_postgres_there else nowhere,
            "--source", self.feed.url, "--max-inflight-bytes", BUDGET, "--spool", self.folder, "--spool-sync", SYNC,
            *options), **how)
        return listener

    def note_synced(self):
        """Events that are away by now have settled."""
        with open(f"{self.rig.directory}/disk/synced", encoding="ascii") as told:
            for name, end in map(str.split, told):
                path = f"{self.folder}/{name}"
                if os.path.exists(path):
                    with open(path, "rb") as file:
                        self.synced.update(name.decode() for name in ID.findall(file.read(int(end))))

    async def live_until_cut(self, seed, is_postgres_there, after, how=None):
        disk = f"{self.rig.directory}/disk/after"
        put_on_disk(self.folder, disk)
        listener = await self.launch(is_postgres_there, "--spool-after", after,
                                     env=on_disk(self.rig, seed, 1 + seed * 11 % 37, how))

        def push():
            self.feed.push(20)
            return listener.is_over
        await comes_true(push, LIFE_S, every=0.002)
        await must_be_cut(listener)
        self.note_synced()
        take_from_disk(self.folder, disk)

    async def drain(self):
        """Runs a life without a cut, in which everything on the disk is stored."""
        listener = await self.launch(True)

        async def is_settled():
            metrics = await listener.metrics()
            return metrics.get("postgres_up") == 1 and metrics.get("in_flight") == 0
        if not await comes_true(is_settled, LIFE_S):
            raise RigError(f"the spool is not stored: {listener.last_words()}")
        await listener.end(signal.SIGTERM, LIFE_S)

    async def check(self):
        """Returns what is wrong with the table; None if it is right."""
        rows = await self.servers.postgres.copy_out("SELECT event_id, payload FROM events", f"{self.servers.directory}/rows",
                                                    "wsonce")
        ids = {event_id for event_id, _ in rows}
        self.stored = len(ids)
        lost = self.synced - ids
        altered = [event_id for event_id, payload in rows
                   if not 1 <= int(event_id[2:]) <= self.feed.sent or payload != payload_of(int(event_id[2:]))]
        if lost:
            return f"{len(lost)} events that were synced are lost, such as {min(lost)}"
        if altered:
            return f"{len(altered)} rows are not what was sent, such as {altered[0]}"
        return f"{len(rows) - len(ids)} rows are doubled" if len(rows) != len(ids) else None

    async def end(self):
        if self.feed.server:
            self.feed.server.close()
        await self.servers.stop_servers()


async def cuts(rig, count):
    """Cuts power in turns without Postgres, and while it stores what the last cut has left; then the spool is stored."""
    trial = Trial(rig, "spool")
    try:
        await trial.start()
        for life in range(count):
            seed, is_there = rig.seed + life, life % 2 == 1
            await trial.live_until_cut(seed, is_there, "0" if is_there or life % 4 else "30ms")
            if is_there or life == count - 1:
                await trial.drain()
                fault = await trial.check()
                if fault:
                    return f"life {life}: {fault}"
    finally:
        await trial.end()
    rig.say(f"{count} power cuts of a spool, of {trial.feed.sent} events {len(trial.synced)} were synced and {trial.stored} "
            "stored")
    return None if len(trial.synced) > trial.feed.sent / 2 else "less than half was synced"


async def lies(rig, count):
    """Tests the rig itself: on a disk that does not sync, it must find a loss."""
    trial = Trial(rig, "spool-lies")
    try:
        await trial.start()
        for life in range(count):
            await trial.live_until_cut(rig.seed + life, False, "0", "WSONCE_DISK_LIES")
            await trial.drain()
            if await trial.check():
                return None
    finally:
        await trial.end()
    return f"{count} power cuts of a disk that lies, and nothing was found"
