"""The frame of a run: owns its directory, the options that all rigs have, the end by a signal, the closing line for
tests/run, and the exit status."""
import argparse
import asyncio
import contextlib
import glob
import os
import shutil
import signal
import subprocess
import sys
import tempfile

from rig.waiting import RigError

TREE = os.path.dirname(os.path.dirname(os.path.dirname(os.path.realpath(__file__))))
EXIT_RIG, EXIT_CANCELLED = 70, 130


def parser(prog, description):
    """Returns a parser with --keep, which every rig has."""
    options = argparse.ArgumentParser(prog=prog, description=description)
    options.add_argument("--keep", action="store_true", help="leave the directory with all logs")
    return options


@contextlib.contextmanager
def directory(name, keep=False):
    """Makes a directory for the files of a run, which is removed at the end unless keep is set."""
    path = tempfile.mkdtemp(prefix=f"wsonce-{name}-")
    os.chmod(path, 0o755)               # the servers' user must be able to enter it
    try:
        yield path
    finally:
        if keep:
            print(f"{name}: files kept in {path}", file=sys.stderr)
        else:
            for space in glob.glob(f"{path}/postgres-*/space"):
                subprocess.run(["umount", space], stderr=subprocess.DEVNULL)
            shutil.rmtree(path, ignore_errors=True)


def play(course):
    """Runs a coroutine and returns its result; SIGINT, SIGTERM and SIGHUP cancel it."""
    async def until_signal():
        for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
            asyncio.get_running_loop().add_signal_handler(number, asyncio.current_task().cancel)
        return await course
    return asyncio.run(until_signal())


def conclude(name, work, keep=False):
    """Calls work(directory) with a new directory. Returns its exit status, or that of a run without a verdict."""
    try:
        with directory(name, keep) as path:
            return work(path)
    except (RigError, subprocess.SubprocessError) as error:
        print(f"{name}: {error}\n0 passed, 1 failed", file=sys.stderr)
        return EXIT_RIG
    except (asyncio.CancelledError, KeyboardInterrupt):
        return EXIT_CANCELLED


def close(passed, failed):
    """Prints the closing line; returns the exit status."""
    print(f"{passed} passed, {failed} failed")
    return 0 if passed and not failed else 1
