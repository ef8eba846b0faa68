"""Kills and power cuts under load: owns the loop of lives of one file, and what must be true after each."""
import os
import random
import shutil

from listener import Listener, Producer, ask, stored_ids
from rig.waiting import SLOW, RigError, comes_true

LIFE_S = 10 * SLOW
CUT = 86                                # exit status of a process whose disk has lost power


async def load_until(producer, is_over):
    """Sends new events, those of earlier lives without an ack, and some acked ones again."""
    for n in producer.unacked()[:2000]:
        producer.send_event(n)
    for _ in range(min(50, producer.next - 1)):
        producer.send_event(random.randrange(1, producer.next))

    def push():
        if producer.next - 1 - len(producer.acked) < 3000:
            producer.send_new(200)
        return is_over()
    return await comes_true(push, LIFE_S, every=0.002)


def check(file, producer):
    """Returns what is wrong with the file; None if it is right."""
    verdict = ask(file, "PRAGMA integrity_check")[0][0]
    rows = stored_ids(file)
    ids = set(rows)
    lost = [i for i, status in producer.acked.items() if status in ("persisted", "duplicate") and i not in ids]
    if verdict != "ok":
        return f"integrity_check: {verdict}"
    if lost:
        return f"{len(lost)} acked events are lost, such as {lost[0]}"
    if len(rows) != len(ids):
        return f"{len(rows) - len(ids)} rows are doubled"
    return None


async def kills(rig, count):
    """Kills a listener under load at any moment, while another one sometimes writes to the same file."""
    file = f"{rig.directory}/kills.db"
    producer, draw = Producer("k"), random.Random(rig.seed)
    other, neighbour = Listener(rig, "neighbour"), Producer("n")
    await other.start(file)
    await neighbour.open(other.port)
    for life in range(count):
        listener = Listener(rig, "killed")
        await listener.start(file)
        await producer.open(listener.port)
        neighbour.send_new(20)
        wanted = len(producer.acked) + draw.randrange(1, 6000)
        if not await load_until(producer, lambda n=wanted: len(producer.acked) >= n):
            return f"life {life}: it does not ack: {listener.last_words()}"
        await listener.kill()
        await producer.close()
        if life % 10 == 9:              # also with nobody at the file, whose log is then recovered
            await other.kill()
            await neighbour.close()
        fault = check(file, producer) or check(file, neighbour)
        if fault:
            return f"life {life}: {fault}"
        if life % 10 == 9:
            await other.start(file)
            await neighbour.open(other.port)
    await other.kill()
    rig.say(f"{count} kills, {len(producer.acked)} acked, {producer.next - 1} sent")
    return None


def put_on_disk(folder, after):
    """Puts all files of the folder on the disk."""
    shutil.rmtree(os.path.dirname(after), ignore_errors=True)
    os.makedirs(after)
    for name in os.listdir(folder):
        if not name.endswith("-shm"):
            shutil.copy(f"{folder}/{name}", f"{after}/{name}")


def take_from_disk(folder, after):
    shutil.rmtree(folder)
    os.makedirs(folder)
    for name in os.listdir(after):
        if os.path.getsize(f"{after}/{name}"):
            shutil.copy(f"{after}/{name}", f"{folder}/{name}")


def on_disk(rig, seed, syncs, how=None):
    """Returns the environment of a process whose disk loses power after this many syncs and some writes. how: another
    variable of disk.c."""
    return {"LD_PRELOAD": rig.library, "WSONCE_DISK": f"{rig.directory}/disk", "WSONCE_DISK_SEED": str(seed),
            "WSONCE_DISK_SYNCS": str(syncs), **({how: "1"} if how else {})}


async def must_be_cut(listener):
    if not await listener.ends(LIFE_S) or listener.process.returncode != CUT:
        raise RigError(f"the power was not cut: {listener.process.returncode} {listener.last_words()}")


