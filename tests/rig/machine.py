"""Where a run took place: describes the commit, the machine and the servers' versions."""
import os
import re
import subprocess

from rig.servers import Postgres, Redis


def commit(tree):
    found = subprocess.run(["git", "-C", tree, "describe", "--always", "--dirty"], capture_output=True, text=True)
    return found.stdout.strip() or "unknown"


def first_match(path, pattern):
    with open(path) as file:
        found = re.search(pattern, file.read(), re.M)
    return found.group(1) if found else "unknown"


def version(*command):
    found = re.search(r"\d+(\.\d+)+", subprocess.run(command, capture_output=True, text=True).stdout)
    return found.group(0) if found else "unknown"


def describe(tree):
    kib = first_match("/proc/meminfo", r"^MemTotal: +(\d+)")
    return {"commit": commit(tree), "cores": len(os.sched_getaffinity(0)),
            "cpu": first_match("/proc/cpuinfo", r"^model name\s*: (.*)"),
            "memory_gib": round(int(kib) / 1048576, 1) if kib.isdigit() else 0,
            "redis": version(Redis.PROGRAM, "--version"),
            "postgres": version(f"{Postgres.find_programs()}/postgres", "--version"),
            "load_average": round(os.getloadavg()[0], 2)}
