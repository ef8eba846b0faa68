"""The results of earlier runs: owns docs/medians.ndjson, a line for each complete run with machine and commit, so that a
chart over commits shows whether it got better. It mixes runs of different machines: compare only those of one."""
import json
import os

from rig.run import TREE

FILE = f"{TREE}/docs/medians.ndjson"

# Case: its figures that are kept.
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
    """Returns the line for a run, or None if none of these figures was measured."""
    medians = {case: {figure: round(book.median(case, figure), 3) for figure in figures
                      if book.median(case, figure) is not None}
               for case, figures in KEPT.items() if case in book.cases}
    return {"began": book.settings["began"], "commit": book.place["commit"], "machine": book.place["cpu"],
            "cores": book.place["cores"], "medians": medians} if medians else None


def read(path):
    """Returns the lines of earlier runs, the oldest first."""
    if not os.path.exists(path):
        return []
    with open(path, encoding="utf-8") as file:
        return [json.loads(line) for line in file]


def append(book, path):
    """Adds the line of a run. Quick runs are not kept: they say too little."""
    line = line_of(book)
    if line and not book.settings["quick"]:
        with open(path, "a", encoding="utf-8") as file:
            file.write(json.dumps(line) + "\n")
