"""The results as pictures: owns the gnuplot scripts. A plot whose cases were not measured is not drawn."""
import os
import shutil
import subprocess

import measure.history as past
from rig.waiting import RigError

BLUE, ORANGE, OCHRE, RED, GREY, BLACK, LIGHT = ("#1f5fa8", "#b5651d", "#c9a227", "#a83232", "#808080", "#333333",
                                                "#a9c4e4")
STYLE = """set terminal svg size %d,%d dynamic font 'Helvetica,Arial,sans-serif,12' background rgb 'white'
set output '%s'
set border 3 lc rgb '#999999'
set tics nomirror out scale 0.5 textcolor rgb '#333333'
set grid ytics lc rgb '#e6e6e6' lt 1 lw 1
set key top right Left reverse samplen 2 spacing 1.2 textcolor rgb '#333333' noenhanced
set style fill solid 0.9 border lc rgb 'white'
set errorbars small
set yrange [0:*]
"""
# Program: its name in the key, its colour, the shape of its points.
PROGRAMS = {"wsonce": ("wsonce", BLUE, 7), "node": ("Node (ws, ioredis, pg)", ORANGE, 5),
            "node-script": ("Node, claims by a script", OCHRE, 4), "node-copy": ("and rows by COPY", RED, 13),
            "fastapi": ("FastAPI", GREY, 9), "fastapi-batched": ("FastAPI, in batches", BLACK, 11)}


def over_listeners(book, figure):
    """Returns lines for each program that was measured: listeners, median, min, max."""
    lines = {}
    for name in book.of_scenario("fanout", "peers"):
        found = book.summary(name, figure)
        if found:
            case = book.cases[name]
            lines.setdefault(case["program"], []).append(f"{case['listeners']} {found['median']} {found['min']} {found['max']}")
    return lines


def curves(book, figure, factor=1):
    """Returns a block of data for each program, and the plot command."""
    blocks, parts = "", []
    for program, lines in over_listeners(book, figure).items():
        words, colour, shape = PROGRAMS[program]
        block = program.replace("-", "_")       # a name that gnuplot accepts
        blocks += f"${block} << END\n" + "\n".join(lines) + "\nEND\n"
        style = f"lc rgb '{colour}' lw 2 pt {shape} ps 0.7"
        parts.append(f"${block} using 1:($2*{factor}):($3*{factor}):($4*{factor}) with yerrorlines {style} title '{words}'")
    return blocks + "plot " + ", \\\n  ".join(parts) + "\n" if parts else ""


def panel(title, label, drawing):
    return f"set title '{title}' textcolor rgb '#333333'\nset xlabel '{label}'\n" + drawing


def fanout(book):
    deliveries, events = curves(book, "deliveries_per_s", 0.001), curves(book, "events_per_s", 0.001)
    if not deliveries:
        return None
    return (820, 340, "set multiplot layout 1,2\nset xrange [0:11]\nset xtics (1, 3, 5, 10)\n"
            + "set key bottom right\n" + panel("deliveries, thousand/s", "listeners", deliveries)
            + "unset key\n" + panel("unique events, thousand/s", "listeners", events) + "unset multiplot\n")


def cpu(book):
    drawing = curves(book, "listener_cpu_us_per_delivery")
    if not drawing:
        return None
    # Without a logarithmic axis, the programs that take one event at a time would hide the others.
    return 820, 340, ("set xrange [0:11]\nset xtics (1, 3, 5, 10)\nset logscale y\nset yrange [1:*]\nset key outside\n"
                      + panel("CPU of the listener processes per delivery, µs", "listeners", drawing))


def bars(book, cases, columns, colours):
    """Returns a group of bars for each case, with the lowest and the highest. columns: (figure, words)."""
    lines = []
    for name, words in cases:
        cells = [book.summary(name, figure) for figure, _ in columns]
        if not all(cells):
            return ""
        lines.append(f'"{words}" ' + " ".join(f"{c['median']} {c['min']} {c['max']}" for c in cells))
    parts = [f"$bars using {3 * i + 2}:{3 * i + 3}:{3 * i + 4}:xtic(1) lc rgb '{colours[i]}' title '{words}'"
             for i, (_, words) in enumerate(columns)]
    return ("$bars << END\n" + "\n".join(lines) + "\nEND\nset style data histograms\nset style histogram errorbars gap 1 lw 1\n"
            "set boxwidth 0.9\nset xrange [-0.6:" + str(len(lines) - 0.4) + "]\n" + "plot " + ", \\\n  ".join(parts) + "\n")


