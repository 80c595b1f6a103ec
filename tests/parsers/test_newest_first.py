"""Logs whose newest line stands first, as they are copied from the pages of log stores."""

from __future__ import annotations

from pathlib import Path

import pytest

from parsers.formats.documents import looks_newest_first
from tests.helpers import read, summary_of

SAMPLES = Path(__file__).parents[2] / "sample_logs"
LOGS = (
    "vllm/made_v1_2026_tp2.log",
    "vllm-gaudi/made_tp2_defrag.log",
    "vllm-fork/made_1_22.log",
)


@pytest.mark.parametrize("name", LOGS)
def test_a_log_with_the_newest_line_first_is_read_from_its_end(name):
    text = (SAMPLES / name).read_text()
    turned = "\n".join(reversed(text.removesuffix("\n").split("\n"))) + "\n"
    forward, _ = read(text.encode(), name)
    backward, report = read(turned.encode(), name)
    turned_round = [summary_of(run) for run in backward.values()]
    assert turned_round == [summary_of(run) for run in forward.values()]
    (note,) = report.problems
    assert "newest line first" in note


@pytest.mark.parametrize(
    "path", sorted(SAMPLES.rglob("*.log")), ids=lambda path: path.name
)
def test_no_ordinary_log_is_taken_for_one(path):
    assert not looks_newest_first(path.read_bytes())
