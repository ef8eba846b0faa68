"""What can be wrong with a file or its disk, and what the listener must say and do: one function for each scene, which
returns what went wrong, or None."""
import asyncio
import contextlib
import json
import os
import signal
import sqlite3
import time

from listener import Listener, Producer, ask, stored_ids
from rig.feed import Connection
from rig.frame import TEXT, frame
from rig.process import clean_environment
from rig.waiting import SLOW, comes_true

END_S = 10 * SLOW


async def refuses(rig, file, words, *options, status=2, **how):
    listener = Listener(rig, "refuses")
    open(listener.log_path, "w").close()
    await listener.start(file, *options, is_waited_for=False, **how)
    if not await listener.ends(END_S):
        await listener.kill()
        return f"it starts, though {words}"
    said = listener.log()
    if listener.process.returncode != status or words not in said:
        return f"status {listener.process.returncode}, and it does not say \"{words}\": {listener.last_words(3)}"
    return None


def make(file, *statements):
    with sqlite3.connect(file) as db:
        for statement in statements:
            db.execute(statement)
    db.close()
    return file


async def files_of_others(rig):
    d = rig.directory
    with open(f"{d}/text.db", "w", encoding="ascii") as out:
        out.write("Dear diary, " * 500)
    os.makedirs(f"{d}/folder.db")
    own = f"{d}/own.db"
    listener = Listener(rig, "maker")
    await listener.start(own)
    if not await comes_true(listener.is_ready, END_S) or await listener.end(signal.SIGTERM, END_S):
        return f"it does not make a file: {listener.last_words()}"
    copies = {}
    for name, statement in {"newer": "PRAGMA user_version = 99", "altered": "ALTER TABLE events RENAME payload TO body",
                            "dropped": "DROP TABLE dead_letters"}.items():
        copies[name] = f"{d}/{name}.db"
        with open(own, "rb") as source, open(copies[name], "wb") as copy:
            copy.write(source.read())
        make(copies[name], statement)
    cases = [
        (f"{d}/text.db", "is not an SQLite file"),
        (make(f"{d}/tables.db", "CREATE TABLE events (event_id TEXT UNIQUE)"), "belongs to another program"),
        (make(f"{d}/marked.db", "PRAGMA application_id = 42"), "belongs to another program"),
        (make(f"{d}/versioned.db", "PRAGMA user_version = 7"), "belongs to another program"),
        (copies["newer"], "was made by a newer wsonce"),
        (copies["altered"], "has tables that wsonce did not make"),
        (copies["dropped"], "has tables that wsonce did not make"),
        (f"{d}/folder.db", "cannot be opened"),
        (f"{d}/no/such/folder/x.db", "cannot be opened"),
    ]
    for file, words in cases:
        before = open(file, "rb").read() if os.path.isfile(file) else None
        fault = await refuses(rig, file, words)
        if fault:
            return f"{os.path.basename(file)}: {fault}"
        if before is not None and open(file, "rb").read() != before:
            return f"{file} was changed"
    return None


async def settings_that_need_postgres(rig):
    config = f"{rig.directory}/webhooks.json"
    with open(config, "w", encoding="ascii") as out:
        out.write('{"webhooks": [{"name": "a", "url": "http://127.0.0.1:1/", "secret-env": "HOOK_SECRET"}]}')
    for words, options in (("--handler: needs Postgres", ("--handler", "public.f")),
                           ("--consumer: needs Postgres", ("--consumer", "c")),
                           ("webhooks: need Postgres", ("--config", config)),
                           ("names no file", ("--store", "sqlite://")),
                           ("neither postgres nor sqlite://", ("--store", "mysql://x"))):
        fault = await refuses(rig, f"{rig.directory}/settings.db", words, *options,
                              env={"HOOK_SECRET": "whsec_MDEyMzQ1Njc4OWFiY2RlZjAxMjM0NTY3ODlhYmNkZWY="})
        if fault:
            return fault
    return "a file was made" if os.path.exists(f"{rig.directory}/settings.db") else None


