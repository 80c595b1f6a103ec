"""Writes docs/performance.md from the results of the benchmarks in docs/performance.json.

`python docs/make_performance.py` writes the page again; `--check` exits 1 when it does
not agree with the results. `--run` measures first, everything or what is named after it;
`--quick` takes small sizes, for a look at whether it all works.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import sqlite3
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

DOCS = Path(__file__).parent
ROOT = DOCS.parent
PAGE = DOCS / "performance.md"
RESULTS = DOCS / "performance.json"
HEAD = """\
# Performance

What speed this project promises, and what was measured. The table is made by `python
docs/make_performance.py --run`, which runs the scripts in `benchmarks/`; a test compares
it with the results in `performance.json`. All logs, requests and databases are made up by
the scripts; none of the figures comes from an accelerator.

Machines differ and are seldom idle. A figure therefore stands beside a ratio to a
reference that was measured in turns with it in the same run: where both are slow, the
machine was. Seconds are processor time unless a line says otherwise.
"""
QUICK = """
**Some of these figures come from a quick run with small sizes (marked *quick*): they show
that the benchmarks work, not what the targets ask.**
"""
TAIL = """
## How to read the references

- **ripgrep**: `rg -F -f` with the same literals, printing the matching lines of the same
  file. Selecting lines is all that happens to most of a serving log. The fast selector is
  Hyperscan (the extra `fast`); without it the standard library's `re` does the same.
- **raw sqlite3**: `executemany` of the very same rows into a table, in one transaction,
  nothing read, converted, summarised or indexed beside it.
- **one process**: the same folder with `--jobs 1`.
- **bare queue**: the same event put into a `SimpleQueue` that a thread empties into
  SQLite, the least that recording can be.
- **scan**: the engine's own way of finding a bucket, from the bisected place in the sorted
  list on.
- **counting**: `collections.Counter` over the same lengths.
- **the list of all runs**: `run_table` of the same 2,000 runs, with which the page *Runs* begins.
- **click**: a Python that imports click and ends.
- **its libraries**: a Python that imports jinja2, NumPy, pandas, plotly and SQLAlchemy and ends.
- **plotly's own page**: a page with one small chart, as `write_html` of plotly writes it.
- **TensorBoard**: its page of time series with 1,000 runs, until ten of them can be read, in the
  same Chromium, visits in turns; the median of the later ones. The variable
  `WARMUP_INSIGHTS_PEERS` names a Python that has it.
