"""The figure gray-failure: cuts one listener of a fleet off from Postgres, while it hears the feed and reaches Redis, and
measures how late events become.

Event number n was due n / rate seconds after the first. When that was is not known to the millisecond: the fastest
event before the cut counts as stored at once, so each latency is too small by that one's. The time of a commit is
Postgres's own record; both clocks are this machine's. The listener's connections are frozen in both directions, as
by a network that drops all packets, and thawed in the end."""
import asyncio
import re
import time

from bench import Fleet
from figure import Figure
from rig.sample import percentile

LISTENERS = 3
RATE = 1000
QUIET_S = 10                    # before and after the cut
NOTICE_S = 5
P99_S = 2.0
NUMBER = re.compile(r"\d+$")


def latencies(fleet, cut_at):
    """Returns (time it was due, seconds to its commit) of each stored event."""
    stored = [(int(NUMBER.search(event_id).group()) / RATE, at) for event_id, at in fleet.rows.items()]
    first = min(at - due for due, at in stored if at < cut_at)
    return [(first + due, at - first - due) for due, at in stored]


async def measure(bench, options):
    figure = Figure("gray-failure", {"listeners": LISTENERS, "feed": f"{RATE}/s", "cut off from Postgres": 1,
                                     "seconds": options.seconds})
    fleet = Fleet(bench, "fleet", LISTENERS, RATE, [], cuttable=("postgres",))
    await fleet.start()
    await asyncio.sleep(QUIET_S)
    broken = fleet.listeners[0]
    cut_at = time.time()
    broken.links["postgres"].hold(True, True)
    bench.say("one listener is cut off")
    await asyncio.sleep(options.seconds)
    said_ready = await broken.is_ready()
    thawed_at = time.time()
    broken.links["postgres"].hold(False, False)
    await asyncio.sleep(QUIET_S)
    counts = await fleet.account()
    report(figure, latencies(fleet, cut_at), cut_at, thawed_at)
    figure.at_most("the listener that was cut off said that it was ready", int(said_ready), 0)
    figure.account(counts)
    return figure


def report(figure, found, cut_at, thawed_at):
    ends = {"before": (0, cut_at), "first 5 s": (cut_at, cut_at + NOTICE_S),
            "from then on": (cut_at + NOTICE_S, thawed_at), "after": (thawed_at, float("inf"))}
    for name, (begin, end) in ends.items():
        phase = [seconds for due, seconds in found if begin <= due < end]
        figure.note(f"{name}: p50", percentile(phase, 50), "s")
        if name != "from then on":
            figure.note(f"{name}: p99", percentile(phase, 99), "s")
        else:
            figure.at_most(f"{name}: p99", percentile(phase, 99), P99_S, "s")
        figure.note(f"{name}: max", max(phase, default=None), "s")
