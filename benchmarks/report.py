"""Write docs/benchmarks.md and its plots from the rows that `python -m benchmarks` has collected.

    .build/peers/venv/bin/python -m benchmarks.report .build/bench/rows.json

In: rows with a round: {"case", "system", "value"}, {"case", "ours", "peer", "peer_name"}, or
{"case", "x", "x_name", "ours"}. Out: for each figure the median over the rounds and the least and
the most; plots as SVG by matplotlib, the same bytes for the same rows.
"""

import json
import math
import statistics
import sys
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import matplotlib

from .rows import ROOT, with_section

matplotlib.use("svg")
import matplotlib.pyplot as plt

DOCS = ROOT / "docs"
IMAGES = DOCS / "images"
OURS, OTHERS = "#0b6e4f", "#9aa5b1"
TITLES = {
    "native": "Ids to text in Python",
    "formats": "Formats of chat models in Python",
    "browser": "Ids to text in a page",
    "package": "The library's start in a page",
    "new_pages": "The first stream of a page",
    "opening": "Opening recorded streams",
    "bridge": "The bridge",
    "watcher": "The regression kit",
    "encode": "Text to ids",
}
SAYS = {
    "native": "CPU time a token, each system with a stream made anew, by turns in one process; natural text in ten languages.",
    "formats": "CPU time a token, by turns in one process: 20,000 characters, half of them in the arguments of two calls. detok reads ids; vLLM's parser is given the text of each id as well, and openai-harmony knows its own vocabulary.",
    "browser": "Wall time a token in one page, by turns, the same 2,000 ids; detok-web has met each step once. A loop calls `push` or `decode`; a stream of the browser also passes each token on as a chunk.",
    "package": "The npm package as it is published, on a static server with brotli, in Chromium: a new profile (cold) and the same profile in a browser started again (second visit). The stream has a stop string, so it needs a runtime. No library can be quicker than a worker of one line.",
    "new_pages": "A page that has just been opened, with the vocabulary of Qwen 3 (151,669 tokens) and a stop string; a new profile (cold), and a second page of it (warm). Late tokens are the most of any page, other figures medians.",
    "opening": "Files as an OpenAI-compatible server streams natural text, 28,000 and 141,000 events, opened in the page; memory is the proportional set size of the page's process.",
    "bridge": "50 clients at 100 tokens a second each, beside a WebSocket server of uvicorn that sends one frame a token and has no credit, no resuming and no checks. A delay counts from the time at which the token was due, so a server that is late cannot hide it; of each delay, up to a millisecond is the timer of the event loop, which wakes both servers late. Clients and server share the machine, so its load adds to the delays.",
    "watcher": "What the watcher of the kit costs a page: time of the main thread for 20,000 appends.",
    "encode": "CPU time. Cold: a new tokenizer for each text, so that a word is merged when it comes first. Warm: the same words again, from the cache. English is this project's pages. The 36 languages have some 340 characters each: seven words in ten come for the first time, which is the worst case for a cache of words.",
}
# Scripts without plots: if only these were measured, only their sections are written anew.
ALONE = ("new_pages", "opening", "package", "bridge", "watcher")
Spread = tuple[float, float, float]


def spread(values: Iterable[float]) -> Spread:
    """Return the median, the least and the most."""
    found = sorted(values)
    return statistics.median(found), found[0], found[-1]


def number(value: float) -> str:
    """Return a number with three significant digits.

    >>> number(0.12345), number(1234.5), number(0)
    ('0.123', '1,234', '0')
    """
    if value == 0:
        return "0"
    if abs(value) >= 100:
        return f"{value:,.0f}"
    return f"{value:.3g}"


def told(figures: Spread) -> str:
    middle, least, most = figures
    return f"{number(middle)} ({number(least)}–{number(most)})"


def grouped(rows: list[dict[str, Any]]) -> dict[str, dict[str, dict[str, Any]]]:
    """Return bench → case → system → (figures, unit), over all rounds."""
    seen: dict[tuple[str, str, str, str], list[float]] = {}
    for row in rows:
        if "x" in row:
            continue
        key = (row["bench"], row["case"])
        if "system" in row:
            seen.setdefault((*key, row["system"], row["unit"]), []).append(row["value"])
            continue
        seen.setdefault((*key, "detok", row["unit"]), []).append(row["ours"])
        if row.get("peer") is not None and row["peer_name"] not in ("bar", "budget"):
            seen.setdefault((*key, row["peer_name"], row["unit"]), []).append(row["peer"])
    out: dict[str, dict[str, dict[str, Any]]] = {}
    for (bench, case, system, unit), values in seen.items():
        out.setdefault(bench, {}).setdefault(case, {})[system] = (spread(values), unit)
    return out


