"""The feed: a WebSocket server without replay that sends made-up events to whoever is connected, and owns the
knowledge of who received what. It is a part of the rig, and not wsonce-source, because only the sender can know
that.

A listener has received an event when it has answered a ping that was sent on the same connection after it: frames
are read in order, so the answer to a later ping says that the event was handed to the program. Everything else (it
was written, the kernel took it, TCP acknowledged it) says less, and does not count."""
import asyncio
import base64
import hashlib
import random
import struct
import time

from proxy import reset_socket

GUID = b"258EAFA5-E914-47DA-95CA-C5AB0DC85B11"
TICK_S = 0.02
QUIET, QUIET_TICKS = b"not JSON: nothing to tell", 100    # now and then, where there are no events: no source is idle
SILENCE_S = 0.6                 # of a listener that is at work, at most
LETTERS = "abcdefghijklmnopqrstuvwxyz"
CREATED, SHIPPED = "order.created", "order.shipped"     # types; the second goes to a webhook too
MALFORMED = 6                   # kinds; the last one is refused by Postgres, and with it a whole COPY
OP_TEXT, OP_CLOSE, OP_PING, OP_PONG = 1, 8, 9, 10


def frame(op, payload):
    size = len(payload)
    if size < 126:
        return bytes([0x80 | op, size]) + payload
    return bytes([0x80 | op, 126]) + struct.pack(">H", size) + payload


def feed_payload(n):
    """In the form in which jsonb prints it, so that the text in the table can be compared to the digit."""
    return (f'{{"n": {n}, "big": {18446744073709551615 + n}, "dec": {n % 97}.{n % 7}0, '
            f'"long": 0.{n}{"1234567890" * 4}1, "text": "\u00e9\u20ac {LETTERS[n % 26:]} \U0001F600"}}')


