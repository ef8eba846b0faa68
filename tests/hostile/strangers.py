"""Strangers at each port, while a feed or producers must be served: owns the scenes, which are a flood of requests to the admin
port, and guesses of tokens with idle connections."""
import asyncio
import signal
import time

from clients import Crowd
from listener import Listener
from rig.load import Producer, Source
from rig.process import read_text
from rig.sockets import free_port

RATE = 600                          # of the feed, events a second
KEPT = 0.9                          # share of what the feed sent in the same window
LATE_S = 5                          # within which an operator elsewhere has the page, and a producer its place
ASKING, SILENT, GUESSING = 60, 2000, 200
PRODUCERS = 100                     # as many as --ingest-max-connections
TOKEN = "a-token-that-nobody-guesses"


def window(rig):
    return 8 if rig.options.quick else 20


class Feed(Source):
    def __init__(self, rig, name):
        super().__init__(f"{rig.directory}/{name}")
        self.rig = rig

    async def begin(self):
        await self.start(self.rig.programs, "--count", "0", "--rate", str(RATE), "--ledger", self.ledger)

    def lines(self):
        return read_text(self.ledger).count("\n")

    async def sent(self):
        """Returns how many events it has sent. The ledger is written in blocks: it is exact when a block has just come."""
        before = self.lines()
        while self.lines() == before and self.is_alive:
            await asyncio.sleep(0.02)
        return self.lines()

    async def rows(self):
        return int(await self.rig.sql(f"SELECT count(*) FROM events WHERE event_id LIKE '{self.name}-%'"))

    async def share(self, seconds):
        """Returns which share of the events that it sends in these seconds is stored in them, and how many it sends."""
        first_sent, first_rows = await self.sent(), await self.rows()
        await asyncio.sleep(seconds)
        sent, rows = await self.sent() - first_sent, await self.rows() - first_rows
        return rows / max(sent, 1), sent

    async def finish(self):
        """Returns its summary."""
        await self.end(signal.SIGINT, 60)
        return self.told()


class Scene:
    """A feed, and a listener with the default settings except flags."""

    def __init__(self, rig, name, *flags, admin=None):
        self.rig = rig
        self.feed = Feed(rig, name)
        self.listener = Listener(rig, f"{name}-listener", *flags, admin=admin)
        self.crowds = []

    async def __aenter__(self):
        await self.feed.begin()
        await self.listener.start("--source", self.feed.url)
        await asyncio.sleep(1)
        return self

    async def bring(self, kind, count, port):
        crowd = Crowd(self.rig, kind, count)
        self.crowds.append(crowd)
        await crowd.start(port)
        return crowd

    async def judge_feed(self, during):
        share, sent = await self.feed.share(window(self.rig))
        self.rig.check(share >= KEPT, f"the feed keeps {KEPT} {during}", f"{100 * share:.0f} % of {sent} events")

    async def __aexit__(self, failure, *_):
        try:
            if not failure:
                await self.judge()
        finally:
            for crowd in self.crowds:
                await crowd.leave()
            await self.feed.kill()
            await self.listener.kill()

    async def judge(self):
        for crowd in self.crowds:
            self.rig.say(crowd.describe())
            await crowd.leave()
        sent = (await self.feed.finish())["events"]

        async def are_stored():
            return await self.feed.rows() == sent
        await self.rig.wait_for(are_stored, 30)
        rows = await self.feed.rows()
        self.rig.check(rows == sent > 0, "each event of the feed has its row", f"{rows} of {sent}")
        self.rig.check(await self.listener.leave(30) == 0, "the listener leaves in order", self.listener.log_path)


async def ask_in_time(rig, listener):
    """Returns the time of the slowest of some requests by an operator at another address than the crowd."""
    slowest = 0.0
    for _ in range(5):
        began = time.monotonic()
        answered = await listener.metrics()
        slowest = max(slowest, time.monotonic() - began if answered else float("inf"))
    rig.check(slowest <= LATE_S, f"an operator elsewhere is answered within {LATE_S} s", f"{slowest:.2f} s")


async def flood_admin(rig):
    port = free_port()
    async with Scene(rig, "admin-flood", admin=f"127.0.0.1:{port}") as scene:
        crowd = await scene.bring("ask", ASKING, port)
        await scene.judge_feed(f"while {ASKING} clients ask the admin port")
        await ask_in_time(rig, scene.listener)
        rig.check(crowd.figure("messages") > 0, "the crowd gets answers, too", f"{crowd.figure('messages'):.0f}")


async def guess_tokens(rig):
    """Connects as many producers as are allowed, after strangers that are silent and others that guess tokens."""
    listener = Listener(rig, "guesses", "--ingest-token", TOKEN, "--ingest-max-connections", str(PRODUCERS))
    await listener.start()
    silent, guess, named = Crowd(rig, "silent", SILENT), Crowd(rig, "guess", GUESSING), Producer(f"{rig.directory}/named")
    try:
        await silent.start(listener.port)
        await guess.start(listener.port)
        await asyncio.sleep(2)
        began = time.monotonic()
        await named.start(rig.programs, [listener.port], "--token", TOKEN, "--connections", str(PRODUCERS), "--count", "0",
                          "--rate", "600", "--verify", rig.conninfo)

        async def are_in():
            return await listener.metric("ingest_connections") == PRODUCERS
        came = await rig.wait_for(are_in, LATE_S)
        rig.check(came, f"{PRODUCERS} producers have their places within {LATE_S} s", f"{time.monotonic() - began:.1f} s, with "
                  f"{SILENT} idle strangers and {GUESSING} who guess")
        await asyncio.sleep(window(rig))
        rig.check(guess.figure("messages") and not guess.figure("opened"), "guesses are in vain",
                  f"{guess.figure('messages'):.0f} refused, {guess.figure('opened'):.0f} let in")
        status = await named.end(signal.SIGINT, 60)
        figures = named.told()
        rig.check(status == 0 and figures["events"] > 0 and not figures["unanswered"], "each of their events has its row and its ack",
                  f"{figures['events']} events, {figures['acks']} acks, {figures['reconnects']} reconnects")
        for crowd in (silent, guess):
            rig.say(crowd.describe())
            await crowd.leave()
        rig.check(await listener.leave(30) == 0, "the listener leaves in order", listener.log_path)
    finally:
        await named.kill()
        for crowd in (silent, guess):
            await crowd.leave()
        await listener.kill()


async def play(rig):
    await flood_admin(rig)
    await guess_tokens(rig)
