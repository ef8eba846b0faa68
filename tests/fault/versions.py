"""The figure two-versions: owns a fleet in which listeners of an older commit run beside new ones, as during an upgrade
(docs/operations.md): two old listeners, then two new ones, which migrate the schema; one of each is killed; then the old
ones are replaced. An old listener whose schema is older than the database's keeps running, but cannot start again."""
import asyncio
import glob
import os
import re
import signal
import subprocess

from bench import Fleet
from figure import Figure
from rig.process import Process
from rig.waiting import RigError, wait_until

EVENTS, RATE = 20000, 800
MIXED_S = 3                     # between two steps
EXIT_S, REFUSAL_S = 16, 20
REFUSAL = re.compile(r"database has schema version \d+ and this program knows \d+: start a newer wsonce")
OFFERED = 1.25                  # limit of rows offered per stored row, if both understand each other's claims and marks
UNDERSTOOD = 100                # least number of claims and marks of the other version that were found


def run(command, what, **how):
    done = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, **how)
    if done.returncode:
        raise RigError(f"{what}: {done.stdout.decode(errors='replace')[-1000:]}")
    return done.stdout


def build(tree, commit, directory):
    """Returns the folder of its programs, and whether its schema is as old as ours."""
    archive = run(["git", "-C", tree, "archive", commit], f"commit {commit} is not in this history; "
                  "if it is shallow, git fetch --unshallow")
    os.makedirs(directory)
    run(["tar", "-x"], "tar", input=archive, cwd=directory)
    run(["make", "-s", f"-j{os.cpu_count() or 1}", "build/wsonce", "CFLAGS=-O1", "WERROR="], f"commit {commit} cannot be built", cwd=directory)
    schemas = [len(glob.glob(f"{place}/sql/migrations/*.sql")) for place in (tree, directory)]
    return f"{directory}/build", schemas[0] == schemas[1]


async def is_refused(listener):
    """Checks that it does not start again, and says why."""
    process = Process(f"{listener.base}-again")
    await process.launch(listener.command())
    ended = await process.ends(REFUSAL_S)
    await process.kill()
    return ended and process.process.returncode == 1 and bool(REFUSAL.search(process.log()))


async def replace(listener, programs):
    listener.programs = programs
    await listener.start()
    await wait_until(listener.is_ready, 30, f"{listener.now.name} is ready")


async def understood(listeners):
    """Returns how many claims and marks of other listeners were found."""
    return sum([(await listener.metric("claims_lost_total") or 0) + (await listener.metric("claims_done_total") or 0)
                for listener in listeners])


async def measure(bench, options):
    old, is_same_schema = build(options.tree, options.old, f"{bench.directory}/old")
    figure = Figure("two-versions", {"old": options.old, "listeners": "2 old, 2 new", "feed": f"{RATE}/s"})
    fleet = Fleet(bench, "fleet", 4, RATE, ["--claim-ttl", "5", "--dedup-window", "60"])
    await fleet.begin()
    await fleet.add((1, 2), old)
    await fleet.add((3, 4), bench.programs)
    olds, news = fleet.listeners[:2], fleet.listeners[2:]
    sent = asyncio.get_running_loop().time()
    await asyncio.sleep(MIXED_S)
    found = [await understood(each) for each in (olds, news)]
    for listener in (olds[0], news[0]):
        await listener.end(signal.SIGKILL, 5)
        await asyncio.sleep(MIXED_S)
    refused = is_same_schema or await is_refused(olds[0])
    await replace(news[0], bench.programs)
    await asyncio.sleep(MIXED_S)
    await replace(olds[0], bench.programs)
    await olds[1].end(signal.SIGTERM, EXIT_S)
    status = olds[1].now.status
    await replace(olds[1], bench.programs)
    await asyncio.sleep(max(MIXED_S, sent + 1.1 * EVENTS / RATE - asyncio.get_running_loop().time()))
    counts = await fleet.account()
    figure.note("rows of the old ones", await fleet.sql_number(
        "SELECT count(*) FROM events WHERE instance IN ('fleet-1-1', 'fleet-2-1')"))
    report(figure, found, refused, status)
    figure.at_most("rows offered, for each that was stored", await fleet.sql_number(
        "SELECT last_value FROM events_id_seq") / counts["rows"], OFFERED)
    figure.at_least("events", counts["sent"], EVENTS)
    figure.account(counts)
    return figure


def report(figure, found, refused, status):
    for name, count in zip(("old", "new"), found):
        figure.at_least(f"claims and marks of others that the {name} ones found", int(count), UNDERSTOOD)
    figure.at_most("old ones that start on the new schema", int(not refused), 0)
    figure.at_most("exit status of an old one that is replaced", status, 0)
