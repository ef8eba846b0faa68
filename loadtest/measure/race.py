"""One measurement: owns the order of a contestant's run on one feed, and the figures of every such run.

Empty servers; the contestant connects; the warm-up is sent and settled; then the feed sends what counts. The time is from
the first message (the feed notes when) to the last delivery settled (the contestant tells). CPU is of that time only,
memory of the whole. In the end rows must be events."""
import asyncio

from measure.feed import Feed
from rig.proc import machine_ticks, memory_mib


class Race:
    def __init__(self, rig, contestant, load):
        self.rig = rig
        self.contestant = contestant
        self.load = load
        self.feed = Feed(rig, load, contestant.size)

    async def run(self, pause_s=0, prepare=None, read_more=None):
        """pause_s, prepare: before the measurement. read_more: reads further figures from the table and the feed."""
        load, contestant = self.load, self.contestant
        await self.rig.empty()
        await self.feed.start()
        await contestant.connect(self.feed.url)
        await contestant.settle(load.warm_up * load.each)
        await asyncio.sleep(pause_s)
        if prepare:
            await prepare()
        before, (idle, all_ticks) = self.rig.cpu_s(contestant.pids()), machine_ticks()
        self.feed.resume()
        ended = await contestant.settle((load.warm_up + load.events + load.copies) * load.each)
        used = self.rig.cpu_s(contestant.pids()) - before
        idle_after, all_after = machine_ticks()
        resident = max(memory_mib(pid, "VmHWM") for pid in contestant.pids())
        await contestant.end()
        await self.feed.end()
        await self.rig.verify((load.warm_up + load.events) * load.each)
        more = await read_more(self.rig, load, self.feed) if read_more else {}
        return self.figures(ended - self.feed.began, used, resident) | more | {
            "idle_percent": 100 * (idle_after - idle) / max(1, all_after - all_ticks)}

    def figures(self, seconds, used, resident):
        events = self.load.events * self.load.each
        deliveries = (events + self.load.copies * self.load.each) * self.contestant.size
        return {"seconds": seconds} | rates(events, deliveries, seconds) | costs(events, deliveries, used) | {"resident_peak_mib": resident}


def rates(events, deliveries, seconds):
    return {"events_per_s": events / seconds, "deliveries_per_s": deliveries / seconds}


def costs(events, deliveries, used):
    return {"listener_cpu_us_per_delivery": used.listeners_s * 1e6 / deliveries,
            "redis_cpu_us_per_event": used.redis_s * 1e6 / events,
            "postgres_cpu_us_per_event": used.postgres_s * 1e6 / events}
