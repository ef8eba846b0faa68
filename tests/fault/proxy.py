"""The fault proxy: owns every connection between a listener and its neighbours (Redis, Postgres, the feed, the
producers), one Link for each pair, so that one listener can be cut off while the others are not.

A link that is held is a network that swallows packets: nothing arrives, nothing is refused, and what was sent
before arrives when the network is back, as TCP would send it again. A link that is delayed keeps the order."""
import asyncio
import collections
import socket
import time

import statements
from rig.sockets import reset_socket, serve

UP, DOWN = 0, 1                 # from the side that dialled, and to it
QUEUE_LIMIT = 1 << 20           # bytes held before the sender is no longer read from


class Lane:
    """One direction of a connection: bytes that were read but not yet passed on."""

    def __init__(self, pair, direction):
        self.pair = pair
        self.direction = direction
        self.queue = collections.deque()        # (due, bytes), bytes None for the end
        self.queued = 0
        self.timer = None
        self.target = None                      # transport to write to, None until it is there

    def put(self, data):
        due = time.monotonic() + self.pair.link.far_s + self.pair.link.delay[self.direction]
        if self.queue and self.queue[-1][0] > due:
            due = self.queue[-1][0]
        self.queue.append((due, data))
        self.queued += len(data or b"")
        self.flush()
        if self.queued > QUEUE_LIMIT:
            self.pair.pause(self.direction)

    def flush(self):
        if self.timer:
            self.timer.cancel()
            self.timer = None
        if self.pair.link.held[self.direction] or not self.target:
            return
        while self.queue:
            due, data = self.queue[0]
            wait = due - time.monotonic()
            if wait > 0.0005:
                self.timer = asyncio.get_running_loop().call_later(wait, self.flush)
                break
            self.queue.popleft()
            self.queued -= len(data or b"")
            if not self.pair.pass_on(self.direction, self.target, data):
                return
        if self.queued <= QUEUE_LIMIT:
            self.pair.resume(self.direction)


class End(asyncio.Protocol):
    """One socket of a pair; its bytes go into the lane of its direction."""

    def __init__(self, pair, direction):
        self.pair = pair
        self.direction = direction
        self.transport = None

    def connection_made(self, transport):
        self.transport = transport
        sock = transport.get_extra_info("socket")
        if sock is not None and sock.family != socket.AF_UNIX:
            sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        if self.pair.is_closed:                 # the other side refused before this one was there
            reset_socket(transport)

    def data_received(self, data):
        self.pair.lanes[self.direction].put(data)

    def eof_received(self):
        self.pair.lanes[self.direction].put(None)
        return True                             # the other direction may still have data

    def connection_lost(self, error):
        self.pair.lost(self.direction, error)

    def pause_writing(self):
        self.pair.pause(1 - self.direction)

    def resume_writing(self):
        self.pair.lanes[1 - self.direction].flush()


class Pair:
    """A dialled connection and the one that continues it."""

    def __init__(self, link):
        self.link = link
        self.lanes = (Lane(self, UP), Lane(self, DOWN))
        self.ends = [End(self, UP), End(self, DOWN)]
        self.said = b""                         # the last statement, see statements.py
        self.is_closed = False
        link.pairs.add(self)

    async def connect(self):
        loop = asyncio.get_running_loop()
        target = self.link.target()
        try:
            if isinstance(target, str):
                await loop.create_unix_connection(lambda: self.ends[DOWN], target)
            else:
                await loop.create_connection(lambda: self.ends[DOWN], *target)
        except OSError:
            self.close(is_reset=True)
            return
        if self.is_closed:
            self.ends[DOWN].transport.abort()
            return
        self.lanes[UP].target = self.ends[DOWN].transport
        self.lanes[DOWN].target = self.ends[UP].transport
        self.flush()

    def flush(self):
        for lane in self.lanes:
            lane.flush()

    def pass_on(self, direction, target, data):
        """Passes data on. Returns False if the connection ended because of that."""
        if target.is_closing():
            return True                         # nobody reads it now; lost() ends the pair
        if data is None:
            if target.can_write_eof():
                try:
                    target.write_eof()
                except OSError:
                    pass
            return True
        if self.link.on_words and direction == UP:
            self.link.on_words(self, data)
        if self.link.commit_cut:
            return self.link.commit_cut.pass_on(self, direction, target, data)
        target.write(data)
        return True

    def pause(self, direction):
        transport = self.ends[direction].transport
        if transport and not transport.is_closing():
            transport.pause_reading()

    def resume(self, direction):
        transport = self.ends[direction].transport
        if transport and not transport.is_closing():
            transport.resume_reading()

    def lost(self, direction, error):
        """One socket is gone for good. While the network is held, the other side does not notice."""
        lane = self.lanes[direction]
        if self.is_closed:
            return
        if lane.queue and error is None:
            asyncio.get_running_loop().call_later(0.1, self.lost, direction, error)
            return
        if self.link.held[direction]:
            asyncio.get_running_loop().call_later(0.1, self.lost, direction, error)
            return
        self.close(is_reset=error is not None)

    def close(self, is_reset=False):
        if self.is_closed:
            return
        self.is_closed = True
        self.link.broke_at = time.time()
        self.link.pairs.discard(self)
        for end in self.ends:
            if not end.transport:
                continue
            if is_reset:
                reset_socket(end.transport)
            else:
                end.transport.close()


