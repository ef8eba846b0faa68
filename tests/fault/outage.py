"""The figures redis-outage, postgres-outage and spool-outage: owns the phases before, during and after the outage of a
server, and what is measured in each."""
import asyncio
import signal
import time

from bench import Fleet
from figure import Figure
from rig.waiting import comes_true

LISTENERS = 5
FEED_RATE, PRODUCER_RATE = 3000, 1000
QUIET_S = 15                    # before the outage, and after it
REDIS_TIMEOUT_S = 2             # the default of --redis-timeout
RETURN_S = 5                    # the longest backoff of 2 s, a handshake that just hangs, and some time
INFLIGHT_MIB = 64
PAYLOAD_BYTES = 300             # a minute of the load is then well over the limit
OVERHEAD_MIB = 32               # the idle program (11) and one batch twice (16), as in docs/operations.md, and 5
SECOND_MIB = 20                 # more with a second connection, as there: it is opened to catch up
DRAIN_S = 90
LATE_S = 1.0
# For an outage that is longer than memory lasts.
SPOOL_LISTENERS, SPOOL_RATE, SPOOL_PAYLOAD_BYTES = 3, 5000, 500
SPOOL_BACK_S, SPOOL_BACK_RATE = 120, 25_000
WAYS = {"kill": "killed", "stop": "stopped (hung)"}


def settings(options):
    return {"listeners": LISTENERS, "feed": f"{FEED_RATE}/s", "producers": f"{PRODUCER_RATE}/s", "how": WAYS[options.how],
            "seconds": options.seconds}


# --- Redis ---

class Phase:
    """A phase with a producer of its own, so that its acks are counted apart."""

    def __init__(self, name):
        self.name = name
        self.sender = None
        self.begin = self.end = 0.0
        self.offered = 0

    async def run(self, fleet, middle):
        self.sender = await fleet.send(self.name, PRODUCER_RATE)
        offered, self.begin = await offered_rows(fleet)
        await middle
        last, self.end = await offered_rows(fleet)
        self.offered = last - offered
        await self.sender.finish()


async def offered_rows(fleet):
    """Returns how many rows were offered so far, and the time. Each row that an INSERT offers takes a number from the
    sequence, even if the unique key refuses it."""
    out = await fleet.bench.postgres.sql(
        "SELECT last_value, extract(epoch FROM clock_timestamp()) FROM events_id_seq", fleet.name)
    last, at = out.split("|")
    return int(last), float(at)


class RedisAbsence:
    def __init__(self, bench, fleet, options):
        self.bench = bench
        self.fleet = fleet
        self.options = options
        self.back_s = []                # per listener: from the return until a claim is won

    async def play(self):
        self.bench.say("Redis goes")
        if self.options.how == "kill":
            await self.bench.redis.kill()
        else:
            self.bench.redis.signal(signal.SIGSTOP)
        await asyncio.sleep(self.options.seconds)

    async def come_back(self):
        won = [metrics.get("claims_won_total", 0) for metrics in await self.fleet.metrics()]
        if self.options.how == "kill":
            await self.bench.redis.start()
        else:
            self.bench.redis.signal(signal.SIGCONT)
        returned = time.monotonic()
        self.bench.say("Redis is back")
        await asyncio.gather(*(self.wait_for_claim(listener, before, returned)
                               for listener, before in zip(self.fleet.listeners, won)))

    async def wait_for_claim(self, listener, won, returned):
        async def has_won():
            return (await listener.metric("claims_won_total") or 0) > won
        if not await comes_true(has_won, 12 * RETURN_S):
            self.bench.say(f"{listener.now.name} does not claim again within {12 * RETURN_S} s")
        self.back_s.append(time.monotonic() - returned)

    async def after(self):
        started = time.monotonic()
        await self.come_back()
        await asyncio.sleep(max(0, QUIET_S - (time.monotonic() - started)))


