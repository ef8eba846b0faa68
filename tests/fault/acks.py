"""Judges acks when they arrive: owns a producer, connected to every listener, that sends some ids in several versions,
and checks each ack against the tables at once. wsonce-producer resends messages that are not acked, and its ledger is
judged at the end of a round; this one sends each message once."""
import asyncio
import hashlib
import random
import time

from ledger import is_caused
from rig.client import Client
from rig.feed import CREATED, event_message
from rig.frame import TEXT
from rig.waiting import comes_true

RATE = 30                       # ids a second
LOOK_S = 0.15                   # the shortest time between two queries of the tables


def versions_of(event_id, n, choice, is_plain):
    """Returns messages, each with its payload as jsonb prints it: one, or three, and for half of the ids one more that
    Postgres refuses (None). It fails a whole COPY, after which COPY is avoided for a while: with --plain it is rare."""
    good = [f'{{"n": {n}, "version": {version}}}' for version in range(1 if choice < 0.6 else 3)]
    bad = ['{"n": "\\u0000"}'] if 0.3 < choice < 0.8 and (not is_plain or n % 300 == 1) else []
    return [(event_message(event_id, payload), payload) for payload in good] + [
        (event_message(event_id, payload), None) for payload in bad]


class Line(Client):
    """A connection to one listener. It reconnects; messages that were not acked by then are not judged."""

    def __init__(self, asker, listener):
        super().__init__()
        self.asker = asker
        self.listener = listener
        self.waiting = {}               # id -> the message that was sent on this connection, and when

    async def run(self):
        while True:
            try:
                await self.connect(self.listener.links["ingest"].port)
                await self.read_acks()
            except (OSError, asyncio.IncompleteReadError, asyncio.LimitOverrunError):
                pass
            self.hang_up()
            await asyncio.sleep(0.2)

    def hang_up(self):
        super().hang_up()
        self.waiting = {}

    def on_ack(self, ack):
        message, sent = self.waiting.pop(ack["event_id"], (None, None))
        if message is not None:
            self.asker.acks.append((ack["event_id"], message, ack["status"], self.listener.now.name, sent))

    def send_event(self, event_id, message):
        if self.writer and event_id not in self.waiting:
            self.waiting[event_id] = message, time.time()
            self.send(TEXT, message)


