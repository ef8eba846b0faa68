"""Handles one event at a time: claims it in Redis, inserts it, marks it as done. A copy whose claim another instance
holds is kept until its event is known to be committed; another task looks after those copies. While Redis is away,
Postgres's unique key decides."""
import asyncio
import json
import secrets
import time

import asyncpg
from redis.exceptions import RedisError

PREFIX = "dedup:"
MINE, DONE, OTHER, UNKNOWN = "mine", "done", "other", "unknown"
ID_BYTES = 512
MOST_HELD = 10000                   # held copies; beyond, the source has to wait
LOOK_S = 0.1
LOOK_EVENTS = 512
RETRY_S = 1                         # after a failed store
INSERT = """INSERT INTO events (event_id, event_type, payload) VALUES ($1, $2, $3::jsonb)
ON CONFLICT (event_id) DO NOTHING"""
# Releases a claim if it is still ours.
RELEASE = "if redis.call('GET', KEYS[1]) == ARGV[1] then return redis.call('DEL', KEYS[1]) end return 0"


class Event:
    def __init__(self, event_id, event_type, payload):
        self.id = event_id
        self.type = event_type
        self.payload = payload          # JSON text
        self.key = PREFIX + event_id
        self.claim = ""                 # the value of our claim
        self.copies = 1
        self.held_at = 0.0


def read_event(message):
    """Returns an event, or None if the message is malformed."""
    try:
        body = json.loads(message)
        event_id, event_type, payload = body["event_id"], body.get("event_type", ""), body.get("payload", {})
        if isinstance(event_id, str) and 0 < len(event_id.encode()) <= ID_BYTES and isinstance(event_type, str):
            return Event(event_id, event_type, json.dumps(payload))
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError):
        pass
    return None


class Road:
    def __init__(self, redis, pool, options, complain):
        self.redis = redis
        self.pool = pool
        self.owner = f"{options.instance}.{secrets.token_hex(8)}"
        self.claim_ttl = options.claim_ttl
        self.dedup_window = options.dedup_window
        self.complain = complain
        self.release_script = redis.register_script(RELEASE)
        self.counts = {"received": 0, "settled": 0, "persisted": 0, "malformed": 0}
        self.held = {}                  # id -> event, until it is settled
        self.is_stopping = False
        self.is_failing = False         # the last store failed

    async def handle(self, message):
        self.counts["received"] += 1
        event = read_event(message)
        if event is None:
            self.counts["malformed"] += 1
        else:
            await self.take(event)

    async def take(self, event):
        if event.id in self.held:
            self.held[event.id].copies += 1
        else:
            await self.process(event)
        while len(self.held) >= MOST_HELD and not self.is_stopping:
            await asyncio.sleep(LOOK_S)

    async def process(self, event):
        answer = await self.take_claim(event)
        if answer == DONE:
            self.settle(event)
        elif answer == OTHER:
            self.hold(event)
        else:
            await self.store(event)

    async def take_claim(self, event):
        event.claim = f"{self.owner}@{time.time_ns() // 1000000}"
        try:
            found = await self.redis.set(event.key, event.claim, ex=self.claim_ttl, nx=True, get=True)
        except (RedisError, OSError, asyncio.TimeoutError):
            return UNKNOWN
        if found is None or found == event.claim:
            return MINE
        return DONE if found.startswith("done@") else OTHER

    def hold(self, event):
        event.held_at = event.held_at or time.monotonic()
        self.held[event.id] = event

    async def store(self, event):
        try:
            status = await self.pool.execute(INSERT, event.id, event.type, event.payload)
        except (asyncpg.DataError, asyncpg.IntegrityConstraintViolationError,
                asyncpg.ProgramLimitExceededError) as error:
            await self.refuse(event, error)
        except (asyncpg.PostgresError, asyncpg.InterfaceError, OSError, asyncio.TimeoutError) as error:
            if not self.is_failing:
                self.complain(f"Postgres did not store an event ({error}), trying again")
            self.is_failing = True
            self.hold(event)
            await self.release(event)
        else:
            self.is_failing = False
            self.counts["persisted"] += status == "INSERT 0 1"
            self.settle(event)
            await self.mark(event)

    async def refuse(self, event, error):
        self.complain(f"Postgres refuses the event {event.id} ({error}), it is skipped")
        self.counts["malformed"] += event.copies
        self.forget(event)
        await self.release(event)

    def settle(self, event):
        self.counts["settled"] += event.copies
        self.forget(event)

    def forget(self, event):
        self.held.pop(event.id, None)

    def left(self):
        return len(self.held)

    async def mark(self, event):
        """Writes the done mark, only after the commit. A lost mark costs a conflict in Postgres."""
        try:
            await self.redis.set(event.key, f"done@{time.time_ns() // 1000000}", ex=self.dedup_window)
        except (RedisError, OSError, asyncio.TimeoutError):
            pass

    async def release(self, event):
        """Releases a claim. If that fails, it expires."""
        try:
            await self.release_script(keys=[event.key], args=[event.claim])
        except (RedisError, OSError, asyncio.TimeoutError):
            pass

    def stop(self):
        self.is_stopping = True

    async def work(self):
        """Looks after held copies until the end. It is not cancelled, because redis would then give its answer to the next
        caller."""
        while not self.is_stopping:
            await asyncio.sleep(RETRY_S if self.is_failing else LOOK_S)
            events = list(self.held.values())
            for start in range(0, len(events), LOOK_EVENTS):
                await self.look(events[start:start + LOOK_EVENTS])

    async def look(self, events):
        try:
            answers = await self.redis.mget([event.key for event in events])
        except (RedisError, OSError, asyncio.TimeoutError):
            answers = [None] * len(events)
        for event, found in zip(events, answers):
            if self.is_stopping:
                return
            if found is not None and found.startswith("done@"):
                self.settle(event)
            elif found is None:
                await self.process(event)
            elif time.monotonic() - event.held_at > 2 * self.claim_ttl:     # a claim that never goes away
                await self.store(event)

    async def drain(self):
        """Called when nothing more is received: the unique key decides about the held copies."""
        while self.held:
            for event in list(self.held.values()):
                await self.store(event)
            if self.is_failing:
                await asyncio.sleep(LOOK_S)
