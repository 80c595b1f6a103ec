"""The highest figures of an engine's statistics lines become one note, and a section."""

from __future__ import annotations

from parsers import source
from parsers.engine import runs as engine
from parsers.engine.lines import LineParser
from tests.helpers import folded, read

READY = b"(APIServer pid=1) INFO:     Application startup complete.\n"
LINE = (
    "(APIServer pid=1) INFO 07-16 19:47:{:02d} [loggers.py:250] Engine 000: Avg prompt "
    "throughput: 1.0 tokens/s, Avg generation throughput: 2.0 tokens/s, Running: {} reqs, "
    "Waiting: {} reqs, GPU KV cache usage: {}%, Prefix cache hit rate: 0.0%\n"
)


def test_the_highest_figures_are_kept():
    lines = [LINE.format(n, run, wait, used) for n, (run, wait, used) in enumerate(
        [(1, 0, 0.4), (8, 3, 61.5), (2, 0, 12.0)])]  # fmt: skip
    runs, _ = read(READY + "".join(lines).encode(), "a.log")
    (run,) = runs.values()
    usage = folded(run).summary.usage
    assert usage is not None
    assert (usage.num_lines, usage.usage_percent) == (3, 61.5)
    assert (usage.running, usage.waiting) == (8, 3)


def test_a_run_without_statistics_has_none():
    runs, _ = read(READY, "a.log")
    (run,) = runs.values()
    assert folded(run).summary.usage is None


def test_lines_of_a_ready_server_are_counted_like_those_that_are_read(monkeypatch):
    """Counted by what stands before them, by the day, the process and the source."""
    heads = ("(APIServer pid=1) INFO 07-16 {} [loggers.py:250] ", "INFO 12-31 {} metrics.py:455] ",
             "(ApiServer_1 pid=3) INFO 01-01 {} [loggers.py:250] ",
             "b-1  | (APIServer pid=1) INFO 01-01 {} [loggers.py:250] ",
             "2027-01-01T{}.5Z INFO 01-01 19:47:01 [loggers.py:250] ")  # fmt: skip
    text = LINE.partition("] ")[2]
    odd = (
        "\r",
        " [repeated 3x across cluster]",
        "\rINFO 01-02 00:00:00 [a.py:1] x",
        "",
    )
    lines = [
        heads[n // 7 % 5].format(f"{n % 24:02d}:{n % 60:02d}:07")
        + text.format(n % 5, n % 3, f"{n % 77}.{n % 9}").rstrip("\n")
        + odd[n % 4 if n % 50 > 40 else 3]
        for n in range(700)
    ]
    ready = READY.decode().rstrip()
    lines[400:400] = [f"b-1  | {ready}", ready.replace("pid=1", "pid=3")]
    data = f"{ready}\nb-1  | {ready}\n".encode() + "\n".join(lines).encode()
    monkeypatch.setattr(engine, "FIRST_LINES", 5)
    monkeypatch.setattr(source, "CHUNK", 2000)
    counted, report = read(data, "a.log")
    calls = []
    monkeypatch.setattr(LineParser, "counts", lambda *found: calls.append(found))
    whole, expected = read(data, "a.log")
    assert counted == whole
    assert report.matched == expected.matched
    assert len(calls) > 500
    assert len(report.kept_lines) < len(expected.kept_lines) / 2


def test_figures_of_two_caches_in_a_line_are_counted_as_one_line(monkeypatch):
    """V0 states the use of two caches (`engine/metrics.py`); other lines lie between."""
    line = (
        "INFO 02-24 19:47:{:02d} metrics.py:455] Avg prompt throughput: 0.0 tokens/s, Avg "
        "generation throughput: 15.2 tokens/s, Running: {} reqs, Swapped: 0 reqs, Pending: "
        "2 reqs, GPU KV cache usage: 0.3%, CPU KV cache usage: 0.0%.\n"
    )
    odd = "INFO 02-24 19:48:00 metrics.py:455] of KV cache usage: nothing\n"
    lines = [line.format(n % 60, n) + (odd if n == 150 else "") for n in range(200)]
    monkeypatch.setattr(engine, "FIRST_LINES", 5)
    monkeypatch.setattr(source, "CHUNK", 2000)
    runs, report = read(READY + "".join(lines).encode(), "a.log")
    usage = folded(runs[0]).summary.usage
    assert usage is not None
    assert (usage.num_lines, usage.running, usage.waiting) == (200, 199, 2)
    assert len(report.kept_lines) < 60