async def measure_redis(bench, options):
    figure = Figure("redis-outage", settings(options))
    fleet = Fleet(bench, "fleet", LISTENERS, FEED_RATE, [])
    await fleet.start()
    absence = RedisAbsence(bench, fleet, options)
    before, during, after = phases = Phase("before"), Phase("during"), Phase("after")
    await before.run(fleet, asyncio.sleep(QUIET_S))
    await during.run(fleet, absence.play())
    await after.run(fleet, absence.after())
    counts = await fleet.account()
    for phase in phases:
        rows = fleet.stored_between(phase.begin, phase.end)
        seconds = phase.end - phase.begin
        figure.note(f"{phase.name}: events stored a second", round(rows / seconds), "/s")
        figure.note(f"{phase.name}: rows offered to the unique key, per row stored", round(phase.offered / rows, 3))
        for name in ("p50", "p99", "max"):
            figure.note(f"{phase.name}: ack latency {name}", phase.sender.told()[f"latency_{name}_ms"], "ms")
    rate = fleet.stored_between(during.begin, during.end) / (during.end - during.begin)
    figure.at_least("during: events stored a second, of those sent", round(rate / (FEED_RATE + PRODUCER_RATE), 3), 0.95)
    figure.at_most("during: longest ack latency", during.sender.told()["latency_max_ms"] / 1000, REDIS_TIMEOUT_S + 1.0, "s")
    figure.at_most("Redis' return to the first claim won, slowest listener", max(absence.back_s), RETURN_S, "s")
    figure.account(counts)
    return figure


# --- Postgres ---

class Watch:
    """Watches the fleet and the feed twice a second during the outage."""

    def __init__(self, fleet):
        self.fleet = fleet
        self.most_bytes = 0
        self.most_spooled = self.most_away = 0
        self.paused = set()
        self.first_pause = None
        self.blocked_s = 0.0            # time in which every connection of the feed had bytes that no listener took
        self.most_unsent = 0

    async def run(self):
        last = time.monotonic()
        while True:
            await asyncio.sleep(0.5)
            for listener, metrics in zip(self.fleet.listeners, await self.fleet.metrics()):
                self.most_bytes = max(self.most_bytes, metrics.get("in_flight_bytes", 0))
                self.most_spooled = max(self.most_spooled, metrics.get("spool_bytes", 0))
                self.most_away = int(max(self.most_away, metrics.get("spool_away", 0)))
                if metrics.get("paused"):
                    self.paused.add(listener.number)
                    self.first_pause = self.first_pause or time.time()
            unsent = self.fleet.source.unsent_bytes()
            now = time.monotonic()
            if unsent and all(unsent):
                self.blocked_s += now - last
                self.most_unsent = max(self.most_unsent, min(unsent))
            last = now


async def take_postgres_away(fleet, options):
    """Stops and starts Postgres. Returns both times, and how many acks came later than a second after the stop."""
    bench = fleet.bench
    bench.say("Postgres goes")
    gone = time.time()
    if options.how == "kill":
        await bench.postgres.crash()
    else:
        pids = bench.postgres.freeze()
    await asyncio.sleep(1)                  # acks of what was committed are still on their way
    acks = await fleet.total("acks_sent_total")
    await asyncio.sleep(options.seconds - 1)
    acks = await fleet.total("acks_sent_total") - acks
    if options.how == "kill":
        await bench.postgres.start()
    else:
        bench.postgres.thaw(pids)
    bench.say("Postgres is back")
    return gone, time.time(), int(acks)


def late_until(fleet, program, gone):
    """Returns the commit of the last event that was stored more than LATE_S after it was due."""
    rows = [(int(event_id.rpartition("-")[2]), at) for event_id, at in fleet.rows.items()
            if event_id.startswith(program.prefix + "-")]
    began = min(at - n / program.rate for n, at in rows if at < gone)
    return max((at for n, at in rows if at - n / program.rate > began + LATE_S), default=gone)


async def wait_for_quiet(fleet, seconds):
    """Waits until the fleet has no more events than come in half a second, three times in a row."""
    quiet, deadline = 0, time.monotonic() + seconds
    while quiet < 3 and time.monotonic() < deadline:
        await asyncio.sleep(0.5)
        in_flight = await fleet.total("in_flight")
        quiet = quiet + 1 if in_flight < fleet.size * fleet.source.rate / 2 else 0