async def a_file_that_cannot_be_written(rig):
    """Runs as a user other than root, who is subject to file permissions."""
    folder = f"{rig.directory}/rights"
    os.makedirs(folder)
    file = f"{folder}/e.db"
    listener = Listener(rig, "owner")
    await listener.start(file)
    if not await comes_true(listener.is_ready, END_S) or await listener.end(signal.SIGTERM, END_S):
        return f"it does not make a file: {listener.last_words()}"
    os.chmod(file, 0o444)
    os.chmod(folder, 0o555)
    user = "nobody" if os.getuid() == 0 else None
    fault = await refuses(rig, file, "cannot be written", "--admin", "127.0.0.1:0", user=user)
    os.chmod(folder, 0o755)
    return fault


async def judge(rig, file, env=None):
    """Returns the exit status of wsonce status."""
    child = await asyncio.create_subprocess_exec(
        f"{rig.programs}/wsonce", "status", "--store", f"sqlite://{file}", "--redis", "none",
        stdout=asyncio.subprocess.DEVNULL, env=clean_environment() | (env or {}))
    return await child.wait()


async def stays_away(rig, name, words, begin, end, env=None, status=None):
    """While the file is bad, nothing is acked, /readyz says why, and wsonce status has this exit status; afterwards all
    events are stored, once."""
    file = f"{rig.directory}/{name}/e.db"
    os.makedirs(os.path.dirname(file))
    listener, producer = Listener(rig, name), Producer(name)
    await listener.start(file, env=env)
    await producer.open(listener.port)
    producer.send_new(500)
    if not await producer.are_all_acked():
        return f"it does not ack at first: {listener.last_words()}"
    begin(file)
    producer.send_new(500)
    if not await comes_true(lambda: words in listener.log(), END_S):
        return f"it does not say \"{words}\": {listener.last_words()}"
    if len(producer.acked) > 500:
        return f"{len(producer.acked) - 500} were acked meanwhile"
    page = await listener.page("/readyz")
    if " 503 " not in page.split("\n")[0] or "not ready: sqlite:" not in page:
        return f"/readyz: {page}"
    if status is not None and await judge(rig, file, env) != status:
        return f"wsonce status does not end with {status}"
    end(file)
    if not await producer.are_all_acked():
        return f"it does not go on: {listener.last_words()}"
    if await listener.end(signal.SIGTERM, END_S):
        return f"it does not end well: {listener.last_words()}"
    await producer.close()
    ids = stored_ids(file)
    return None if len(ids) == len(set(ids)) == 1000 else f"{len(ids)} rows"


def touch(path):
    with open(path, "w", encoding="ascii"):
        pass


def disk_of(rig, name):
    disk = f"{rig.directory}/disk-{name}"
    os.makedirs(f"{disk}/after")
    return disk, {"LD_PRELOAD": rig.library, "WSONCE_DISK": disk}


async def a_full_disk(rig):
    disk, env = disk_of(rig, "full")
    return await stays_away(rig, "full", "the disk is full", lambda file: touch(f"{disk}/full"),
                            lambda file: os.unlink(f"{disk}/full"), env, status=2)


async def a_disk_that_fails_to_sync(rig):
    disk, env = disk_of(rig, "broken")
    return await stays_away(rig, "broken", "cannot be read or written", lambda file: touch(f"{disk}/broken"),
                            lambda file: os.unlink(f"{disk}/broken"), env)


async def a_file_that_is_moved_away(rig):
    return await stays_away(rig, "moved", "was moved, deleted or replaced", lambda file: os.rename(file, f"{file}.old"),
                            lambda file: os.rename(f"{file}.old", file))


async def a_file_that_is_locked(rig):
    """Waiting for another process is not an error: nothing is logged."""
    file = f"{rig.directory}/locked.db"
    listener, producer = Listener(rig, "locked"), Producer("b")
    await listener.start(file)
    await producer.open(listener.port)
    producer.send_new(10)
    if not await producer.are_all_acked():
        return f"it does not ack: {listener.last_words()}"
    db = sqlite3.connect(file, isolation_level=None)
    db.execute("BEGIN IMMEDIATE")
    producer.send_new(100)
    await asyncio.sleep(2)              # longer than a statement waits: nothing must happen
    acked = len(producer.acked)
    db.execute("COMMIT")
    db.close()
    if acked != 10 or not await producer.are_all_acked():
        return f"{acked} and then {len(producer.acked)} acked: {listener.last_words()}"
    await producer.close()
    await listener.end(signal.SIGTERM, END_S)
    return f"it complains: {listener.last_words()}" if "level=warn" in listener.log() else None