"""
COLUMNS = ("measure", "target", "figure", "ratio", "reference", "met", "machine")


@dataclass(frozen=True)
class Benchmark:
    """A script, how it is run, and how it gives its results."""

    arguments: tuple[str, ...]
    quick: tuple[str, ...]
    has_json: bool = True
    """Takes `--json FILE`; else it prints JSON."""


BENCHMARKS = {
    "ingest": Benchmark(
        ("--size-mib", "1024", "--events-mib", "200", "--runs", "3"),
        ("--size-mib", "16", "--events-mib", "8", "--runs", "1"),
        has_json=False,
    ),
    "folder": Benchmark(
        ("--files", "2000", "--runs", "1"),
        ("--files", "40", "--runs", "1"),
        has_json=False,
    ),
    "store": Benchmark(
        ("--runs", "2000", "--events", "5000"), ("--runs", "20", "--events", "500")
    ),
    "startup": Benchmark(("--runs", "20"), ("--runs", "3")),
    "recorder": Benchmark(("--rounds", "10", "--pairs", "20"), ("--rounds", "1")),
    "bucketing": Benchmark((), ("--lookups", "5000"), has_json=False),
    "traffic": Benchmark((), ("--requests", "20000")),
    "report": Benchmark(("--rounds", "10"), ("--rounds", "2")),
    "dashboard": Benchmark(
        ("--runs", "1000", "--events", "1500", "--rounds", "8"),
        ("--runs", "20", "--events", "500", "--rounds", "1"),
    ),
}


@dataclass(frozen=True)
class Row:
    """One line of the table; None where there is no figure."""

    measure: str
    figure: str
    target: str | None = None
    ratio: float | None = None
    reference: str | None = None
    is_met: bool | None = None

    def cells(self, machine: str, *, is_quick: bool) -> list[str]:
        """As text, in the order of `COLUMNS`; small sizes meet and miss nothing."""
        ratio = "" if self.ratio is None else f"{self.ratio:.2f}"
        is_met = None if is_quick else self.is_met
        met = {None: "", True: "yes", False: "**no**"}[is_met]
        return [self.measure, self.target or "", self.figure, ratio,
                self.reference or "", met, machine]  # fmt: skip


def ingest_rows(found: list[dict[str, Any]]) -> Iterator[Row]:
    """Selecting lines of serving logs, and the whole way of relevant lines."""
    for row in found:
        if "mix" in row:
            ratio, is_fast = (
                row["time_to_ripgrep"],
                row["selector"] != "standard library",
            )
            speed = row["ripgrep_mb_s"] / ratio
            yield Row(
                f"selecting lines, noise: {row['mix']}"
                + ("" if is_fast else "; without the extra `fast`"),
                f"{speed:,.0f} MB/s", "half of ripgrep's time" if is_fast else None, ratio,
                "time of ripgrep", ratio <= 0.5 if is_fast else None,
            )  # fmt: skip
            continue
        if "ingest" in row:
            yield Row(
                f"hashing, selecting, parsing and storing, noise: {row['ingest']}",
                f"{row['events']:,} events of {row['mib']:,} MiB", None,
                row["time_to_ripgrep"], "time of ripgrep to select",
            )  # fmt: skip
            continue
        speed, peak = row["events_per_cpu_s"], row["peak_mib"]
        yield Row(
            f"ingest of a log of relevant lines into SQLite, {row['messages']} messages",
            f"{speed:,} events/s", "150,000 events/s on one core", None, None,
            speed >= 150_000,
        )  # fmt: skip
        yield Row(
            "the same with two processes",
            f"{row['events_per_s_of_two_processes']:,} events/s of wall time",
            "100,000 events/s", None, None,
            row["events_per_s_of_two_processes"] >= 100_000,
        )  # fmt: skip
        yield Row(
            "the same, against raw sqlite3", f"{row['raw_sqlite_rows_per_cpu_s']:,} rows/s raw",
            "at most 2.5 times its time", row["times_raw_sqlite"], "time of raw sqlite3",
            row["times_raw_sqlite"] <= 2.5,
        )  # fmt: skip
        yield Row(
            f"memory of that ingest, {row['log_mib']} MiB of log", f"{peak} MiB",
            "under 150 MiB", is_met=peak < 150,
        )  # fmt: skip


def folder_rows(found: list[dict[str, Any]]) -> Iterator[Row]:
    """A folder of small logs with one process and with all cores."""
    words = {"store": "reading", "skip": "skipping, all stored already,"}
    for row in found:
        (ratio,) = (v for k, v in row.items() if k.startswith("times_as_fast"))
        yield Row(
            f"{words[row['work']]} {row['files']:,} small logs, {row['jobs']} {_process(row['jobs'])}",
            f"{row['seconds']} s of wall time",
            "all cores at work" if row["jobs"] > 1 and row["work"] == "store" else None,
            ratio, "speed of one process",
        )  # fmt: skip


def _process(count: int) -> str:
    return "process" if count == 1 else "processes"


def store_rows(found: dict[str, dict[str, float]]) -> Iterator[Row]:
    """Questions to a large store, and changes of it."""
    raw = found["writes"]["raw_is_faster_by"]
    yield Row(
        "appending events to the store", f"{found['writes']['ours_per_s']:,.0f} events/s",
        "at most 2.5 times the time", raw, "time of raw sqlite3", raw <= 2.5,
    )  # fmt: skip
    for name, value in found["answers"].items():
        yield Row(f"store: {name}", f"{value:.1f} ms", "under 50 ms", is_met=value < 50)
    fleet = dict(found.get("fleet", {}))
    reference = fleet.pop("list of all runs, the reference", None)
    for name, value in fleet.items():
        yield Row(
            f"fleet: {name}", f"{value:.0f} ms", "under 1,000 ms",
            value / reference if reference else None, "time of the list of all runs",
            value < 1000,
        )  # fmt: skip
    for name, value in found["changes"].items():
        limit = {"add a run without events": 100}.get(name)
        limit = 1000 if name.startswith("remove") else limit
        yield Row(
            f"store: {name}", f"{value:.1f} ms",
            None if limit is None else f"under {limit:,} ms",
            is_met=None if limit is None else value < limit,
        )  # fmt: skip


def startup_rows(found: dict[str, dict[str, float]]) -> Iterator[Row]:
    """Starting the command line."""
    for name, figures in found.items():
        ratio = figures["times_reference"]
        is_ours = name == "warmup-insights --help"
        yield Row(
            f"`{name}`", f"{figures['ms']:.0f} ms", "at most twice" if is_ours else None,
            ratio, "time of click", ratio <= 2 if is_ours else None,
        )  # fmt: skip


def recorder_rows(found: dict[str, Any]) -> Iterator[Row]:
    """What recording costs on the caller's thread."""
    events = found["events"]
    ours, queue = events["recorder"]["burst"], events["bare queue"]["burst"]
    for key, limit in (("mean", 0.5), ("p99", 2.0)):
        yield Row(
            f"recording an event, {key}, on the caller's thread", f"{ours[key]:.2f} µs",
            f"under {limit} µs", ours[key] / queue[key], "time of a bare queue",
            ours[key] < limit,
        )  # fmt: skip
    for name, ratio in found.get("run", {}).items():
        yield Row(
            f"a CPU warm-up with a recorder, {name}", f"{100 * (ratio - 1):+.1f} %",
            "at most 1 % more", ratio, "the same without", ratio <= 1.01,
        )  # fmt: skip