class Asker:
    """The producer of one round. The book of the round knows all its messages."""

    def __init__(self, book):
        self.book = book
        self.rig = book.rig
        self.random = random.Random(f"acks {self.rig.options.seed} {book.number}")
        self.pairs = [(Line(self, listener), Line(self, listener)) for listener in self.rig.listeners]
        self.lines = [line for pair in self.pairs for line in pair]
        self.acks = []
        self.tasks = []
        self.is_sending = True
        self.delayed = 0                # messages that a timer still has to send
        self.n = 0

    def start(self):
        loop = asyncio.get_running_loop()
        self.tasks = [loop.create_task(line.run()) for line in self.lines]
        self.tasks += [loop.create_task(self.send_all()), loop.create_task(self.look_all())]
        for task in self.tasks:
            self.rig.keep(task)

    def make(self, n):
        """Returns the id of number n and its versions, which depend only on the seed."""
        event_id = f"{self.book.asked_prefix}-{n}"
        choice = random.Random(f"versions {self.rig.options.seed} {event_id}").random()
        return event_id, versions_of(event_id, n, choice, self.rig.options.plain)

    def next_rows(self):
        """Returns rows of some of the ids that are sent next."""
        first = self.n + RATE // 4
        numbers = range(first, first + RATE, 3)
        return [(event_id, CREATED, versions[0][1]) for event_id, versions in map(self.make, numbers)]

    async def send_all(self):
        loop = asyncio.get_running_loop()
        while self.is_sending:
            await asyncio.sleep(1 / RATE)
            self.n += 1
            event_id, versions = self.make(self.n)
            self.book.versions[event_id] = dict(versions)
            lines = self.random.sample(self.lines, len(self.lines))
            if self.n % 5 == 0:         # two senders of one message to one listener
                for line in self.random.choice(self.pairs):
                    line.send_event(event_id, versions[0][0])
                continue
            for i, line in enumerate(lines[:max(len(versions), self.random.randrange(1, 4))]):
                delay = 0 if i == 0 else self.random.choice((0, 0.02, 1.0))
                self.delayed += 1
                loop.call_later(delay, self.send_delayed, line, event_id, versions[i % len(versions)][0])

    def send_delayed(self, line, event_id, message):
        self.delayed -= 1
        line.send_event(event_id, message)

    async def look_all(self):
        while True:
            await asyncio.sleep(LOOK_S)
            acks, self.acks = self.acks, []
            if acks:
                await self.look(acks)

    async def ask(self, sql):
        """Returns the lines of the answer. While Postgres is away, asks again: acked events must be there afterwards."""
        while True:
            status, out, _ = await self.rig.postgres.try_sql(sql)
            if status == 0:
                return set(out.splitlines())
            await asyncio.sleep(LOOK_S)

    async def look(self, acks):
        ids = ",".join(f"'{event_id}'" for event_id, *_ in acks)
        rows = await self.ask(f"SELECT event_id || ' ' || payload::text FROM {self.rig.tables.processed} "
                              f"WHERE event_id IN ({ids})")
        letters = await self.ask("SELECT encode(digest, 'hex') || ' ' || replace(reason, E'\\n', ' ') FROM dead_letters "
                                 f"WHERE event_id IN ({ids})")
        letters = dict(line.split(" ", 1) for line in letters)
        present = {row.partition(" ")[0] for row in rows}
        # An ack may take seconds through a network that is cut, so its time of arrival says nothing.
        for event_id, message, status, who, sent in acks:
            if sent > self.book.forgot_at:
                self.judge(event_id, message, status, who, rows, present, letters)
            else:                       # maybe acked before Postgres lost it; resent at the end
                self.book.asked_acks |= {event_id} if status != "rejected" else set()

    def judge(self, event_id, message, status, who, rows, present, letters):
        verdict, payload = self.rig.verdict, self.book.versions[event_id][message]
        history = [f"{who} said {status} of {message.decode()}"] + sorted(row for row in rows if row.startswith(event_id + " "))
        verdict.judged_acks += 1
        if status == "rejected":
            reason = letters.get(self.digest(message))
            if reason is None:
                verdict.find("letters_lost", event_id, history)
            if payload is not None and not is_caused(reason or ""):
                verdict.find("dead_without_reason", event_id, history)
        elif event_id not in present:
            verdict.find("falsely_acked", event_id, history + self.book.history(event_id))
        elif status == "persisted" and f"{event_id} {payload}" not in rows:
            verdict.find("falsely_acked", event_id, history + ["the row is of another version"])
        else:
            self.book.asked_acks.add(event_id)

    def digest(self, message):
        """Returns the digest of its dead letter, which includes a consumer's name (sql/migrations/004_effects.sql)."""
        digest = hashlib.sha256(message)
        return hashlib.sha256(digest.digest() + self.rig.consumer.encode()).hexdigest() if self.rig.consumer else digest.hexdigest()

    async def end(self, seconds):
        """Waits for the acks that are due: the faults are over, and every open connection answers."""
        self.is_sending = False
        await comes_true(lambda: not self.delayed and not self.acks and not any(line.waiting for line in self.lines), seconds)
        await asyncio.sleep(2 * LOOK_S)
        for line in self.lines:
            for event_id, (_, sent) in line.waiting.items():
                self.rig.verdict.find("unanswered", event_id, [f"{line.listener.now.name} has not acked it for "
                                                               f"{time.time() - sent:.1f} s"] + self.book.history(event_id))
        for task in self.tasks:
            task.cancel()
        await asyncio.gather(*self.tasks, return_exceptions=True)
        for line in self.lines:
            line.hang_up()