class PostgresAbsence:
    """Owns the course of an outage, from QUIET_S before it until QUIET_S after all late events are stored."""

    def __init__(self, fleet, options):
        self.fleet = fleet
        self.options = options
        self.watch = Watch(fleet)
        self.gone = self.back = 0.0
        self.acks = 0
        self.resident_mib = 0

    async def play(self, most_s):
        """most_s: the longest time to wait for late events."""
        await asyncio.sleep(QUIET_S)
        watching = asyncio.get_running_loop().create_task(self.watch.run())
        self.gone, self.back, self.acks = await take_postgres_away(self.fleet, self.options)
        await wait_for_quiet(self.fleet, most_s)
        watching.cancel()
        await asyncio.sleep(QUIET_S)
        self.resident_mib = round(max(listener.peak_resident_mib() for listener in self.fleet.listeners), 1)

    def caught_up(self):
        """Returns when the last late event was stored. Call it once the rows are read."""
        return max(late_until(self.fleet, program, self.gone) for program in [self.fleet.source, *self.fleet.senders])

    def rate_back(self):
        """Returns events stored per second from Postgres' return until then."""
        until = self.caught_up()
        return round(self.fleet.stored_between(self.back, until) / max(1, until - self.back))

    def note(self, figure):
        before = self.fleet.stored_between(self.gone - QUIET_S + 1, self.gone)
        figure.note("events stored a second, before", round(before / (QUIET_S - 1)), "/s")
        figure.note("Postgres' end to its first answer again", round(self.back - self.gone, 1), "s")
        figure.note("most bytes of events in memory, one listener", round(self.watch.most_bytes / 1048576, 1), "MiB")


async def measure_postgres(bench, options):
    figure = Figure("postgres-outage", settings(options) | {"payload": f"{PAYLOAD_BYTES} bytes",
                                                           "--max-inflight-bytes": f"{INFLIGHT_MIB} MiB"})
    fleet = Fleet(bench, "fleet", LISTENERS, FEED_RATE, ["--max-inflight-bytes", f"{INFLIGHT_MIB}MiB"])
    fleet.source.payload_bytes = PAYLOAD_BYTES
    await fleet.start()
    await fleet.send("acks", PRODUCER_RATE)
    absence = PostgresAbsence(fleet, options)
    await absence.play(2 * DRAIN_S)
    counts = await fleet.account()
    watch, gone = absence.watch, absence.gone
    absence.note(figure)
    figure.note("listeners that stopped reading at the limit", len(watch.paused))
    figure.note("events stored a second, while catching up", absence.rate_back(), "/s")
    if watch.first_pause:
        figure.note("Postgres' end to the first stop of reading", round(watch.first_pause - gone, 1), "s")
    figure.note("all connections of the feed blocked, bytes unsent in its kernel", round(watch.blocked_s, 1), "s")
    figure.note("unsent in the kernel on every connection, at most", round(watch.most_unsent / 1048576, 2), "MiB")
    figure.at_most("acks during the outage, from its first second on", absence.acks, 0)
    figure.at_most("most resident memory of a listener", absence.resident_mib,
                   INFLIGHT_MIB + OVERHEAD_MIB + SECOND_MIB, "MiB")
    figure.at_most("Postgres' return to the last event stored late", absence.caught_up() - absence.back, DRAIN_S, "s")
    figure.account(counts)
    return figure


# --- Postgres, and a spool ---

async def measure_spool(bench, options):
    """Measures an outage that is longer than memory lasts, with a feed that cannot resend."""
    figure = Figure("spool-outage", {
        "listeners": SPOOL_LISTENERS, "feed": f"{SPOOL_RATE}/s", "payload": f"{SPOOL_PAYLOAD_BYTES} bytes",
        "how": WAYS[options.how], "seconds": options.seconds, "--max-inflight-bytes": f"{INFLIGHT_MIB} MiB"})
    fleet = Fleet(bench, "fleet", SPOOL_LISTENERS, SPOOL_RATE, ["--max-inflight-bytes", f"{INFLIGHT_MIB}MiB"])
    fleet.has_spools = True
    fleet.source.payload_bytes = SPOOL_PAYLOAD_BYTES
    await fleet.start()
    absence = PostgresAbsence(fleet, options)
    await absence.play(options.seconds + SPOOL_BACK_S)
    counts = await fleet.account()
    absence.note(figure)
    figure.note("most on disk, one listener", round(absence.watch.most_spooled / 1048576), "MiB")
    figure.note("most events that were not in memory, one listener", absence.watch.most_away)
    figure.at_most("listeners that stopped reading", len(absence.watch.paused), 0)
    figure.at_most("most resident memory of a listener", absence.resident_mib, INFLIGHT_MIB + OVERHEAD_MIB, "MiB")
    figure.at_most("Postgres' return to the last event stored late", absence.caught_up() - absence.back, SPOOL_BACK_S, "s")
    figure.at_least("events stored a second, while catching up", absence.rate_back(), SPOOL_BACK_RATE, "/s")
    figure.account(counts)
    return figure
