"""The cases about the port and the socket of the admin pages: which clients may connect, and for how long."""
import asyncio
import os
import socket
import stat

from case import cases_of
from ground import Listener
from peer import DEADLINE_S, Wrong
from rig.waiting import SLOW, RigError

CASES = []
case = cases_of(CASES, "door")
REQUEST = b"GET /healthz HTTP/1.1\r\nHost: localhost\r\n\r\n"
PATIENCE_S = 10


async def end_of(reader, what):
    """Returns all bytes until the end, and how long that took."""
    loop = asyncio.get_running_loop()
    began = loop.time()
    try:
        answer = await asyncio.wait_for(reader.read(-1), PATIENCE_S + DEADLINE_S)
    except ConnectionError:
        answer = b""
    except asyncio.TimeoutError:
        raise Wrong(f"expected: {what} is ended; it stays") from None
    return answer, loop.time() - began


async def keeps_files(rig, name, *options, **how):
    """Checks that a listener does not start if a file has the name of its socket, and that the file stays."""
    path = f"{rig.directory}/{name}"
    with open(path, "w") as file:
        file.write("precious")
    listener = Listener(rig, f"{name}-listener")
    try:
        await listener.start(*(option.format(path) for option in options), **{k: v.format(path) for k, v in how.items()})
        raise Wrong("expected: a file is no socket, and the listener does not start; it did")
    except RigError:
        pass
    with open(path) as file:
        if file.read() != "precious" or "exists and is not a socket" not in listener.log():
            raise Wrong(f"expected: the file stays, and a sentence says so; got {listener.log()[-300:]}")
    os.unlink(path)
    return path


@case("the socket of --ingest replaces nothing but a socket", "10")
async def play(rig):
    await keeps_files(rig, "precious-ingest", "--ingest", "unix:{}")


@case("the admin socket is for owner and group, and replaces nothing but a socket", "10")
async def play(rig):
    path = await keeps_files(rig, "precious-admin", "--ingest", "127.0.0.1:0", admin="unix:{}")
    stale = socket.socket(socket.AF_UNIX)
    stale.bind(path)
    stale.close()
    await rig.listener("replacing", "--ingest", "127.0.0.1:0", admin=f"unix:{path}")
    mode = os.stat(path).st_mode
    if not stat.S_ISSOCK(mode) or stat.S_IMODE(mode) != 0o660:
        raise Wrong(f"expected: a socket of mode 0660; got {mode:o}")


@case("a request for a page has ten seconds, also one that comes byte by byte", "10")
async def play(rig):
    async def drip(writer):
        for byte in REQUEST[:-2] + b"X-Slow: " + b"y" * 1000:
            writer.write(bytes([byte]))
            await asyncio.sleep(0.5)

    listener = await rig.listener("dripping", "--ingest", "127.0.0.1:0")
    reader, writer = await asyncio.open_unix_connection(listener.admin)
    dripping = asyncio.get_running_loop().create_task(drip(writer))
    try:
        _, seconds = await end_of(reader, "a request that comes byte by byte")
    finally:
        dripping.cancel()
        writer.transport.abort()
    if not PATIENCE_S - 1 < seconds < PATIENCE_S + 4 * SLOW:
        raise Wrong(f"expected: its end after {PATIENCE_S} s; it took {seconds:.1f} s")


@case("64 idle connections to the admin port are all it has: the oldest makes room, and all end after ten seconds", "10")
async def play(rig):
    listener = await rig.listener("crowded", "--ingest", "127.0.0.1:0")
    idle = [await asyncio.open_unix_connection(listener.admin) for _ in range(65)]
    _, seconds = await end_of(idle[0][0], "the oldest of 65 connections")
    if seconds > PATIENCE_S / 2:
        raise Wrong(f"expected: the oldest of 65 connections is ended at once; it took {seconds:.1f} s")
    await asyncio.gather(*(end_of(reader, "an idle connection") for reader, _ in idle))
    if "alive" not in await listener.ask("/healthz"):
        raise Wrong("expected: a page is served again")
    for _, writer in idle:
        writer.transport.abort()
