"""How long a visitor waits, in Chromium, with many runs in the store.

    python benchmarks/dashboard.py [--runs N] [--events N] [--rounds N]
        [--database FILE] [--peers PYTHON] [--json FILE]

1,000 runs of 10,000 events each make 10 million. `--database` keeps the store between
calls. `--peers` is a Python that has tensorboard or mlflow; they then show as many runs
in the same browser, measured in the same way: from navigation to the tenth run that can
be read. `cold` is the first visit of a server that has just answered its health check,
`warm` the median of later visits in the same browser. Memory is the resident size of all
processes of a server after the visits. Visits take turns, so that all meet the same
machine; on a busy one only the ratios say something.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import re
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

import msgspec

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from dashboard import comparing, configurations
from dashboard.charts.buckets import (
    HISTORY_KINDS,
    bucket_history,
    buckets_frame,
    padding_frame,
)
from dashboard.charts.memory import capture_points
from dashboard.charts.runs import runs_frame, runs_table
from dashboard.charts.time import costly_steps
from tests.dashboard.browser import (
    ARGUMENTS,
    CHROMIUM,
    ROOT,
    free_port,
    serving,
    wait_until_healthy,
)
from tests.dashboard.builders import START, recorded_events
from warmup_insights.analysis.compare import compare
from warmup_insights.analysis.pareto import configuration_rows
from warmup_insights.analysis.summary import Folded, RunFold, summarize
from warmup_insights.model.events import (
    BucketsGenerated,
    BucketUsed,
    Event,
    GraphCaptured,
    WarmupStep,
)
from warmup_insights.model.run import RunRecord
from warmup_insights.storage import EventStore

OUR_ROWS = '[data-testid="stDataFrame"] table tbody tr:nth-of-type(10)'
"""The grid paints on a canvas and keeps the visible rows as a table for readers."""
NAMED = """() => {
  const named = [...document.querySelectorAll('*')].filter(
    e => e.children.length === 0 && /^run_[0-9]{4}$/.test(e.textContent.trim())
         && e.getBoundingClientRect().height > 0);
  return named.length >= 10;
}"""
PEERS = "WARMUP_INSIGHTS_PEERS"
"""The variable that stands for `--peers`."""
TENSORBOARD_WARM_S = 0.9
"""TensorBoard's list of 1,000 runs on the machine on which the targets were set."""
TARGETS = {
    "runs page warm": "no later than TensorBoard",
    "runs page cold": "before MLflow",
    "memory": "under 600 MiB",
    "run page warm": "first chart within 1.5 s, 1.67 times TensorBoard there",
    "compare warm": "table of five runs within 1 s, 1.11 times TensorBoard there; "
    "above the fold",
    "queries": "each under 50 ms",
}


def start_up(number: int, count: int) -> list[Event]:
    """A start-up with 288 more buckets, then serving steps up to `count` events."""
    base = list(recorded_events(captured=2 + number % 3, scale=1 + number % 5 / 5))
    first = next(n for n, event in enumerate(base) if isinstance(event, WarmupStep))
    buckets = [(b, q, 0) for b in (1, 2, 4, 8, 16, 32) for q in range(128, 6272, 128)]
    events: list[Event] = base[:first]
    events.append(BucketsGenerated(phase="prompt", count=288, buckets=buckets))
    began = clock = base[first].time or START
    pace = 0.1 + number % 7 / 10
    for index, bucket in enumerate(buckets, 1):
        events.append(
            WarmupStep(phase="prompt", mode="eager", bucket=bucket, index=index, total=288,
                       duration_s=pace, time=clock)
        )  # fmt: skip
        clock += pace
    for index, bucket in enumerate(buckets, 1):
        events.append(
            GraphCaptured(phase="prompt", bucket=bucket, index=index, total=288,
                          duration_s=0.2, memory_bytes=1 << 20, time=clock)
        )  # fmt: skip
        clock += 0.2
    for event in base[first:]:
        moved = None if event.time is None else event.time + clock - began
        events.append(msgspec.structs.replace(event, time=moved))
    while len(events) < count:
        bucket = buckets[len(events) % len(buckets)]
        events.append(
            BucketUsed(phase="prompt", shape=(bucket[0], bucket[1] - 5, 0), bucket=bucket,
                       duration_s=0.01, time=clock + 60)
        )  # fmt: skip
        clock += 0.1
    return events[:count]


def fill(database: Path, runs: int, events: int) -> None:
    """A store of so many runs, if it is not there yet."""
    with EventStore(database) as store:
        for number in range(store.count_runs(), runs):
            run = RunRecord(
                run_id=f"{number:012x}", label=f"run_{number:04d}",
                started_at=START + number * 3600, source_name="benchmark",
            )  # fmt: skip
            happened = start_up(number, events)
            result = summarize(run, happened)
            with store.begin() as transaction:
                transaction.ensure_run(run)
                transaction.append(run.run_id, happened)
                transaction.put_summary(result.summary, result.rows)
                transaction.update_run(run.run_id, started_at=run.started_at)


