"""What the kernel says of a process: owns the reading of /proc (proc(5))."""
import os

TICKS_PER_S = os.sysconf("SC_CLK_TCK")


def read_stat(text):
    """Ticks of CPU from a stat file: the process's own, and those of its children that have ended. The name in
    parentheses may hold anything, so the fields are counted from the last one."""
    fields = text.rpartition(")")[2].split()
    utime, stime, cutime, cstime = (int(field) for field in fields[11:15])
    return utime + stime, cutime + cstime


def ticks(pid):
    with open(f"/proc/{pid}/stat") as file:
        return read_stat(file.read())


def cpu_s(pid):
    """0 of a process that is gone."""
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
    """With the children, those that have ended included."""
    total = sum(ticks(pid))
    for child in children_of(pid):
        try:
            total += ticks(child)[0]
        except OSError:                 # it has ended since: from now on its parent's figure has it
            pass
    return total / TICKS_PER_S


def machine_ticks():
    """Of all cores: those in which there was nothing to do, and all."""
    with open("/proc/stat") as file:
        passed = [int(word) for word in file.readline().split()[1:9]]
    return passed[3] + passed[4], sum(passed)


def read_status(text, name):
    """MiB from a line of a status file; 0 without such a line."""
    return next((int(line.split()[1]) for line in text.splitlines() if line.startswith(name + ":")), 0) / 1024


def memory_mib(pid, name):
    """VmRSS is what is resident now, VmHWM the most that was; 0 of a process that is gone."""
    try:
        with open(f"/proc/{pid}/status") as file:
            return read_status(file.read(), name)
    except OSError:
        return 0
