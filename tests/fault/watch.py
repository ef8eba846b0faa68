"""The watch, once a second during a run: owns the counters of all listeners, even past ones, and the number of Postgres's
backends. A killed listener may have counted for up to a second longer."""
import asyncio
import time

PERIOD_S = 1.0
BACKENDS = "SELECT count(*) FROM pg_stat_activity WHERE backend_type = 'client backend' AND usename = 'wsonce'"
# A listener has one connection to store and one to relay. After it was killed or cut off, its backends may stay until
# Postgres notices, which takes half of --postgres-timeout; operators' commands have two each.
OF_LISTENER, OF_COMMANDS = 6, 6
PATIENCE_S = 12


class Watch:
    def __init__(self, rig):
        self.rig = rig
        self.seen = {}                  # incarnation -> its counters
        self.most_backends = 0
        self.many_since = None

    @property
    def limit(self):
        return OF_LISTENER * len(self.rig.listeners) + OF_COMMANDS

    async def run(self):
        while True:
            await asyncio.gather(self.look_at_listeners(), self.count_backends())
            await asyncio.sleep(PERIOD_S)

    async def look_at_listeners(self):
        await asyncio.gather(*(self.look_at(listener) for listener in self.rig.listeners))

    async def look_at(self, listener):
        name = listener.now.name
        metrics = await listener.metrics()
        if metrics and name == listener.now.name:
            self.seen[name] = metrics

    async def count_backends(self):
        status, out, _ = await self.rig.postgres.try_sql(BACKENDS)
        if status:
            return
        self.most_backends = max(self.most_backends, int(out))
        if int(out) <= self.limit:
            self.many_since = None
        elif self.many_since is None:
            self.many_since = time.monotonic()
        elif time.monotonic() - self.many_since > PATIENCE_S:
            self.rig.verdict.find("backends", f"{out} backends, for {PATIENCE_S} s more than {self.limit}")

    def total(self, counter):
        return int(sum(metrics.get(f"{counter}_total", 0) for metrics in self.seen.values()))
