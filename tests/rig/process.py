"""A child of a rig: starts it, makes sure that it dies with the rig, and owns its files, its signals and its end."""
import asyncio
import json
import os
import pwd
import signal
import subprocess

from rig.waiting import RigError


def clean_environment():
    """Returns an environment without variables that libpq, libcurl and the programs under test read."""
    return {k: v for k, v in os.environ.items()
            if not k.startswith(("PG", "WSONCE_")) and not k.lower().endswith("_proxy")}


async def start(command, log, death="KILL", user=None, cwd=None, stdout=None, env=None):
    """Starts a child that gets the signal `death` however the rig ends. env: variables in addition to ours."""
    prefix = ["setpriv", "--pdeathsig", death]
    if user and os.getuid() == 0:
        prefix += ["--reuid", user, "--regid", str(pwd.getpwnam(user).pw_gid), "--clear-groups"]
    with open(log, "ab") as err:
        return await asyncio.create_subprocess_exec(
            *prefix, *command, stdin=subprocess.DEVNULL, stdout=stdout or err, stderr=err, cwd=cwd,
            env={**clean_environment(), **(env or {})}, start_new_session=True)


def build_library(source, library):
    """Builds a library for a child to preload."""
    subprocess.run([*os.environ.get("CC", "gcc").split(), "-std=c11", "-D_GNU_SOURCE", "-O2", "-fPIC", "-shared", "-o", library,
                    source], check=True)


def send_signal(pid, number):
    try:
        os.kill(pid, number)
    except ProcessLookupError:
        pass


def read_text(path):
    """Returns the text of a file that others write; empty if it does not exist yet."""
    if not os.path.exists(path):
        return ""
    with open(path, errors="replace") as file:
        return file.read()


class Process:
    """A child with a log. base: the path of its files without their suffixes."""

    def __init__(self, base):
        self.base = base
        self.name = os.path.basename(base)
        self.log_path = f"{base}.log"
        self.process = None
        self.hearing = None             # a task that reads its whole output

    async def launch(self, command, **how):
        self.process = await start(command, self.log_path, **how)

    async def launch_to_tell(self, command, **how):
        """Starts a program that prints JSON at its end: see told()."""
        with open(f"{self.base}.json", "wb") as out:
            await self.launch(command, stdout=out, **how)

    async def launch_to_hear(self, command):
        """Starts a program that keeps printing: calls take(line), a method of the subclass, for each line."""
        await self.launch(command, stdout=asyncio.subprocess.PIPE)
        self.hearing = asyncio.get_running_loop().create_task(self.hear())

    async def hear(self):
        async for line in self.process.stdout:
            self.take(line)
        await self.process.wait()

    @property
    def is_alive(self):
        return self.process is not None and self.process.returncode is None

    @property
    def is_over(self):
        return self.process is not None and self.process.returncode is not None

    def signal(self, number):
        send_signal(self.process.pid, number)

    async def ends(self, seconds):
        """Returns whether it ends in time."""
        try:
            await asyncio.wait_for(asyncio.shield(self.process.wait()), seconds)
        except asyncio.TimeoutError:
            return False
        return True

    async def end(self, number, seconds):
        """Sends the signal; returns the exit status."""
        self.signal(number)
        if not await self.ends(seconds):
            self.fail(f"did not end within {seconds} s of signal {number}")
        return self.process.returncode

    async def kill(self):
        if self.is_alive:
            self.signal(signal.SIGKILL)
            await self.process.wait()

    def log(self):
        return read_text(self.log_path)

    def last_words(self, count=5):
        return self.log().splitlines()[-count:]

    def fail(self, what):
        """Raises an error with the end of the log, which may be removed with the directory."""
        raise RigError("\n    ".join([f"{self.name} {what}: {self.log_path} ends with", *self.last_words(40)]))

    def told(self):
        """Returns what it has printed, once it has ended."""
        text = read_text(f"{self.base}.json")
        if not text:
            self.fail(f"said nothing in the end, status {self.process.returncode}")
        return json.loads(text)

    def remove_files(self, *suffixes):
        for suffix in suffixes:
            os.unlink(f"{self.base}.{suffix}")