def seconds_to(page: Any, address: str, ready: Callable[[Any], None]) -> float:
    """Seconds from navigation until something can be seen."""
    began = time.perf_counter()
    page.goto(address, wait_until="commit")
    ready(page)
    return time.perf_counter() - began


class Place:
    """A page that is visited again and again in one browser context."""

    def __init__(
        self, browser: Any, name: str, address: str, ready: Callable[[Any], None]
    ) -> None:
        self.name = name
        self._address = address
        self._ready = ready
        self._context = browser.new_context(viewport={"width": 1280, "height": 900})
        self.times: list[float] = []

    def visit(self) -> None:
        """One visit, in a new tab."""
        page = self._context.new_page()
        self.times.append(seconds_to(page, self._address, self._ready))
        page.wait_for_timeout(700)
        page.close()

    def result(self) -> dict[str, float]:
        """The first visit, and the median and the best of the later ones."""
        later = self.times[1:]
        return {
            "cold_s": round(self.times[0], 2),
            "warm_s": round(statistics.median(later), 2),
            "warm_best_s": round(min(later), 2),
        }


def ten_rows(page: Any) -> None:
    page.locator(OUR_ROWS).first.wait_for(state="attached", timeout=120_000)


def ten_names(page: Any) -> None:
    page.wait_for_function(NAMED, timeout=120_000, polling=20)


def first_chart(page: Any) -> None:
    page.locator(".js-plotly-plot .main-svg").first.wait_for(timeout=60_000)


def figures(page: Any) -> None:
    table = page.locator('[data-testid="stTable"] tbody tr').nth(3)
    table.wait_for(state="attached", timeout=60_000)
    box = page.get_by_test_id("stTable").first.bounding_box()
    assert box["y"] + 37 + 4 * 35 < 900, f"the table is below the fold: {box}"


def resident_mib(pid: int) -> float:
    """Resident memory of a process and all below it."""
    parents: dict[int, list[int]] = {}
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            try:
                stat = (entry / "stat").read_text().rsplit(")", 1)[1].split()
            except OSError:
                continue
            parents.setdefault(int(stat[1]), []).append(int(entry.name))
    wanted, found = [pid], 0.0
    while wanted:
        current = wanted.pop()
        wanted += parents.get(current, [])
        try:
            status = Path(f"/proc/{current}/status").read_text()
        except OSError:
            continue
        size = re.search(r"VmRSS:\s+(\d+) kB", status)
        found += int(size[1]) / 1024 if size else 0.0
    return found


@contextmanager
def peer(command: list[str], health: str) -> Iterator[int]:
    process = subprocess.Popen(
        command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
        start_new_session=True,
    )  # fmt: skip
    try:
        wait_until_healthy(health, process, 120.0)
        yield process.pid
    finally:
        os.killpg(process.pid, 15)
        process.wait(timeout=30)


def serve_peer(
    stack: ExitStack, name: str, python: str, folder: Path, runs: int
) -> tuple[str, int]:
    """The address of a peer's list of runs, and its process."""
    maker = str(ROOT / "benchmarks" / "dashboard_peers.py")
    folder.mkdir()
    made = subprocess.run(
        [python, maker, name, str(folder), str(runs)],
        check=True, capture_output=True, text=True,
    )  # fmt: skip
    binary = str(Path(python).parent / name)
    address = f"http://127.0.0.1:{(port := free_port())}"
    if name == "tensorboard":
        command = [binary, "--logdir", str(folder), "--port", str(port)]
        return f"{address}/#timeseries", stack.enter_context(peer(command, address))
    store = f"sqlite:///{folder / 'mlflow.db'}"
    command = [binary, "server", "--port", str(port), "--backend-store-uri", store]
    page = f"{address}/#/experiments/{made.stdout.split()[-1]}/runs"
    return page, stack.enter_context(peer(command, f"{address}/health"))


def peers_of(python: str | None) -> list[str]:
    """The peers that a Python has."""
    names = ("tensorboard", "mlflow") if python else ()
    return [name for name in names if (Path(str(python)).parent / name).is_file()]


def waits(browser: Any, options: argparse.Namespace, database: Path) -> dict[str, Any]:
    """All pages, visited in turns: everybody meets the same machine."""
    runs = options.runs
    last = f"{runs - 1:012x}"
    five = "&".join(f"run={n:012x}" for n in range(runs - 5, runs))
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory()))
        address, pid = stack.enter_context(serving(database))
        pids = {"warmup-insights": pid}
        places = [Place(browser, "runs page", address + "/", ten_rows)]
        for name in peers_of(options.peers):
            page, pids[name] = serve_peer(
                stack, name, options.peers, folder / name, runs
            )
            places.append(Place(browser, name, page, ten_names))
        places += [
            Place(browser, "run page", f"{address}/run?run={last}", first_chart),
            Place(browser, "compare five", f"{address}/compare?{five}", figures),
        ]
        for _ in range(options.rounds + 1):
            for place in places:
                place.visit()
        memory = {name: round(resident_mib(pid)) for name, pid in pids.items()}
        found = {place.name: place.result() for place in places}
        return {
            "waits": found,
            **(
                {"times_tensorboard_warm": times_tensorboard(found)}
                if "tensorboard" in found
                else {}
            ),
            "memory_mib": memory,
            "load": os.getloadavg()[0],
        }


