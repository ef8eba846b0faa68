"""Another consumer on the same database, without effects: owns its events, which are some of the feed's. It stores the
first ones as the feed sends them, and later ones before the feed does. So some rows exist that the fleet's consumer has
not processed."""
from feed import feed_payload, feed_type
from replay import Replay
from rig.feed import event_message

STEP = 20               # one of this many events; none of them is malformed
PACE = 2                # times the rate of the feed


class Rival(Replay):
    def __init__(self, book):
        rig = book.rig
        numbers = range(7, int(rig.options.rate * rig.options.round), STEP)
        events = [event_message(f"{book.feed_prefix}-{n}", feed_payload(n), feed_type(n)) for n in numbers]
        super().__init__(rig, f"{book.feed_prefix}-rival", events, "--max-attempts", "1000",
                         "--consumer", "rival", "--rate", str(max(1, int(PACE * rig.options.rate / STEP))))
