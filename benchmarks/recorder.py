"""What recording costs on the caller's thread.

    python benchmarks/recorder.py [--rounds N] [--pairs N] [--json FILE]

Every method times each of its events with `perf_counter_ns`, in short bursts and paced
like a warm-up, interleaved with the others in one run; the time of an empty call is
taken off. Compared with

* a bare queue: the same event into a `SimpleQueue` that a thread empties into SQLite
  with `executemany`, the least that recording can be;
* an OpenTelemetry SDK span with a batch processor and an exporter that does nothing,
  where `opentelemetry-sdk` is installed.

Then `--pairs` default CPU warm-ups run with and without a recorder, in turns.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import queue
import sqlite3
import statistics
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

from warmup_insights.drainer import recording
from warmup_insights.model.events import WarmupStep, encode
from warmup_insights.model.run import RunRecord, new_run_id
from warmup_insights.storage import EventStore

Method = Callable[[int], object]
BURST = 2_000
PACED = 200
PAUSE_S = 0.001


def make_event(number: int) -> WarmupStep:
    return WarmupStep(
        phase="prompt",
        mode="graph",
        bucket=(1, 128, number),
        index=number,
        total=BURST,
        duration_s=0.25,
    )


@contextmanager
def empty(folder: Path) -> Iterator[tuple[Method, Callable[[], object]]]:
    yield lambda number: None, lambda: None


@contextmanager
def bare_queue(folder: Path) -> Iterator[tuple[Method, Callable[[], object]]]:
    waiting: queue.SimpleQueue[WarmupStep | None] = queue.SimpleQueue()
    idle = threading.Event()

    def write() -> None:
        connection = sqlite3.connect(folder / "bare.db", isolation_level=None)
        connection.execute("PRAGMA journal_mode = WAL")
        connection.execute("PRAGMA synchronous = NORMAL")
        connection.execute("CREATE TABLE events (time REAL, payload TEXT)")
        while True:
            time.sleep(0.05)
            batch = []
            while not waiting.empty():
                batch.append(waiting.get())
            rows = [(e.time, encode(e).decode()) for e in batch if e is not None]
            connection.execute("BEGIN IMMEDIATE")
            connection.executemany("INSERT INTO events VALUES (?, ?)", rows)
            connection.execute("COMMIT")
            idle.set()
            if None in batch:
                connection.close()
                return

    thread = threading.Thread(target=write)
    thread.start()
    put = waiting.put

    def drain() -> None:
        idle.clear()
        idle.wait(10)
        idle.clear()
        idle.wait(10)

    yield lambda number: put(make_event(number)), drain
    put(None)
    thread.join()


@contextmanager
def our_recorder(folder: Path) -> Iterator[tuple[Method, Callable[[], object]]]:
    path = folder / "store.db"
    with recording(path, RunRecord(run_id="benchmark")) as recorder:
        record = recorder.record
        record(make_event(0))
        recorder.flush()

        def call(number: int) -> None:
            record(make_event(number))

        yield call, recorder.flush
    with EventStore(path) as store:
        count = store.run("benchmark").num_events
    print(f"recorder: {count:,} events stored, {recorder.dropped} dropped")


@contextmanager
def open_telemetry(folder: Path) -> Iterator[tuple[Method, Callable[[], object]]]:
    from opentelemetry.sdk.trace import TracerProvider
    from opentelemetry.sdk.trace.export import (
        BatchSpanProcessor,
        SpanExporter,
        SpanExportResult,
    )

    class NoExporter(SpanExporter):
        def export(self, spans: object) -> SpanExportResult:
            return SpanExportResult.SUCCESS

    provider = TracerProvider()
    provider.add_span_processor(BatchSpanProcessor(NoExporter(), max_queue_size=2**20))
    tracer = provider.get_tracer("benchmark")

    def call(number: int) -> None:
        span = tracer.start_span("warmup_step")
        span.set_attributes(
            {
                "phase": "prompt",
                "mode": "graph",
                "bucket": (1, 128, number),
                "index": number,
                "total": BURST,
                "duration_s": 0.25,
            }
        )
        span.end()

    yield call, lambda: provider.force_flush()
    provider.shutdown()


METHODS = {
    "empty call": empty,
    "bare queue": bare_queue,
    "recorder": our_recorder,
    "OpenTelemetry span": open_telemetry,
}


def time_burst(call: Method, count: int) -> list[int]:
    now = time.perf_counter_ns
    times = []
    for number in range(count):
        start = now()
        call(number)
        times.append(now() - start)
    return times


def time_paced(call: Method, count: int) -> list[int]:
    times = []
    for _ in range(count):
        time.sleep(PAUSE_S)
        times += time_burst(call, 1)
    return times


def thread_cpu_ns(call: Method, count: int) -> float:
    start = time.thread_time_ns()
    for number in range(count):
        call(number)
    return (time.thread_time_ns() - start) / count


def describe(times: list[int], overhead: float) -> dict[str, float]:
    ordered = sorted(times)
    at = lambda share: ordered[min(len(ordered) - 1, int(len(ordered) * share))]  # noqa: E731
    return {
        "mean": (statistics.fmean(ordered) - overhead) / 1000,
        "p50": (at(0.5) - overhead) / 1000,
        "p99": (at(0.99) - overhead) / 1000,
        "p99.9": (at(0.999) - overhead) / 1000,
        "max": (ordered[-1] - overhead) / 1000,
    }


def measure(rounds: int, folder: Path) -> dict[str, dict[str, dict[str, float]]]:
    burst: dict[str, list[int]] = {}
    paced: dict[str, list[int]] = {}
    cpu: dict[str, list[float]] = {}
    opened = {}
    for name, method in METHODS.items():
        try:
            context = method(folder)
            opened[name] = (context, *context.__enter__())
        except ModuleNotFoundError as error:
            print(f"{name}: left out, {error.name} is not installed")
    for _ in range(rounds):
        for name, (_, call, drain) in opened.items():
            burst.setdefault(name, []).extend(time_burst(call, BURST))
            drain()
            cpu.setdefault(name, []).append(thread_cpu_ns(call, BURST))
            drain()
            paced.setdefault(name, []).extend(time_paced(call, PACED))
            drain()
    for context, _, _ in opened.values():
        context.__exit__(None, None, None)
    return {
        name: {
            "burst": describe(burst[name], statistics.median(burst["empty call"])),
            "paced": describe(paced[name], statistics.median(paced["empty call"])),
            "cpu": {"median": (statistics.median(cpu[name])
                               - statistics.median(cpu["empty call"])) / 1000},
        }
        for name in opened
    }  # fmt: skip


def show(results: dict[str, dict[str, dict[str, float]]]) -> None:
    columns = [("burst", key) for key in ("mean", "p50", "p99", "p99.9")]
    columns += [("paced", key) for key in ("mean", "p50", "p99")] + [("cpu", "median")]
    head = "".join(f"{f'{kind} {key}':>13}" for kind, key in columns)
    print(f"\n{'microseconds per event':<24}{head}")
    for name, result in results.items():
        cells = "".join(f"{result[kind][key]:>13.2f}" for kind, key in columns)
        print(f"{name:<24}{cells}")
    ours = results["recorder"]
    print()
    for name in ("bare queue", "OpenTelemetry span"):
        if name in results:
            ratios = ", ".join(
                f"{kind} {key} {results[name][kind][key] / ours[kind][key]:.2f}"
                for kind, key in (
                    ("burst", "mean"),
                    ("burst", "p50"),
                    ("cpu", "median"),
                )
            )
            print(f"{name} costs so many times the recorder: {ratios}")
    mean, p99 = ours["burst"]["mean"], ours["burst"]["p99"]
    print(f"target mean < 0.5: {mean:.2f}, target p99 < 2: {p99:.2f}")


def warm_up(database: Path | None) -> tuple[float, float, float, int]:
    """Wall, process CPU and caller's CPU seconds of a CPU warm-up, and its events."""
    from warmup_insights.cli.run import read_settings
    from warmup_insights.cli.run import run as command
    from warmup_insights.devices import open_device
    from warmup_insights.runner.session import Session

    options = command.make_context("run", ["--device", "cpu"]).params
    device = open_device("cpu", memory_bytes=options["memory"], num_threads=1)
    seen = []
    stack, recorder = ExitStack(), None
    if database is not None:
        run = RunRecord(run_id=new_run_id())
        recorder = stack.enter_context(recording(database, run))

    def emit(event: object) -> None:
        seen.append(None)
        if recorder is not None:
            recorder.record(event)

    session = Session(device, read_settings(options), emit, None)
    clocks = (time.perf_counter, time.process_time, time.thread_time)
    starts = [clock() for clock in clocks]
    session.run()
    if recorder is not None:
        recorder.flush()
    wall, cpu, own = (
        clock() - start for clock, start in zip(clocks, starts, strict=True)
    )
    stack.close()
    device.close()
    return wall, cpu, own, len(seen)


