"""The cases about protocols that libwebsockets speaks and the listener switches off: HTTP/2 over TLS and by Upgrade, CONNECT,
other upgrades, old TLS; and that every refused client can read why."""
import asyncio
import socket
import ssl
import struct
import subprocess

from case import cases_of
from door import TOKEN, open_door
from handshake import request
from peer import DEADLINE_S, Wrong

CASES = []
case = cases_of(CASES, "door")
PREFACE = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"
SETTINGS, HEADERS = 4, 1
END_HEADERS = 4


async def open_tls(rig, name, **how):
    pem = f"{rig.directory}/{name}.pem"
    subprocess.run(["openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-keyout", pem, "-out", f"{pem}.crt",
                    "-days", "2", "-subj", "/CN=localhost"], check=True, stderr=subprocess.DEVNULL)
    return await open_door(rig, name, "--ingest-cert", f"{pem}.crt", "--ingest-key", pem, **how)


def trusting(*alpn, most=None):
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname = False
    context.verify_mode = ssl.CERT_NONE
    if alpn:
        context.set_alpn_protocols(list(alpn))
    if most:
        context.set_ciphers("ALL:@SECLEVEL=0")
        context.minimum_version = ssl.TLSVersion.TLSv1
        context.maximum_version = most
    return context


async def talk(port, data, context=None):
    """Returns the answer to these bytes until the listener ends the connection, None if TLS fails; and the protocol that
    ALPN chose."""
    try:
        reader, writer = await asyncio.open_connection("127.0.0.1", port, ssl=context)
    except (ssl.SSLError, ConnectionError):
        return None, None
    answer, chosen = b"", None
    try:
        if context:
            chosen = writer.get_extra_info("ssl_object").selected_alpn_protocol()
        writer.write(data)
        answer = await asyncio.wait_for(reader.read(-1), DEADLINE_S)
    except (ssl.SSLError, ConnectionError):
        pass
    except asyncio.TimeoutError:
        raise Wrong(f"expected: the connection ends after {data[:60]!r}; it stays") from None
    finally:
        writer.transport.abort()
    return answer, chosen


# --- HTTP/2, as little of it as a client needs (RFC 9113, section 4.1; RFC 7541, section 6.2.2) ---

def h2_frame(kind, flags, stream, payload=b""):
    return struct.pack(">I", len(payload))[1:] + bytes([kind, flags]) + struct.pack(">I", stream) + payload


def literal(name, value):
    return bytes([0, len(name)]) + name.encode() + bytes([len(value)]) + value.encode()


def extended_connect(path):
    """A WebSocket in a stream (RFC 8441), which no HTTP/1.1 header announces."""
    fields = {":method": "CONNECT", ":protocol": "websocket", ":scheme": "https", ":path": path,
              ":authority": "localhost", "sec-websocket-version": "13"}
    block = b"".join(literal(*field) for field in fields.items())
    return PREFACE + h2_frame(SETTINGS, 0, 0) + h2_frame(SETTINGS, 1, 0) + h2_frame(HEADERS, END_HEADERS, 1, block)


@case("over TLS, HTTP/2 is not chosen by ALPN, nor is a WebSocket opened in a stream of it", "RFC 8441")
async def play(rig):
    door = await open_tls(rig, "alpn")
    for offer in (("h2",), ("h2", "http/1.1"), ("http/1.1", "h2"), ()):
        answer, chosen = await talk(door.port, extended_connect("/whatever"), trusting(*offer))
        if chosen not in (None, "http/1.1"):
            raise Wrong(f"expected: http/1.1 or nothing of {offer}; got {chosen}")
        if answer and not answer.startswith(b"HTTP/1."):
            raise Wrong(f"expected: HTTP/2 is not answered; got {answer[:60]!r} after {offer}")
    hello = request(door.port, ("Authorization", "Bearer wrong"))
    answer, chosen = await talk(door.port, hello, trusting("h2", "http/1.1"))
    if chosen != "http/1.1" or not answer.startswith(b"HTTP/1.1 401 "):
        raise Wrong(f"expected: http/1.1 is chosen, and 401 answered; got {chosen}, {answer[:60]!r}")
    if await door.leave() != 0:
        raise Wrong("expected: the listener ends well")


# --- certificates of clients ---

def openssl(*words):
    subprocess.run(["openssl", *words], check=True, stderr=subprocess.DEVNULL)


def make_authority(path):
    openssl("req", "-x509", "-newkey", "rsa:2048", "-nodes", "-keyout", f"{path}.key", "-out", f"{path}.crt", "-days", "2",
            "-subj", "/CN=an authority")


def sign(path, authority, days="2"):
    openssl("req", "-newkey", "rsa:2048", "-nodes", "-keyout", f"{path}.key", "-out", f"{path}.csr", "-subj", "/CN=shop")
    openssl("x509", "-req", "-in", f"{path}.csr", "-days", days, "-CA", f"{authority}.crt", "-CAkey", f"{authority}.key",
            "-CAcreateserial", "-out", f"{path}.crt")


def showing(path, version):
    context = trusting()
    context.minimum_version = context.maximum_version = version
    if path:
        context.load_cert_chain(f"{path}.crt", f"{path}.key")
    return context


def shake(port, context, session=None):
    """Returns the status of a handshake, its session, and whether it resumed an old session."""
    with socket.create_connection(("127.0.0.1", port), DEADLINE_S) as plain:
        try:
            with context.wrap_socket(plain, session=session) as tls:
                tls.sendall(request(port))
                answer = tls.recv(4000)
                return int(answer.split(b" ")[1]) if answer else 0, tls.session, tls.session_reused
        except (ssl.SSLError, ConnectionError):
            return 0, None, False


