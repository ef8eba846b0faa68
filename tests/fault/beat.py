"""The figure beat: owns a fleet that reads very many sources, most of them quiet, and measures what its presence costs
Redis: the time of all scripts by INFO commandstats per HGETALL, which only lua/presence.lua calls. Nearly all of it is for
that script, since hardly anything is stored."""
import asyncio
import re

from bench import Fleet
from figure import Figure
from rig.feed import Connection
from rig.sockets import serve
from rig.waiting import wait_until

LISTENERS, SOURCES = 5, 1000
OPEN_S = 120
BEAT_MS = 1.0
STATS = (rb"hgetall:calls=", rb"eval:calls=\d+,usec=")


async def beats(redis):
    """Returns how many beats there were so far, and the microseconds of scripts."""
    text = await redis.ask("INFO", "commandstats")
    return [int(re.search(rb"cmdstat_" + what + rb"(\d+)", text).group(1)) for what in STATS]


async def measure(bench, options):
    figure = Figure("beat", {"listeners": LISTENERS, "sources of each": SOURCES, "seconds": options.seconds})
    quiet = []
    server, port = await serve(lambda: quiet.append(Connection()) or quiet[-1])
    path = f"{bench.directory}/sources"
    fleet = Fleet(bench, "fleet", LISTENERS, 1, ["--source-file", path])
    await fleet.begin()
    with open(path, "w") as file:               # replaces the usual one of a fleet
        file.writelines([f"{fleet.source.url}\n"] + [f"ws://127.0.0.1:{port}/{n}\n" for n in range(1, SOURCES)])
    await fleet.add(range(1, LISTENERS + 1), bench.programs)

    async def are_open():
        return await fleet.total("sources_open") == LISTENERS * SOURCES
    await wait_until(are_open, OPEN_S, "all sources are open")
    before = await beats(bench.redis)
    await asyncio.sleep(options.seconds)
    calls, us = (b - a for a, b in zip(before, await beats(bench.redis)))
    figure.note("beats", calls)
    figure.at_most("Redis, for each beat", us / max(1, calls) / 1000, BEAT_MS, "ms")
    figure.at_least("beats of each listener, a second", calls / LISTENERS / options.seconds, 0.9)
    server.close()
    for connection in quiet:
        connection.transport.abort()
    figure.account(await fleet.account())
    return figure