def compare_runs(pairs: int, folder: Path) -> dict[str, float]:
    """The same warm-up with and without a recorder, in turns."""
    warm_up(None)
    database = folder / "runs.db"
    warm_up(database)
    found: dict[bool, list[tuple[float, float, float, int]]] = {False: [], True: []}
    for number in range(pairs):
        order = (False, True) if number % 2 else (True, False)
        for is_on in order:
            found[is_on].append(warm_up(database if is_on else None))
    names = ("wall time", "CPU time", "CPU time of the caller's thread")
    print(
        f"\ndefault CPU warm-up, {pairs} pairs, {found[True][0][-1]} events each; "
        "with recorder by without, median (middle half), target 1.01:"
    )
    answer = {}
    for place, name in enumerate(names):
        pairs_of = zip(found[True], found[False], strict=True)
        ratios = [on[place] / off[place] for on, off in pairs_of]
        answer[name] = statistics.median(ratios)
        print(f"{name:<34}{answer[name]:.3f} ({_middle_half(ratios)})")
    return answer


def _middle_half(values: list[float]) -> str:
    low, _, high = statistics.quantiles(values, n=4)
    return f"{low:.3f} to {high:.3f}"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rounds", type=int, default=10)
    parser.add_argument("--pairs", type=int, default=0)
    parser.add_argument("--json", type=Path)
    arguments = parser.parse_args()
    sys.setswitchinterval(0.005)
    print(f"Python {platform.python_version()}, SQLite {sqlite3.sqlite_version}, "
          f"{os.cpu_count()} CPUs, load {os.getloadavg()[0]:.1f}")  # fmt: skip
    with tempfile.TemporaryDirectory() as folder:
        results = measure(arguments.rounds, Path(folder))
        show(results)
        answer = {"events": results}
        if arguments.pairs > 1:
            answer["run"] = compare_runs(arguments.pairs, Path(folder))
    if arguments.json:
        arguments.json.write_text(json.dumps(answer, indent=2) + "\n")


if __name__ == "__main__":
    main()
