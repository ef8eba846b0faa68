"""Sockets on loopback: listens on them, finds free ports, and resets connections."""
import asyncio
import random
import socket
import struct


async def serve(protocol, port=0, context=None, address="127.0.0.1"):
    """Starts a server whose connections protocol() makes. context: for TLS. Returns it and its port."""
    server = await asyncio.get_running_loop().create_server(protocol, address, port, ssl=context, backlog=1024)
    return server, server.sockets[0].getsockname()[1]


reservations = []


def free_port():
    """Returns a port for a program that cannot report the one it got, outside of the range for outgoing connections. No
    process of the tests gets it again: its name is reserved by an abstract unix socket, which ends with this process."""
    while True:
        port = random.randrange(10000, 18000)
        reservation = socket.socket(socket.AF_UNIX)
        with socket.socket() as found:
            try:
                reservation.bind(f"\0wsonce-test-port-{port}")
                found.bind(("127.0.0.1", port))
                reservations.append(reservation)
                return port
            except OSError:
                reservation.close()


def reset_socket(transport):
    """Ends a connection by RST: all data on its way in either direction is lost."""
    sock = transport.get_extra_info("socket")
    if sock is not None and sock.family != socket.AF_UNIX:
        try:
            sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        except OSError:
            pass
    transport.abort()
