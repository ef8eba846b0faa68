"""The wall clocks of the listeners: sets them wrong by a preloaded library (wallclock.c) that adds the number in a file."""
import os
import struct

from rig.process import build_library
from rig.run import TREE


class WallClocks:
    def __init__(self, directory):
        self.directory = directory
        self.library = f"{directory}/wallclock.so"

    def build(self):
        build_library(f"{TREE}/tests/fault/wallclock.c", self.library)

    def file(self, number):
        return f"{self.directory}/wallclock-{number}"

    def wrap(self, number, command):
        """Returns the command that starts listener `number` with a clock that can be set."""
        if not os.path.exists(self.file(number)):
            self.set(number, 0)
        return ["env", f"LD_PRELOAD={self.library}", f"WSONCE_WALLCLOCK={self.file(number)}"] + command

    def set(self, number, seconds):
        """Sets a clock wrong by this many seconds; 0 is right. Writes in place, since the listener has mapped the file."""
        fd = os.open(self.file(number), os.O_WRONLY | os.O_CREAT, 0o644)
        try:
            os.pwrite(fd, struct.pack("=q", seconds), 0)
        finally:
            os.close(fd)
