"""Sockets on loopback: owns how they are listened on, how a port is found, and how a connection is reset."""
import asyncio
import random
import socket
import struct


async def serve(protocol, port=0, context=None):
    """A server whose connections are what protocol() makes. context: of TLS. Returns it and its port."""
    server = await asyncio.get_running_loop().create_server(protocol, "127.0.0.1", port, ssl=context, backlog=1024)
    return server, server.sockets[0].getsockname()[1]


def free_port():
    """For a program that cannot tell which one it has got. Not one that connections get of themselves."""
    while True:
        port = random.randrange(10000, 18000)
        with socket.socket() as found:
            try:
                found.bind(("127.0.0.1", port))
                return port
            except OSError:
                pass


def reset_socket(transport):
    """Ends a connection by RST: whatever is on its way in either direction is gone."""
    sock = transport.get_extra_info("socket")
    if sock is not None and sock.family != socket.AF_UNIX:
        try:
            sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        except OSError:
            pass
    transport.abort()
