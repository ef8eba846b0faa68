"""The ledger: records what was sent in a round and which acks came, compares that with the tables when the round has
settled, and keeps the verdict of the run. README.md has its rules."""
import json
import re

from feed import QUIET, feed_payload, feed_type
from fleet import MAX_ATTEMPTS, clock
from postgres_faults import REFUSED
from rig.feed import CREATED, event_message
from rig.load import producer_payload

SUPPRESSED = "a trigger or rule suppressed it"
COUNTED = ("lost", "doubled", "altered", "unexpected", "falsely_acked", "unanswered", "dead_without_reason",
           "letters_lost", "left_in_memory", "foreign_claims", "deadlocks", "crashes", "bad_exits", "effects_lost",
           "effects_doubled", "effects_without_row", "deliveries_lost", "deliveries_doubled", "deliveries_without_event",
           "deliveries_unsigned", "audit_missing", "leases_lost", "late", "unheard", "backends", "neighbours", "not_played")
EXAMPLES = 5


class Verdict:
    """The counts that must be zero, each with the first few offenders and their history."""

    def __init__(self):
        self.counts = dict.fromkeys(COUNTED, 0)
        self.examples = []
        self.rows = self.letters = self.feed_events = self.producer_events = self.acks = 0
        self.unproven = 0               # not stored, and no surviving listener had received it
        self.oldest_unproven_s = 0.0    # among those that a listener had received: from sending to its end
        self.resends = 0
        self.judged_acks = 0            # acks that were judged when they arrived

    @property
    def is_clean(self):
        return not any(self.counts.values())

    def find(self, what, name, history=(), count=1):
        self.counts[what] += count
        if sum(1 for example in self.examples if example[0] == what) < EXAMPLES:
            self.examples.append((what, name, list(history)))

    def crash(self, incarnation, last_words):
        self.find("crashes", incarnation.name, [f"ended by itself, status {incarnation.status}"] + last_words)

    def show(self):
        for what, name, history in self.examples:
            print(f"\n{what}: {name}")
            for line in history:
                print(f"    {line}")
        print()
        for what, count in self.counts.items():
            print(f"{what:24} {count}")


def is_caused(reason):
    """Returns whether this reason of a dead letter comes from a fault."""
    return REFUSED in reason or SUPPRESSED in reason