def bucketing_rows(found: list[dict[str, Any]]) -> Iterator[Row]:
    """Looking up and making buckets."""
    for row in found:
        yield Row(
            f"looking up a shape in {row['buckets']:,} buckets",
            f"{row['index_lookups_per_s']:,} lookups/s", None,
            row["index_to_scan_ratio"], "speed of a scan",
        )  # fmt: skip
        yield Row(
            f"making {row['generated_buckets']:,} buckets", f"{row['generate_s']} s of wall time"
        )  # fmt: skip


def traffic_rows(found: dict[str, Any]) -> Iterator[Row]:
    """Fitting buckets to traffic."""
    yield Row(
        f"fitting {found['buckets']} buckets to {found['requests']:,} requests",
        f"{found['total_s']} s", None, found["times_counting"], "time of counting",
    )  # fmt: skip


def report_rows(found: dict[str, Any]) -> Iterator[Row]:
    """Making a report, and opening it."""
    seconds, peak, size = found["make_s"], found["peak_mib"], found["size_mib"]
    log, ratio = found["log"], found["library_chart_times_plotly"]
    yield Row(
        f"making the report of `{log}`", f"{seconds} s", "under 3 s",
        found["make_times_imports"], "time of importing its libraries", seconds < 3,
    )  # fmt: skip
    yield Row("memory of that", f"{peak} MiB", "under 300 MiB", is_met=peak < 300)
    yield Row("size of that report", f"{size} MiB", "under 6 MB", is_met=size < 5.7)
    yield Row(
        "opening it in Chromium, until the first chart",
        f"{found['first_chart_ms']} ms of wall time", "under 1 s",
        is_met=found["first_chart_ms"] < 1000,
    )  # fmt: skip
    yield Row(
        "until plotly.js has drawn it anew", f"{found['library_chart_ms']} ms of wall time",
        None, ratio, "time of plotly's own page",
    )  # fmt: skip


def dashboard_rows(found: dict[str, Any]) -> Iterator[Row]:
    """What a visitor waits for, beside another tool in the same browser."""
    ratios = found.get("times_tensorboard_warm", {})
    for name, words in (
        ("run page", "run page of the dashboard, first figure"),
        ("runs page", "list of 1,000 runs in the dashboard, ten rows"),
    ):
        ratio = ratios.get(name)
        yield Row(
            words, f"{found['waits'][name]['warm_s']} s of wall time",
            "no later than TensorBoard", ratio, "time of TensorBoard",
            None if ratio is None else ratio <= 1.0,
        )  # fmt: skip


ROWS: dict[str, Callable[[Any], Iterator[Row]]] = {
    "ingest": ingest_rows, "folder": folder_rows, "store": store_rows,
    "startup": startup_rows, "recorder": recorder_rows, "bucketing": bucketing_rows,
    "traffic": traffic_rows, "report": report_rows, "dashboard": dashboard_rows,
}  # fmt: skip


