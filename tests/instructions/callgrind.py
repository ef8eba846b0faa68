"""One count by callgrind: owns how it is started, and what its output says of each function."""
import collections
import os
import re
import subprocess

from rig.waiting import RigError

# What is counted, callees included: road.c's measured().
COUNTED = "measured"


class Function(collections.namedtuple("Function", "library file name")):
    """library is the file name of the shared library or the program, file the source file or ???."""


def count(valgrind, command, out, seconds):
    """The instructions that each function spent itself, by Function, and what the command printed. The environment is
    empty: nothing of it is to have a say in what the listener does."""
    done = subprocess.run([valgrind, "--tool=callgrind", "--collect-atstart=no", f"--toggle-collect={COUNTED}",
                           f"--callgrind-out-file={out}", *command],
                          env={}, stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=seconds,
                          check=False)
    if done.returncode:
        lines = [line for line in done.stderr.splitlines() if line and not line.startswith("==")]
        raise RigError(f"{' '.join(command)} under callgrind ended with {done.returncode}: "
                         f"{lines[-1] if lines else done.stderr.strip()[-200:]}")
    with open(out, encoding="utf-8", errors="replace") as lines:
        return own_costs(lines), done.stdout


def own_costs(lines):
    """A line of cost is "<position> <instructions>" and belongs to the function named last; the one after calls= is
    what a callee spent, which is in the callee's own lines. Names come once, as "(7) name", then as "(7)"."""
    costs = collections.Counter()
    names = {"ob": {}, "fl": {}, "fn": {}}
    at = {"ob": "???", "fl": "???", "fn": "???"}
    is_callee = False
    for line in lines:
        named = re.match(r"(ob|fl|fn)=\((\d+)\)(?: (.*))?", line)
        callee = re.match(r"c?(ob|fl|fi|fe|fn)=\((\d+)\) (.*)", line)
        if callee:
            kind = "fl" if callee[1] in ("fi", "fe") else callee[1]
            names[kind][callee[2]] = callee[3]
        if named:
            at[named[1]] = names[named[1]][named[2]]
        elif line.startswith("calls="):
            is_callee = True
        elif line[:1] in "0123456789+-*":
            if not is_callee:
                costs[Function(os.path.basename(at["ob"]), at["fl"], at["fn"])] += int(line.split()[1])
            is_callee = False
    return costs