async def live(rig, file, producer, seed, syncs, how=None):
    """Runs one life under load, which the disk ends."""
    listener = Listener(rig, "cut")
    open(listener.log_path, "w").close()        # so that it has only the port of this life
    await listener.start(file, env=on_disk(rig, seed, syncs, how), is_waited_for=False)
    await comes_true(lambda: has_begun(listener), LIFE_S)
    if not listener.is_over:
        try:
            await producer.open(listener.port)
        except OSError:                 # it was cut short
            pass
        await load_until(producer, lambda: listener.is_over)
        await producer.close()
    await must_be_cut(listener)


async def cut(rig, file, producer, seed, lies):
    """Runs one life on a disk that loses power. Then the file has what was on the disk."""
    folder, after = os.path.dirname(file), f"{rig.directory}/disk/after"
    put_on_disk(folder, after)
    await live(rig, file, producer, seed, 3 + seed % 97 if lies else 1 + seed * 11 % 37, "WSONCE_DISK_LIES" if lies else None)
    take_from_disk(folder, after)


async def has_begun(listener):
    return listener.is_over or await listener.has_started()


def check_left(file, producer):
    """Like check(), but the file may be missing as long as nothing was acked."""
    if not os.path.exists(file):
        return "the file is gone" if producer.acked else None
    try:
        if not ask(file, "SELECT 1 FROM sqlite_schema WHERE name = 'events'"):
            return "the tables are gone" if producer.acked else None
        return check(file, producer)
    except Exception as error:          # any error of sqlite3 about a broken file
        return f"cannot be read: {error}"


async def cuts(rig, count):
    folder = f"{rig.directory}/cuts"
    file, producer = f"{folder}/events.db", Producer("c")
    os.makedirs(folder)
    for life in range(count):
        await cut(rig, file, producer, rig.seed + life, lies=False)
        fault = check_left(file, producer)
        if fault:
            return f"life {life}: {fault}"
    rig.say(f"{count} power cuts, {len(producer.acked)} acked, {producer.next - 1} sent")
    return None


def unsynced(rig, file, producer):
    """Returns events without an ack that a killed process has left in the file."""
    folder = f"{rig.directory}/copy"    # opening the file would change it
    shutil.copytree(os.path.dirname(file), folder)
    ids = set(stored_ids(f"{folder}/{os.path.basename(file)}"))
    shutil.rmtree(folder)
    return [n for n in producer.unacked() if producer.event_id(n) in ids]


async def kills_before_cuts(rig, count):
    """A listener is killed between writing and syncing. The next one finds the rows and gets their events again; then the
    power fails: events that it has acked must be on the disk."""
    folder = f"{rig.directory}/kills-before-cuts"
    file, producer, after, found = f"{folder}/events.db", Producer("b"), f"{rig.directory}/disk/after", 0
    os.makedirs(folder)
    for life in range(count):
        put_on_disk(folder, after)
        await live(rig, file, producer, rig.seed, 6 + life, "WSONCE_DISK_KILLS")
        again = unsynced(rig, file, producer)
        found += len(again)
        heir = Listener(rig, "heir")
        open(heir.log_path, "w").close()
        await heir.start(file, env={"LD_PRELOAD": rig.library, "WSONCE_DISK": f"{rig.directory}/disk",
                                    "WSONCE_DISK_GOES_ON": "1"})
        await producer.open(heir.port)
        for n in again:
            producer.send_event(n)
        if not await comes_true(lambda ns=again: not set(ns) & set(producer.unacked()), LIFE_S):
            return f"life {life}: it does not ack: {heir.last_words()}"
        await heir.kill()
        await producer.close()
        take_from_disk(folder, after)
        fault = check_left(file, producer)
        if fault:
            return f"life {life}: {fault}"
    rig.say(f"{count} kills and then power cuts, {found} events were written and not synced")
    return None if found else "no kill fell between a write and its sync"


async def lies(rig, count):
    """Tests the rig itself: on a disk that only pretends to sync, it must find a loss."""
    for life in range(count):
        folder = f"{rig.directory}/lies-{life}"
        os.makedirs(folder)
        producer = Producer("l")
        await cut(rig, f"{folder}/events.db", producer, rig.seed + life, lies=True)
        if check_left(f"{folder}/events.db", producer):
            return None
    return f"{count} power cuts of a disk that lies, and nothing was found"