class Round:
    """The records of one round: ids, the tick in which each was first sent, and messages that must not be accepted."""

    def __init__(self, number, rig):
        self.number = number
        self.rig = rig
        self.feed_prefix = f"{rig.run_prefix}f{number}"
        self.producer_prefix = f"{rig.run_prefix}p{number}"
        self.asked_prefix = f"{rig.run_prefix}a{number}"
        self.ticks = {}                 # event id -> tick
        self.times = {}                 # tick -> time
        self.malformed = {}             # bytes -> tick
        self.marked = set()             # bytes of events that the handler never accepts
        self.caused = set()             # ids with a dead letter caused by a fault
        self.forgot_at = 0              # Postgres has lost commits from before this time
        self.versions = {}              # event id -> its messages, and the payload of each; None if Postgres refuses it
        self.asked_acks = set()         # ids for which an ack promised a row
        self.feed_events = self.echoes = self.halves = 0
        self.acks = {}                  # event id -> status of the last ack
        self.refused = []               # bytes of messages with a rejecting ack

    def sent(self, event_id, tick):
        self.ticks.setdefault(event_id, tick)
        self.times.setdefault(tick, self.rig.time())

    def sent_malformed(self, text, tick):
        self.malformed[text] = tick
        self.times.setdefault(tick, self.rig.time())

    def read_producer(self, producer):
        self.acks = producer.read_ledger()
        with open(f"{producer.base}.refused") as file:
            self.refused = [json.loads(line) for line in file]
        summary = producer.told()
        self.rig.verdict.resends += summary.get("resends", 0)
        self.rig.verdict.acks += summary.get("acks", 0)
        if summary.get("unanswered"):
            self.rig.verdict.find("unanswered", f"{producer.prefix}: {summary['unanswered']} messages",
                                  producer.last_words(), summary["unanswered"])
        if summary.get("malformed_accepted"):
            self.rig.verdict.find("unexpected", f"{producer.prefix}: {summary['malformed_accepted']} malformed accepted",
                                  count=summary["malformed_accepted"])
        if not self.rig.options.keep:
            producer.remove_files("ledger", "refused", "json", "log")

    # --- who had it ---

    def receivers(self, tick):
        return [c for c in self.rig.feed.connections if c.received(tick)]

    def is_proven(self, tick):
        return any(c.incarnation.is_witness for c in self.receivers(tick))

    def is_spooled(self, tick):
        """Returns whether events of that tick were on disk, in a spool that the next process has read."""
        return self.rig.has_spools and any(c.received(tick) and tick <= c.safe_tick for c in self.rig.feed.connections)

    def is_owed(self, tick):
        """Returns whether events of that tick must be stored. Messages that are not events are never on disk."""
        return self.is_proven(tick) or self.is_spooled(tick)

    def history(self, event_id, tick=None):
        lines = []
        tick = self.ticks.get(event_id) if tick is None else tick
        if tick is not None:
            at = self.times[tick]
            lines.append(f"sent by the feed at {clock(at)}, tick {tick}")
            lines += filter(None, (c.describe(tick) for c in self.rig.feed.connections))
            lines += self.rig.timeline.around(at)
        if event_id in self.acks:
            lines.append(f"producer: {self.acks[event_id]}")
        return lines + self.rig.claims.history_of(event_id)

    def owed(self):
        """Returns the ids that must be in the tables, whatever happened."""
        proven = {tick for tick in self.times if self.is_owed(tick)}
        sent = {event_id for event_id, tick in self.ticks.items() if tick in proven}
        acked = {event_id for event_id, status in self.acks.items() if status in ("persisted", "duplicate")}
        return sent | acked | self.asked_acks | {json.loads(text)["event_id"] for text in self.marked}

    # --- commits that Postgres has lost ---

    def message_of(self, event_id):
        if event_id in self.versions:
            return next(iter(self.versions[event_id]))
        event_type, payload = self.expected_row(event_id)
        return event_message(event_id, payload, event_type)

    def find_forgotten(self, rows, letters):
        """Returns messages that are not in the tables although they were received or acked. Those sent after the failover
        must be there."""
        present = {event_id for event_id, *_ in rows} | {event_id for _, _, event_id in letters}
        raws = {raw for raw, *_ in letters}
        acked = {event_id for event_id, status in self.acks.items() if status in ("persisted", "duplicate")}
        absent = (self.ticks.keys() | acked | self.asked_acks) - present
        for event_id in [event_id for event_id in absent if self.times.get(self.ticks.get(event_id), 0) > self.forgot_at]:
            if self.is_owed(self.ticks[event_id]):
                self.rig.verdict.find("lost", event_id, ["sent after the failover"] + self.history(event_id))
        refused = {line["message"].encode() for line in self.refused}
        return {event_id: self.message_of(event_id) for event_id in absent}, (self.malformed.keys() | refused) - raws

    def send_forgotten(self, rows, letters):
        """Sends lost messages again. Then they must be stored, whatever Redis has about them."""
        events, malformed = self.find_forgotten(rows, letters)
        tick = self.rig.feed.send_again([*events.values(), *malformed])
        self.times[tick] = self.rig.time()
        self.ticks.update(dict.fromkeys(events, tick))
        self.malformed.update(dict.fromkeys(malformed, tick))
        self.rig.played.count("commits forgotten", len(events))

    # --- judging ---

    def expected_row(self, event_id):
        """Returns type and payload; None if it was not sent."""
        prefix, _, n = event_id.rpartition("-")
        if not n.isdigit():
            return None
        if prefix == self.feed_prefix and event_id in self.ticks:
            return feed_type(int(n)), feed_payload(int(n))
        if prefix == self.producer_prefix and (event_id in self.acks or event_id in self.ticks):
            return CREATED, producer_payload(int(n))
        return None

    def judge_rows(self, rows):
        verdict, seen = self.rig.verdict, set()
        for event_id, event_type, payload in rows:
            expected = self.expected_row(event_id)
            if payload in self.versions.get(event_id, {}).values():
                expected = event_type, payload
            if expected is None:
                verdict.find("unexpected", event_id, [payload] + self.history(event_id))
            elif (event_type, payload) != expected:
                verdict.find("altered", event_id, [f"sent {expected}", f"row  {event_type, payload}"])
            if event_id in seen:
                verdict.find("doubled", event_id, self.history(event_id))
            seen.add(event_id)
        verdict.rows += len(rows)
        self.judge_missing(seen)

    def judge_missing(self, seen):
        verdict = self.rig.verdict
        spooled = {tick for tick in self.times if not self.is_proven(tick) and self.is_spooled(tick)}
        self.rig.played.count("events that only spools proved", sum(tick in spooled for tick in self.ticks.values()))
        for event_id, tick in self.ticks.items():
            if event_id in seen or event_id in self.caused:
                continue
            if self.is_owed(tick):
                verdict.find("lost", event_id, ["it was on disk"] * (tick in spooled) + self.history(event_id))
            else:
                verdict.unproven += 1
                ends = [c.closed for c in self.receivers(tick) if c.closed]
                verdict.oldest_unproven_s = max([verdict.oldest_unproven_s, *(at - self.times[tick] for at in ends)])
        for event_id in self.asked_acks - seen:
            verdict.find("falsely_acked", event_id, ["acked, seen in the table then, and not there now"])
        for event_id, status in self.acks.items():
            if status in ("persisted", "duplicate") and event_id not in seen:
                verdict.find("falsely_acked", event_id, self.history(event_id))
            elif status == "rejected" and event_id not in self.caused:
                verdict.find("dead_without_reason", event_id, self.history(event_id))
        verdict.feed_events += len(self.ticks) + len(self.malformed)
        verdict.producer_events += len(self.acks)

    def judge_letters(self, letters):
        """letters: (bytes, reason, id) of all new dead letters."""
        verdict, seen = self.rig.verdict, set()
        known = self.marked | {QUIET} | {message for of in self.versions.values() for message, payload in of.items() if payload is None}
        mark = re.compile(re.escape(self.producer_prefix).encode() + rb"-m\d+")
        for raw, reason, event_id in letters:
            if raw in seen:
                verdict.find("doubled", f"dead letter {raw[:80]!r}")
            seen.add(raw)
            if raw not in self.malformed and raw not in known and not mark.search(raw):
                self.judge_letter(raw, reason, event_id)
        verdict.letters += len(letters)
        for raw, tick in self.malformed.items():
            if raw not in seen and self.is_proven(tick):
                verdict.find("letters_lost", repr(raw[:80]), self.history("", tick))
        for raw in self.marked - seen:
            verdict.find("letters_lost", repr(raw))
        for line in self.refused:
            if line["message"].encode() not in seen:
                verdict.find("letters_lost", f"acked as rejected: {line['message'][:80]}", [str(line["reason"])])

    def judge_letter(self, raw, reason, event_id):
        """Judges the dead letter of a well-formed event. Each try that Postgres refuses is a line of its log, or several if
        the event had to be isolated; a suppressed row leaves none."""
        tries = self.rig.tries[event_id]
        if is_caused(reason) and (tries >= MAX_ATTEMPTS or SUPPRESSED in reason):
            self.caused.add(event_id)
        else:
            self.rig.verdict.find("dead_without_reason", event_id or repr(raw[:80]),
                                  [f"reason: {reason}", f"refused {tries} times"] + self.history(event_id))