def page(results: dict[str, Any]) -> str:
    """The text of the page."""
    lines = [f"| {' | '.join(COLUMNS)} |", "|" + "---|" * len(COLUMNS)]
    for name, rows in ROWS.items():
        measured = results.get(name)
        if measured is None:
            continue
        is_quick = measured["is_quick"]
        machine = measured["machine"] + (", *quick*" if is_quick else "")
        found = rows(measured["results"])
        cells = (row.cells(machine, is_quick=is_quick) for row in found)
        lines.extend(f"| {' | '.join(row)} |" for row in cells)
    note = QUICK if any(r["is_quick"] for r in results.values()) else ""
    commands = "\n".join(
        f"- `python benchmarks/{name}.py {' '.join(measured['arguments'])}`".rstrip(
            " `"
        )
        + "`"
        for name, measured in sorted(results.items())
    )
    table = "\n".join(lines)
    return f"{HEAD}{note}\n{table}\n\nMeasured by\n\n{commands}\n{TAIL}"


def machine() -> str:
    """This machine in words, without its name."""
    python, memory = platform.python_version(), os.sysconf("SC_PHYS_PAGES")
    size = memory * os.sysconf("SC_PAGE_SIZE") / 2**30
    return (
        f"{os.cpu_count()} CPUs ({platform.machine()}), {size:.0f} GiB, "
        f"Python {python}, SQLite {sqlite3.sqlite_version}"
    )


def measure(name: str, *, is_quick: bool) -> dict[str, Any]:
    """Run one benchmark. Raises CalledProcessError when it fails."""
    benchmark = BENCHMARKS[name]
    arguments = benchmark.quick if is_quick else benchmark.arguments
    print(f"{name} {' '.join(arguments)}", file=sys.stderr, flush=True)
    with tempfile.TemporaryDirectory() as folder:
        answer = Path(folder, "answer.json")
        more = ("--json", str(answer)) if benchmark.has_json else ()
        done = subprocess.run(
            [sys.executable, str(ROOT / "benchmarks" / f"{name}.py"), *arguments, *more],
            cwd=ROOT, stdout=subprocess.PIPE, text=True, check=True,
            env={**os.environ, "PYTHONPATH": str(ROOT)},
        )  # fmt: skip
        text = answer.read_text("utf-8") if benchmark.has_json else done.stdout
    found = list(json_values(text))
    return {
        "arguments": list(arguments),
        "is_quick": is_quick,
        "machine": machine(),
        "results": found[0] if benchmark.has_json else found,
    }


def json_values(text: str) -> Iterator[Any]:
    """The JSON objects in a text that begin a line."""
    decoder = json.JSONDecoder()
    position = 0
    while (start := text.find("{", position)) >= 0:
        value, position = decoder.raw_decode(text, start)
        yield value


def write_page(
    results_file: Path,
    page_file: Path,
    page: Callable[[dict[str, Any]], str],
    names: Sequence[str],
    measure: Callable[[str, bool], dict[str, Any]],
) -> int:
    """The command of a page of results: write it, compare it, or measure first.

    `measure` takes a name and whether to be quick. Results of names are kept one by one.
    """
    parser = argparse.ArgumentParser(description="Write the page, or compare it.")
    parser.add_argument("--check", action="store_true")
    parser.add_argument("--run", nargs="*", choices=names, metavar="NAME")
    parser.add_argument("--quick", action="store_true")
    options = parser.parse_args()
    results = (
        json.loads(results_file.read_text("utf-8")) if results_file.exists() else {}
    )
    if options.check:
        written = page_file.read_text("utf-8") if page_file.exists() else None
        return int(written != page(results))
    if options.run is not None or options.quick:
        for name in options.run or names:
            results[name] = measure(name, options.quick)
            ordered = {key: results[key] for key in names if key in results}
            results_file.write_text(json.dumps(ordered, indent=1) + "\n", "utf-8")
    page_file.write_text(page(results), "utf-8")
    return 0


def main() -> int:
    """Write the page, or compare it."""
    return write_page(
        RESULTS, PAGE, page, list(BENCHMARKS),
        lambda name, is_quick: measure(name, is_quick=is_quick),
    )  # fmt: skip


if __name__ == "__main__":
    sys.exit(main())
