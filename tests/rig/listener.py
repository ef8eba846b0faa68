"""A listener under test: owns its command line, asks its admin socket, and finds numbers in the answer and in the log."""
import asyncio
import re

from rig.process import Process

PORT_LINE = re.compile(r'event="ingest is open".* port=(\d+)')
METRIC_LINE = re.compile(r"^wsonce_(\w+) (\S+)$", re.M)


async def fetch(socket, path, method="GET"):
    """Returns the whole answer with its headers. socket: a path, or HOST:PORT. Raises OSError if nobody listens there."""
    host, _, port = socket.rpartition(":")
    reader, writer = await (asyncio.open_connection(host, port) if host else asyncio.open_unix_connection(socket))
    try:
        writer.write(f"{method} {path} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n".encode())
        return (await reader.read(-1)).decode(errors="replace")
    finally:
        writer.close()


class Listener(Process):
    """wsonce listen. Its name is its instance id. admin: HOST:PORT; by default a socket beside its log."""

    PATIENCE_S = 5                      # timeout of an answer from the admin socket

    def __init__(self, base, admin=None):
        super().__init__(base)
        self.admin = admin or f"{base}.sock"
        self.port = 0                   # for producers, once it is found

    def instance(self):
        return self.name

    def words(self, program, redis, postgres, *options, admin=None):
        """Returns its command line. admin: other options for where its pages are."""
        return [program, "listen", "--instance-id", self.instance(), "--redis", redis, "--postgres", postgres,
                "--admin", admin or (self.admin if ":" in self.admin else f"unix:{self.admin}"), *options]

    def spool_words(self):
        """Returns options for its own spool, which its next process finds."""
        return ["--spool", f"{self.base}.spool"]

    def find_port(self):
        """Reads the port for producers from the log, if it is there already."""
        found = PORT_LINE.search(self.log())
        self.port = int(found.group(1)) if found else self.port
        return bool(found)

    async def page(self, path):
        """Returns a page, empty if it does not answer."""
        try:
            return await asyncio.wait_for(fetch(self.admin, path), self.PATIENCE_S)
        except (OSError, asyncio.TimeoutError):
            return ""

    async def metrics(self):
        """Returns the metrics without labels, by name; empty if it does not answer."""
        return {name: float(value) for name, value in METRIC_LINE.findall(await self.page("/metrics"))}

    async def metric(self, name):
        """Returns a metric; None if it does not answer."""
        return (await self.metrics()).get(name)

    async def is_ready(self):
        page = await self.page("/readyz")
        return page.startswith("HTTP/1.1 200") and "\r\n\r\nready\n" in page      # warnings may follow
