"""Faults of Postgres: of the server, its roles, locks and triggers on the tables, and its replication. faults.py decides
when each is due."""
import asyncio
import math
import time

from acts import lasting
from rig.waiting import RigError, comes_true
from standby import Standby

FEW, COMMIT_S = 20, 8           # rows to lose, and how long to wait for them
END_S = 60                      # time for ending a prepared transaction
REFUSED = "refused by the rig"          # in the reason of a dead letter that a fault has caused

# One SQLSTATE of every class that a trigger or a handler may raise for a single event. Two never make a dead letter: an event
# never causes a deadlock or a lock that is not available.
CODES = ("P0001", "40001", "40P01", "53100", "53200", "58030", "22012", "23505", "23514", "57014", "55P03", "08006",
         "XX000")
RAISE = (f"RAISE EXCEPTION '{REFUSED}: %', {{0}} USING ERRCODE = "
         f"('{{{{{','.join(CODES)}}}}}'::text[])[1 + (hashtext({{0}}) >> 8 & 1023) % {len(CODES)}]")


pg_kill = lasting(lambda rig, _: rig.postgres.crash(), lambda rig, _: rig.postgres.start())


async def pg_stop(rig, fault):
    pids = rig.postgres.freeze()
    await asyncio.sleep(fault.duration)
    rig.postgres.thaw(pids)


TERMINATE = "SELECT count(pg_terminate_backend(pid)) FROM pg_stat_activity WHERE usename = 'wsonce'"


async def pg_terminate(rig, fault):
    status, out, _ = await rig.postgres.try_sql(TERMINATE)
    fault.outcome = f"{out} backends" if status == 0 else "Postgres was down"


def sql(*statements):
    """Returns a step. {0} and {1} stand for the name and the value in the fault's detail."""
    async def step(rig, fault):
        for statement in statements:
            await rig.postgres.sql(statement.format(*fault.detail.split("=")))
    return step


RELOAD = "SELECT pg_reload_conf()"
pg_full = lasting(sql("ALTER ROLE wsonce CONNECTION LIMIT 0", TERMINATE), sql("ALTER ROLE wsonce CONNECTION LIMIT -1"))
pg_readonly = lasting(sql("ALTER SYSTEM SET default_transaction_read_only = on", RELOAD, TERMINATE),
                      sql("ALTER SYSTEM RESET default_transaction_read_only", RELOAD))
# The role has a limit of its own, which new sessions have.
pg_role = lasting(sql("ALTER ROLE wsonce SET {0} = '{1}'", TERMINATE), sql("ALTER ROLE wsonce RESET {0}", TERMINATE))


async def pg_disk(rig, fault):
    if not rig.postgres.fill_space():
        fault.outcome = "not available: the file system could not be made small"
        rig.timeline.unavailable("pg-disk")
        return
    await asyncio.sleep(fault.duration)
    if not rig.postgres.empty_space():
        raise RigError("the file system could not be made large again")


async def pg_lock(rig, fault):
    """Locks the table; not for long behind an id that is held, since everybody would wait behind the lock."""
    sql = (f"BEGIN; SET LOCAL lock_timeout = '1s'; LOCK TABLE events IN ACCESS EXCLUSIVE MODE; "
           f"SELECT pg_sleep({fault.duration}); COMMIT")
    if (await rig.postgres.try_sql(sql))[0]:
        fault.outcome = "no lock was to be had"


# The trigger always exists, and a fault replaces its function, which needs no lock of the table. It is an AFTER trigger,
# since listeners do not use COPY if there is a BEFORE trigger.
TRIGGER = """CREATE OR REPLACE FUNCTION torture_{}() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN {} RETURN NEW; END $$"""
VICTIM = "hashtext(NEW.event_id) % 7 = 0"


async def make_trigger(rig):
    await rig.sql(TRIGGER.format("refuse", "") + "; CREATE TRIGGER torture_refuse AFTER INSERT ON events FOR EACH ROW "
                  "EXECUTE FUNCTION torture_refuse()")


async def replace_function(rig, name, body):
    await rig.sql(TRIGGER.format(name, f"IF {VICTIM} THEN {body}; END IF;" if body else ""))


