"""The figure takeover: kills or freezes listeners that have claims, and measures the time until their events are stored.

A kill orphans an event if its claim in Redis, read right after the kill, belongs to the killed process (instance id with
the number of its start, and nonce), and its row was not committed before the kill. To leave some orphans, the victim's
link to Postgres is frozen for FREEZE_S before the kill, and reset after it: what it had sent and Postgres had not
read is gone, as with a machine that dies. The time of a kill is from just before the SIGKILL to the commit of the last
of its orphans, by Postgres's own record of commits; both clocks are this machine's. A kill that orphaned nothing does
not count. With --how stop the victim gets a SIGSTOP instead, keeps its connection to Redis, and is killed when its
orphans are stored. With --how cut it lives, and nothing passes any more between it and both servers, which keep its
connections, as when a machine is gone without a word."""
import asyncio
import signal
import time

from bench import Fleet, add_accounts
from figure import Figure
from leader import Leader
from rig.sample import percentile
from rig.waiting import wait_until

FREEZE_S = 0.1
RATE = 150
LISTENERS = 3
PAUSE_S = 2.5                   # between two kills; longer than a takeover
STOPPED_S = 6                   # a victim that is frozen
WAYS = {"kill": ("SIGKILL", 0.5), "stop": ("SIGSTOP", 4.0), "cut": ("cut", 4.0)}


class Kill:
    def __init__(self, at, claimed):
        self.at = at
        self.claimed = claimed          # ids whose claims it left
        self.orphans = {}               # id -> seconds from the kill to its commit, or None: no row

    def judge(self, rows):
        self.orphans = {event_id: rows[event_id] - self.at if event_id in rows else None
                        for event_id in self.claimed if rows.get(event_id, self.at) >= self.at}


async def kill(fleet, victim, how):
    link, instance = victim.links["postgres"], f"{victim.instance()}."
    link.hold(True, True)
    await asyncio.sleep(FREEZE_S)
    at = time.time()
    if how == "kill":
        await victim.end(signal.SIGKILL, 5)
    elif how == "stop":
        victim.signal(signal.SIGSTOP)
    else:
        victim.links["redis"].hold(True, True)
    claimed = await fleet.bench.redis.claims(fleet.claim_prefix, instance)
    if how != "cut":
        link.reset()
        link.hold(False, False)
    if how != "kill":
        await asyncio.sleep(STOPPED_S)
        await victim.end(signal.SIGKILL, 5)
    for each in victim.links.values():
        each.reset()
        each.hold(False, False)
    return Kill(at, claimed)


async def play(fleet, wanted, kills, how, delay_s):
    """Kills the leader, which alone has claims, again and again, each time when all orphans of the last kill are stored."""
    await asyncio.sleep(delay_s)
    leader, number = Leader(fleet.bench.redis, fleet.claim_prefix, fleet.source.url), 0
    while len([k for k in kills if k.claimed]) < wanted:
        due = time.monotonic() + PAUSE_S
        victim = await leader.find(fleet.listeners) or fleet.listeners[number % LISTENERS]
        number += 1
        kills.append(await kill(fleet, victim, how))
        await victim.start()
        await wait_until(victim.is_ready, 30, f"{victim.now.name} is ready again")
        if number % 5 == 0:
            fleet.bench.say(f"{fleet.name}: {number} kills")
        await asyncio.sleep(max(0.5, due - time.monotonic()))


async def measure(bench, options):
    """Makes a few kills more than requested, since some may have orphaned nothing."""
    ttl = options.claim_ttl
    figure = Figure("takeover", {"how": WAYS[options.how][0], "claim TTL": f"{ttl} s", "fleets": options.fleets, "listeners of each": LISTENERS,
                                 "events/s of each": RATE, "Postgres frozen before each kill": f"{FREEZE_S} s"})
    flags = ["--claim-ttl", str(ttl), "--dedup-window", str(max(10, 2 * ttl))]
    fleets = [Fleet(bench, f"fleet{n}", LISTENERS, RATE, flags, cuttable=("postgres",) + ("redis",) * (options.how == "cut")) for n in range(1, options.fleets + 1)]
    for fleet in fleets:
        await fleet.start()
    kills = {fleet: [] for fleet in fleets}
    each = -(-options.kills // options.fleets) + 1
    await asyncio.gather(*(play(fleet, each, kills[fleet], options.how, PAUSE_S * n / len(fleets))
                           for n, fleet in enumerate(fleets)))
    await asyncio.sleep(PAUSE_S)
    accounts = []
    for fleet in fleets:
        accounts.append(await fleet.account())
        for one in kills[fleet]:
            one.judge(fleet.rows)
    report(figure, [one for fleet in fleets for one in kills[fleet]], options)
    figure.account(add_accounts(accounts))
    return figure


def report(figure, kills, options):
    what, limit_s = WAYS[options.how]
    counted = [one for one in kills if one.orphans][:options.kills]
    events = [seconds for one in counted for seconds in one.orphans.values()]
    lasts = [max(one.orphans.values()) for one in counted if None not in one.orphans.values()]
    figure.note("kills that orphaned nothing, not counted", len(kills) - len([one for one in kills if one.orphans]))
    figure.note("orphaned events", len(events))
    figure.note("orphaned events per kill, p50", percentile([len(one.orphans) for one in counted], 50))
    figure.note(f"{what} to the last orphan stored, p50", percentile(lasts, 50), "s")
    figure.note(f"{what} to the last orphan stored, max", max(lasts, default=None), "s")
    figure.at_most(f"{what} to the last orphan stored, p99", percentile(lasts, 99), limit_s, "s")
    figure.at_least("kills counted", len(counted), options.kills)
    figure.at_most("orphans never stored", events.count(None), 0)
