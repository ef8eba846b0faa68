"""What the kernel says of a process: owns the reading of /proc (proc(5))."""
import os
from dataclasses import dataclass

from servers import children_of

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
    return ticks(pid)[0] / TICKS_PER_S


def tree_cpu_s(pid):
    """With the children, those that have ended included."""
    total = sum(ticks(pid))
    for child in children_of(pid):
        try:
            total += ticks(child)[0]
        except OSError:                 # it has ended since: from now on its parent's figure has it
            pass
    return total / TICKS_PER_S


@dataclass
class Cpu:
    """Seconds of CPU of the three parties; that of a span of time is a difference."""
    listeners_s: float
    redis_s: float
    postgres_s: float

    def __sub__(self, before):
        return Cpu(self.listeners_s - before.listeners_s, self.redis_s - before.redis_s,
                   self.postgres_s - before.postgres_s)


def read_status(text, name):
    """MiB from a line of a status file."""
    return next(int(line.split()[1]) for line in text.splitlines() if line.startswith(name + ":")) / 1024


def memory_mib(pid, name):
    """VmRSS is what is resident now, VmHWM the most that was."""
    with open(f"/proc/{pid}/status") as file:
        return read_status(file.read(), name)
