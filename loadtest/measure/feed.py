"""The feed of a measurement: owns one wsonce-source, from its start to its final report."""
from dataclasses import dataclass

from rig.load import Source
from rig.waiting import RigError

LINGER_S = 100000


@dataclass
class Load:
    """What a feed sends: the warm-up, then a pause, then this many messages. Ids are PREFIX-1, PREFIX-2, ..."""
    warm_up: int
    events: int
    payload_bytes: int = 100
    rate: float = 0                     # 0: the slowest listener sets the pace
    late_percent: float = 0             # copies of the warm-up's events among those after it
    form: str = "event"                 # form of a message
    each: int = 1                       # events in a message

    @property
    def copies(self):
        return int(self.events * self.late_percent / 100)


class Feed:
    def __init__(self, rig, load, listeners):
        self.rig = rig
        self.load = load
        self.listeners = listeners
        self.child = None
        self.summary = {}

    async def start(self):
        load = self.load
        self.child = self.rig.child("feed", Source, "bench")
        await self.child.start(
            self.rig.programs, "--warm-up", str(load.warm_up), "--count", str(load.events), "--rate", str(load.rate),
            "--payload-bytes", str(load.payload_bytes), "--late-duplicates", str(load.late_percent), "--wait-listeners",
            str(self.listeners), "--linger", str(LINGER_S), "--form", load.form)

    @property
    def url(self):
        return self.child.url

    def resume(self):
        """Begins the measurement."""
        self.child.go_on()

    async def end(self):
        await self.rig.stop(self.child, "the feed")
        self.summary = self.child.told()
        told = self.summary
        if told["connections"] != self.listeners or told["overruns"] or told["unheard"]:
            raise RigError(f"the feed had {told['connections']} connections for {self.listeners} listeners, cut off "
                           f"{told['overruns']} that fell behind, and {told['unheard']} events were heard by nobody")
        if told["events"] != self.load.warm_up + self.load.events or told["duplicates"] != self.load.copies:
            raise RigError(f"the feed sent {told['events']} events and {told['duplicates']} copies, not "
                           f"{self.load.warm_up + self.load.events} and {self.load.copies}")

    @property
    def began(self):
        """Returns when the first message after the pause was sent."""
        return self.summary["start_unix_us"] / 1e6
