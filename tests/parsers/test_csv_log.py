"""Tables of lines that stores of logs give out."""

from __future__ import annotations

import csv
import io

import pytest

from parsers.formats.documents import csv_log_text, looks_like_csv_log
from tests.helpers import events, of, read
from warmup_insights.model.events import Failure, KVCacheAllocated, MemoryMeasured
from warmup_insights.units import GIB

LINES = (
    "(EngineCore pid=9) INFO 06-06 03:41:23 [core.py:112] Initializing a V1 LLM engine "
    "(v0.26.0) with config: model='a/b', device_config=cuda",
    "(EngineCore pid=9) INFO 06-06 03:41:33 [gpu_model_runner.py:5187] Model loading took "
    "8.5 GiB memory and 7.5 seconds",
    "(EngineCore pid=9) INFO 06-06 03:41:43 [kv_cache_utils.py:1744] GPU KV cache size: "
    "444,880 tokens",
    "(EngineCore pid=9) ERROR 06-06 03:41:53 [core.py:1165] EngineCore failed to start.\n"
    '(EngineCore pid=9) ValueError: no "kernel"',
)


def table(times: list[str], heading: tuple[str, ...], *, newest_first: bool) -> str:
    rows = list(zip(times, LINES, strict=True))
    out = io.StringIO()
    writer = csv.writer(out, quoting=csv.QUOTE_ALL)
    writer.writerow(heading)
    for time, line in reversed(rows) if newest_first else rows:
        cells = {"time": time, "line": line}
        names = ("time" if "ime" in n or n == "Date" else "line" for n in heading[:2])
        writer.writerow([*(cells[n] for n in names), '{"pod":"vllm-0"}'])
    return out.getvalue()


ISO = [f"2026-06-06T03:41:{second}.385Z" for second in (23, 33, 43, 53)]
NANOSECONDS = [f"17807173{second}385811000" for second in (10, 20, 30, 40)]
SPOKEN = [f"Jun 6, 2026 @ 03:41:{second}.385" for second in (23, 33, 43, 53)]


@pytest.mark.parametrize("newest_first", [False, True])
@pytest.mark.parametrize(
    "times", [ISO, NANOSECONDS, SPOKEN], ids=["iso", "ns", "kibana"]
)
@pytest.mark.parametrize(
    "heading", [("Time", "Line", "labels"), ("message", "@timestamp", "pod")]
)
def test_the_lines_of_a_table_are_read_from_the_oldest(times, heading, newest_first):
    found = events(table(times, heading, newest_first=newest_first))
    assert [e.delta_bytes for e in of(MemoryMeasured, found)] == [round(8.5 * GIB)]
    assert of(KVCacheAllocated, found)[0].num_tokens == 444_880
    (failure,) = of(Failure, found)
    assert failure.message == 'ValueError: no "kernel"'


def test_a_time_with_a_zone_is_that_of_the_line():
    found = events(table(ISO, ("Time", "Line", "labels"), newest_first=True))
    assert of(MemoryMeasured, found)[0].time == 1780717293.385


def test_how_lines_are_numbered_is_noted_where_there_is_a_start():
    (note,) = read(table(ISO, ("Time", "Line", "labels"), newest_first=True))[
        1
    ].problems
    assert "numbered in that order" in note
    (problem,) = read("time,line\n1,x\n")[1].problems
    assert "no line of an engine's start-up" in problem


def test_other_tables_and_logs_are_none():
    assert not looks_like_csv_log(b"model,tokens,seconds\na,1,2\n")
    assert not looks_like_csv_log("\n".join(LINES).encode())
    assert csv_log_text(b'time,line\n"1,"x') is None
    assert read('time,line\n"1,"x\n')[0] == {}
