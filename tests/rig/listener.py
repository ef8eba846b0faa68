"""A listener under test, and what it says of itself: owns its command line, asking its admin socket, and finding
numbers in the answer and in the log."""
import asyncio
import re

from rig.process import Process

PORT_LINE = re.compile(r'event="ingest is open".* port=(\d+)')
METRIC_LINE = re.compile(r"^wsonce_(\w+) (\S+)$", re.M)


async def fetch(socket, path, method="GET"):
    """The whole answer, headers included. socket: its path, or HOST:PORT. OSError if nobody listens there."""
    host, _, port = socket.rpartition(":")
    reader, writer = await (asyncio.open_connection(host, port) if host else asyncio.open_unix_connection(socket))
    try:
        writer.write(f"{method} {path} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n".encode())
        return (await reader.read(-1)).decode(errors="replace")
    finally:
        writer.close()


class Listener(Process):
    """wsonce listen. Its name is its instance id; admin: HOST:PORT if it is not to be a socket beside its log."""

    PATIENCE_S = 5                      # with an answer of the admin socket

    def __init__(self, base, admin=None):
        super().__init__(base)
        self.admin = admin or f"{base}.sock"
        self.port = 0                   # for producers, once it is found

    def instance(self):
        return self.name

    def words(self, program, redis, postgres, *options, admin=None):
        """Its command line. admin: other words for where its pages are."""
        return [program, "listen", "--instance-id", self.instance(), "--redis", redis, "--postgres", postgres,
                "--admin", admin or (self.admin if ":" in self.admin else f"unix:{self.admin}"), *options]

    def spool_words(self):
        """For a spool of its own, which the next process finds."""
        return ["--spool", f"{self.base}.spool"]

    def find_port(self):
        """The port for producers, if the log tells it by now."""
        found = PORT_LINE.search(self.log())
        self.port = int(found.group(1)) if found else self.port
        return bool(found)

    async def page(self, path):
        """Empty if it does not answer."""
        try:
            return await asyncio.wait_for(fetch(self.admin, path), self.PATIENCE_S)
        except (OSError, asyncio.TimeoutError):
            return ""

    async def metrics(self):
        """Those without labels, by name; empty if it does not answer."""
        return {name: float(value) for name, value in METRIC_LINE.findall(await self.page("/metrics"))}

    async def metric(self, name):
        """None if it does not answer."""
        return (await self.metrics()).get(name)

    async def is_ready(self):
        page = await self.page("/readyz")
        return page.startswith("HTTP/1.1 200") and "\r\n\r\nready\n" in page      # warnings may follow
