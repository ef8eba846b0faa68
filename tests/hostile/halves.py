"""Half messages beside a feed: owns a feed, a listener with all defaults, and the verdicts on them. 280 producers send 1 MiB
less a byte each, which is more than the budget; the feed must not notice."""
import asyncio
import json
import signal
import socket
import types

from clients import Crowd
from listener import Listener
from servers import send_signal, start

COUNT = 280
RATE = 600                          # of the feed, events a second
KEPT = 0.9
MIB = 1 << 20
BUDGET = 256 * MIB                  # the default
BESIDE = 96 * MIB                   # what a listener may take beside the budget's quarter: 32 MiB, the feed's events, and
                                    # what libwebsockets holds of 280 connections


def free_port():
    with socket.socket() as found:
        found.bind(("127.0.0.1", 0))
        return found.getsockname()[1]


class Feed:
    def __init__(self, rig, name):
        self.rig = rig
        self.name = name
        self.port = free_port()
        self.output = f"{rig.directory}/{name}.json"
        self.ledger = f"{rig.directory}/{name}.sent"
        self.process = None

    async def start(self):
        with open(self.output, "wb") as out:
            self.process = await start([f"{self.rig.programs}/wsonce-source", "--listen", f"127.0.0.1:{self.port}", "--count", "0",
                                        "--rate", str(RATE), "--id-prefix", self.name, "--json", "--stall-timeout", "0",
                                        "--ledger", self.ledger], f"{self.rig.directory}/{self.name}.log", stdout=out)

    def lines(self):
        with open(self.ledger, "rb") as file:
            return file.read().count(b"\n")

    async def sent(self):
        """How many events it has sent. The ledger is written in blocks: it is exact when one has just come."""
        before = self.lines()
        while self.lines() == before and self.process.returncode is None:
            await asyncio.sleep(0.02)
        return self.lines()

    async def rows(self):
        return int(await self.rig.postgres.sql(f"SELECT count(*) FROM events WHERE event_id LIKE '{self.name}-%'", "wsonce"))

    async def share(self, seconds):
        """What part of the events that it sends in these seconds is stored in them, and how many it sends."""
        first_sent, first_rows = await self.sent(), await self.rows()
        await asyncio.sleep(seconds)
        sent, rows = await self.sent() - first_sent, await self.rows() - first_rows
        return rows / max(sent, 1), sent

    async def stop(self):
        """How many events it has sent."""
        send_signal(self.process.pid, signal.SIGINT)
        await asyncio.wait_for(self.process.wait(), 60)
        with open(self.output, "rb") as file:
            return json.load(file)

    async def end(self):
        if self.process and self.process.returncode is None:
            send_signal(self.process.pid, signal.SIGKILL)
            await self.process.wait()


async def judge_memory(rig, listener):
    peak, bound = listener.memory("VmHWM"), BUDGET // 4 + BESIDE
    rig.check(0 < peak <= bound, "half messages have a quarter of the budget", f"peak {peak / MIB:.1f} MiB of {bound / MIB:.0f}")
    ended = (await listener.metrics()).get("ingest_unfinished_total", 0)
    rig.check(ended > 0, "who holds most is hung up on", f"{ended:.0f} connections")


async def play(rig):
    feed = Feed(rig, "feed")
    listener = Listener(rig, ["--source", f"ws://127.0.0.1:{feed.port}/"], "halves")
    crowd = Crowd(types.SimpleNamespace(tree=rig.tree, directory=rig.directory, listener=listener), "half", COUNT)
    try:
        await feed.start()
        await listener.start()
        await asyncio.sleep(2)
        await crowd.start()
        await rig.wait_for(lambda: asyncio.sleep(0, crowd.figure("opened") >= COUNT), 30)
        share, sent = await feed.share(8 if rig.options.quick else 20)
        rig.say(crowd.describe())
        rig.check(crowd.figure("opened") >= COUNT, f"{COUNT} producers send half messages", f"{crowd.figure('opened'):.0f} came")
        rig.check(share >= KEPT, f"the feed keeps {KEPT} of what it sends", f"{100 * share:.0f} % of {sent} events")
        await judge_memory(rig, listener)
        await crowd.end()
        sent = await feed.stop()
        rig.check(await listener.stop(30) == 0, "the listener leaves in order", listener.log)
        rows = await feed.rows()
        rig.check(rows == sent["events"] > 0, "each event of the feed has its row", f"{rows} of {sent['events']}")
    finally:
        if crowd.process:
            await crowd.end()
        await feed.end()
        await listener.end()
