"""Public logs that the rules were not made from: what a reader finds in each, line by line.

`fresh_logs.json` holds, for every run in a log, who ran and how it ended, the seconds of
stages that the log's stamps prove, and the facts of each line that states one: a line
that is not named states none. `behind` names what the summary does not give yet, and why.
"""

from __future__ import annotations

import json
import re
from datetime import datetime, timezone
from pathlib import Path
from typing import Any

import pytest

from tests.helpers import REAL_LOGS, read, summary_of
from warmup_insights.model.events import (
    BucketMiss,
    BucketsGenerated,
    BucketUsed,
    ConfigRecorded,
    Event,
    GapSeen,
    GraphSkipped,
    Note,
    RunStarted,
    WarmupStep,
    encode,
    kind_of,
)
from warmup_insights.units import GIB, KIB, MIB

EXPECTED: dict[str, list[dict[str, Any]]] = json.loads(
    (Path(__file__).parent / "fresh_logs.json").read_text(encoding="utf-8")
)
FOLDER = REAL_LOGS / "fresh"
PRESENT = sorted(name for name in EXPECTED if (FOLDER / name).exists())
COUNTED = (BucketMiss, GraphSkipped, WarmupStep)
NOT_LISTED = (*COUNTED, BucketsGenerated, BucketUsed, ConfigRecorded, GapSeen, Note,
              RunStarted)  # fmt: skip
MESSAGE = 60
OWNER = re.compile(r"^/.{0,80}?(?=\.cache/)")
"""Whose folder a cache is in: nothing about the run."""

pytestmark = pytest.mark.skipif(not PRESENT, reason="the fresh logs are not here")
each_log = pytest.mark.parametrize("name", PRESENT)


def runs_of(name: str) -> list[list[Event]]:
    runs, report = read((FOLDER / name).read_bytes(), name, year=None)
    assert report.failed == 0
    return [runs[ordinal] for ordinal in sorted(runs)]


def fact_of(event: Event) -> dict[str, Any]:
    fact = json.loads(encode(event))
    for name in ("time", "buckets", "path", "states"):
        fact.pop(name, None)
    if "message" in fact:
        fact["message"] = fact["message"][:MESSAGE]
    if str(fact.get("detail")).startswith("/"):
        fact["detail"] = OWNER.sub("", fact["detail"])
    return {name: value for name, value in fact.items() if value is not None}


def year_of(start: Event) -> int | None:
    if start.time is None or start.year_from not in ("log", "build"):
        return None
    return datetime.fromtimestamp(start.time, timezone.utc).year


def identity_of(found: list[Event]) -> dict[str, Any]:
    summary = summary_of(found)
    return {
        "first_line": found[0].line,
        "status": summary["status"],
        "engine": summary["engine"]["name"],
        "version": summary["engine"]["version"],
        "device": summary["device"]["kind"],
        "model": summary["model"],
        "ranks": summary["ranks"],
        "year": year_of(found[0]),
    }


def seconds_of(found: list[Event], stage: str) -> float:
    phases = summary_of(found)["time"]["phases"]
    return sum(row["duration_s"] for row in phases if row["name"] == stage)


@each_log
def test_every_line_that_states_a_fact_gives_it_and_no_other_line_does(name):
    for found, expected in zip(runs_of(name), EXPECTED[name], strict=True):
        listed = [fact_of(e) for e in found if not isinstance(e, NOT_LISTED)]
        assert listed == expected["facts"]


@each_log
def test_who_ran_and_how_it_ended(name):
    for found, expected in zip(runs_of(name), EXPECTED[name], strict=True):
        actual = identity_of(found)
        if "model_end" in expected:  # of a path, whose beginning is one machine's
            assert actual.pop("model").endswith(expected["model_end"])
        wanted = {key: expected[key] for key in actual if key not in expected["behind"]}
        assert {key: actual[key] for key in wanted} == wanted


@each_log
def test_steps_misses_and_skipped_graphs_are_all_there(name):
    for found, expected in zip(runs_of(name), EXPECTED[name], strict=True):
        counts: dict[str, int] = {}
        for event in found:
            if isinstance(event, COUNTED):
                counts[kind_of(event)] = counts.get(kind_of(event), 0) + 1
        assert counts == expected["counts"]


@each_log
def test_stages_last_as_long_as_the_stamps_prove(name):
    for found, expected in zip(runs_of(name), EXPECTED[name], strict=True):
        for stage, seconds in expected["seconds"].items():
            if f"seconds.{stage}" not in expected["behind"]:
                assert seconds_of(found, stage) == pytest.approx(seconds, abs=1.1)


@each_log
def test_ranks_are_counted_where_the_log_shows_them(name):
    for found, expected in zip(runs_of(name), EXPECTED[name], strict=True):
        counted = [e.num_ranks for e in found if isinstance(e, ConfigRecorded)]
        stated = next((n for n in reversed(counted) if n), None)
        assert stated == expected["ranks"] or (
            stated is None and expected["ranks"] in (None, 1)
        )


NUMBER = re.compile(r"-?\d[\d,]{0,20}(?:\.\d{1,20})?")
DEVICES = {
    "t01_tpu_v0.11_v6e8_qwen3_32b.log": 8,
    "t02_tpu_dp2_tp4.log": 8,
    "t04_tpu_2026-06_dp_external_lb_rank0.log": 2,
}
"""What the memory statistics of a TPU sum up over."""
CLOCK = re.compile(r"(\d{1,4}):(\d\d)<")
SCALES = {"bytes": (1, KIB, MIB, GIB), "s": (1, 1e-3)}


def is_printed(name: str, value: float, line: str) -> bool:
    """Whether a line prints the number of a field, in any unit the engines use."""
    printed = [float(text.replace(",", "")) for text in NUMBER.findall(line)]
    printed += [int(m) * 60.0 + int(s) for m, s in CLOCK.findall(line)]
    scales = SCALES.get(name.rpartition("_")[2], (1,))
    return any(
        value / scale == pytest.approx(number, rel=1e-6, abs=1e-6)
        for scale in scales
        for number in printed
    )


@each_log
def test_every_number_of_a_fact_is_printed_in_its_line(name):
    lines = (FOLDER / name).read_bytes().decode("utf-8", "replace").split("\n")
    if name.endswith(".ipynb"):
        return  # its lines are those of the text inside
    for expected in EXPECTED[name]:
        for fact in expected["facts"]:
            for field, value in fact.items():
                derived = field == "free_bytes" and "used_bytes" in fact
                if type(value) in (int, float) and field not in ("line", "rank"):
                    line = lines[fact["line"] - 1]
                    if "total_hbm_used_gb" in line:
                        value *= DEVICES[name]
                    if "allocated num_blocks" in line and field == "block_size":
                        value *= fact["num_blocks"] + 1  # slots, with those of padding
                    assert derived or is_printed(field, value, line)