async def status_of_a_file_that_is_locked(rig):
    """wsonce status prints the reason within ten seconds."""
    file = f"{rig.directory}/held.db"
    listener = Listener(rig, "held")
    await listener.start(file)
    if not await comes_true(listener.is_ready, END_S) or await listener.end(signal.SIGTERM, END_S):
        return f"it does not make a file: {listener.last_words()}"
    db = sqlite3.connect(file, isolation_level=None)
    db.execute("BEGIN IMMEDIATE")
    began = time.monotonic()
    child = await asyncio.create_subprocess_exec(
        f"{rig.programs}/wsonce", "status", "--store", f"sqlite://{file}", stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.DEVNULL, env=clean_environment())
    said, took = (await child.communicate())[0].decode(), time.monotonic() - began
    db.close()
    if child.returncode == 2 and "is locked by" in said and "sqlite    down" in said and took < 10:
        return None
    return f"status {child.returncode} after {took:.0f} s: {said}"


async def a_fleet_on_one_file(rig):
    """Sends the same events to three listeners at once: each must have one row; also dead letters, and a listener that
    ends."""
    file = f"{rig.directory}/fleet.db"
    listeners = [Listener(rig, f"fleet-{i}") for i in range(3)]
    producers = [Producer("f") for _ in listeners]
    for listener, producer in zip(listeners, producers):
        await listener.start(file)
        await producer.open(listener.port)
    for _ in range(10):
        for producer in producers:
            producer.send_new(300)
            producer.send(1, b'{"payload": "no id"}')
        await asyncio.sleep(0)
    for listener, producer in zip(listeners, producers):
        if not await comes_true(lambda p=producer: len(p.unacked()) == 0, END_S):
            return f"{listener.name} does not ack: {listener.last_words()}"
    told = sum(list(p.acked.values()).count("persisted") for p in producers)
    for listener, producer in zip(listeners, producers):
        await producer.close()
        if await listener.end(signal.SIGTERM, END_S) or "level=warn" in listener.log().replace("are dead letters", "") and \
                "locked" in listener.log():
            return f"{listener.name} does not end well: {listener.last_words()}"
    rows, letters = ask(file, "SELECT count(*) FROM events")[0][0], ask(file, "SELECT count(*), sum(seen) FROM dead_letters")
    if rows != 3000 or told != 3000 or letters != [(1, 30)]:
        return f"{rows} rows, {told} told as persisted, letters {letters}"
    return None if os.path.exists(file) and not os.path.exists(f"{file}-wal") else "the log is left behind"


async def triggers(rig):
    """Rows that a user's trigger refuses become dead letters, and the others are stored."""
    file = f"{rig.directory}/triggers.db"
    listener, producer = Listener(rig, "triggers"), Producer("t")
    await listener.start(file, "--max-attempts", "2")
    await comes_true(listener.is_ready, END_S)
    make(file, "CREATE TRIGGER a BEFORE INSERT ON events WHEN new.event_id = 't-3' BEGIN SELECT raise(ABORT, 'not this'); END",
         "CREATE TRIGGER b BEFORE INSERT ON events WHEN new.event_id = 't-5' BEGIN SELECT raise(ROLLBACK, 'nor this'); END",
         "CREATE TRIGGER c BEFORE INSERT ON events WHEN new.event_id = 't-7' BEGIN SELECT raise(IGNORE); END")
    await producer.open(listener.port)
    producer.send_new(100)
    if not await producer.are_all_acked():
        return f"{producer.unacked()} are not acked: {listener.last_words()}"
    await producer.close()
    await listener.end(signal.SIGTERM, END_S)
    refused = sorted(i for i, status in producer.acked.items() if status == "rejected")
    letters = dict(ask(file, "SELECT event_id, reason FROM dead_letters"))
    if refused != ["t-3", "t-5", "t-7"] or sorted(letters) != refused or len(stored_ids(file)) != 97:
        return f"refused {refused}, letters {letters}, {len(stored_ids(file))} rows"
    return None if "not this" in letters["t-3"] and "nor this" in letters["t-5"] else f"{letters}"


