"""What docs/trials.json holds: advice that was followed, and that brought what it promised."""

from __future__ import annotations

import json

import pytest

from tests.helpers import ROOT
from warmup_insights.analysis.advice import RULES

RESULTS = json.loads((ROOT / "docs" / "trials.json").read_text(encoding="utf-8"))
NEEDED = {
    "decode_buckets", "unused_buckets", "captures_unused", "memory_plan", "missed_shapes",
    "no_room_for_cache", "out_of_memory",
}  # fmt: skip
ROUNDED = 0.005
"""Share of a figure that may be lost to its rounding."""


def test_every_kind_of_change_was_tried():
    assert {each["rule"] for each in RESULTS} >= NEEDED
    assert {each["rule"] for each in RESULTS} <= {rule.name for rule in RULES}


@pytest.mark.parametrize("result", RESULTS, ids=lambda each: each["name"])
def test_what_was_observed_lies_within_what_was_predicted(result):
    """On a CPU the middle half of several pairs, which other programs disturb."""
    slack = ROUNDED * abs(result["high"])
    assert result["low"] - slack <= result["observed_high"]
    assert result["observed_low"] <= result["high"] + slack
