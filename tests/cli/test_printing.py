"""Tables on terminals of any width, and in files and pipes."""

from __future__ import annotations

import io

import pytest
from rich.console import Console

from warmup_insights.export.tables import BAR, make_table, plain_width, rich_table

HEADER = (
    "run",
    "status",
    "engine",
    "device",
    "start-up",
    "warm-up",
    "KV blocks",
    "name",
)
ROW = (
    "8d3e54a4620b", "finished (synthetic)", "vllm-gaudi", "simulated", "46 min 35 s",
    "1 min 04 s", "1,691,648", "a-label-with-many-words.log",
)  # fmt: skip
RUNS = make_table("Runs", HEADER, [ROW, ROW], right=(4, 5, 6))


def printed(table, width):
    stream = io.StringIO()
    Console(file=stream, width=width).print(rich_table(table, width))
    return stream.getvalue().splitlines()


@pytest.mark.parametrize("width", [40, 60, 80, 100, 130, 200])
def test_no_width_breaks_an_id_or_a_figure(width):
    lines = printed(RUNS, width)
    assert max(map(len, lines)) <= width
    for cell in (ROW[0], *ROW[4:7]):
        assert sum(cell in line for line in lines) == 2, cell


def test_where_rows_do_not_fit_each_cell_has_its_head():
    lines = [line.rstrip() for line in printed(RUNS, 50)]
    assert lines[0] == "Runs"
    assert lines[1] == "run 8d3e54a4620b"
    assert "  warm-up 1 min 04 s \N{MIDDLE DOT} KV blocks 1,691,648" in lines


def test_a_file_has_a_line_for_each_row():
    lines = printed(RUNS, plain_width(RUNS))
    assert len(lines) == 4
    assert all(cell in lines[2] for cell in ROW)


def test_bars_shrink_in_proportion():
    rows = [("load weights", "10 s", BAR * 40), ("capture", "5 s", BAR * 20)]
    lines = printed(make_table("", ("", "", ""), rows, right=(1,)), 40)
    long, short = (line.count(BAR) for line in lines)
    assert len(lines) == 2
    assert long == 2 * short
