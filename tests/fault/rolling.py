"""The figure rolling-restart: restarts a fleet, one listener after the other, under load."""
import asyncio
import signal
import time

from bench import Fleet
from figure import Figure
from rig.sample import percentile
from rig.waiting import wait_until

LISTENERS = 5
FEED_RATE, PRODUCER_RATE = 3000, 1000
TIMES_ROUND = 3
QUIET_S = 3
DRAIN_S = 10                    # the default of --drain-timeout
GAP_S = 1.0


async def restart(listener):
    """Returns its exit status, and the seconds until it had ended and until it was ready again."""
    begin = time.monotonic()
    await listener.end(signal.SIGTERM, DRAIN_S + 6)
    status, left_s = listener.now.status, time.monotonic() - begin
    await listener.start()
    await wait_until(listener.is_ready, 30, f"{listener.now.name} is ready")
    return status, left_s, time.monotonic() - begin


def longest_gap(times):
    ordered = sorted(times)
    return max((b - a for a, b in zip(ordered, ordered[1:])), default=None)


async def measure(bench, options):
    figure = Figure("rolling-restart", {"listeners": LISTENERS, "feed": f"{FEED_RATE}/s", "producers": f"{PRODUCER_RATE}/s",
                                        "restarts": TIMES_ROUND * LISTENERS})
    fleet = Fleet(bench, "fleet", LISTENERS, FEED_RATE, [])
    await fleet.start()
    sender = await fleet.send("acks", PRODUCER_RATE)
    await asyncio.sleep(QUIET_S)
    begin = time.time()
    restarts = []
    for _ in range(TIMES_ROUND):
        for listener in fleet.listeners:
            restarts.append(await restart(listener))
        bench.say(f"{len(restarts)} restarts")
    await asyncio.sleep(QUIET_S)
    end = time.time()
    counts = await fleet.account()
    gap = longest_gap(at for at in fleet.rows.values() if begin <= at < end)
    figure.note("SIGTERM to the exit, max", max(left_s for _, left_s, _ in restarts), "s")
    figure.note("SIGTERM to ready again, p50", percentile([s for _, _, s in restarts], 50), "s")
    figure.note("SIGTERM to ready again, max", max(s for _, _, s in restarts), "s")
    figure.note("events stored a second", round(fleet.stored_between(begin, end) / (end - begin)), "/s")
    for name in ("p50", "p99", "max"):
        figure.note(f"ack latency {name}", sender.told()[f"latency_{name}_ms"], "ms")
    figure.note("messages that producers sent again", sender.told()["resends"])
    figure.at_most("exits other than 0", sum(status != 0 for status, _, _ in restarts), 0)
    figure.at_most("longest time without a commit", gap, GAP_S, "s")
    figure.account(counts)
    return figure