class CommitCut:
    """Cuts a connection to Postgres in the middle of the next statement of a kind: an INSERT INTO events, the
    end of a COPY, or the relay's next statement.

    before: half of the statement is passed on; during: all of it, and the reset follows at once; after: the reset comes
    instead of the answer. In the last two cases the listener does not know the outcome."""

    MARKS = {"": statements.INSERT, "relay": statements.RELAY, "copy": statements.COPY_DONE}

    def __init__(self, detail):
        self.phase, _, statement = detail.partition(" ")
        self.mark = self.MARKS[statement]
        self.pair = None
        self.hits = 0

    def pass_on(self, pair, direction, target, data):
        if direction == UP and self.pair is None and not self.hits and self.mark in data:
            return self.begin(pair, target, data)
        if direction == DOWN and pair is self.pair:
            return self.end(pair)
        target.write(data)
        return True

    def begin(self, pair, target, data):
        target.write(data[:len(data) // 2] if self.phase == "before" else data)
        self.pair = pair
        if self.phase == "before":
            return self.end(pair)
        if self.phase == "during":
            asyncio.get_running_loop().call_later(0.001, self.end, pair)
        return True

    def end(self, pair):
        if self.pair is pair:
            self.pair = None
            self.hits += 1
            pair.close(is_reset=True)
        return False


class Link:
    """All connections between one listener and one neighbour, past and future. target() says where to connect."""

    def __init__(self, name, target, far_s=0.0):
        self.name = name
        self.far_s = far_s              # how long each way takes without any fault
        self.target = target
        self.pairs = set()
        self.delay = [0.0, 0.0]
        self.held = [False, False]
        self.commit_cut = None
        self.broke_at = 0                       # when a connection last ended
        self.on_words = None                    # called with a pair and what was sent to the neighbour
        self.is_refusing = False                # every new connection is reset at once
        self.server = None
        self.port = 0
        self.tasks = set()

    async def open(self, port=0, address="127.0.0.1"):
        self.server, self.port = await serve(self.accept, port, address=address)
        self.address = address
        return self

    def accept(self):
        pair = Pair(self)
        if self.is_refusing:
            pair.close()
            return pair.ends[UP]
        task = asyncio.get_running_loop().create_task(pair.connect())
        self.tasks.add(task)
        task.add_done_callback(self.tasks.discard)
        return pair.ends[UP]

    def hold(self, up, down):
        self.held = [up, down]
        self.flush()

    def refuse(self, is_refusing):
        self.is_refusing = is_refusing
        if is_refusing:
            self.reset()

    def slow(self, up_s, down_s):
        self.delay = [up_s, down_s]

    def flush(self):
        for pair in list(self.pairs):
            pair.flush()

    def reset(self):
        count = len(self.pairs)
        for pair in list(self.pairs):
            pair.close(is_reset=True)
        return count

    def close(self):
        if self.server:
            self.server.close()
        self.reset()
