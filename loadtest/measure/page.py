"""The generated part of docs/benchmarks.md, between its two markers, and the plots beside it. The words around it are
written by hand."""
import os
import re
import shutil
import textwrap
from dataclasses import replace

from measure.plot import PLOTS
from measure.report import describe
from measure.table import DELIVERIES, IDLE, TABLES, rows, verdict
from rig.waiting import RigError

BEGIN, END = "<!-- figures -->\n", "<!-- end of figures -->\n"
WIDTH = 120
# Only for the terminal and bench.json: deliveries are events times listeners, and the page has only the fastest of Node's
# listeners.
LEFT_OUT = (DELIVERIES, IDLE)
WITHOUT = ("wide", "redis-lost", "redis-none", "start", "idle")
SLOWER = re.compile(r"node(-script)?(-\d+)?$")
PLOTS_OF = {"fanout": ("fanout", "cpu"), "latency": ("latency",), "payloads": ("payloads",)}


def markdown(lines):
    head, *body = lines
    rule = ["---"] + ["---:"] * (len(head) - 1)
    return "\n".join("| " + " | ".join(line) + " |" for line in [head, rule] + body) + "\n"


def section(book, table, plots):
    table = replace(table, columns=tuple(column for column in table.columns if column not in LEFT_OUT))
    lines = rows(book, table, SLOWER)
    if not lines or table.name in WITHOUT:
        return ""
    text = f"### {table.title}\n\n"
    for name in PLOTS_OF.get(table.name, ()):
        if os.path.exists(f"{plots}/{name}.svg"):
            text += f"![{PLOTS[name][1]}](plots/{name}.svg)\n\n"
    return text + markdown([[""] + [column.heading for column in table.columns]] + lines) + "\n"


def generate(book, plots):
    settings = book.settings
    count = f"{settings['rounds']} rounds" if settings["rounds"] > 1 else "one round"
    text = textwrap.fill(f"{describe(book.place)}. {settings['began'][:10]}, {count} in {settings['seconds']:.0f} s: medians, "
                         "in brackets the lowest and the highest.", WIDTH) + "\n\n"
    if book.targets:
        text += "### Targets\n\n" + markdown([["", "target", "measured", ""]] + [verdict(target) for target in book.targets]) + "\n"
    return text + "".join(section(book, table, plots) for table in TABLES)


def with_figures(page, generated):
    before, begin, rest = page.partition(BEGIN)
    _, end, after = rest.partition(END)
    if not begin or not end:
        raise RigError(f"docs/benchmarks.md lacks a line {BEGIN.strip()} or, after it, {END.strip()}")
    return before + BEGIN + "\n" + generated + END + after


def write(book, plots, docs):
    if book.failures:
        raise RigError("docs/benchmarks.md stays as it is, since not everything could be measured")
    path = f"{docs}/benchmarks.md"
    with open(path) as file:
        page = with_figures(file.read(), generate(book, plots))
    with open(path, "w") as file:
        file.write(page)
    os.makedirs(f"{docs}/plots", exist_ok=True)
    for name in PLOTS:
        if os.path.exists(f"{plots}/{name}.svg"):
            shutil.copy(f"{plots}/{name}.svg", f"{docs}/plots/{name}.svg")
