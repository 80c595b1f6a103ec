"""What a log states does not depend on its day, on another server beside it, or on the lines
that somebody left out of it."""

from __future__ import annotations

import re
from collections.abc import Iterator
from datetime import datetime, timedelta
from functools import lru_cache
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest

from tests.helpers import REAL_LOGS, ROOT, folded, read, some_of
from warmup_insights.model.figures import FIGURES
from warmup_insights.model.summary import RunSummary

pytestmark = pytest.mark.long

SIZE = 200_000
"""Larger logs are left out: they would take most of the time."""
STAMP = re.compile(r"(?<!\d)(\d\d)-(\d\d) (\d\d):(\d\d):(\d\d)(?!\d)")
OTHER_STAMPS = re.compile(r"\d{4}-\d\d-\d\d|\d\d:\d\d:\d\d \d{4}|T\d\d:")
"""A clock that would not be shifted with the engine's."""
SECOND = timedelta(seconds=1)
Lines = list[tuple[datetime, str]]


def logs() -> list[Path]:
    paths = [*(ROOT / "sample_logs").rglob("*.log"), *REAL_LOGS.rglob("*.log")]
    return [path for path in sorted(paths) if path.stat().st_size <= SIZE]


def stamped(path: Path) -> Lines | None:
    """The lines with their times; None for a log of another clock, or one that goes back."""
    text = path.read_text(encoding="utf-8", errors="replace").rstrip("\n")
    if OTHER_STAMPS.search(text):
        return None
    lines: list[tuple[datetime | None, str]] = []
    time = None
    for line in text.replace("\r\n", "\n").split("\n"):
        match = STAMP.search(line)
        try:
            time = datetime(2026, *map(int, match.groups())) if match else time
        except ValueError:
            return None
        lines.append((time, line))
    first = next((time for time, _ in lines if time is not None), None)
    if first is None:
        return None
    known = [(time or first, line) for time, line in lines]
    goes_back = any(
        later < time - 5 * SECOND for (time, _), (later, _) in pairwise(known)
    )
    return None if goes_back else known


@lru_cache(maxsize=1)
def of_one_clock() -> dict[str, Lines]:
    found = ((path.name, stamped(path)) for path in logs())
    return {name: lines for name, lines in found if lines and len(lines) > 25}


def shifted(lines: Lines, to: datetime) -> Lines:
    moved = to - lines[0][0]

    def later(match: re.Match[str]) -> str:
        time = datetime(2026, *map(int, match.groups())) + moved
        return time.strftime("%m-%d %H:%M:%S")

    return [(time + moved, STAMP.sub(later, line)) for time, line in lines]


def text_of(lines: Lines, prefix: str = "") -> str:
    return "".join(f"{prefix}{line}\n" for _, line in lines)


def summaries(text: str) -> list[RunSummary]:
    runs, _ = read(text)
    return [folded(runs[ordinal]).summary for ordinal in sorted(runs)]


def stated(summary: RunSummary) -> dict[str, Any]:
    """Figures, phases and who ran."""
    found: dict[str, Any] = {f.name: f.read(summary) for f in FIGURES}
    found |= {f"phase {name}": s for name, s in summary.time.seconds_by_phase().items()}
    failure = summary.failure and (summary.failure.kind, summary.failure.phase)
    who = (summary.engine.name, summary.engine.version, summary.device.kind)
    found |= {"who": who, "model": summary.model, "ranks": summary.ranks}
    found |= {"status": summary.status, "failure": failure}
    return {
        name: round(value, 2) if isinstance(value, float) else value
        for name, value in found.items()
    }


DAYS = {
    "New Year": (2026, 12, 31, 23, 59, 50),
    "a month ends": (2026, 2, 28, 23, 59, 30),
    "the first second": (2026, 1, 1, 0, 0, 0),
}


@pytest.mark.parametrize("day", DAYS)
def test_a_log_states_the_same_on_every_day(day: str):
    for name, lines in of_one_clock().items():
        if day in some_of(DAYS, name):
            was = [stated(summary) for summary in summaries(text_of(lines))]
            moved = summaries(text_of(shifted(lines, datetime(*DAYS[day]))))
            assert [stated(summary) for summary in moved] == was, name


def pairs() -> Iterator[tuple[str, str]]:
    """Each log beside one that stands far from it in the list."""
    names = list(of_one_clock())
    for place, name in enumerate(names):
        yield name, names[(place * 7 + 3) % len(names)]


PREFIXES = {
    "compose": ("alpha-1  | ", "beta-1   | "),
    "pods": ("[pod/alpha-0/vllm] ", "[pod/beta-0/vllm] "),
}


@pytest.mark.parametrize("shipper", PREFIXES)
def test_two_servers_in_one_file_state_what_each_states(shipper: str):
    prefixes = PREFIXES[shipper]
    began = datetime(2026, 7, 16, 10)
    for number, names in enumerate(pairs()):
        if shipper not in some_of(PREFIXES, names[0]):
            continue
        later = began + (number % 4) * 10 * SECOND
        both = [
            shifted(of_one_clock()[name], start)
            for name, start in zip(names, (began, later), strict=True)
        ]
        merged = sorted(
            (time, which, place, prefixes[which] + line)
            for which, lines in enumerate(both)
            for place, (time, line) in enumerate(lines)
        )
        apart = [
            stated(summary)
            for prefix, lines in zip(prefixes, both, strict=True)
            for summary in summaries(text_of(lines, prefix))
        ]
        text = "".join(f"{line}\n" for *_, line in merged)
        together = [stated(summary) for summary in summaries(text)]
        assert sorted(map(repr, together)) == sorted(map(repr, apart)), names


SELECTED = ("INFO", "took|finished|[Ww]armup", "emory|KV cache", "[Ww]armup|ucket",
            "Captur|captur", "GiB|GB|MiB|seconds| s$", "(?i)graph|compil")  # fmt: skip
EARLY = ("import", "configure", "start_engine", "start_workers", "init_worker",
         "distributed_init")  # fmt: skip
"""Stages that end with a line that selecting may leave out."""
CLOCKS_S = 12
"""The last line of a stage may be gone, and lines of processes are out of order."""


def early_s(summary: RunSummary) -> float:
    phases = summary.time.seconds_by_phase()
    return sum(phases.get(name, 0.0) for name in EARLY)


@pytest.mark.parametrize("pattern", SELECTED)
def test_selected_lines_state_no_other_engine_and_no_longer_stages(pattern: str):
    for path in logs():
        if pattern not in some_of(SELECTED, path.name, 2):
            continue
        text = path.read_text(encoding="utf-8", errors="replace")
        whole = summaries(text)
        kept = [line for line in text.split("\n") if re.search(pattern, line)]
        part = summaries("\n".join(kept) + "\n")
        if len(whole) != 1 or len(part) != 1:
            continue
        (one,), (other,) = whole, part
        if one.engine.name == "reference":
            continue  # it writes what another engine prints on another device
        if other.device.kind not in (None, one.device.kind):
            assert "device.kind" in other.guessed, path.name
        if one.time.wall_s is None or other.time.wall_s is None:
            continue
        assert early_s(other) <= early_s(one) * 1.1 + CLOCKS_S, path.name
        if other.status == "finished":  # else it is what the lines cover
            assert other.time.wall_s <= one.time.wall_s * 1.05 + CLOCKS_S, path.name
