"""The feed: a WebSocket server without replay that sends made-up events to all connected listeners, and knows what each
received. It is a part of the rig, and not wsonce-source, because only the sender can know that.

A listener has received an event when it has answered a ping that was sent on the same connection after it: frames
are read in order, so the answer to a later ping proves that the program has the event. Everything else (it was written,
the kernel took it, TCP acknowledged it) proves less, and does not count."""
import asyncio
import collections
import random
import struct
import time

import rig.feed
from rig.feed import CREATED, event_message
from rig.frame import PING, TEXT, frame
from rig.load import LETTERS, producer_payload
from rig.sockets import reset_socket, serve
from rig.waiting import SLOW

TICK_S = 0.02
SAFE_TICKS = int((0.1 + 0.5 * SLOW) / TICK_S)   # --spool-after, and time for the write, which may wait for a sync
QUIET, QUIET_TICKS = b"not JSON: nothing to tell", 100    # now and then, where there are no events: no source is idle
SILENCE_S = 0.6                 # the longest silence of a listener that works
SHIPPED = "order.shipped"       # a type that goes to a webhook too
MALFORMED = 6                   # kinds; the last one is refused by Postgres, and with it a whole COPY


def feed_payload(n):
    """Returns the payload as jsonb prints it, so that the text in the table can be compared exactly."""
    return (f'{{"n": {n}, "big": {18446744073709551615 + n}, "dec": {n % 97}.{n % 7}0, '
            f'"long": 0.{n}{"1234567890" * 4}1, "text": "\u00e9\u20ac {LETTERS[n % 26:]} \U0001F600"}}')


def feed_type(n):
    return SHIPPED if n % 4 == 3 else CREATED


def malformed_message(mark, n):
    kinds = (f"not JSON: {mark}", f'{{"event_id":"{mark}","payload":{{"n":1,"amou',
             f'{{"event_type":"order.created","payload":"{mark}"}}', f'{{"event_id":null,"payload":"{mark}"}}',
             f'{{"event_id":"{mark}","event_id":"twice","payload":{{}}}}',
             f'{{"event_id":"{mark}","payload":"\\u0000"}}')
    return kinds[n % MALFORMED].encode()


class Connection(rig.feed.Connection):
    """A listener's connection. It received the ticks [first, answered], and those up to safe were on disk at its end."""

    def __init__(self, feed):
        super().__init__()
        self.feed = feed
        self.incarnation = None
        self.first_tick = None
        self.answered_tick = -1
        self.beats = collections.deque(maxlen=SAFE_TICKS)     # answered_tick as it was, at different times at which it ran
        self.beat_at = 0.0
        self.closed = None
        self.missed = set()             # ticks whose events it was not sent

    def data_received(self, data):
        if not self.request and data.startswith(b"CONNECT "):
            self.transport.write(b"HTTP/1.1 200 OK\r\n\r\n")
        else:
            super().data_received(data)

    def connection_lost(self, error):
        self.closed = time.time()
        self.is_open = False
        self.feed.open.discard(self)

    def on_open(self, request):
        self.incarnation = self.feed.rig.listener(int(request.user())).now
        self.first_tick = self.feed.tick + 1
        self.feed.open.add(self)
        self.feed.connections.append(self)

    def answers(self):
        return not self.feed.is_silent

    def on_pong(self, tick):
        """Ignores an answer to a ping that was never sent."""
        if tick is not None and self.first_tick <= tick <= self.feed.tick:
            self.answered_tick = max(self.answered_tick, tick)
            self.beat()
            self.feed.note_heard(self.incarnation.listener.number)
        else:
            self.feed.odd_pongs += 1

    def beat(self):
        """Records answered_tick: a process that was stopped answers all pings at once."""
        now = time.monotonic()
        if now - self.beat_at > TICK_S / 2:
            self.beat_at = now
            self.beats.append(self.answered_tick)

    def received(self, tick):
        return self.first_tick <= tick <= self.answered_tick and tick not in self.missed

    @property
    def safe_tick(self):
        return self.beats[0] if len(self.beats) == SAFE_TICKS else -1

    def end(self, is_reset):
        if is_reset:
            reset_socket(self.transport)
        else:
            self.transport.close()

    def describe(self, tick):
        if not self.first_tick <= tick:
            return None
        answered = "received" if self.received(tick) else "not known to be received"
        until = "open" if self.closed is None else "closed"
        return f"{self.incarnation.describe()}: {answered} (connection {until}, ticks {self.first_tick} to {self.answered_tick})"