def decades(least: float, most: float) -> tuple[float, float]:
    """Return the powers of ten around two figures.

    >>> decades(0.3, 20)
    (0.1, 100.0)
    """
    return 10.0 ** math.floor(math.log10(least)), 10.0 ** math.ceil(math.log10(most) + 1e-9)


def ours(system: str) -> bool:
    return system.startswith("detok")


def bars(case: str, systems: dict[str, Any], path: Path) -> None:
    """Draw the systems of a case: medians, with lines from the least to the most."""
    names = list(systems)[::-1]
    figures = [systems[name][0] for name in names]
    unit = systems[names[0]][1]
    figure, axes = plt.subplots(figsize=(8, 0.6 + 0.42 * len(names)))
    middles = [max(each[0], 1e-3) for each in figures]
    errors = [
        [m - max(each[1], 1e-3) for m, each in zip(middles, figures, strict=True)],
        [each[2] - m for m, each in zip(middles, figures, strict=True)],
    ]
    errors = [[max(value, 0) for value in side] for side in errors]
    colours = [OURS if ours(name) else OTHERS for name in names]
    axes.barh(names, middles, xerr=errors, color=colours, height=0.62, ecolor="#444")
    axes.set_xscale("log")
    axes.set_xlim(decades(min(middles), 1)[0] / 2, max(each[2] for each in figures) * 4)
    axes.minorticks_off()
    for at, each in enumerate(figures):
        axes.annotate(
            number(each[0]),
            (max(each[2], 1e-3), at),
            xytext=(6, 0),
            textcoords="offset points",
            va="center",
            fontsize=9,
        )
    axes.set_xlabel(f"{unit}, logarithmic", fontsize=9)
    axes.set_title(case, fontsize=10, loc="left")
    axes.spines[["top", "right"]].set_visible(False)
    axes.tick_params(labelsize=9)
    save(figure, path)


def lines(rows: list[dict[str, Any]], path: Path) -> dict[str, list[tuple[int, Spread, str]]]:
    """Draw cost against work; return case → (x, figures, unit)."""
    seen: dict[tuple[str, int, str], list[float]] = {}
    x_names = {}
    for row in rows:
        if "x" in row:
            seen.setdefault((row["case"], row["x"], row["unit"]), []).append(row["ours"])
            x_names[row["case"]] = row["x_name"]
    points: dict[str, list[tuple[int, Spread, str]]] = {}
    for (case, x, unit), values in seen.items():
        points.setdefault(case, []).append((x, spread(values), unit))
    if not points:
        return {}
    whats = list(dict.fromkeys(case.partition(":")[0] for case in points))
    figure, table = plt.subplots(2, len(whats), figsize=(3.2 * len(whats), 5.4), squeeze=False)
    for column, what in enumerate(whats):
        for row_at, kind in enumerate(("time", "memory")):
            axes, found = table[row_at][column], points[f"{what}: {kind}"]
            x = [each[0] for each in found]
            middles = [each[1][0] for each in found]
            low = [max(each[1][1], 1e-4) for each in found]
            high = [max(each[1][2], 1e-4) for each in found]
            axes.fill_between(x, low, high, color=OURS, alpha=0.2)
            axes.plot(x, middles, "o-", color=OURS, markersize=4)
            # A line that grows as the work does, through the last point.
            axes.plot(x, [middles[-1] * each / x[-1] for each in x], ":", color="#888", linewidth=1)
            axes.set_xscale("log")
            axes.set_yscale("log")
            axes.set_ylim(*decades(min(low), max(high)))
            axes.minorticks_off()
            axes.set_ylabel("CPU seconds" if kind == "time" else "megabytes", fontsize=8)
            if row_at:
                axes.set_xlabel(x_names[f"{what}: {kind}"], fontsize=8)
            else:
                axes.set_title(what, fontsize=9, loc="left")
            axes.spines[["top", "right"]].set_visible(False)
            axes.tick_params(labelsize=7)
    figure.tight_layout()
    save(figure, path)
    return points


