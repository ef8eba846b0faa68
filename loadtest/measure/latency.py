"""Receive-to-commit latency: owns the reading of commit times and the percentiles.

An event's time begins when it stands in the feed's timetable, whether the feed kept it or not, and ends with its
transaction (pg_xact_commit_timestamp). Postgres notes that time just before the commit record goes to disk; how long that
takes on average is told apart (pg_stat_wal), and is in no percentile."""
from rig.sample import percentile
from rig.waiting import RigError

PERCENTS = {"latency_p50_ms": 50, "latency_p99_ms": 99, "latency_p999_ms": 99.9}


def latencies_ms(lines, warm_up, began, rate):
    """lines: the number of an event, and when it was committed (Unix seconds). The warm-up does not count; the first event
    after it was due when sending began again."""
    found = []
    for number, at in lines:
        due = int(number) - warm_up - 1
        if due >= 0:
            found.append((float(at) - began - due / rate) * 1000)
    return found


async def read(rig, load, feed):
    lines = await rig.postgres.copy_out(
        f"SELECT substr(event_id, {len(feed.child.prefix) + 2}), extract(epoch FROM pg_xact_commit_timestamp(xmin)) FROM events",
        f"{rig.directory}/commits")
    found = sorted(latencies_ms(lines, load.warm_up, feed.began, load.rate))
    if len(found) != load.events:
        raise RigError(f"{load.events} events were measured, but {len(found)} commits were found")
    return found


async def forget_flushes(rig):
    await rig.sql("SELECT pg_stat_reset_shared('wal')")


async def mean_flush_ms(rig):
    return float(await rig.sql("SELECT coalesce(wal_sync_time / nullif(wal_sync, 0), 0) FROM pg_stat_wal"))


async def figures(rig, load, feed):
    found = await read(rig, load, feed)
    lag = {f"feed_{name}": feed.summary[name] for name in ("lag_p50_ms", "lag_p99_ms")}
    return {name: percentile(found, percent) for name, percent in PERCENTS.items()} | lag | {
        "flush_mean_ms": await mean_flush_ms(rig)}
