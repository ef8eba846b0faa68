"""The cases about access: which clients are refused and how, which addresses listen, and how connections end."""
import asyncio
import os
import re

from case import cases_of
from ground import Producer
from handshake import request, status_of
from peer import DEADLINE_S, Dialler, Wrong, soon
from rig.frame import CLOSE, heads
from rig.waiting import SLOW

CASES = []
case = cases_of(CASES, "door")
TOKEN = "door-Token_7"
PATIENCE = f"{5 * SLOW:.0f}"            # --ping-interval where a peer is to be kept: this process may be slow to answer


async def open_door(rig, name, *options, **servers):
    return await rig.listener(name, "--ingest", "127.0.0.1:0", "--ingest-token", TOKEN, *options, **servers)


async def expect(port, data, *statuses):
    got = await status_of(port, data)
    if got not in statuses:
        raise Wrong(f"expected: {data[:80]!r} is answered by {statuses}; got {got}")


@case("only the token, by Bearer, opens the door", "4.2.2, 10.5")
async def play(rig):
    door = await open_door(rig, "door")
    for value in (None, "", "Bearer", "Bearer ", f"Bearer {TOKEN}x", f"Bearer {TOKEN[:-1]}", f"Bearer {TOKEN.lower()}",
                  f"Basic {TOKEN}", TOKEN, "Bearer " + "t" * 900):
        await expect(door.port, request(door.port, ("Authorization", value)), 401, 429)  # from the sixth on
    await expect(door.port, request(door.port, path=f"/events?token={TOKEN}"), 401, 429)
    for scheme in ("Bearer", "bearer"):
        await expect(door.port, request(door.port, ("Authorization", f"{scheme} {TOKEN}")), 101)


@case("other paths and methods are refused, with or without the token", "4.2.1")
async def play(rig):
    door = await open_door(rig, "paths")
    for path in ("/", "/event", "/events/", "/EVENTS", "/metrics", "/" + "e" * 500):
        await expect(door.port, request(door.port, ("Authorization", f"Bearer {TOKEN}"), path=path), 404, 403)
    for method in ("POST", "PUT", "DELETE", "OPTIONS", "PATCH", "HEAD", "BREW", "CONNECT"):
        await expect(door.port, request(door.port, method=method), 405, 400, 403, 404, None)


@case("oversized and broken requests end their own connection, and the listener goes on", "10.4")
async def play(rig):
    port = rig.main.port
    big = (("X-Big", "a" * 100000),)
    many = tuple((f"X-{i}", "a") for i in range(1000))
    for data in (request(port, *big), request(port, *many), request(port, path="/" + "e" * 65536),
                 request(port, key="k" * 5000), request(port, ("Authorization", "Bearer " + "t" * 20000)),
                 request(port, ("Sec-WebSocket-Protocol", "a, " * 5000 + "wsonce.ack.v1")),
                 request(port, ("Sec-WebSocket-Extensions", "x;" * 5000))):
        await expect(port, data, 101, 400, 401, 403, 404, 413, 414, 431, None)
        await rig.is_healthy()
    for data in (b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03" + bytes(600), b"\x00" * 9000, b"\xff" * 9000,
                 b"GET\r\n\r\n", b"GET /events\r\n\r\n", b"\r\n\r\n\r\n", b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" + bytes(99),
                 b"GET /events HTTP/1.1\r\n: nameless\r\n\r\n", b"GET /events HTTP/1.1\r\nno colon\r\n\r\n"):
        await expect(port, data, 400, 403, 404, 405, 426, 431, None)
        await rig.is_healthy()


