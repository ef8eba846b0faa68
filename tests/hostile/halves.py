"""Half messages beside a feed: owns a feed, a listener with all defaults, and the verdicts on them. 280 producers send 1 MiB
less a byte each, which is more than the budget; the feed must not notice."""
import asyncio
import signal

from clients import Crowd
from listener import Listener
from rig.load import Source
from rig.process import read_text

COUNT = 280
RATE = 600                          # of the feed, events a second
KEPT = 0.9
MIB = 1 << 20
BUDGET = 256 * MIB                  # the default
BESIDE = 96 * MIB                   # what a listener may take beside the budget's quarter: 32 MiB, the feed's events, and
                                    # what libwebsockets holds of 280 connections


class Feed(Source):
    def __init__(self, rig, name):
        super().__init__(f"{rig.directory}/{name}")
        self.rig = rig

    async def begin(self):
        await self.start(self.rig.programs, "--count", "0", "--rate", str(RATE), "--ledger", self.ledger)

    def lines(self):
        return read_text(self.ledger).count("\n")

    async def sent(self):
        """How many events it has sent. The ledger is written in blocks: it is exact when one has just come."""
        before = self.lines()
        while self.lines() == before and self.is_alive:
            await asyncio.sleep(0.02)
        return self.lines()

    async def rows(self):
        return int(await self.rig.sql(f"SELECT count(*) FROM events WHERE event_id LIKE '{self.name}-%'"))

    async def share(self, seconds):
        """What part of the events that it sends in these seconds is stored in them, and how many it sends."""
        first_sent, first_rows = await self.sent(), await self.rows()
        await asyncio.sleep(seconds)
        sent, rows = await self.sent() - first_sent, await self.rows() - first_rows
        return rows / max(sent, 1), sent

    async def finish(self):
        """What it says of itself."""
        await self.end(signal.SIGINT, 60)
        return self.told()


async def judge_memory(rig, listener):
    peak, bound = listener.memory("VmHWM"), BUDGET // 4 + BESIDE
    rig.check(0 < peak <= bound, "half messages have a quarter of the budget", f"peak {peak / MIB:.1f} MiB of {bound / MIB:.0f}")
    ended = (await listener.metrics()).get("ingest_unfinished_total", 0)
    rig.check(ended > 0, "who holds most is hung up on", f"{ended:.0f} connections")


async def play(rig):
    feed = Feed(rig, "feed")
    listener = Listener(rig, "halves")
    crowd = Crowd(rig, "half", COUNT)
    try:
        await feed.begin()
        await listener.start("--source", feed.url)
        await asyncio.sleep(2)
        await crowd.start(listener.port)
        await rig.wait_for(lambda: crowd.figure("opened") >= COUNT, 30)
        share, sent = await feed.share(8 if rig.options.quick else 20)
        rig.say(crowd.describe())
        rig.check(crowd.figure("opened") >= COUNT, f"{COUNT} producers send half messages", f"{crowd.figure('opened'):.0f} came")
        rig.check(share >= KEPT, f"the feed keeps {KEPT} of what it sends", f"{100 * share:.0f} % of {sent} events")
        await judge_memory(rig, listener)
        await crowd.leave()
        sent = await feed.finish()
        rig.check(await listener.leave(30) == 0, "the listener leaves in order", listener.log_path)
        rows = await feed.rows()
        rig.check(rows == sent["events"] > 0, "each event of the feed has its row", f"{rows} of {sent['events']}")
    finally:
        await crowd.leave()
        await feed.kill()
        await listener.kill()
