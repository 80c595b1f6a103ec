"""Tables on terminals of any width, and in files and pipes."""

from __future__ import annotations

import io
import os
import re
import signal
import subprocess
import sys
from contextlib import suppress
from pathlib import Path

import pytest
from rich.console import Console

from tests.helpers import ROOT
from warmup_insights.export.tables import BAR, make_table, plain_width, rich_table

LOG = ROOT / "sample_logs" / "vllm-fork" / "warmup_doc_capture.log"
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


SHOW = (sys.executable, "-m", "warmup_insights", "show", str(LOG))


def test_an_encoding_without_bars_gets_other_characters():
    env = {**os.environ, "PYTHONIOENCODING": "ascii:strict"}
    done = subprocess.run(SHOW, env=env, capture_output=True, check=True)
    assert b"28 s  47.5 %  ????" in done.stdout


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="Linux only")
def test_a_full_disk_is_one_sentence():
    with open("/dev/full", "wb") as full:
        done = subprocess.run(SHOW, stdout=full, stderr=subprocess.PIPE, check=False)
    assert done.returncode == 1
    assert done.stderr.splitlines() == [
        b"Error: Nothing more can be written: No space left on device"
    ]


@pytest.mark.long
@pytest.mark.skipif(sys.platform == "win32", reason="no such signal")
@pytest.mark.parametrize("option", ["--buckets", "--events"])
def test_a_closed_pipe_ends_it_as_other_programs(option):
    read, write = os.pipe()
    os.close(read)
    done = subprocess.run(
        [*SHOW, option], stdout=write, stderr=subprocess.PIPE, check=False
    )
    os.close(write)
    assert (done.returncode, done.stderr) == (128 + signal.SIGPIPE, b"")


@pytest.mark.long
@pytest.mark.parametrize(("value", "has_colours"), [("", True), ("1", False)])
def test_no_color_switches_colours_off(value, has_colours):
    env = {**os.environ, "NO_COLOR": value, "TERM": "xterm"}
    master, slave = os.openpty()
    process = subprocess.Popen(SHOW, env=env, stdout=slave, stderr=slave)
    os.close(slave)
    text = b""
    with suppress(OSError):  # the end of a terminal is an error on Linux
        while block := os.read(master, 65536):
            text += block
    os.close(master)
    assert process.wait(timeout=600) == 0
    assert (re.search(rb"\x1b\[3[0-9]m", text) is not None) is has_colours


def test_a_title_is_on_one_line_above_a_narrow_table():
    table = make_table("Memory: 16.09 GiB on the device", ("", ""), [("a", "1 GiB")])
    first, *_ = printed(table, 80)
    assert first.rstrip() == table.title
