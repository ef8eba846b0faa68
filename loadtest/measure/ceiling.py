"""The servers alone: owns the runs of wsonce-ceiling, which has the listener's own statements and nothing else."""
from rig.waiting import RigError

ROWS, CLAIMS = 500_000, 1_000_000
BATCH = 4000                            # rows of a listener's statement; claims sent at once
BATCH_BYTES = 8 << 20                   # bytes of messages in a listener's statement
WAYS = {"insert": "Postgres, the listener's INSERT", "copy": "Postgres, COPY, text form",
        "copy-binary": "Postgres, COPY, binary form"}


async def run(rig, count, flags):
    child = rig.child("ceiling")
    await child.launch_to_tell([f"{rig.programs}/wsonce-ceiling", "--json", "--count", str(count), "--batch", str(BATCH), *flags])
    if await child.process.wait():
        raise RigError(f"wsonce-ceiling failed: {child.log().strip()}")
    return child.told()


async def postgres(rig, way, rows, flags=()):
    await rig.empty()
    before = rig.cpu_s()
    told = await run(rig, rows, [f"--{way}", rig.conninfo, *flags])
    used = rig.cpu_s() - before
    await rig.verify(rows)
    return {"events_per_s": told[f"{way.replace('-', '_')}_rows_per_s"], "postgres_cpu_us_per_event": used.postgres_s * 1e6 / rows}


async def payloads(rig, rows, size):
    """Binary COPY in batches as large as the listener's."""
    batch = min(BATCH, BATCH_BYTES // size)
    figures = await postgres(rig, "copy-binary", rows, ["--payload-bytes", str(size), "--batch", str(batch)])
    return figures | {"payload_mb_per_s": figures["events_per_s"] * size / 1e6}


async def redis(rig, claims):
    await rig.empty()
    before = rig.cpu_s()
    told = await run(rig, claims, ["--claim", rig.redis.socket])
    used = rig.cpu_s() - before
    keys = int((await rig.redis.ask("DBSIZE"))[1:])
    if keys != claims:
        raise RigError(f"{claims} claims were made, but Redis has {keys} keys")
    return {"events_per_s": told["claims_per_s"], "redis_cpu_us_per_event": used.redis_s * 1e6 / claims}
