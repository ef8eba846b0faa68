"""Faults that only a spool survives: owns the options of a fleet's spools, kills all listeners at once, and stops Postgres
for longer than memory lasts."""
import asyncio
import contextlib
import signal

KINDS = {"fleet-kill", "pg-away"}       # a fleet to which they are done has spools
MEMORY_S = 2.5                          # how long half of --max-inflight-bytes lasts, of the feed's events
EVENT_BYTES = 1000                      # in memory
PAUSE_S = 0.5                           # in which there is no listener
AT_ONCE = "all killed at once, twice"   # a variant of pg-away


def words(listener):
    """Returns the options of a listener's spool. Every second listener writes each event before it is claimed."""
    rig = listener.rig
    if not rig.has_spools:
        return []
    return [*listener.spool_words(), "--max-inflight-bytes", str(int(2 * MEMORY_S * EVENT_BYTES * rig.options.rate)),
            *(["--spool-after", "0"] if listener.number % 2 == 0 else [])]


async def kill_all(rig, pause_s):
    """Kills all listeners. Other faults of listeners wait, or are waited for."""
    async with contextlib.AsyncExitStack() as places:
        for listener in rig.listeners:
            await places.enter_async_context(rig.timeline.place("listener", listener.number))
        await asyncio.gather(*(listener.end(signal.SIGKILL, 5) for listener in rig.listeners))
        rig.played.count("all killed at once")
        await asyncio.sleep(pause_s)
        await asyncio.gather(*(listener.start() for listener in rig.listeners))


async def fleet_kill(rig, fault):
    await kill_all(rig, fault.duration)


async def pg_away(rig, fault):
    """At the second kill, some events have been read from the spool but are not stored yet."""
    await rig.postgres.crash()
    for _ in range(2):
        await asyncio.sleep(fault.duration / 3)
        if fault.detail:
            await kill_all(rig, PAUSE_S)
    await asyncio.sleep(fault.duration / 3)
    away = sum([await listener.metric("spool_away") or 0 for listener in rig.listeners])
    rig.played.count("events that left memory", int(away))
    fault.outcome = f"{away:.0f} events not in memory"
    await rig.postgres.start()

