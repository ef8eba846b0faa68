"""How late events become while one listener of the fleet cannot store: owns a round without any other fault, in which that
listener is cut off from Postgres, and the limit. The load is small, so that the machine's own limit is not measured, and
the latency before the cut is subtracted."""
from faults import EFFECTS, Single
from rig.sample import percentile

BEFORE_S, CUT_S = 3, 10
NOTICE_S = 5                    # until the listener notices that it stores nothing
RATE, PRODUCER_RATE = 100, 50
P99_S = 2.0                     # limit of how much later than before
LEAST = 100                     # events; fewer are not judged


def is_asked(rig, kinds):
    """Returns whether to judge: once in a run with effects that has such cuts. Other counts catch wrong programs."""
    return "net-cut" in {kind.name for kind in kinds} and rig.fleet_kinds == {EFFECTS} and not rig.options.mutate


def p99(seconds):
    return percentile(seconds, 99) or 0


async def play(rig):
    rig.feed.rate, rig.producer_rate = RATE, PRODUCER_RATE
    await rig.play_round(Single("net-cut", BEFORE_S, rig.options.listeners, CUT_S, "postgres"))
    await judge(rig, rig.book, rig.timeline.done[-1])


async def judge(rig, book, cut):
    """The row's time is the start of its transaction. It and the time of sending are of this machine's clock."""
    rows = await rig.sql("SELECT event_id, extract(epoch FROM processed_at) FROM events WHERE event_id LIKE "
                         f"'{book.feed_prefix}-%'")
    stored = dict(line.split("|") for line in rows.splitlines())
    took = [(book.times[tick], float(stored[event_id]) - book.times[tick]) for event_id, tick in book.ticks.items()
            if event_id in stored]
    before = [seconds for at, seconds in took if at < cut.began - 0.5]
    after = [seconds for at, seconds in took if cut.began + NOTICE_S < at < cut.ended]
    rig.say(f"p99 of {len(before)} events {p99(before):.2f} s, and with a listener cut off from Postgres {p99(after):.2f} s "
            f"of {len(after)}")
    if len(after) < LEAST:
        rig.verdict.find("late", f"only {len(after)} events were stored while a listener was cut off from Postgres")
    elif p99(after) > p99(before) + P99_S:
        rig.verdict.find("late", f"p99 {p99(after):.2f} s, more than {P99_S} s longer than before, {p99(before):.2f} s")