@case("the admin port can be a unix socket or on loopback, and listens nowhere else", "10")
async def play(rig):
    on_loopback = await rig.listener("loopback", "--ingest", "127.0.0.1:0", admin="127.0.0.1:0")
    ports = []
    for listener in (rig.main, on_loopback):
        ports.append(await asyncio.to_thread(listening, listener.process.pid))
    if any(address not in ("127.0.0.1",) for found in ports for address, _ in found):
        raise Wrong(f"expected: loopback only; got {ports}")
    if len(ports[0]) != 1 or len(ports[1]) != 2:
        raise Wrong(f"expected: one TCP port with a unix admin socket, two with a loopback one; got {ports}")
    if "alive" not in await rig.main.ask("/healthz"):
        raise Wrong("expected: the unix socket answers; it does not")


def listening(pid):
    """Returns (address, port) of each listening TCP socket of a process (proc(5), net/tcp)."""
    inodes = set()
    for name in os.listdir(f"/proc/{pid}/fd"):
        try:
            found = re.match(r"socket:\[(\d+)\]", os.readlink(f"/proc/{pid}/fd/{name}"))
        except OSError:
            continue
        if found:
            inodes.add(found.group(1))
    result = []
    for table in ("tcp", "tcp6"):
        with open(f"/proc/{pid}/net/{table}") as file:
            for line in file.readlines()[1:]:
                words = line.split()
                if words[3] == "0A" and words[9] in inodes:
                    address, _, port = words[1].partition(":")
                    result.append((".".join(str(byte) for byte in reversed(bytes.fromhex(address))), int(port, 16)))
    return result


# --- half-open peers, and leaving ---

@case("a source that answers pings is kept", "5.5.2")
async def play(rig):
    await rig.listener("quiet-source", "--ping-interval", PATIENCE, "--source", f"ws://127.0.0.1:{rig.feed.port}/quiet")
    peer = await rig.feed.nth("/quiet", 1)
    await soon(lambda: len(peer.of(9)) >= 3 or peer.end, "three pings", 6 * DEADLINE_S)
    if peer.end or len(rig.feed.peers["/quiet"]) > 1:
        raise Wrong("expected: the connection is kept; it was left")


@case("a producer that answers pings is kept", "5.5.2")
async def play(rig):
    listener = await rig.listener("quiet-producer", "--ping-interval", PATIENCE, "--ingest", "127.0.0.1:0")
    peer = await Dialler(listener.port).open()
    await soon(lambda: len(peer.of(9)) >= 3 or peer.end, "three pings", 6 * DEADLINE_S)
    if peer.end:
        raise Wrong("expected: the connection is kept; it was ended")
    peer.drop()


@case("a producer that stops answering without FIN is left", "5.5.2")
async def play(rig):
    listener = await rig.listener("deaf-producer", "--ping-interval", PATIENCE, "--ingest", "127.0.0.1:0")
    healthy = await Producer(listener.port).open()
    peer = await Dialler(listener.port).open()
    peer.is_mute = peer.is_deaf = True

    async def is_alone():
        return await listener.metric("ingest_connections") == 1
    await soon(is_alone, "one connection is left open, not the deaf one", 4 * DEADLINE_S)
    await healthy.send(rig.event("door: a producer", "deaf-then"), "deaf-then")
    peer.drop()


@case("a listener that stops says 1001 to both sides, to a source by a frame with a mask of its own", "5.3, 7.4.1")
async def play(rig):
    listener = await rig.listener("leaving", "--ingest", "127.0.0.1:0", "--source",
                                  f"ws://127.0.0.1:{rig.feed.port}/left")
    source = await rig.feed.nth("/left", 1)
    producer = await Dialler(listener.port).open()
    status = await listener.leave()
    for peer, what in ((source, "source"), (producer, "producer")):
        code = await peer.ended("by 1001")
        if code != 1001:
            raise Wrong(f"expected: 1001 to the {what}; got {code}")
    if status != 0:
        raise Wrong(f"expected: exit status 0; got {status}")
    keys = [key for op, key in heads(bytes(source.raw)) if op == CLOSE]
    if keys == [bytes(4)]:
        raise Wrong("expected: a mask chosen at random; it is 0")