class Tables:
    """Reads new rows of the tables since the last time."""

    def __init__(self, rig):
        self.rig = rig
        self.last = {"events": 0, "dead_letters": 0}
        self.processed = "events"       # what the fleet has stored; of a consumer's, what it has processed
        if rig.consumer:
            self.processed = ("(SELECT events.* FROM events JOIN processed_events USING (event_id) "
                              f"WHERE consumer = '{rig.consumer}') AS processed")

    async def new_rows(self, table, columns, source=None, is_read=True):
        rows = await self.rig.postgres.copy_out(
            f"SELECT id, {columns} FROM {source or table} WHERE id > {self.last[table]} ORDER BY id",
            f"{self.rig.directory}/{table}.copy")
        if rows and is_read:
            self.last[table] = int(rows[-1][0])
        return [row[1:] for row in rows]

    async def events(self, is_read=True):
        return await self.new_rows("events", "event_id, event_type, payload", self.processed, is_read)

    async def letters(self, is_read=True):
        rows = await self.new_rows("dead_letters", "encode(raw, 'hex'), replace(reason, E'\\t', ' '), coalesce(event_id, '')",
                                   is_read=is_read)
        return [(bytes.fromhex(raw), reason, event_id) for raw, reason, event_id in rows]

    async def doubled(self):
        """Counts over the whole run, to find a late second row of an earlier round."""
        return await self.rig.sql("SELECT event_id FROM events GROUP BY event_id HAVING count(*) > 1 LIMIT 20")
