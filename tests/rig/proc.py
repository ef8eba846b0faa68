"""Reads /proc (proc(5)): what the kernel knows about a process."""
import os

TICKS_PER_S = os.sysconf("SC_CLK_TCK")


def read_stat(text):
    """Returns CPU ticks from a stat file: the process's own, and those of its ended children. The name in parentheses may
    contain anything, so fields are counted from the last parenthesis."""
    fields = text.rpartition(")")[2].split()
    utime, stime, cutime, cstime = (int(field) for field in fields[11:15])
    return utime + stime, cutime + cstime


def ticks(pid):
    with open(f"/proc/{pid}/stat") as file:
        return read_stat(file.read())


def cpu_s(pid):
    """Returns its CPU seconds; 0 if the process is gone."""
    try:
        return ticks(pid)[0] / TICKS_PER_S
    except OSError:
        return 0.0


def children_of(pid):
    try:
        with open(f"/proc/{pid}/task/{pid}/children") as file:
            return [int(word) for word in file.read().split()]
    except OSError:
        return []


def tree_cpu_s(pid):
    """Returns its CPU seconds with those of its children, even if they have ended."""
    total = sum(ticks(pid))
    for child in children_of(pid):
        try:
            total += ticks(child)[0]
        except OSError:                 # it has ended, and now counts for its parent
            pass
    return total / TICKS_PER_S


def machine_ticks():
    """Returns the idle ticks of all cores, and all ticks."""
    with open("/proc/stat") as file:
        passed = [int(word) for word in file.readline().split()[1:9]]
    return passed[3] + passed[4], sum(passed)


def read_status(text, name):
    """Returns MiB from a line of a status file; 0 without such a line."""
    return next((int(line.split()[1]) for line in text.splitlines() if line.startswith(name + ":")), 0) / 1024


def memory_mib(pid, name):
    """name: VmRSS is the memory resident now, VmHWM its maximum. Returns 0 if the process is gone."""
    try:
        with open(f"/proc/{pid}/status") as file:
            return read_status(file.read(), name)
    except OSError:
        return 0
