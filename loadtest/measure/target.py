"""What a run must reach: owns the table of targets, and the verdicts. All are ratios within one run, or figures that
depend little on the machine; a target is judged only when what it needs was measured."""


def ratio(over, figure, under, under_figure=None):
    """Of two cases' medians."""
    def value(book):
        above, below = book.median(over, figure), book.median(under, under_figure or figure)
        return None if above is None or not below else above / below
    return value


def against_best(over, figure, *unders):
    """Of a case's median and the highest of the others' that were measured."""
    def value(book):
        above, below = book.median(over, figure), [book.median(under, figure) or 0 for under in unders]
        return None if above is None or not max(below) else above / max(below)
    return value


def figure(case, name):
    return lambda book: book.median(case, name)


def highest(name, *cases):
    """Over all rounds of the cases."""
    def value(book):
        found = [book.summary(case, name) for case in cases]
        return max((each["max"] for each in found if each), default=None)
    return value


def highest_peak_of_small(book):
    """Of wsonce's listeners, over all scenarios and rounds, but for large payloads."""
    cases = [name for name, case in book.cases.items() if case["scenario"] != "peers" and "node" not in name and name not in LARGE]
    return highest("resident_peak_mib", *cases)(book)


LARGE = ("payload-2048", "payload-102400")
# What people would use instead, as good as we know how to write it; the one that did best counts.
NODE = ("node", "node-script", "node-copy")


def of_node(instances):
    return [f"{name}-{instances}" for name in NODE]


# words, value, whether it must be at least or at most, bound, unit
TARGETS = (
    ("one listener's events/s, against Postgres alone with its INSERT",
     ratio("wsonce-1", "events_per_s", "postgres-insert"), "least", 0.90, ""),
    ("the same, against Postgres alone with binary COPY",
     ratio("wsonce-1", "events_per_s", "postgres-copy-binary"), "least", 0.95, ""),
    ("one listener's events/s, against the best Node listener",
     against_best("wsonce-1", "events_per_s", *of_node(1)), "least", 2.0, ""),
    ("five listeners' deliveries/s, against five of Node with the usual claims",
     ratio("wsonce-5", "deliveries_per_s", "node-5"), "least", 5.0, ""),
    ("the same, against the better five of those that claim by a script",
     against_best("wsonce-5", "deliveries_per_s", "node-script-5", "node-copy-5"), "least", 4.0, ""),
    ("five listeners' events/s on Jetstream's commits, against the best five of Node",
     against_best("commits-wsonce", "events_per_s", *[f"commits-{name}" for name in NODE]), "least", 3.0, ""),
    ("the same on Kraken's trades, ten in a message",
     against_best("trades-wsonce", "events_per_s", *[f"trades-{name}" for name in NODE]), "least", 3.0, ""),
    ("one listener's events/s, against FastAPI with one event at a time",
     ratio("wsonce-1", "events_per_s", "fastapi-1"), "least", 100, ""),
    ("CPU per delivery, five listeners", figure("wsonce-5", "listener_cpu_us_per_delivery"), "most", 1.5, "µs"),
    ("ten listeners' deliveries/s, against five", ratio("wsonce-10", "deliveries_per_s", "wsonce-5"), "least", 1.0, ""),
    ("Redis per event with 100 listeners, against 5", ratio("wide-100", "redis_cpu_us_per_event", "wide-5"), "most", 1.3, ""),
    ("CPU per delivery with 100 listeners, against 10",
     ratio("wide-100", "listener_cpu_us_per_delivery", "wide-10"), "most", 1.1, ""),
    *((f"Postgres per event without Redis, {listeners} listeners, against one",
       ratio(f"redis-lost-{listeners}", "postgres_cpu_us_per_event", "redis-lost-1"), "most", 2.5, "") for listeners in (3, 10, 20)),
    *((f"the same of a fleet that starts without, {listeners} listeners",
       ratio(f"redis-none-{listeners}", "postgres_cpu_us_per_event", "redis-none-1"), "most", 2.5, "") for listeners in (3, 10)),
    ("latency at half of the maximum, three listeners, p50", figure("latency-50", "latency_p50_ms"), "most", 5, "ms"),
    ("the same, p99 in each round", highest("latency_p99_ms", "latency-50"), "most", 10, "ms"),
    ("at nine tenths of the maximum, p99 in each round", highest("latency_p99_ms", "latency-90"), "most", 40, "ms"),
    ("resident memory of an idle listener", figure("idle", "resident_idle_mib"), "most", 12, "MiB"),
    ("peak memory of a listener, all scenarios, payloads up to 200 B", highest_peak_of_small, "most", 64, "MiB"),
    ("the same, payloads of 2 KiB and 100 KiB", highest("resident_peak_mib", *LARGE), "most", 128, "MiB"),
    ("deliveries/s with 20 % late duplicates, against without",
     ratio("duplicates-20", "deliveries_per_s", "duplicates-0"), "least", 0.8, ""),
    ("events/s of 1,000 producers with acks, against one without",
     ratio("acks-1000", "events_per_s", "acks-none"), "least", 0.7, ""),
    ("the same of 10,000", ratio("acks-10000", "events_per_s", "acks-none"), "least", 0.7, ""),
    ("1,000 producers with acks, against as many at a Node listener",
     ratio("acks-1000", "events_per_s", "acks-1000-node-copy"), "least", 4.0, ""),
    ("the same of 10,000", ratio("acks-10000", "events_per_s", "acks-10000-node-copy"), "least", 4.0, ""),
    ("MB/s in payloads of 2 KiB, against Postgres alone with binary COPY of them",
     ratio("payload-2048", "payload_mb_per_s", "copy-2048"), "least", 0.9, ""),
    ("the same in payloads of 100 KiB", ratio("payload-102400", "payload_mb_per_s", "copy-102400"), "least", 0.9, ""),
    ("events/s with a handler that does nothing, against none",
     ratio("effects-handler", "events_per_s", "effects-none"), "least", 0.8, ""),
    ("the same with a consumer", ratio("effects-consumer", "events_per_s", "effects-none"), "least", 0.6, ""),
    ("the same with a row of the outbox for each event", ratio("effects-outbox", "events_per_s", "effects-none"), "least", 0.6, ""),
    ("webhook deliveries/s, three listeners", figure("relay-3", "webhooks_per_s"), "least", 20000, ""),
    ("the same, against three Node workers", ratio("relay-3", "webhooks_per_s", "relay-node-worker-3"), "least", 3.0, ""),
    ("CPU per webhook delivery, three listeners", figure("relay-3", "listener_cpu_us_per_delivery"), "most", 30, "µs"),
    ("from the start of a process to its first stored event", figure("start", "start_ms"), "most", 150, "ms"),
)


def judge(book):
    """Notes the verdicts in the book."""
    book.targets = []
    for words, value_of, side, bound, unit in TARGETS:
        value = value_of(book)
        if value is None:
            continue
        is_met = value >= bound if side == "least" else value <= bound
        book.targets.append({"what": words, "value": value, "side": side, "bound": bound, "unit": unit, "met": is_met})
