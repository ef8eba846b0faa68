"""What a listener says of itself: owns asking its admin socket, and finding numbers in the answer and in the log."""
import asyncio
import re

PORT_LINE = re.compile(rb'event="ingest is open".* port=(\d+)')
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


def read_metrics(page):
    """Those without labels, by name."""
    return {name: float(value) for name, value in METRIC_LINE.findall(page)}


def find_port(log):
    """The ingest port that a log (bytes) tells; 0 if it tells none."""
    found = PORT_LINE.search(log)
    return int(found.group(1)) if found else 0