def latency(book):
    columns = (("latency_p50_ms", "p50"), ("latency_p99_ms", "p99"), ("latency_p999_ms", "p99.9"))
    drawing = bars(book, (("latency-50", "50 % of the maximum"), ("latency-90", "90 % of the maximum")), columns,
                   (LIGHT, BLUE, GREY))
    if not drawing:
        return None
    return 820, 340, ("set logscale y\nset yrange [0.5:*]\nset key outside\n"
                      + panel("planned sending to commit, ms, three listeners", "", drawing))


def payloads(book):
    cases = [(name, book.cases[name]["words"].rpartition(" of ")[2]) for name in book.of_scenario("payloads") if name.startswith("payload")]
    if not cases:
        return None
    events = bars(book, cases, (("events_per_s", "events/s"),), (BLUE,))
    volume = bars(book, cases, (("payload_mb_per_s", "MB/s"),), (ORANGE,))
    return (820, 340, "set multiplot layout 1,2\nunset key\nset logscale y\nset yrange [10:*]\n"
            + panel("events/s, one listener", "payload", events)
            + "unset logscale y\nset yrange [0:*]\n" + panel("MB/s of payload, one listener", "payload", volume)
            + "unset multiplot\n")


# Figures of the runs in docs/medians.ndjson: case, figure, words, factor.
RATES = (("wsonce-5", "deliveries_per_s", "deliveries of five listeners", 0.001),
         ("wsonce-1", "events_per_s", "events of one", 0.001),
         ("commits-wsonce", "events_per_s", "commits of a feed, five", 0.001),
         ("trades-wsonce", "events_per_s", "trades of a feed, five", 0.001))
COSTS = tuple((case, "listener_cpu_us_per_delivery", words, 1) for case, _, words, _ in RATES)


def over_runs(rows, figures):
    """Returns a plot command with a line for each figure over the runs, in order, without runs that lack the figure."""
    blocks, parts = "", []
    for (case, figure, words, factor), colour in zip(figures, (BLUE, ORANGE, RED, OCHRE)):
        lines = [f"{number} {row['medians'][case][figure] * factor}" for number, row in enumerate(rows)
                 if figure in row["medians"].get(case, {})]
        if lines:
            block = f"{case}_{figure}".replace("-", "_")
            blocks += f"${block} << END\n" + "\n".join(lines) + "\nEND\n"
            parts.append(f"${block} using 1:2 with linespoints lc rgb '{colour}' lw 2 pt 7 ps 0.5 title '{words}'")
    return blocks + "plot " + ", \\\n  ".join(parts) + "\n" if parts else ""


def history(_):
    rows = past.read(past.FILE)
    rates, costs = over_runs(rows, RATES), over_runs(rows, COSTS)
    if not rates:
        return None
    commits = ", ".join(f"'{row['commit']}' {number}" for number, row in enumerate(rows))
    return (820, 400, f"set multiplot layout 1,2\nset xrange [-0.5:{len(rows) - 0.5}]\nset xtics ({commits}) rotate by -60\n"
            + "set key outside top center vertical\n" + panel("thousand/s", "", rates)
            + panel("CPU of the listeners per delivery, µs", "", costs) + "unset multiplot\n")


PLOTS = {"fanout": (fanout, "Deliveries and unique events a second over the number of listeners"),
         "cpu": (cpu, "CPU per delivery over the number of listeners"),
         "latency": (latency, "Percentiles of the latency at half and at nine tenths of the maximum"),
         "history": (history, "Rates and CPU per delivery over the commits that were measured"),
         "payloads": (payloads, "Events and megabytes a second over the size of the payload")}


def require():
    if not shutil.which("gnuplot"):
        raise RigError("there is no gnuplot program to draw the plots: run demo/deps bench")


def draw_all(book, folder):
    os.makedirs(folder, exist_ok=True)
    for name, (make, _) in PLOTS.items():
        path = f"{folder}/{name}.svg"
        if os.path.exists(path):        # from an earlier run
            os.unlink(path)
        drawn = make(book)
        if drawn:
            width, height, script = drawn
            draw(STYLE % (width, height, path) + script, name)


def draw(script, name):
    done = subprocess.run(["gnuplot"], input=script, capture_output=True, text=True,
                          env={**os.environ, "LC_ALL": "C.UTF-8"})
    if done.returncode:
        raise RigError(f"gnuplot could not draw {name}: {done.stderr.strip()}")