async def letters_that_triggers_refuse(rig):
    """Dead letters are not acked until they are written, and do not delay others."""
    file = f"{rig.directory}/letters.db"
    listener, producer = Listener(rig, "letters"), Producer("l")
    await listener.start(file)
    await comes_true(listener.is_ready, END_S)
    make(file, *(f"CREATE TRIGGER {how} BEFORE INSERT ON dead_letters WHEN instr(CAST(new.raw AS TEXT), '{how} it') "
                 f"BEGIN SELECT raise({words}); END" for how, words in
                 (("abort", "ABORT, 'no'"), ("rollback", "ROLLBACK, 'no'"), ("ignore", "IGNORE"))))
    await producer.open(listener.port)

    def letters():
        return sorted(bytes(row[0]).decode() for row in ask(file, "SELECT raw FROM dead_letters"))

    async def others_are_written():
        return letters() == ["begin", "end"]

    for text in ("begin", "abort it", "rollback it", "ignore it", "end"):
        producer.send(TEXT, text.encode())
    if not await comes_true(others_are_written, END_S) or len(producer.answers) > 2:
        return f"letters {letters()}, {len(producer.answers)} acks"
    make(file, *(f"DROP TRIGGER {how}" for how in ("abort", "rollback", "ignore")))

    async def all_are_acked():
        return len(producer.answers) == 5

    if not await comes_true(all_are_acked, END_S):
        return f"{len(producer.answers)} acks: {listener.last_words()}"
    await producer.close()
    await listener.end(signal.SIGTERM, END_S)
    return None if len(letters()) == 5 else f"letters {letters()}"


class Numbers(Connection):
    """A feed of the numbers from 1 on, which begins after the number in the path."""
    last = 0
    open = set()

    @classmethod
    def grow(cls, last):
        for connection in cls.open:
            connection.send(cls.last + 1, last)
        cls.last = last

    def send(self, first, last):
        self.transport.write(b"".join(frame(TEXT, b'{"n":%d}' % n) for n in range(first, last + 1)))

    def on_open(self, request):
        self.open.add(self)
        self.send(request.number + 1, self.last)

    def connection_lost(self, _exc):
        self.open.discard(self)


async def a_backup_that_is_restored(rig):
    """Under a running listener: it asks again for what the file has lost. Other writers do not hide the loss."""
    file, config = f"{rig.directory}/restored.db", f"{rig.directory}/numbers.json"
    server = await asyncio.get_running_loop().create_server(Numbers, "127.0.0.1", 0)
    url = f"ws://127.0.0.1:{server.sockets[0].getsockname()[1]}/"
    with open(config, "w", encoding="ascii") as out:
        json.dump({"sources": [{"name": "numbers", "url": f"{url}0", "url_resume": f"{url}${{cursor}}",
                                "cursor": {"kind": "max", "scope": "source"},
                                "rules": [{"action": "event", "id": [["/n"]], "cursor": "/n"}]}]}, out)
    listener, other = Listener(rig, "restored"), Listener(rig, "restored-other")
    await listener.start(file, "--config", config)
    await other.start(file)

    async def reach(last):
        Numbers.grow(last)
        return await comes_true(lambda: ask(file, "SELECT 1 FROM sqlite_master WHERE name = 'cursors'") and
                                len(stored_ids(file)) >= last and
                                ask(file, "SELECT value FROM cursors") == [(str(last),)], END_S)
    fault = None if await reach(100) else "it stores nothing"
    with sqlite3.connect(file) as now, sqlite3.connect(f"{file}.copy") as copy:
        now.backup(copy)
        fault = fault or (None if await reach(200) else "it stores no more")
        copy.backup(now)
    producer = Producer("other")
    await producer.open(other.port)
    producer.send_new(1)
    if not fault and not (await producer.are_all_acked() and await reach(201)):
        fault = f"{len(stored_ids(file))} rows, {ask(file, 'SELECT value FROM cursors')}: {listener.last_words()}"
    await producer.close()
    for each in (listener, other):
        await each.end(signal.SIGTERM, END_S)
    server.close()
    return fault or (None if "has lost commits" in listener.log() else "it does not say so")


