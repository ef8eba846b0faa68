"""The wrong designs that the rig must catch: owns the list of patches, builds patched programs, and says which faults
catch each soonest."""
import os
import shutil
import subprocess

from rig.waiting import RigError

HERE = os.path.dirname(os.path.realpath(__file__))
PARTS = ("Makefile", "listener", "lua", "sql", "loadtest")
BUILT = ("build/listener", "build/text")    # if they exist, only what the patch changes is compiled

USUAL = {"seed": 1, "minutes": 1.0, "round": 8, "pace": 0.4}


def found_by(*shows, **options):
    """shows: the counts, one of which must catch it. options: options of the run."""
    return {"shows": shows, **USUAL, **options}


TABLE = {
    "drop-on-lost-claim": found_by("lost", "falsely_acked", mix="kill,pg-lock,pg-terminate", pace=0.3),
    "ack-before-commit": found_by("falsely_acked", mix="kill,pg-lock,pg-terminate", producer_rate=800, rate=100, pace=0.3),
    "release-without-compare": found_by("foreign_claims", mix="pg-refuse,redis-flush"),
    "done-mark-before-commit": found_by("lost", "falsely_acked", mix="kill,pg-lock,pg-terminate", pace=0.3),
    "unsorted-batches": found_by("deadlocks", mix="redis-oom", apart=True),
    "handler-for-present-rows": found_by("effects_doubled", mix="redis-oom,redis-flush"),
    "row-taken-for-mark": found_by("effects_lost", mix="redis-flush", consumer=True),
    "dead-mark-of-the-id": found_by("dead_without_reason", mix="redis-script-flush"),
    "first-sender-acked": found_by("unanswered", mix="pg-lock", minutes=0.1, round=5),
    "lost-copy-taken-for-commit": found_by("falsely_acked", mix="net-copy-cut", plain=True, minutes=1.5, round=10, pace=0.2),
    "lost-insert-taken-for-commit": found_by("falsely_acked", mix="net-commit-cut", pace=0.2),
    "leases-never-renewed": found_by("leases_lost", mix="pg-hold,pg-lock"),
    "held-copy-settled": found_by("falsely_acked", mix="pg-hold", minutes=2.0),
    "epoch-ignored": found_by("lost", "falsely_acked", mix="pg-forget", plain=True, rate=200),
    "spilled-not-spooled": found_by("lost", mix="pg-away"),
    "channel-without-secret": found_by("lost", mix="channel-lie"),
    "delivered-before-answer": found_by("deliveries_lost", mix="hook,kill"),
}


def run(command, cwd):
    done = subprocess.run(command, cwd=cwd, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    if done.returncode:
        raise RigError(f"{' '.join(command)}: {done.stdout[-2000:]}")


def build(name, tree, copy, others=("wsonce-producer",)):
    """Builds a copy of the tree with the patch. Returns the folder of its programs, to which existing others are
    copied."""
    patch = f"{HERE}/mutations/{name}.patch"
    os.makedirs(copy)
    for part in PARTS + BUILT:
        if os.path.isdir(f"{tree}/{part}"):
            shutil.copytree(f"{tree}/{part}", f"{copy}/{part}", ignore=shutil.ignore_patterns("__pycache__"))
        elif os.path.exists(f"{tree}/{part}"):
            shutil.copy2(f"{tree}/{part}", f"{copy}/{part}")
    run(["patch", "-p1", "-s", "-i", patch], copy)
    jobs = f"-j{os.cpu_count() or 1}"
    run(["make", "-s", jobs, "build/wsonce", "CFLAGS=-O1"], copy)
    for program in others:
        shutil.copy(f"{tree}/build/{program}", f"{copy}/build/{program}")
    return f"{copy}/build"


def copy_programs(tree, folder, names=("wsonce", "wsonce-producer")):
    """Copies the programs, so that a rebuild does not change them in the middle of a run."""
    os.makedirs(folder)
    for name in names:
        if not os.path.exists(f"{tree}/build/{name}"):
            raise RigError(f"no build/{name}: run make programs")
        shutil.copy(f"{tree}/build/{name}", folder)
    return folder
