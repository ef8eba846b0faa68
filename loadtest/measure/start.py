"""How long a process takes to its first stored event: starts a listener, one time after the other, while its servers and
feed are running. The time ends with the commit, by the database's clock."""
import time

from measure.feed import Feed, Load
from measure.fleet import Fleet
from rig.sample import median
from rig.waiting import wait_until

STARTS, STUCK_S = 5, 30
FIRST = "SELECT extract(epoch FROM min(pg_xact_commit_timestamp(xmin))) FROM events"


async def start_ms(rig):
    """The feed sends its first event as soon as the listener is connected."""
    await rig.empty()
    feed = Feed(rig, Load(1, 1), 1)
    await feed.start()
    fleet, began = Fleet(rig, 1), time.time()
    await fleet.connect(feed.url)

    async def is_stored():
        return await rig.sql(FIRST) != ""
    await wait_until(is_stored, STUCK_S, "the first event is stored")
    ended = float(await rig.sql(FIRST))
    await rig.end_children()
    return (ended - began) * 1000


async def measure(rig):
    return {"start_ms": median([await start_ms(rig) for _ in range(STARTS)])}
