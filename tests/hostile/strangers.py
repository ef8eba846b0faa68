"""Strangers at each door, beside a feed or producers that have to be served: owns the scenes, which are a flood of requests to the
admin port, no file descriptor left, and guesses of tokens with idle connections."""
import asyncio
import json
import resource
import signal
import time
import types

from clients import Crowd
from halves import Feed, free_port
from listener import Listener
from servers import send_signal, start

KEPT = 0.9                          # of what the feed sent in the same window
LATE_S = 5                          # within which an operator elsewhere has the page, and a producer its place
SPIN = 0.5                          # of a core, beyond what the feed took before
ASKING, IDLE, SILENT, GUESSING = 60, 300, 2000, 200
PRODUCERS = 100                     # as many as --ingest-max-connections
GUESSES = 20                        # a second, of one address
TOKEN = "a-token-that-nobody-guesses"


def to(rig, port):
    """What a crowd needs of a rig, with this port in place of the listener's."""
    return types.SimpleNamespace(tree=rig.tree, directory=rig.directory, listener=types.SimpleNamespace(port=port))


def window(rig):
    return 8 if rig.options.quick else 20


class Scene:
    """A feed and a listener with all defaults but for flags."""

    def __init__(self, rig, name, *flags, admin_port=0):
        self.rig = rig
        self.feed = Feed(rig, name)
        self.listener = Listener(rig, ["--source", f"ws://127.0.0.1:{self.feed.port}/", *flags], name, admin_port)
        self.crowds = []

    async def __aenter__(self):
        await self.feed.start()
        await self.listener.start()
        await asyncio.sleep(1)
        return self

    async def bring(self, kind, count, port):
        crowd = Crowd(to(self.rig, port), kind, count)
        self.crowds.append(crowd)
        await crowd.start()
        return crowd

    async def judge_feed(self, during):
        share, sent = await self.feed.share(window(self.rig))
        self.rig.check(share >= KEPT, f"the feed keeps {KEPT} {during}", f"{100 * share:.0f} % of {sent} events")

    async def __aexit__(self, *_):
        for crowd in self.crowds:
            self.rig.say(crowd.describe())
            await crowd.end()
        sent = await self.feed.stop()
        await self.rig.wait_for(self.are_stored(sent["events"]), 30)
        rows = await self.feed.rows()
        self.rig.check(rows == sent["events"] > 0, "each event of the feed has its row", f"{rows} of {sent['events']}")
        self.rig.check(await self.listener.stop(30) == 0, "the listener leaves in order", self.listener.log)

    def are_stored(self, count):
        async def are_there():
            return await self.feed.rows() == count
        return are_there

    async def end(self):
        for crowd in self.crowds:
            await crowd.end()
        await self.feed.end()
        await self.listener.end()


async def ask_in_time(rig, listener):
    """The slowest of some questions of an operator who is at another address than the crowd."""
    slowest = 0.0
    for _ in range(5):
        began = time.monotonic()
        answered = await listener.metrics()
        slowest = max(slowest, time.monotonic() - began if answered else float("inf"))
    rig.check(slowest <= LATE_S, f"an operator elsewhere is answered within {LATE_S} s", f"{slowest:.2f} s")


async def flood_admin(rig):
    port = free_port()
    scene = Scene(rig, "admin-flood", admin_port=port)
    try:
        async with scene:
            crowd = await scene.bring("ask", ASKING, port)
            await scene.judge_feed(f"while {ASKING} clients ask the admin port")
            await ask_in_time(rig, scene.listener)
            rig.check(crowd.figure("messages") > 0, "the crowd gets answers, too", f"{crowd.figure('messages'):.0f}")
    finally:
        await scene.end()


def limit_files(pid, most):
    hard = resource.prlimit(pid, resource.RLIMIT_NOFILE)[1]
    resource.prlimit(pid, resource.RLIMIT_NOFILE, (most, hard))