pg_refuse = lasting(lambda rig, _: replace_function(rig, "refuse", RAISE.format("NEW.event_id")),
                    lambda rig, _: replace_function(rig, "refuse", None))


async def pg_null(rig, fault):
    """Only a BEFORE trigger can suppress a row. If it cannot be dropped in time, it does nothing from then on."""
    await replace_function(rig, "null", "RETURN NULL")
    if (await rig.postgres.try_sql("SET lock_timeout = '1s'; CREATE OR REPLACE TRIGGER torture_null BEFORE INSERT ON events "
                                   "FOR EACH ROW EXECUTE FUNCTION torture_null()"))[0]:
        fault.outcome = "no lock was to be had"
    else:
        await asyncio.sleep(fault.duration)
    await replace_function(rig, "null", None)
    await rig.postgres.try_sql("SET lock_timeout = '1s'; DROP TRIGGER torture_null ON events")


async def pg_hold(rig, fault):
    """Another transaction has stored ids that are about to be sent, and stays open; since it is prepared, it survives
    crashes and failovers. It is committed only for a fleet without effects and name: rows of others have no effects."""
    is_committed = fault.detail == "commit" and rig.options.plain
    rows = rig.asker.next_rows() + ([] if is_committed else rig.feed.next_rows())
    values = ", ".join(f"('{event_id}', '{event_type}', '{payload}')" for event_id, event_type, payload in rows)
    status, _, error = await rig.postgres.try_sql(
        f"BEGIN; SET LOCAL session_replication_role = replica; INSERT INTO events (event_id, event_type, payload) VALUES {values} "
        f"ON CONFLICT DO NOTHING; PREPARE TRANSACTION 'hold-{fault.number}'")
    if status:
        fault.outcome = f"no id is held: {error}"
        return
    await asyncio.sleep(fault.duration)
    fault.outcome = await end_hold(rig, f"{'COMMIT' if is_committed else 'ROLLBACK'} PREPARED 'hold-{fault.number}'")
    rig.played.count("ids held", "forgotten" not in fault.outcome)


async def end_hold(rig, sql):
    """Ends it as soon as Postgres is there."""
    deadline = time.monotonic() + END_S
    while time.monotonic() < deadline:
        status, _, error = await rig.postgres.try_sql(sql)
        if status == 0:
            return sql
        if "does not exist" in error:
            return "it was forgotten"
        await asyncio.sleep(0.2)
    raise RigError(f"{sql}: {error}")


async def pg_promote(rig, fault):
    """Promotes a synchronous standby: nothing is lost."""
    standby = Standby(rig.postgres)
    await standby.start(is_synchronous=True)
    await asyncio.sleep(fault.duration)
    rig.postgres = await standby.promote()


async def let_commit(rig, seconds):
    """Waits until there are some new rows, and at least this long."""
    async def count():
        return int(await rig.sql("SELECT count(*) FROM events"))

    async def are_some():
        return await count() >= before + FEW
    before = await count()
    await asyncio.sleep(seconds)
    await comes_true(are_some, COMMIT_S - seconds)


async def pg_forget(rig, fault):
    """Loses the last commits, which were acked: by promoting a standby that is behind, or by crashing a server that does
    not wait for its disk."""
    if fault.detail == "standby":
        standby = Standby(rig.postgres)
        await standby.start(is_synchronous=False)
        standby.fall_behind()
        await let_commit(rig, fault.duration)
        rig.book.forgot_at = math.inf
        rig.postgres = await standby.promote()
    else:
        await sql("ALTER ROLE wsonce SET synchronous_commit = off", "ALTER SYSTEM SET wal_writer_delay = '5s'", RELOAD,
                  TERMINATE)(rig, fault)
        await let_commit(rig, fault.duration)
        rig.book.forgot_at = math.inf
        await rig.postgres.crash()
        await rig.postgres.start()
        await sql("ALTER SYSTEM RESET wal_writer_delay", RELOAD, "ALTER ROLE wsonce RESET synchronous_commit",
                  TERMINATE)(rig, fault)
    rig.book.forgot_at = rig.time()
