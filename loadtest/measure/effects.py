"""The effects of events: owns the flags and files of a fleet with effects, and the runs of the relay, whose outbox is
filled first. How fast a listener fills it is measured by the same race as without effects."""
import asyncio
import json
import time

from measure.fleet import Fleet
from measure.peer import Workers
from measure.receiver import Receiver
from rig.proc import cpu_s, memory_mib
from rig.waiting import RigError

TARGET = "bench"
CONCURRENCY = 16                        # the default
STUCK_S, LOOK_S = 60, 1.0
SECRET = "whsec_YSBzZWNyZXQgb2YgdGhlIGJlbmNobWFyaw=="
NOBODY = "http://127.0.0.1:9/hook"      # discard (RFC 863): nothing listens there

HANDLER = ("CREATE OR REPLACE FUNCTION public.bench_handler(event_id text, event_type text, payload jsonb) RETURNS void "
           "LANGUAGE plpgsql AS $$ BEGIN END $$")
FILL = (f"INSERT INTO outbox (target, event_id, event_type, payload) SELECT '{TARGET}', 'event-' || n, 'order.created', "
        "jsonb_build_object('n', n, 'amount', 14.72, 'comment', repeat('x', 120)) FROM generate_series(1, {count}) AS n")


def secret_path(rig):
    return f"{rig.directory}/secret"


def webhook_flags(rig, url):
    path = f"{rig.directory}/webhooks.json"
    with open(secret_path(rig), "w") as file:
        file.write(SECRET)
    with open(path, "w") as file:
        json.dump({"webhooks": [{"name": TARGET, "url": url, "secret-file": secret_path(rig), "concurrency": CONCURRENCY}]},
                  file)
    return ["--config", path]


async def flags_of(rig, kind):
    if kind == "handler":
        await rig.sql(HANDLER)
        return ["--handler", "public.bench_handler"]
    if kind == "consumer":
        return ["--consumer", "bench"]
    return webhook_flags(rig, NOBODY) if kind == "outbox" else []


async def wait_for_nothing(rig, rows):
    """Waits until all is delivered. Each look starts psql and counts the rest, which takes CPU time, so there are few. The
    exact end is in the table."""
    left, moved = rows, time.monotonic()
    while left:
        await asyncio.sleep(LOOK_S)
        now = int(await rig.sql("SELECT count(*) FROM outbox WHERE state = 'pending'"))
        if now != left:
            left, moved = now, time.monotonic()
        elif time.monotonic() - moved > STUCK_S:
            raise RigError(f"{left} of {rows} deliveries are pending, and nothing moved for {STUCK_S} s")


async def open_listeners(rig, listeners, url):
    fleet = Fleet(rig, listeners, flags=webhook_flags(rig, url))
    await fleet.open_ingest()
    return fleet


async def open_workers(rig, name, instances, url):
    """The same for a peer, with the same rows."""
    webhook_flags(rig, url)
    workers = Workers(rig, name, instances, TARGET, url, secret_path(rig))
    await workers.open()
    return workers


async def relay(rig, opening, rows):
    """Measures from the commit of the rows to the last record of a delivery, by the database's clock; making the rows is
    not measured. opening: starts the processes that deliver to a receiver's URL."""
    receiver = Receiver(rig)
    await rig.empty()
    await receiver.start()
    fleet = await opening(receiver.url)
    began_by = await rig.sql(FILL.format(count=rows) + "; SELECT pg_current_xact_id()")
    before, receiver_before = rig.cpu_s(fleet.pids()), cpu_s(receiver.child.process.pid)
    await wait_for_nothing(rig, rows)
    used, received_s = rig.cpu_s(fleet.pids()) - before, cpu_s(receiver.child.process.pid) - receiver_before
    resident = max(memory_mib(pid, "VmHWM") for pid in fleet.pids())
    told = await rig.sql("SELECT count(*) FILTER (WHERE state = 'delivered' AND status = 204 AND attempts = 1), extract(epoch "
                         f"FROM max(settled_at) - pg_xact_commit_timestamp('{began_by.splitlines()[-1]}'::xid)) FROM outbox")
    delivered, seconds = told.split("|")
    await fleet.end()
    if int(delivered) != rows:
        raise RigError(f"of {rows} deliveries {delivered} were made at the first attempt")
    return {"seconds": float(seconds), "webhooks_per_s": rows / float(seconds), "resident_peak_mib": resident,
            "listener_cpu_us_per_delivery": used.listeners_s * 1e6 / rows, "receiver_cpu_us_per_event": received_s * 1e6 / rows,
            "postgres_cpu_us_per_event": used.postgres_s * 1e6 / rows}