def add_hours(file):
    """Adds the same minute as reported by two listeners."""
    minute = int(time.time()) // 60 - 10
    now = time.strftime("%Y-%m-%dT%H:%M:%S.000000Z", time.gmtime())
    with contextlib.closing(sqlite3.connect(file)) as db, db:
        for name, received in (("a", 60), ("b", 120)):
            db.execute("INSERT INTO wsonce_listeners VALUES (?, NULL, 1, ?, ?, ?)",
                       (f"{name}.0123456789abcdef", now, now, json.dumps({"version": "1", "hour": [[minute, received, 60, 0, 0, 1.0, 2.0]]})))


async def tells(rig, file, status, words, *command):
    child = await asyncio.create_subprocess_exec(
        f"{rig.programs}/wsonce", *command, "--store", f"sqlite://{file}", stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.STDOUT, env=clean_environment())
    said = " ".join((await child.communicate())[0].decode().split())
    return None if child.returncode == status and words in said else f"{command}: {child.returncode}, {said}"


async def a_replay_and_a_backup(rig):
    """A checkpoint is not believed when the file has lost commits since."""
    file, lines = f"{rig.directory}/replayed.db", f"{rig.directory}/lines"
    replay = ("replay", lines, "--checkpoint", f"{lines}.at")
    for first in (0, 100):
        with open(lines, "a", encoding="ascii") as out:
            out.write("".join(f'{{"event_id": "e{n}", "payload": {n}}}\n' for n in range(first, first + 100)))
        fault = await tells(rig, file, 0, "persisted 100,", *replay)
        if fault:
            return fault
        if first == 0:
            with sqlite3.connect(file) as now, sqlite3.connect(f"{file}.copy") as copy:
                now.backup(copy)
    for others in (0, 8):            # transactions of others after the restore, more than it has taken back
        with sqlite3.connect(file) as now, sqlite3.connect(f"{file}.copy") as copy:
            copy.backup(now)
        for n in range(others):
            with open(f"{lines}.more", "w", encoding="ascii") as out:
                out.write(f'{{"event_id": "more{n}"}}\n')
            fault = fault or await tells(rig, file, 0, "persisted 1,", "replay", f"{lines}.more")
        fault = (fault or await tells(rig, file, 0, "replayed 200: persisted 100, duplicates 100,", *replay)
                 or await tells(rig, file, 0, "replayed 0:", *replay))
    return fault


def add_letters(file, n):
    """Letters that were discarded long ago, and as many open ones that are younger."""
    with sqlite3.connect(file) as db:
        db.executemany("INSERT INTO dead_letters (digest, reason, raw, instance_id, first_seen, last_seen, resolved_at) "
                       "VALUES (randomblob(32), 'r', x'', 'i', ?1, ?1, ?2)",
                       [(f"2026-01-0{1 + is_open}T00:00:{i:02}.000000Z", None if is_open else "2026-01-09T00:00:00.000000Z")
                        for i in range(n) for is_open in (False, True)])


