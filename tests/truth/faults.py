"""The columns of the table: what breaks, and what must be said about it, by wsonce status, /readyz and the log."""
import asyncio
import os
import signal
from typing import NamedTuple

from deployments import DEPLOYMENTS

ONE, TWO, ANY = (1,), (2,), (1, 2)
DATABASE = r"postgres|sqlite|e\.db|cannot store|no listener can store|no listener is running"
UNREAD = r"no listener reads source feed"       # which needs Redis if it is exclusive


class Fault(NamedTuple):
    """Whatever status says from the begin to the end fits says or also, so it blames nobody else."""
    begin: object
    end: object
    says: str                       # a problem in wsonce status from within_s after the begin
    exits: tuple                    # the exit statuses of wsonce status then
    ready: str                      # status and text of /readyz then, of each listener that is not the victim
    log: str                        # a line between begin and end
    log_end: str = ""               # a line after the end, if there is one
    also: str = r"^$"
    within_s: float = 10
    lasts_s: float = 14
    back_s: float = 20              # after the end, all is well again
    is_on_listener: bool = False    # only the others have something to say
    of: object = all                # of all listeners, or any of them, /readyz and log are true
    is_of_one: bool = False         # the victim alone suffers, so /readyz and log are its own; the others go on storing
    others_s: float = 5             # what was sent so long before the end of such a fault has been stored and delivered
    needs_redis: bool = False       # without it, status learns of it from a check-in, perhaps only after the end


def databases(by_server, by_file):
    """Returns a step for either store."""
    return lambda cell: by_file(cell.store) if cell.how.is_file else by_server(cell.store)


def on_redis(work):
    async def step(cell):
        await asyncio.gather(*(work(server) for server in getattr(cell.redis, "servers", [cell.redis])))
    return step


def to_redis(*words):
    return lambda cell: cell.redis.ask(*words)


def to_victim(number):
    return lambda cell: cell.victim.signal(number)


def in_mood(mood):
    return lambda cell: setattr(cell.feed, "mood", mood)


def on_way(name, work):
    return lambda cell: work(cell.victim.links[name])


def shut(link):
    link.close()


def open_again(link):
    return link.open(link.port, link.address)


def hold(link):
    link.hold(True, True)


def let_go(link):
    link.hold(False, False)


def forget(cell):
    cell.feed.forgotten = cell.victim.name


def remember(cell):
    cell.feed.forgotten = None


def mute_names(cell):
    open(cell.victim.env["NAMES_MUTE"], "w").close()
    for link in cell.victim.links.values():
        link.reset()


def find_names(cell):
    os.unlink(cell.victim.env["NAMES_MUTE"])


async def stutter(victim):
    while True:
        victim.signal(signal.SIGSTOP)
        await asyncio.sleep(0.9)
        victim.signal(signal.SIGCONT)
        await asyncio.sleep(0.1)


def slow_down(cell):
    cell.stuttering = asyncio.get_running_loop().create_task(stutter(cell.victim))


def speed_up(cell):
    cell.stuttering.cancel()
    cell.victim.signal(signal.SIGCONT)


async def freeze(server):
    server.frozen = server.freeze()


async def thaw(server):
    server.thaw(server.frozen)


async def lock(server):
    server.locking = asyncio.get_running_loop().create_task(
        server.try_sql(f"BEGIN; LOCK TABLE {server.table}; SELECT pg_sleep(600)"))


async def unlock(server):
    await server.sql("SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE query LIKE 'BEGIN; LOCK%'")
    await server.locking


async def shut_out(server):
    await server.sql("ALTER ROLE wsonce CONNECTION LIMIT 0")
    await server.sql("SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE usename = 'wsonce'")


async def let_in(server):
    await server.sql("ALTER ROLE wsonce CONNECTION LIMIT -1")


async def fill(server):
    assert server.fill_space(), "the file system could not be made small"


async def empty(server):
    assert server.empty_space(), "the file system could not be made large again"


DATABASE_LOG = r"postgres connection is lost|cannot use postgres|postgres error|(cannot store, leaving)|sqlite error"
DATABASE_END = r"postgres connection is stable again|postgres stores again|storing again|sqlite works again"
UNSTORED = {"says": DATABASE, "exits": TWO, "ready": r"503 not ready: (postgres|sqlite): ", "log": DATABASE_LOG,
            "log_end": DATABASE_END}
