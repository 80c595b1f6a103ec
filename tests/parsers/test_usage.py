"""The highest figures of an engine's statistics lines become one note, and a section."""

from __future__ import annotations

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
