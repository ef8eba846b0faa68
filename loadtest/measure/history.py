"""What earlier runs found: owns docs/medians.ndjson, a line for each whole run with machine and commit, so that a chart over
commits shows whether it got better. Runs of different machines stand beside each other: compare those of one."""
import json
import os

from rig.run import TREE

FILE = f"{TREE}/docs/medians.ndjson"

# case: figures that are kept.
KEPT = {"wsonce-1": ("events_per_s", "listener_cpu_us_per_delivery"),
        "wsonce-5": ("deliveries_per_s", "listener_cpu_us_per_delivery", "redis_cpu_us_per_event",
                     "postgres_cpu_us_per_event"),
        "commits-wsonce": ("events_per_s", "listener_cpu_us_per_delivery"),
        "trades-wsonce": ("events_per_s", "listener_cpu_us_per_delivery"),
        "postgres-copy-binary": ("events_per_s",), "node-copy-5": ("deliveries_per_s",),
        "acks-none": ("events_per_s",), "acks-1000": ("events_per_s", "listener_cpu_us_per_delivery"),
        "acks-10000": ("events_per_s", "listener_cpu_us_per_delivery"), "start": ("start_ms",),
        "latency-50": ("latency_p99_ms",), "latency-90": ("latency_p99_ms",)}


def line_of(book):
    """None if nothing of it was measured."""
    medians = {case: {figure: round(book.median(case, figure), 3) for figure in figures
                      if book.median(case, figure) is not None}
               for case, figures in KEPT.items() if case in book.cases}
    return {"began": book.settings["began"], "commit": book.place["commit"], "machine": book.place["cpu"],
            "cores": book.place["cores"], "medians": medians} if medians else None


def read(path):
    """Those of earlier runs, the oldest first."""
    if not os.path.exists(path):
        return []
    with open(path, encoding="utf-8") as file:
        return [json.loads(line) for line in file]


def append(book, path):
    """A quick run says too little to be kept."""
    line = line_of(book)
    if line and not book.settings["quick"]:
        with open(path, "a", encoding="utf-8") as file:
            file.write(json.dumps(line) + "\n")