class Feed:
    """Sends `rate` events a second while it is on. The round's ledger says what was sent in which tick. All listeners dial
    one address, so that it is one source, through proxies, each with a link of its own."""

    URL = "ws://feed/"

    def __init__(self, rig, rate, seed):
        self.rig = rig
        self.rate = rate
        self.random = random.Random(f"feed {seed}")
        self.port = 0
        self.server = None
        self.tick = 0
        self.open = set()
        self.connections = []
        self.is_on = False
        self.is_silent = False
        self.half = 0                   # the number of the listener that gets the events of every second tick only
        self.deliveries = 0
        self.odd_pongs = 0              # with a payload that no ping had
        self.debt = 0.0
        self.echo_debt = 0.0
        self.book = None                # the current Round
        self.quiet_tick = 0
        self.copies = {}                # tick -> messages to be sent again then
        self.heard = {}                 # number of a listener -> when it last answered
        self.silences = {}              # of each: when it did not

    def url(self, number):
        """Returns the URL for the listener with this number."""
        return self.URL.replace("//", f"//{number}@") + str(number) * self.rig.options.apart

    async def start(self):
        self.server, self.port = await serve(lambda: Connection(self))
        self.rig.keep(asyncio.get_running_loop().create_task(self.run()))

    def note_heard(self, number):
        now = time.time()
        last = self.heard.get(number, 0)
        if now - last > SILENCE_S:
            self.silences.setdefault(number, []).append((last, now))
        self.heard[number] = now

    def was_heard(self, number, began, ended):
        """Returns whether the listener has answered pings all this time."""
        silences = self.silences.get(number, [])
        return self.heard.get(number, 0) > ended - SILENCE_S and not any(
            since < ended and until > began for since, until in silences)

    def begin_round(self, book):
        self.book = book
        self.connections = list(self.open)
        self.debt = self.echo_debt = 0.0
        self.is_on = True

    async def run(self):
        due = time.monotonic()
        while True:
            due = max(due + TICK_S, time.monotonic() - 0.2)
            await asyncio.sleep(max(0, due - time.monotonic()))
            if not self.is_silent:
                self.send_tick()

    def send_tick(self):
        if not self.open:
            return
        self.tick += 1
        messages = self.make_messages() if self.is_on else [QUIET] * (self.tick % QUIET_TICKS == 0)
        frames = [frame(TEXT, message) for message in messages]
        ping = frame(PING, struct.pack(">Q", self.tick))
        for connection in list(self.open):
            if self.half == connection.incarnation.listener.number and self.tick % 2:
                connection.missed.add(self.tick)
                connection.transport.write(ping)
                continue
            self.random.shuffle(frames)         # two listeners need not get them in the same order
            connection.transport.write(b"".join(frames) + ping)
            self.deliveries += len(frames)

    def make_messages(self):
        book = self.book
        messages = self.copies.pop(self.tick, [])
        self.debt += self.rate * TICK_S
        if self.tick % self.rig.options.burst_ticks:
            return messages
        while self.debt >= 1:
            self.debt -= 1
            messages.append(self.make_event(book))
        self.echo_debt += self.rig.producer_rate * TICK_S * self.rig.options.burst_ticks
        while self.echo_debt >= 1:              # every fourth event of the producer comes from the feed too
            self.echo_debt -= 1
            book.echoes += 1
            if book.echoes % 4 == 0:
                event_id = f"{book.producer_prefix}-{book.echoes}"
                messages.append(event_message(event_id, producer_payload(book.echoes)))
                book.sent(event_id, self.tick)
        return messages

    def make_event(self, book):
        book.feed_events += 1
        n = book.feed_events
        if n % 100 == 50:
            kinds = MALFORMED - 1 if self.rig.options.plain else MALFORMED
            text = malformed_message(f"{book.feed_prefix}-m{n}", n // 100 % kinds)
            book.sent_malformed(text, self.tick)
            return text
        event_id = f"{book.feed_prefix}-{n}"
        text = event_message(event_id, feed_payload(n), feed_type(n))
        book.sent(event_id, self.tick)
        if n % 50 == 7:
            self.copies.setdefault(self.tick + self.random.randrange(1, 60), []).append(text)
        return text

    def next_rows(self):
        """Returns rows of some of the events that are sent next."""
        first = self.book.feed_events + int(self.rate / 4)
        numbers = [n for n in range(first, first + int(self.rate), max(1, int(self.rate / 20))) if n % 100 != 50]
        return [(f"{self.book.feed_prefix}-{n}", feed_type(n), feed_payload(n)) for n in numbers]

    def send_again(self, messages):
        """Sends messages again. Returns the tick."""
        self.tick += 1
        frames = b"".join(frame(TEXT, message) for message in messages) + frame(PING, struct.pack(">Q", self.tick))
        for connection in list(self.open):
            connection.transport.write(frames)
        return self.tick

    def end_all(self, is_reset):
        for connection in list(self.open):
            connection.end(is_reset)

    def send_half_frames(self, is_reset):
        """Sends each connection the first half of an event that nobody ever gets whole, and ends it."""
        for connection in list(self.open):
            self.book.halves += 1
            text = frame(TEXT, event_message(f"{self.book.feed_prefix}-h{self.book.halves}", "{}"))
            self.open.discard(connection)
            connection.transport.write(text[:len(text) // 2])
            asyncio.get_running_loop().call_later(0.02, connection.end, is_reset)

    def is_heard(self):
        """Returns whether every listener is connected and has answered a ping sent now."""
        numbers = {c.incarnation.listener.number for c in self.open if c.answered_tick >= self.quiet_tick}
        return len(numbers) == len(self.rig.listeners)

    def pause(self):
        self.is_on = False
        self.copies.clear()
        self.quiet_tick = self.tick + 1
