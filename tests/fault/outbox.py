"""The check of the outbox: owns the webhook's settings, and compares its rows with the events and with what the receiver
has applied."""
import json

from feed import SHIPPED, feed_payload
from rig.waiting import comes_true

DRAIN_S = 120
TARGET = "shop"

ODD = """SELECT CASE WHEN e.event_id IS NULL THEN 'deliveries_without_event' WHEN n IS NULL THEN 'deliveries_lost'
ELSE 'deliveries_doubled' END, event_id FROM (SELECT event_id FROM %s WHERE event_type = '%s') AS e FULL JOIN
(SELECT event_id, count(*) AS n FROM outbox GROUP BY event_id) AS o USING (event_id)
WHERE e.event_id IS NULL OR n IS DISTINCT FROM 1"""


class Outbox:
    def __init__(self, rig):
        self.rig = rig
        self.known = set()              # offenders of earlier rounds

    def find(self, what, event_id, history=()):
        if (what, event_id) not in self.known:
            self.rig.verdict.find(what, event_id, history)
        self.known.add((what, event_id))

    def config(self, port):
        """Returns the settings of a listener that reaches the receiver by this port."""
        return {"webhooks": [{"name": TARGET, "url": f"http://127.0.0.1:{port}/", "types": [SHIPPED], "timeout": 2,
                              "secret-file": self.rig.receiver.secret_file, "attempts": 1000, "backoff": 0.1,
                              "backoff-cap": 1}]}

    def on_applied(self, body):
        """Checks that the payload's text equals that in the table."""
        text = body.decode()
        event_id = json.loads(text)["id"]
        n = event_id.rpartition("-")[2]
        if not n.isdigit() or not text.endswith(f'"data":{feed_payload(int(n))}}}'):
            self.rig.verdict.find("altered", f"delivery of {event_id}", [text])

    # --- judging ---

    async def sql(self, sql):
        return (await self.rig.sql(sql)).splitlines()

    async def judge(self):
        """Checks that each delivered event was applied once by the receiver, and has a row."""
        applied = self.rig.receiver.applied
        for line in await self.sql(ODD % (self.rig.tables.processed, SHIPPED)):
            self.find(*line.split("|"))
        delivered = set(await self.sql("SELECT event_id FROM outbox WHERE state = 'delivered'"))
        for event_id in delivered - applied.keys():
            self.find("deliveries_lost", event_id, ["delivered, says the outbox, and the receiver has not applied it"])
        for event_id in applied.keys() - set(await self.sql("SELECT event_id FROM outbox")):
            self.find("deliveries_without_event", event_id)
        for event_id in [event_id for event_id, n in applied.items() if n > 1]:
            self.find("deliveries_doubled", event_id, [f"applied {applied[event_id]} times, under different keys"])

    async def drain(self):
        """Waits until nothing is pending, and checks that nothing is dead."""
        left = []

        async def is_empty():
            left[:] = await self.sql("SELECT event_id, state, attempts, status, answer FROM outbox WHERE state <> 'delivered'")
            return not left
        await comes_true(is_empty, DRAIN_S, 0.2)
        for line in left:
            event_id, _, rest = line.partition("|")
            self.find("deliveries_lost", event_id, [f"state, attempts, status and answer: {rest}"])