def save(figure: Any, path: Path) -> None:
    with matplotlib.rc_context({"svg.hashsalt": "detok", "svg.fonttype": "none"}):
        figure.savefig(path, bbox_inches="tight", metadata={"Date": None, "Creator": None})
    plt.close(figure)
    # Text stays text, so the reader's fonts are used; lines end without spaces.
    text = path.read_text("utf-8")
    path.write_text("\n".join(line.rstrip() for line in text.splitlines()) + "\n", "utf-8")


def slug(text: str) -> str:
    return "-".join("".join(c if c.isalnum() else " " for c in text.lower()).split())


def table_of(cases: dict[str, dict[str, Any]]) -> str:
    """Return one table: a row a case and system."""
    text = "| | | median (least–most) | |\n|---|---|--:|---|\n"
    for case, systems in cases.items():
        for at, (system, (figures, unit)) in enumerate(systems.items()):
            name = f"**{system}**" if ours(system) else system
            text += f"| {'' if at else case} | {name} | {told(figures)} | {unit} |\n"
    return text


def updated(text: str, document: dict[str, Any]) -> str:
    """Return a page in which the sections that were measured anew are replaced."""
    machine = document["machine"]
    load = machine["Load at the start (1, 5 and 15 minutes)"]
    count = max(row["round"] for row in document["rows"])
    rounds = f"{count} round{'s' if count > 1 else ''}"
    when = f"Measured by itself on {machine['Date']}, {rounds}; load at the start {load}."
    for bench, cases in grouped(document["rows"]).items():
        section = f"{SAYS[bench]} {when}\n\n{table_of(cases)}"
        text = with_section(text, TITLES[bench], section)
    return text


def page(document: dict[str, Any]) -> str:
    rows = document["rows"]
    counts = {row["script"]: row["round"] for row in rows}
    rounds = "–".join(str(count) for count in sorted({min(counts.values()), max(counts.values())}))
    text = "# Benchmarks\n\nWritten by `make bench`, which runs everything below again and draws the plots; no figure is typed by hand.\n"
    text += f"{rounds} rounds, in which all scripts run by turns; figures are medians, with the least and the most.\n"
    text += "The systems do different things: see also [which cases each gets right](conformance.md).\n\n"
    text += "| | |\n|---|---|\n"
    text += "".join(f"| {name} | {value} |\n" for name, value in document["machine"].items())
    found = grouped(rows)
    for bench, title in TITLES.items():
        if bench not in found:
            continue
        text += f"\n## {title}\n\n{SAYS[bench]}\n\n"
        if bench in ("native", "browser"):
            for case, systems in found[bench].items():
                # The file's name has no version, so it stays the same.
                name = f"bench-{bench}-{slug(case.split(',')[1].split('(')[0].rstrip('0123456789. '))}.svg"
                bars(case, systems, IMAGES / name)
                told_ = ", ".join(f"{s} {number(v[0][0])}" for s, v in systems.items())
                text += f"![{case}, {next(iter(systems.values()))[1]}: {told_}](images/{name})\n\n"
        text += table_of(found[bench])
    points = lines(rows, IMAGES / "bench-growth.svg")
    if points:
        text += "\n## Cost against work\n\nOn the dotted line, cost is proportional to the work. Where the line of points is flatter, cost grows more slowly; where it is steeper, faster. Each point is a process of its own; its first megabytes and milliseconds are the tables that every stream shares. Thousands of streams in one process cost somewhat more each: Python's garbage collector visits all of them, and they no longer fit the processor's caches. A long stop list has a cost when it is made; a token then costs the same, which a test checks.\n\n"
        text += "![Time and memory against tokens, streams, vocabulary size and the length of a stop list](images/bench-growth.svg)\n\n"
        text += "| | | median (least–most) | | a unit of work |\n|---|--:|--:|---|--:|\n"
        for case, found_points in points.items():
            for at, (x, figures, unit) in enumerate(found_points):
                each = f"{number(figures[0] / x * 1e6)} {'µs' if unit == 's' else 'B'}"
                text += f"| {'' if at else case} | {x:,} | {told(figures)} | {unit} | {each} |\n"
    return text


def main() -> int:
    document = json.loads(Path(sys.argv[1]).read_text("utf-8"))
    if {row["bench"] for row in document["rows"]} <= set(ALONE):
        file = DOCS / "benchmarks.md"
        file.write_text(updated(file.read_text("utf-8"), document), "utf-8")
        return 0
    IMAGES.mkdir(exist_ok=True)
    for old in IMAGES.glob("bench-*.svg"):
        old.unlink()
    (DOCS / "benchmarks.md").write_text(page(document), "utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