@case("with --ingest-client-ca, TLS goes on only with a certificate of that authority, shown anew each time", "10.5")
async def play(rig):
    at = f"{rig.directory}/client-"
    for authority in ("ours", "theirs"):
        make_authority(at + authority)
    sign(f"{at}right", f"{at}ours")
    sign(f"{at}late", f"{at}ours", "0")
    sign(f"{at}wrong", f"{at}theirs")
    door = await rig.listener("client-ca", "--ingest", "127.0.0.1:0", "--ingest-cert", f"{at}theirs.crt", "--ingest-key",
                              f"{at}theirs.key", "--ingest-client-ca", f"{at}ours.crt", env={"SSL_CERT_FILE": f"{at}theirs.crt"})
    for version in (ssl.TLSVersion.TLSv1_2, ssl.TLSVersion.TLSv1_3):
        right = showing(f"{at}right", version)
        status, session, _ = await asyncio.to_thread(shake, door.port, right)
        if status != 101:
            raise Wrong(f"expected: 101 with a certificate; got {status}")
        status, _, is_reused = await asyncio.to_thread(shake, door.port, right, session)
        if status != 101 or is_reused:
            raise Wrong(f"expected: no session goes on; got {status}, {is_reused}")
        for name in ("late", "wrong", None):
            status, _, _ = await asyncio.to_thread(shake, door.port, showing(name and at + name, version))
            if status:
                raise Wrong(f"expected: TLS ends with certificate {name}; got {status}")


@case("h2c with settings is refused, with or without the token", "RFC 7540, 3.2")
async def play(rig):
    door = await open_door(rig, "h2c")
    for token in (TOKEN, "wrong", None):
        for upgrade, connection in (("h2c", "Upgrade, HTTP2-Settings"), ("h2c, websocket", "Upgrade")):
            data = request(door.port, ("Authorization", token and f"Bearer {token}"), ("Upgrade", upgrade),
                           ("Connection", connection), ("HTTP2-Settings", "AAMAAABkAAQAAP__"))
            answer, _ = await talk(door.port, data + extended_connect("/events"))
            if answer.split(b" ")[1:2] not in ([b"426"], [b"403"]):
                raise Wrong(f"expected: 426 for Upgrade: {upgrade}; got {answer[:60]!r}")
    answer, _ = await talk(door.port, extended_connect("/events"))
    if answer and not answer.startswith(b"HTTP/1"):
        raise Wrong(f"expected: HTTP/2 is not answered; got {answer[:60]!r}")


@case("CONNECT is refused, and its connection ends", "RFC 9110, 9.3.6")
async def play(rig):
    door = await open_door(rig, "connect", "--handshake-timeout", "600")
    for target in ("localhost:22", "/events"):
        answer, _ = await talk(door.port, request(door.port, method="CONNECT", path=target) + b"more")
        if answer and not answer.startswith(b"HTTP/1.1 405 "):
            raise Wrong(f"expected: 405 or nothing to CONNECT {target}; got {answer[:60]!r}")


@case("every refusal is HTTP/1.1, and says that the connection ends", "4.2.2")
async def play(rig):
    door = await open_door(rig, "refusals")
    allowed = ("Authorization", f"Bearer {TOKEN}")
    for status, data in {
        401: request(door.port), 404: request(door.port, allowed, path="/nothing"),
        405: request(door.port, allowed, method="POST"), 426: request(door.port, allowed, ("Sec-WebSocket-Version", "8")),
        400: request(door.port, allowed, ("Sec-WebSocket-Key", "short")),
    }.items():
        answer, _ = await talk(door.port, data)
        if not answer.startswith(b"HTTP/1.1 %d " % status) or b"\r\nConnection: close\r\n" not in answer:
            raise Wrong(f"expected: HTTP/1.1 {status} with Connection: close; got {answer!r}")
    for data in (request(door.port, allowed, ("Upgrade", None)), b"GET / HTTP/1.1\r\nHost: x\r\n\r\n"):
        answer, _ = await talk(door.port, data + data)
        if answer.count(b"HTTP/1.1 4") != 1 or b"\r\nConnection: close\r\n" not in answer:
            raise Wrong(f"expected: one refusal with Connection: close; got {answer!r}")


@case("TLS older than 1.2 is refused, whatever OpenSSL is configured to", "RFC 8996")
async def play(rig):
    path = f"{rig.directory}/lax.cnf"
    with open(path, "w") as file:
        file.write("openssl_conf = all\n[all]\nssl_conf = tls\n[tls]\nsystem_default = lax\n"
                   "[lax]\nMinProtocol = TLSv1\nCipherString = ALL:@SECLEVEL=0\n")
    door = await open_tls(rig, "lax", env={"OPENSSL_CONF": path})
    for version, is_fine in ((ssl.TLSVersion.TLSv1, False), (ssl.TLSVersion.TLSv1_1, False),
                             (ssl.TLSVersion.TLSv1_2, True), (ssl.TLSVersion.TLSv1_3, True)):
        answer, _ = await talk(door.port, request(door.port), trusting(most=version))
        if bool(answer) != is_fine:
            raise Wrong(f"expected: {version.name} is {'spoken' if is_fine else 'refused'}; got {answer!r}")
