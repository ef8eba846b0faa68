"""Makes the bytes of frames, including malformed ones that a correct library refuses to send."""
import secrets
import struct

CONT, TEXT, BINARY, CLOSE, PING, PONG = 0, 1, 2, 8, 9, 10


def length_field(size, form):
    """form: how many bytes the length takes (1, 2 or 8); None: the fewest, the only correct form."""
    if form is None:
        form = 1 if size < 126 else 2 if size < 65536 else 8
    if form == 1:
        return size, b""
    return (126, struct.pack(">H", size)) if form == 2 else (127, struct.pack(">Q", size))


def frame(op, payload=b"", *, mask=False, fin=True, rsv=0, form=None, says=None):
    """mask: mask it, as a client does. says: the length in the header, if it is not that of the payload."""
    first, more = length_field(len(payload) if says is None else says, form)
    head = bytes([fin << 7 | rsv << 4 | op, mask << 7 | first]) + more
    if not mask:
        return head + payload
    key = secrets.token_bytes(4)
    stream = (key * (len(payload) // 4 + 1))[:len(payload)]
    return head + key + (int.from_bytes(payload, "big") ^ int.from_bytes(stream, "big")).to_bytes(len(payload), "big")


def close_payload(code, reason=b""):
    return struct.pack(">H", code) + reason


def heads(data):
    """Returns (op, masking key or None) of each whole frame in data."""
    found = []
    while len(data) >= 2:
        size, at = data[1] & 127, 2
        if size == 126:
            size, at = struct.unpack(">H", data[2:4])[0], 4
        elif size == 127:
            size, at = struct.unpack(">Q", data[2:10])[0], 10
        key = data[at:at + 4] if data[1] & 128 else None
        found.append((data[0] & 15, key))
        data = data[at + (4 if key else 0) + size:]
    return found