async def commands(rig):
    """Runs each command, in the order of a working day, and checks its output and exit status."""
    d = rig.directory
    file = f"{d}/commands.db"
    with open(f"{d}/events", "w", encoding="utf-8") as out:
        for n in range(500):
            out.write(f'{{"event_id": "e{n}", "event_type": "t", "payload": {{"n": {n}}}}}\n')
        out.write('{"event_id": "t\\tab\\\\", "event_type": "t", "payload": "ü"}\nno JSON 12\n{"payload": 1}\n')
    with open(f"{d}/ids", "w", encoding="ascii") as out:
        out.write("e1\ne2\ne-new\n")
    with open(f"{d}/more", "w", encoding="ascii") as out:
        out.write('{"event_id": "e-new", "event_type": "t", "payload": 1}\n')
    with open(f"{d}/edited", "w", encoding="ascii") as out:
        out.write('{"event_id": "edited", "event_type": "t", "payload": 1}')

    async def run(status, words, *command, to=file):
        return await tells(rig, to, status, words, *command)
    return (
        await run(1, "there is no file", "audit", "--expected", f"{d}/ids")
        or await run(1, "persisted 501, duplicates 0, rejected 2", "replay", f"{d}/events")
        or await run(1, "persisted 0, duplicates 501, rejected 2", "replay", f"{d}/events")
        or await run(1, "expected 3 different events stored 2 dead letters 0 in flight not known missing 1 e-new", "audit",
                     "--expected", f"{d}/ids")
        or await run(0, "resubmitted 1: persisted 1", "audit", "--resubmit", "--expected", f"{d}/more")
        or await run(1, "expected 503 different events stored 501 dead letters 2", "audit", "--expected", f"{d}/events")
        or await run(0, "dead letters: 2, reasons: 2", "dead-letters", "list")
        or await run(0, "seen 2", "dead-letters", "show", "1")
        or await run(0, '"is_whole":true', "dead-letters", "show", "1", "--json")
        or await run(0, "discarded 1", "dead-letters", "discard", "1", "--note", "x")
        or await run(1, "no such open dead letter", "dead-letters", "discard", "1")
        or await run(0, "discard: discarded", "dead-letters", "show", "1")
        or await run(1, "discarded 1 ", "audit", "--expected", f"{d}/events")
        or await run(0, "reopened 1", "dead-letters", "reopen", "1")
        or await run(0, "persisted 1", "dead-letters", "retry", "--id", "2", "--raw-file", f"{d}/edited")
        or await run(1, "rejected again 1", "dead-letters", "retry", "--all")
        or await run(1, "resolved 1 stored by an edited message", "audit", "--expected", f"{d}/events")
        or await run(0, "1, reasons: 1", "dead-letters", "list", "--reason", "JSON", "--since", "1h")
        or await run(0, "letters: 0", "dead-letters", "list", "--until", "1h")
        or await run(0, "payloads removed before", "purge", "--older-than", "1s", "--dry-run")
        or await run(2, "--delete-rows is refused", "purge", "--older-than", "2d", "--delete-rows")
        or add_letters(file, 20)
        or await run(0, ": 0", "purge", "--dead-letters-keep", "21")
        or await run(0, ": 5", "purge", "--dead-letters-keep", "16")
        or await run(0, ": 5", "purge", "--dead-letters-keep", "32", "--open-too")
        or await run(0, "dead letters deleted", "purge", "--dead-letters-keep", "0", "--open-too")
        or await run(0, "dead letters: 0", "dead-letters", "list", "--state", "all")
        or await run(2, "do not go with --store sqlite://", "purge", "--outbox-older-than", "1d")
        or await run(1, "needs Postgres", "stats", "duplicates")
        or await run(1, "needs Postgres", "explain", "e1")
        or await run(2, "sqlite 3.", "status")
        or add_hours(file)
        or await run(0, '"received_per_s": 3.0, "stored_per_s": 2.0,', "status", "--json")
        or await run(0, "db, SQLite 3.", "check", "--ingest", "127.0.0.1:0", "--ingest-open")
        or await run(0, "is not there yet", "check", "--ingest", "127.0.0.1:0", "--ingest-open", to=f"{d}/later.db")
        or await run(1, "make this folder", "check", "--ingest", "127.0.0.1:0", "--ingest-open", to=f"{d}/no/such.db")
        or await run(0, "", "migrate")
        or await run(1, "is not an SQLite file", "replay", f"{d}/events", to=f"{d}/events")
        or (None if len(stored_ids(file)) == 503 else f"{len(stored_ids(file))} rows"))


SCENES = [commands, a_replay_and_a_backup, files_of_others, settings_that_need_postgres, a_file_that_cannot_be_written,
          a_full_disk, a_disk_that_fails_to_sync, a_file_that_is_moved_away, a_file_that_is_locked,
          status_of_a_file_that_is_locked, a_fleet_on_one_file, triggers, letters_that_triggers_refuse,
          a_backup_that_is_restored]
