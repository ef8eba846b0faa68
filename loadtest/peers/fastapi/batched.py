"""The same in batches: events that have arrived meanwhile are claimed by one script, stored by one COPY, and marked by one
script. Claims of the next batch are taken while one is stored."""
import asyncio
import time

import asyncpg
from redis.exceptions import RedisError

from road import DONE, LOOK_S, MINE, OTHER, RETRY_S, UNKNOWN, Road

BATCH_ROWS = 4000
MOST_EVENTS = 10000                 # events in memory; beyond, the source has to wait
COLUMNS = ("event_id", "event_type", "payload")
INSERT = """INSERT INTO events (event_id, event_type, payload) SELECT * FROM unnest($1::text[], $2::text[], $3::jsonb[])
ON CONFLICT (event_id) DO NOTHING"""
CLAIM = """local found = {}
for i, key in ipairs(KEYS) do found[i] = redis.call('SET', key, ARGV[1], 'EX', ARGV[2], 'NX', 'GET') end
return found"""
MARK = "for _, key in ipairs(KEYS) do redis.call('SET', key, ARGV[1], 'EX', ARGV[2]) end"
RELEASE = """for i, key in ipairs(KEYS) do
if redis.call('GET', key) == ARGV[i] then redis.call('DEL', key) end end"""


class BatchedRoad(Road):
    def __init__(self, redis, pool, options, complain):
        super().__init__(redis, pool, options, complain)
        self.in_hand = {}               # id -> event, from its first copy until it is settled
        self.unclaimed = []
        self.claimed = []               # events to be stored next
        self.has_unclaimed, self.has_claimed, self.has_room = asyncio.Event(), asyncio.Event(), asyncio.Event()
        self.claim_script = redis.register_script(CLAIM)
        self.mark_script = redis.register_script(MARK)
        self.release_script = redis.register_script(RELEASE)

    async def take(self, event):
        known = self.in_hand.get(event.id)
        if known:
            known.copies += 1
            return
        self.in_hand[event.id] = event
        await self.process(event)
        if len(self.in_hand) >= MOST_EVENTS:
            self.has_room.clear()
            await self.has_room.wait()

    async def process(self, event):
        """Queues a new event, or one that is no longer held, to be claimed."""
        self.held.pop(event.id, None)
        self.unclaimed.append(event)
        self.has_unclaimed.set()

    async def store(self, event):
        self.held.pop(event.id, None)
        self.put(event)

    def put(self, event):
        self.claimed.append(event)
        self.has_claimed.set()

    async def work(self):
        await asyncio.gather(super().work(), self.claim_what_comes(), self.store_what_is_claimed())

    def stop(self):
        super().stop()
        for event in (self.has_unclaimed, self.has_claimed, self.has_room):
            event.set()

    async def claim_what_comes(self):
        while not self.is_stopping:
            await self.has_unclaimed.wait()
            self.has_unclaimed.clear()
            events, self.unclaimed = self.unclaimed, []
            for event, answer in zip(events, await self.take_claims(events)):
                if answer == DONE:
                    self.settle(event)
                elif answer == OTHER:
                    self.hold(event)
                else:
                    self.put(event)

    async def take_claims(self, events):
        claim = f"{self.owner}@{time.time_ns() // 1000000}"
        for event in events:
            event.claim = claim
        try:
            answers = await self.claim_script(keys=[event.key for event in events], args=[claim, self.claim_ttl])
        except (RedisError, OSError, asyncio.TimeoutError):
            return [UNKNOWN] * len(events)
        return [MINE if found in (None, claim) else DONE if found.startswith("done@") else OTHER for found in answers]

    async def store_what_is_claimed(self):
        while not self.is_stopping:
            await self.has_claimed.wait()
            self.has_claimed.clear()
            while self.claimed and not self.is_stopping:
                events, self.claimed = self.claimed[:BATCH_ROWS], self.claimed[BATCH_ROWS:]
                await self.store_all(events)

    async def store_all(self, events):
        """Stores a batch. If it cannot be stored now, its claims are released and taken again; a row that Postgres never
        accepts is found by halving."""
        try:
            self.counts["persisted"] += await self.insert(sorted(events, key=lambda event: event.id))
        except (asyncpg.DataError, asyncpg.IntegrityConstraintViolationError,
                asyncpg.ProgramLimitExceededError) as error:
            if len(events) == 1:
                await self.refuse(events[0], error)
            else:
                await self.store_all(events[:len(events) // 2])
                await self.store_all(events[len(events) // 2:])
        except (asyncpg.PostgresError, asyncpg.InterfaceError, OSError, asyncio.TimeoutError) as error:
            await self.give_back(events, error)
        else:
            self.is_failing = False
            for event in events:
                self.settle(event)
            await self.mark_all(events)

    async def insert(self, events):
        """Returns how many rows are new. Batches are sorted, because two listeners' in different orders deadlock."""
        try:
            told = await self.pool.copy_records_to_table(
                "events", columns=COLUMNS, records=[(event.id, event.type, event.payload) for event in events])
        except asyncpg.UniqueViolationError:
            told = await self.pool.execute(INSERT, [event.id for event in events], [event.type for event in events],
                                           [event.payload for event in events])
        return int(told.rpartition(" ")[2])

    async def give_back(self, events, error):
        if not self.is_failing:
            self.complain(f"Postgres did not store {len(events)} events ({error}), trying again")
        self.is_failing = True
        await self.release_all(events)
        await asyncio.sleep(LOOK_S if self.is_stopping else RETRY_S)
        for event in events:
            await self.process(event)

    def forget(self, event):
        super().forget(event)
        self.in_hand.pop(event.id, None)
        if len(self.in_hand) <= MOST_EVENTS // 2:
            self.has_room.set()

    def left(self):
        return len(self.in_hand)

    async def mark_all(self, events):
        try:
            await self.mark_script(keys=[event.key for event in events],
                                   args=[f"done@{time.time_ns() // 1000000}", self.dedup_window])
        except (RedisError, OSError, asyncio.TimeoutError):
            pass

    async def release(self, event):
        await self.release_all([event])

    async def release_all(self, events):
        owned = [event for event in events if event.claim]
        try:
            await self.release_script(keys=[event.key for event in owned], args=[event.claim for event in owned])
        except (RedisError, OSError, asyncio.TimeoutError):
            pass

    async def drain(self):
        while self.in_hand:
            events = list(self.in_hand.values())
            for start in range(0, len(events), BATCH_ROWS):
                await self.store_all(events[start:start + BATCH_ROWS])
