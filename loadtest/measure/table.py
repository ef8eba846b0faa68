"""The results as rows and columns: says which figures are shown together, in the terminal and on the page."""
import re
from dataclasses import dataclass


@dataclass(frozen=True)
class Column:
    heading: str
    figure: str
    digits: int = 0
    has_spread: bool = False            # add the lowest and the highest round in brackets


EVENTS = Column("unique events/s", "events_per_s", has_spread=True)
DELIVERIES = Column("deliveries/s", "deliveries_per_s", has_spread=True)
CPU = (Column("CPU µs per delivery", "listener_cpu_us_per_delivery", 2), Column("Redis µs per event", "redis_cpu_us_per_event", 2),
       Column("Postgres µs per event", "postgres_cpu_us_per_event", 2))
MEMORY = Column("peak MiB", "resident_peak_mib", 1)
IDLE = Column("idle %", "idle_percent")          # of all cores; shows if a process waits for another
RUN = (EVENTS, DELIVERIES) + CPU + (IDLE, MEMORY)


@dataclass(frozen=True)
class Table:
    name: str
    title: str
    scenarios: tuple
    columns: tuple


TABLES = (
    Table("ceilings", "The servers alone", ("ceilings",), (Column("rows or claims/s", "events_per_s", has_spread=True),) + CPU[1:]),
    Table("fanout", "Fan-out: every listener gets every event", ("fanout", "peers"), RUN),
    Table("feeds", "Messages as real feeds have them, five listeners", ("feeds",), RUN),
    Table("latency", "Latency: planned sending to commit, three listeners", ("latency",),
          (Column("events/s sent", "rate_per_s"), Column("p50 ms", "latency_p50_ms", 2, True),
           Column("p99 ms", "latency_p99_ms", 2, True), Column("p99.9 ms", "latency_p999_ms", 2, True),
           Column("mean flush ms", "flush_mean_ms", 2), Column("the feed's own p50", "feed_lag_p50_ms", 2),
           Column("and p99", "feed_lag_p99_ms", 2), CPU[0], MEMORY)),
    Table("duplicates", "Late duplicates, one listener", ("duplicates",), RUN),
    Table("acks", "Producers at one listener", ("acks",), (EVENTS,) + CPU + (MEMORY,)),
    Table("payloads", "Payloads, one listener", ("payloads",),
          (EVENTS, Column("MB/s", "payload_mb_per_s", 1, True)) + CPU + (MEMORY,)),
    Table("spool", "Events on disk before they are stored, one listener", ("spool",), RUN + (Column("written %", "written_percent", 1),)),
    Table("wide", "Many listeners on one feed of 2,000 events/s", ("wide",), CPU + (MEMORY,)),
    Table("redis-down", "Redis down: the unique key alone", ("redis-down",), RUN),
    Table("redis-lost", "Redis lost by a fleet at 2,000 events/s", ("redis-lost",), CPU + (MEMORY,)),
    Table("redis-none", "A fleet without Redis at 2,000 events/s", ("redis-none",), CPU + (MEMORY,)),
    Table("effects", "What follows from an event, one listener", ("effects",), RUN),
    Table("relay", "The outbox delivered to a local nginx, 16 requests of a listener at once", ("relay",),
          (Column("deliveries/s", "webhooks_per_s", has_spread=True), CPU[0], CPU[2],
           Column("nginx µs per delivery", "receiver_cpu_us_per_event", 2), MEMORY)),
    Table("start", "From the start of a process to its first stored event, servers and feed running", ("start",),
          (Column("ms", "start_ms", 0, True),)),
    Table("idle", "A listener that has nothing to do", ("idle",), (Column("resident MiB", "resident_idle_mib", 1, True),)),
)


def cell(column, found):
    if found is None:
        return "-"
    text = f"{found['median']:,.{column.digits}f}"
    if column.has_spread and len(found["samples"]) > 1:
        text += f" ({found['min']:,.{column.digits}f}–{found['max']:,.{column.digits}f})"
    return text


def rows(book, table, without=re.compile("$^")):
    """Returns lists of strings: a case's name and a cell for each column. Leaves out cases whose names match `without`."""
    return [[book.cases[name]["words"]] + [cell(column, book.summary(name, column.figure)) for column in table.columns]
            for name in book.of_scenario(*table.scenarios) if not without.search(name)]


def verdict(target):
    bound = f"at {target['side']} {target['bound']:g}"
    digits = 0 if target["value"] >= 100 else 2
    return [target["what"], f"{bound} {target['unit']}".strip(), f"{target['value']:,.{digits}f} {target['unit']}".strip(),
            "met" if target["met"] else "MISSED"]