async def use_up_files(rig):
    scene = Scene(rig, "no-files")
    try:
        async with scene:
            listener = scene.listener
            soft = resource.prlimit(listener.process.pid, resource.RLIMIT_NOFILE)[0]
            began, cpu = time.monotonic(), listener.cpu_s()
            await asyncio.sleep(3)
            before = (listener.cpu_s() - cpu) / (time.monotonic() - began)
            limit_files(listener.process.pid, listener.files() + 2)
            crowd = await scene.bring("idle", IDLE, listener.port)
            began, cpu = time.monotonic(), listener.cpu_s()
            await scene.judge_feed("while no file descriptor is left")
            share = (listener.cpu_s() - cpu) / (time.monotonic() - began)
            rig.check(share <= before + SPIN, "nothing spins", f"{100 * share:.0f} % of a core, {100 * before:.0f} % before")
            rig.check(crowd.figure("opened") < IDLE, "clients wait", f"{crowd.figure('opened'):.0f} of {IDLE} are in")
            limit_files(listener.process.pid, soft)
            came = await rig.wait_for(lambda: asyncio.sleep(0, crowd.figure("opened") == IDLE), 30)
            rig.check(came, "they come in when there are descriptors again", f"{crowd.figure('opened'):.0f} of {IDLE}")
    finally:
        await scene.end()


async def guess_tokens(rig):
    """As many producers as there are places, behind strangers who say nothing and others who guess."""
    listener = Listener(rig, ["--ingest-token", TOKEN, "--ingest-max-connections", str(PRODUCERS)], "guesses")
    await listener.start()
    silent, guess = (Crowd(to(rig, listener.port), kind, count) for kind, count in (("silent", SILENT), ("guess", GUESSING)))
    output, process = f"{rig.directory}/guesses.json", None
    try:
        await silent.start()
        await guess.start()
        await asyncio.sleep(2)
        first, began = guess.figure("messages"), time.monotonic()
        with open(output, "wb") as out:
            process = await start([f"{rig.programs}/wsonce-producer", "--to", f"ws://127.0.0.1:{listener.port}/events", "--token",
                                   TOKEN, "--connections", str(PRODUCERS), "--count", "0", "--rate", "600", "--id-prefix", "named",
                                   "--verify", rig.conninfo, "--json"], f"{rig.directory}/guesses.log", stdout=out)
        async def are_in():
            return (await listener.metrics()).get("ingest_connections") == PRODUCERS
        came = await rig.wait_for(are_in, LATE_S)
        rig.check(came, f"{PRODUCERS} producers have their places within {LATE_S} s", f"{time.monotonic() - began:.1f} s, with "
                  f"{SILENT} idle strangers and {GUESSING} who guess")
        await asyncio.sleep(window(rig))
        judged = (guess.figure("messages") - first) / (time.monotonic() - began)
        rig.check(0 < judged <= GUESSES and not guess.figure("opened"), "guesses are slow, and in vain",
                  f"{judged:.1f} a second, {guess.figure('opened'):.0f} let in")
        send_signal(process.pid, signal.SIGINT)
        status = await asyncio.wait_for(process.wait(), 60)
        with open(output, "rb") as file:
            figures = json.load(file)
        rig.check(status == 0 and figures["events"] > 0 and not figures["unanswered"], "each of their events has its row and its ack",
                  f"{figures['events']} events, {figures['acks']} acks, {figures['reconnects']} reconnects")
        for crowd in (silent, guess):
            rig.say(crowd.describe())
            await crowd.end()
        rig.check(await listener.stop(30) == 0, "the listener leaves in order", listener.log)
    finally:
        if process and process.returncode is None:
            send_signal(process.pid, signal.SIGKILL)
        for crowd in (silent, guess):
            await crowd.end()
        await listener.end()


async def play(rig):
    await flood_admin(rig)
    await use_up_files(rig)
    await guess_tokens(rig)