def producer_payload(n, size=100):
    """What wsonce-producer makes of number n (loadtest/message.c), in the form in which jsonb prints it."""
    cents = (1213 + n * 37) % 1000000
    start = f'{{"n":{n},"amount":{cents // 100}.{cents % 100:02d}'
    room = size - len(start) - len(',"comment":""}')
    text = ((LETTERS * 2)[n % 26:n % 26 + 26] * (room // 26 + 1))[:room]
    return f'{{"n": {n}, "amount": {cents // 100}.{cents % 100:02d}, "comment": "{text}"}}'


def feed_type(n):
    return SHIPPED if n % 4 == 3 else CREATED


def event_message(event_id, payload, event_type=CREATED):
    return f'{{"event_id":"{event_id}","event_type":"{event_type}","payload":{payload}}}'.encode()


def malformed_message(mark, n):
    kinds = (f"not JSON: {mark}", f'{{"event_id":"{mark}","payload":{{"n":1,"amou',
             f'{{"event_type":"order.created","payload":"{mark}"}}', f'{{"event_id":null,"payload":"{mark}"}}',
             f'{{"event_id":"{mark}","event_id":"twice","payload":{{}}}}',
             f'{{"event_id":"{mark}","payload":"\\u0000"}}')
    return kinds[n % MALFORMED].encode()


class Connection(asyncio.Protocol):
    """A listener's connection: handshake, then frames. Its ticks [first, answered] are what it received."""

    def __init__(self, feed):
        self.feed = feed
        self.transport = None
        self.buffer = b""
        self.is_open = False
        self.incarnation = None
        self.first_tick = None
        self.answered_tick = -1
        self.opened = time.time()
        self.closed = None

    def connection_made(self, transport):
        self.transport = transport

    def connection_lost(self, error):
        self.closed = time.time()
        self.is_open = False
        self.feed.open.discard(self)

    def data_received(self, data):
        self.buffer += data
        if not self.is_open:
            self.shake_hands()
        if self.is_open:
            while self.read_frame():
                pass

    def shake_hands(self):
        head, end, rest = self.buffer.partition(b"\r\n\r\n")
        if not end:
            return
        lines = head.split(b"\r\n")
        headers = {key.strip().lower(): value.strip() for key, _, value in (line.partition(b":") for line in lines[1:])}
        number = int(lines[0].split(b" ")[1].strip(b"/"))
        accept = base64.b64encode(hashlib.sha1(headers[b"sec-websocket-key"] + GUID).digest())
        self.transport.write(b"HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n"
                             b"Sec-WebSocket-Accept: " + accept + b"\r\n\r\n")
        self.buffer = rest
        self.incarnation = self.feed.incarnation_of(number)
        self.first_tick = self.feed.tick + 1
        self.is_open = True
        self.feed.open.add(self)
        self.feed.connections.append(self)

    def read_frame(self):
        """Clients mask, and send control frames only."""
        if len(self.buffer) < 6:
            return False
        op, size = self.buffer[0] & 15, self.buffer[1] & 127
        if size > 125:
            self.transport.abort()
            return False
        if len(self.buffer) < 6 + size:
            return False
        mask = self.buffer[2:6]
        payload = bytes(byte ^ mask[i & 3] for i, byte in enumerate(self.buffer[6:6 + size]))
        self.buffer = self.buffer[6 + size:]
        self.on_frame(op, payload)
        return True

    def on_frame(self, op, payload):
        if op == OP_PONG and len(payload) == 8:
            self.on_pong(struct.unpack(">Q", payload)[0])
        elif op == OP_PING and not self.feed.is_silent:
            self.transport.write(frame(OP_PONG, payload))
        elif op == OP_CLOSE:
            self.transport.write(frame(OP_CLOSE, payload[:2]))
            self.transport.close()

    def on_pong(self, tick):
        """An answer to something that was never asked proves nothing."""
        if self.first_tick <= tick <= self.feed.tick:
            self.answered_tick = max(self.answered_tick, tick)
            self.feed.note_heard(self.incarnation.listener.number)
        else:
            self.feed.odd_pongs += 1

    def end(self, is_reset):
        if is_reset:
            reset_socket(self.transport)
        else:
            self.transport.close()

    def describe(self, tick):
        if not self.first_tick <= tick:
            return None
        answered = "received" if tick <= self.answered_tick else "not known to be received"
        until = "open" if self.closed is None else "closed"
        return f"{self.incarnation.describe()}: {answered} (connection {until}, ticks {self.first_tick} to {self.answered_tick})"


class Feed:
    """Sends `rate` events a second while it is on. The book of the round says what was sent in which tick."""

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
        self.deliveries = 0
        self.odd_pongs = 0              # with a payload that no ping had
        self.debt = 0.0
        self.echo_debt = 0.0
        self.book = None                # the Round that is under way
        self.quiet_tick = 0
        self.copies = {}                # tick -> messages to be sent again then
        self.heard = {}                 # number of a listener -> when it last answered
        self.silences = {}              # of each: when it did not

    async def start(self):
        loop = asyncio.get_running_loop()
        self.server = await loop.create_server(lambda: Connection(self), "127.0.0.1", 0)
        self.port = self.server.sockets[0].getsockname()[1]
        self.rig.keep(loop.create_task(self.run()))

    def incarnation_of(self, number):
        return self.rig.listeners[number - 1].now

    def note_heard(self, number):
        now = time.time()
        last = self.heard.get(number, 0)
        if now - last > SILENCE_S:
            self.silences.setdefault(number, []).append((last, now))
        self.heard[number] = now

    def was_heard(self, number, began, ended):
        """Whether the listener has answered pings all this time."""
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
        frames = [frame(OP_TEXT, message) for message in messages]
        ping = frame(OP_PING, struct.pack(">Q", self.tick))
        for connection in list(self.open):
            self.random.shuffle(frames)         # two listeners need not hear things in one order
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
        """Of some of the events that are sent next."""
        first = self.book.feed_events + int(self.rate / 4)
        numbers = [n for n in range(first, first + int(self.rate), max(1, int(self.rate / 20))) if n % 100 != 50]
        return [(f"{self.book.feed_prefix}-{n}", feed_type(n), feed_payload(n)) for n in numbers]

    def send_again(self, messages):
        """Returns the tick."""
        self.tick += 1
        frames = b"".join(frame(OP_TEXT, message) for message in messages) + frame(OP_PING, struct.pack(">Q", self.tick))
        for connection in list(self.open):
            connection.transport.write(frames)
        return self.tick

    def end_all(self, is_reset):
        for connection in list(self.open):
            connection.end(is_reset)

    def send_half_frames(self, is_reset):
        """Each connection gets the first half of an event that nobody ever gets whole, and is ended."""
        for connection in list(self.open):
            self.book.halves += 1
            text = frame(OP_TEXT, event_message(f"{self.book.feed_prefix}-h{self.book.halves}", "{}"))
            self.open.discard(connection)
            connection.transport.write(text[:len(text) // 2])
            asyncio.get_running_loop().call_later(0.02, connection.end, is_reset)

    def is_heard(self):
        """Whether every listener is connected and has answered a ping of this very moment."""
        numbers = {c.incarnation.listener.number for c in self.open if c.answered_tick >= self.quiet_tick}
        return len(numbers) == len(self.rig.listeners)

    def pause(self):
        self.is_on = False
        self.copies.clear()
        self.quiet_tick = self.tick + 1
