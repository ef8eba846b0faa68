"""What a run must reach: owns the table of targets, and the verdicts. All are ratios within one run, or figures that
depend little on the machine; a target is judged only when what it needs was measured."""


def ratio(over, figure, under, under_figure=None):
    """The ratio of two cases' medians."""
    def value(book):
        above, below = book.median(over, figure), book.median(under, under_figure or figure)
        return None if above is None or not below else above / below
    return value


def against_best(over, figure, *unders):
    """The ratio of a case's median and the highest one among the others that were measured."""
    def value(book):
        above, below = book.median(over, figure), [book.median(under, figure) or 0 for under in unders]
        return None if above is None or not max(below) else above / max(below)
    return value


def figure(case, name):
    return lambda book: book.median(case, name)


def highest(name, *cases):
    """The highest value over all rounds of the cases."""
    def value(book):
        found = [book.summary(case, name) for case in cases]
        return max((each["max"] for each in found if each), default=None)
    return value


def highest_peak_of_small(book):
    """The highest peak of wsonce's listeners over all scenarios and rounds, except those with large payloads."""
    cases = [name for name, case in book.cases.items() if case["scenario"] != "peers" and "node" not in name and name not in LARGE]
    return highest("resident_peak_mib", *cases)(book)


LARGE = ("payload-2048", "payload-102400")
# The peers: what people would use instead. The fastest of them counts.
NODE = ("node", "node-script", "node-copy")


def of_node(instances):
    return [f"{name}-{instances}" for name in NODE]


def losing_copy(book):
    """The CPU time of a second copy of an event, in µs: half of what three listeners spend beyond one."""
    one, three = (book.median(f"wsonce-{n}", "listener_cpu_us_per_delivery") for n in (1, 3))
    return None if one is None or three is None else (3 * three - one) / 2


# Words, value, whether it must be at least or at most the bound, the bound, the unit.
TARGETS = (
    ("one listener's events/s, against Postgres alone with binary COPY",
     ratio("wsonce-1", "events_per_s", "postgres-copy-binary"), "least", 0.95, ""),
    ("the same, against the best Node listener", against_best("wsonce-1", "events_per_s", *of_node(1)), "least", 2.0, ""),
    ("five listeners' events/s, against the best five of Node",
     against_best("wsonce-5", "events_per_s", *of_node(5)), "least", 4.0, ""),
    ("the same on Jetstream's commits",
     against_best("commits-wsonce", "events_per_s", *[f"commits-{name}" for name in NODE]), "least", 3.0, ""),
    ("the same on Kraken's trades, ten in a message",
     against_best("trades-wsonce", "events_per_s", *[f"trades-{name}" for name in NODE]), "least", 3.0, ""),
    ("MB/s in payloads of 2 KiB, against Postgres alone with binary COPY of them",
     ratio("payload-2048", "payload_mb_per_s", "copy-2048"), "least", 0.9, ""),
    ("the same in payloads of 100 KiB", ratio("payload-102400", "payload_mb_per_s", "copy-102400"), "least", 0.9, ""),
    ("one listener's events/s with --spool-after 0, against no spool",
     ratio("spool-first", "events_per_s", "spool-none"), "least", 0.9, ""),
    ("events that --spool writes at 20,000 events/s", figure("spool-late-paced", "written_percent"), "most", 1, "%"),
    ("a listener's CPU then, against no spool",
     ratio("spool-late-paced", "listener_cpu_us_per_delivery", "spool-none-paced"), "most", 1.1, ""),
    ("webhook deliveries/s, three listeners against three Node workers",
     ratio("relay-3", "webhooks_per_s", "relay-node-worker-3"), "least", 3.0, ""),
    ("CPU of a second and a third copy of an event", losing_copy, "most", 1.25, "µs"),
    ("latency at half of the maximum, three listeners, p50", figure("latency-50", "latency_p50_ms"), "most", 5, "ms"),
    ("the same, p99 in each round", highest("latency_p99_ms", "latency-50"), "most", 10, "ms"),
    ("at nine tenths of the maximum, p99 in each round", highest("latency_p99_ms", "latency-90"), "most", 40, "ms"),
    ("resident memory of an idle listener", figure("idle", "resident_idle_mib"), "most", 12, "MiB"),
    ("peak memory of a listener, all scenarios, payloads up to 200 B", highest_peak_of_small, "most", 64, "MiB"),
    ("the same, payloads of 2 KiB and 100 KiB", highest("resident_peak_mib", *LARGE), "most", 128, "MiB"),
)


def judge(book):
    """Writes the verdicts into the book."""
    book.targets = []
    for words, value_of, side, bound, unit in TARGETS:
        value = value_of(book)
        if value is None:
            continue
        is_met = value >= bound if side == "least" else value <= bound
        book.targets.append({"what": words, "value": value, "side": side, "bound": bound, "unit": unit, "met": is_met})