REDIS_LOG = r"redis connection is lost|cannot connect to redis|no sentinel names a master"
UNCLAIMED = {"says": r"redis", "also": UNREAD, "exits": ONE, "ready": r"200 degraded: redis ", "log": REDIS_LOG,
             "log_end": r"redis connection is stable again"}
UNTAKEN = {**UNCLAIMED, "log": r"redis rejects claims", "log_end": r"redis takes claims again", "of": any}
FEED_END = r'source connection is stable again|"source connection" .* to=open'
UNDELIVERED = {"says": r"webhook hook has failed since", "exits": ONE, "ready": r"200 degraded: webhook hook has failed since",
               "log": r"webhook fails", "log_end": r"webhook accepts deliveries again", "of": any, "back_s": 30}
MISSING = {"says": r"has disappeared", "exits": ONE, "ready": r"200 ready", "log": "", "is_on_listener": True}
ALONE = {"exits": ONE, "also": rf"^VICTIM\b|{UNREAD}", "is_of_one": True}
ONE_FEED = {**ALONE, "says": r"^VICTIM: source feed", "ready": r"503 not ready: source feed: ",
            "log": r"source connection lost|cannot connect to source", "log_end": FEED_END}
ONE_DATABASE = {**ALONE, "needs_redis": True, "says": r"^VICTIM cannot store", "ready": r"503 not ready: postgres: ",
                "log": DATABASE_LOG, "log_end": DATABASE_END + r'|"postgres connection" .* to=ready', "lasts_s": 60}
ONE_FILL = {**ALONE, "exits": (0,), "says": r"^$", "ready": r"^200 ready$", "log": "", "lasts_s": 60, "others_s": 30}
ONE_WEBHOOK = {**ALONE, "says": r"^VICTIM: webhook hook has failed since", "ready": r"200 degraded: webhook hook has failed since",
               "log": r"webhook fails", "log_end": r"webhook accepts deliveries again"}
ONE_REDIS = {**ALONE, "says": r"^VICTIM: redis is down", "ready": r"200 degraded: redis ", "log": REDIS_LOG,
             "log_end": r"redis connection is stable again"}