def times_tensorboard(found: dict[str, dict[str, float]]) -> dict[str, float]:
    """Every later visit as a multiple of TensorBoard's, and how slow the machine is."""
    reference = found["tensorboard"]["warm_s"]
    ratios = {
        name: round(times["warm_s"] / reference, 2) for name, times in found.items()
    }
    return {**ratios, "this machine": round(reference / TENSORBOARD_WARM_S, 2)}


def queries(database: Path, runs: int, rounds: int) -> dict[str, float]:
    """Milliseconds of the data of every chart and table, without any cache."""
    with EventStore(database) as store:
        run = store.run(f"{runs - 1:012x}")
        summary = store.summary(run.run_id)
        assert summary is not None
        rows = store.bucket_summaries(run.run_id)
        fold = RunFold()
        fold.add_all(store.events(run.run_id))
        ids = [f"{n:012x}" for n in range(runs - 5, runs)]

        def bucket_frame() -> Any:
            return buckets_frame(store.bucket_summaries(run.run_id))

        def compared() -> Any:
            found = list(store.summaries(ids).values())
            result = compare(found, [store.bucket_summaries(i) for i in ids])
            return comparing.figures_table(result, found, full=True)

        asked: dict[str, Callable[[], object]] = {
            "runs: table": lambda: runs_table(
                runs_frame(store.run_table(limit=1000)),
                store.summaries(with_lists=False),
            ),
            "runs: newest change": store.newest_change,
            "run: summary": lambda: store.summary(run.run_id),
            "run: buckets": bucket_frame,
            "run: costliest steps": lambda: costly_steps(Folded(summary, rows)),
            "run: capture curve": lambda: capture_points(rows),
            "run: history of a bucket": lambda: bucket_history(
                _table(
                    store,
                    run.run_id,
                    HISTORY_KINDS,
                    phase="prompt",
                    batch_size=1,
                    query_len=128,
                    num_blocks=0,
                ),
            ),
            "run: padding": lambda: padding_frame(
                summary.serving.uses if summary.serving is not None else []
            ),
            "live: a step more": lambda: _one_more(fold, run, store),
            "compare: five runs": compared,
            "memory: 200 runs": lambda: configurations.points_frame(
                configuration_rows(
                    list(
                        store.summaries(
                            [f"{n:012x}" for n in range(max(0, runs - 200), runs)],
                            with_lists=False,
                        ).values()
                    )
                ),
                {},
            ),
        }
        return {name: _median_ms(ask, rounds) for name, ask in asked.items()}


def _one_more(fold: RunFold, run: RunRecord, store: EventStore) -> object:
    """What the live page does when one event came: read it, and the fold so far."""
    fold.add_all(store.events(run.run_id, after_seq=run.num_events - 2))
    return fold.result(run)


def _table(store: EventStore, run_id: str, kinds: Any, **equal: Any) -> Any:
    import pandas as pd

    return pd.DataFrame(store.event_table(run_id, kinds, **equal))


def _median_ms(ask: Callable[[], object], rounds: int) -> float:
    times = []
    for _ in range(rounds + 1):
        began = time.perf_counter()
        ask()
        times.append(1000 * (time.perf_counter() - began))
    return statistics.median(times[1:])


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--runs", type=int, default=1000)
    parser.add_argument("--events", type=int, default=10_000)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--database", type=Path)
    parser.add_argument(
        "--peers", default=os.environ.get(PEERS),
        help="a Python that has tensorboard, mlflow or both",
    )  # fmt: skip
    parser.add_argument("--json", type=Path)
    options = parser.parse_args()
    from playwright.sync_api import sync_playwright

    with tempfile.TemporaryDirectory() as folder, sync_playwright() as playwright:
        database = options.database or Path(folder) / "runs.db"
        began = time.perf_counter()
        fill(database, options.runs, options.events)
        print(f"filled in {time.perf_counter() - began:.0f} s", flush=True)
        browser = playwright.chromium.launch(executable_path=CHROMIUM, args=ARGUMENTS)
        result = {
            "machine": f"{platform.machine()}, {os.cpu_count()} cores, Python "
            f"{platform.python_version()}",
            **waits(browser, options, database),
            "queries_ms": queries(database, options.runs, options.rounds),
        }
        browser.close()
    print(json.dumps(result, indent=2))
    for name, target in TARGETS.items():
        print(f"target: {name}: {target}")
    if options.json:
        options.json.write_text(json.dumps(result, indent=2) + "\n")


if __name__ == "__main__":
    main()
