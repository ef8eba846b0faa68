"""Another database that shares the fleet's Redis: tests that it is refused with the fleet's prefix, and that with a prefix
of its own neither takes the other's events for stored."""
from feed import feed_payload, feed_type
from replay import Replay
from rig.feed import event_message
from rig.process import Process

DATABASE = "neighbour"
PREFIX = "neighbour:"
REFUSAL = "the listeners of another database"
REFUSAL_S = 60
STEP = 60               # one of this many events; none of them is malformed


async def create(rig):
    """A listener like those of the fleet, but with the other database, must not start."""
    await rig.postgres.sql(f"CREATE DATABASE {DATABASE} OWNER wsonce")
    stranger = Process(f"{rig.directory}/neighbour")
    command = rig.command("listen", "--instance-id", "neighbour", "--ingest", "127.0.0.1:0", database=DATABASE)
    await stranger.launch(command + rig.consumer_words())
    await stranger.ends(REFUSAL_S)
    await stranger.kill()
    if stranger.process.returncode != 2 or REFUSAL not in stranger.log():
        rig.verdict.find("neighbours", "a listener of another database was not refused: status "
                         f"{stranger.process.returncode}", stranger.last_words())


class Neighbour(Replay):
    """Replays the ids of the feed, during the same faults."""

    def __init__(self, book):
        rig = book.rig
        self.ids = [f"{book.feed_prefix}-{n}" for n in range(11, int(rig.options.rate * rig.options.round), STEP)]
        events = [event_message(event_id, feed_payload(n), feed_type(n))
                  for event_id, n in zip(self.ids, range(11, 1 << 30, STEP))]
        super().__init__(rig, f"{book.feed_prefix}-neighbour", events, "--claim-prefix", PREFIX, "--rate",
                         str(max(1, int(1.5 * rig.options.rate / STEP))), database=DATABASE)

    async def finish(self, seconds):
        if await super().finish(seconds) is None:
            return
        out = await self.rig.postgres.sql("SELECT event_id FROM events", DATABASE)
        for event_id in set(self.ids) - set(out.splitlines()):
            self.rig.verdict.find("neighbours", event_id, ["replayed into another database, and not there"])