FAULTS = {
    "database-stopped": Fault(databases(lambda server: server.crash(), lambda file: file.move("", ".old")),
                              databases(lambda server: server.start(), lambda file: file.move(".old", "")), **UNSTORED),
    "database-frozen": Fault(databases(freeze, None), databases(thaw, None), lasts_s=24, within_s=18, **UNSTORED),
    "database-read-only": Fault(databases(lambda server: server.set(default_transaction_read_only="on"), None),
                                databases(lambda server: server.set(default_transaction_read_only=None), None), **UNSTORED),
    "database-crowded": Fault(databases(shut_out, None), databases(let_in, None), **UNSTORED),
    "events-locked": Fault(databases(lock, lambda file: file.lock()), databases(unlock, lambda file: file.unlock()),
                           **{**UNSTORED, "exits": ANY, "log": DATABASE_LOG + "|statements wait for a lock"},
                           also=r"lock|session"),
    "disk-full": Fault(databases(fill, lambda file: file.fill()), databases(empty, lambda file: file.empty()),
                       **{**UNSTORED, "exits": ANY}),
    "redis-stopped": Fault(on_redis(lambda server: server.kill()), on_redis(lambda server: server.start()), **UNCLAIMED),
    "redis-frozen": Fault(lambda cell: cell.redis.signal(signal.SIGSTOP), lambda cell: cell.redis.signal(signal.SIGCONT),
                          **UNCLAIMED),
    "redis-full": Fault(to_redis("CONFIG", "SET", "maxmemory", "1"), to_redis("CONFIG", "SET", "maxmemory", "0"), **UNTAKEN),
    "redis-read-only": Fault(to_redis("REPLICAOF", "127.0.0.1", "1"), to_redis("REPLICAOF", "NO", "ONE"), **UNCLAIMED),
    "feed-refuses": Fault(lambda cell: cell.feed.refuse(), lambda cell: cell.feed.accept(), r"source feed", ANY,
                          r"503 not ready: source feed: ", r"source connection lost|cannot connect to source",
                          FEED_END, back_s=40),
    "feed-forbids": Fault(lambda cell: cell.feed.forbid(True), lambda cell: cell.feed.forbid(False), r"source feed.*503", ANY,
                          r"503 not ready: source feed: .*503", r"cannot connect to source", FEED_END, back_s=40,
                          also="source feed"),
    "feed-garbled": Fault(in_mood("garbled"), in_mood("events"), r"messages (became dead letters|were refused)", ONE,
                          r"200 degraded: .*messages (became dead letters|were refused)", r"messages became dead letters"),
    "feed-silent": Fault(in_mood("silent"), in_mood("events"), r"source feed", ANY, r"(503 not ready|200 degraded): source feed",
                         r"source connection lost", r"source connection is stable again", lasts_s=26, back_s=40),
    "feed-strange": Fault(in_mood("strange"), in_mood("events"), r"source feed(/2)?: \d+ messages match no rule", ONE,
                          r"200 degraded: source feed(/2)?: \d+ messages match no rule", r"frames of a source match no rule",
                          within_s=75, lasts_s=80),
    "webhook-refuses": Fault(lambda cell: cell.hook.refuse(), lambda cell: cell.hook.accept(), **UNDELIVERED),
    "webhook-fails": Fault(lambda cell: setattr(cell.hook, "status", 500), lambda cell: setattr(cell.hook, "status", 200),
                           **UNDELIVERED),
    "one-feed-refuses": Fault(on_way("feed", shut), on_way("feed", open_again), **ONE_FEED, lasts_s=30, back_s=40),
    "one-feed-hangs": Fault(on_way("feed", hold), on_way("feed", let_go), **ONE_FEED, lasts_s=45, back_s=40),
    "one-feed-mute": Fault(forget, remember, **ONE_FEED, lasts_s=60, back_s=40),
    "one-database-refuses": Fault(on_way("postgres", shut), on_way("postgres", open_again), **ONE_DATABASE),
    "one-database-hangs": Fault(on_way("postgres", hold), on_way("postgres", let_go), **ONE_DATABASE),
    "one-redis-refuses": Fault(on_way("redis", shut), on_way("redis", open_again), **ONE_REDIS, lasts_s=20),
    "one-redis-hangs": Fault(on_way("redis", hold), on_way("redis", let_go), **ONE_REDIS, lasts_s=30),
    "one-webhook-refuses": Fault(on_way("http", shut), on_way("http", open_again), **ONE_WEBHOOK, lasts_s=40, others_s=15),
    "one-webhook-hangs": Fault(on_way("http", hold), on_way("http", let_go), **ONE_WEBHOOK, lasts_s=90, within_s=40,
                               others_s=60),
    "one-fill-refuses": Fault(on_way("http", shut), on_way("http", open_again), **ONE_FILL),
    "one-fill-hangs": Fault(on_way("http", hold), on_way("http", let_go), **ONE_FILL),
    "one-nameless": Fault(mute_names, find_names, **{**ONE_DATABASE, "says": r"^VICTIM (cannot store|has disappeared)"},
                          back_s=60),
    "one-slow": Fault(slow_down, speed_up, **{**ALONE, "says": rf"^VICTIM\b|{UNREAD}", "exits": (0, 1), "ready": "", "log": "",
                                              "lasts_s": 30}),
    "listener-killed": Fault(lambda cell: cell.victim.kill(), lambda cell: cell.start_listener(cell.victim), **MISSING),
    "listener-frozen": Fault(to_victim(signal.SIGSTOP), to_victim(signal.SIGCONT), **MISSING),
}

# Cells without a meaning, and why.
NO_REDIS = ("redis-stopped", "redis-frozen", "redis-full", "redis-read-only")
SKIPPED = {
    **{(name, fault): "needs Redis" for name in ("sqlite", "no-redis") for fault in NO_REDIS},
    **{(name, fault): "without Redis a listener is missed after 150 s (status.md)"
       for name in ("sqlite", "no-redis") for fault in ("listener-killed", "listener-frozen")},
    **{(name, fault): "needs a webhook" for name, how in DEPLOYMENTS.items() for fault in ("webhook-refuses", "webhook-fails")
       if not how.has_hook},
    **{("sqlite", fault): "needs a database server" for fault in ("database-frozen", "database-read-only", "database-crowded")},
    **{(name, fault): "as in another row" for name, how in DEPLOYMENTS.items() for fault, what in FAULTS.items()
       if (not how.has_ways if what.is_of_one else how.is_for_one)},
    **{(name, "one-feed-mute"): "nobody else may connect" for name in ("exclusive", "leases")},
    **{("leases", fault): "needs Redis" for fault in ("one-redis-refuses", "one-redis-hangs")},
    **{(name, f"one-{what}-{how}"): f"needs {what}" for name in DEPLOYMENTS for what in ("webhook", "fill")
       for how in ("refuses", "hangs") if name != what},
    **{(name, "redis-read-only"): "the servers choose their masters" for name in ("sentinel", "cluster")},
}
