"""Another database that shares the fleet's Redis: owns the proof that it is refused where its prefix is the fleet's, and
that with a prefix of its own neither takes the other's events for stored."""
import asyncio

from feed import event_message, feed_payload, feed_type
from replay import Replay
from servers import RigError, start

DATABASE = "neighbour"
PREFIX = "neighbour:"
REFUSAL = "is the prefix of another database"
REFUSAL_S = 20
STEP = 60               # one event of so many; none of them is a malformed one


async def create(rig):
    """A listener like those of the fleet, but for the database, must not start."""
    await rig.postgres.sql(f"CREATE DATABASE {DATABASE} OWNER wsonce")
    log = f"{rig.directory}/neighbour.log"
    command = rig.command("listen", "--instance-id", "neighbour", "--ingest", "127.0.0.1:0", database=DATABASE)
    process = await start(command + rig.consumer_words(), log)
    try:
        await asyncio.wait_for(process.wait(), REFUSAL_S)
    except asyncio.TimeoutError:
        process.kill()
        await process.wait()
    with open(log) as file:
        text = file.read()
    if process.returncode != 2 or REFUSAL not in text:
        rig.verdict.find("neighbours", f"a listener of another database was not refused: status {process.returncode}",
                         text.splitlines()[-5:])


class Neighbour(Replay):
    """The same ids as the feed's, in the midst of the same faults."""

    def __init__(self, book):
        rig = book.rig
        self.ids = [f"{book.feed_prefix}-{n}" for n in range(11, int(rig.options.rate * rig.options.round), STEP)]
        events = [event_message(event_id, feed_payload(n), feed_type(n))
                  for event_id, n in zip(self.ids, range(11, 1 << 30, STEP))]
        super().__init__(rig, f"{book.feed_prefix}-neighbour", events, "--claim-prefix", PREFIX, "--rate",
                         str(max(1, int(1.5 * rig.options.rate / STEP))), database=DATABASE)

    async def end(self, seconds):
        if await super().end(seconds) is None:
            return
        status, out, error = await self.rig.postgres.try_sql("SELECT event_id FROM events", DATABASE)
        if status:
            raise RigError(f"the neighbour's rows: {error}")
        for event_id in set(self.ids) - set(out.splitlines()):
            self.rig.verdict.find("neighbours", event_id, ["replayed into another database, and not there"])
