"""Faults of the done channel: cuts the connections that hear it, and publishes lies: messages that say that future events
are stored. Anyone who may publish can forge them, except for the key of --marks-key-file (docs/security.md)."""
import asyncio
import ctypes
import hashlib
import os
import struct
import time

MESSAGE = b"$7\r\nmessage\r\n"
LIES, EVERY_S = 100, 0.05       # events in a message; between two messages
ASK_S, PATIENCE_S = 1, 30       # how long to wait for one message, and for any
PLACE = "SELECT (SELECT id FROM wsonce_database), (SELECT epoch FROM wsonce_epoch)"
UNKNOWN = 65535                 # in place of when an event came


class ChannelCut:
    """Ends each connection at the next message for it, which never arrives. Used instead of a CommitCut."""

    def __init__(self):
        self.hits = 0

    def pass_on(self, pair, direction, target, data):
        if direction == 0 or MESSAGE not in data:
            target.write(data)
            return True
        self.hits += 1
        pair.close(is_reset=True)
        return False


async def cut(rig, fault):
    one = ChannelCut()
    for listener in rig.listeners:
        listener.links["redis"].commit_cut = one
    await asyncio.sleep(fault.duration)
    for listener in rig.listeners:
        listener.links["redis"].commit_cut = None
    rig.played.count("channel cut during a batch", one.hits)
    fault.outcome = f"{one.hits} connections"


def message(database, epoch, prefix, ids):
    """Returns a message like those of listener/claim/done_channel.c without a key."""
    sodium = ctypes.CDLL("libsodium.so.23")
    key = hashlib.blake2b(f"{prefix}\0".encode(), key=f"{database}/{epoch:08x}".encode(), digest_size=16).digest()
    parts = [b"wsd1", struct.pack("<I", epoch), os.urandom(8), struct.pack("<Q", int(time.time() * 1000))]
    for event_id in ids:
        found = ctypes.create_string_buffer(16)
        sodium.crypto_shorthash_siphashx24(found, event_id.encode(), ctypes.c_ulonglong(len(event_id)), key)
        parts += [found.raw, struct.pack("<H", UNKNOWN)]
    return b"".join(parts)


async def publish(rig):
    """Publishes a lie. Returns whether it was heard: not if Redis is away, or Postgres, which knows the epoch."""
    status, place, _ = await rig.postgres.try_sql(PLACE)
    first = rig.book.feed_events + 1
    ids = [f"{rig.book.feed_prefix}-{n}" for n in range(first, first + LIES)]
    if status or not place.split("|")[-1]:
        return False
    database, epoch = place.split("|")
    lies = message(database, int(epoch, 16), rig.claim_prefix, ids)
    try:
        heard = await asyncio.wait_for(rig.redis.ask("PUBLISH", f"wsonce:done:{rig.claim_prefix}", lies), ASK_S)
    except (OSError, asyncio.IncompleteReadError, asyncio.TimeoutError):
        return False
    return heard[:1] == b":" and heard != b":0"


async def lie(rig, fault):
    heard, began = 0, time.monotonic()
    while time.monotonic() < began + (fault.duration if heard else PATIENCE_S):
        heard += await publish(rig)
        await asyncio.sleep(EVERY_S)
    rig.played.count("lies on the channel that were heard", heard)
    fault.outcome = f"{heard} messages"
