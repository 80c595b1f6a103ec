"""docs/why-slower.md shows what the commands print for its two public logs."""

from __future__ import annotations

import pytest

from tests.cli.decisions import invoke
from tests.helpers import REAL_LOGS, ROOT

LOGS = (
    REAL_LOGS / "cuda_v1_2026-07-25_tp4_mrv2_dspark_stdout.log",
    REAL_LOGS / "cuda_v1_2026-07-25_tp4_dcp4_mrv2_specdecode_stdout.log",
)
PAGE = (ROOT / "docs" / "why-slower.md").read_text(encoding="utf-8")

pytestmark = pytest.mark.skipif(
    not all(log.is_file() for log in LOGS), reason="the logs of the page are not here"
)


def words(text: str) -> str:
    return " ".join(text.split())


def blocks_with(mark: str) -> list[str]:
    """The lines of the first block of the page that holds a text."""
    blocks = PAGE.split("```")[1::2]
    (found, *_) = [block for block in blocks if mark in block]
    return [words(line) for line in found.splitlines()[2:] if line.strip()]


def test_the_figures_of_the_page_are_those_of_the_comparison():
    done = invoke("compare", *map(str, LOGS))
    assert done.exit_code == 0, done.output
    printed = words(done.output)
    for line in blocks_with("loading weights"):
        assert line in printed
    (sentence,) = [
        words(line) for line in PAGE.splitlines() if line.startswith("The KV cache has")
    ]
    assert sentence in printed


def test_both_starts_are_cold_and_the_caches_are_named():
    done = invoke("show", str(LOGS[1]))
    (line,) = [x for x in PAGE.splitlines() if x.startswith("from earlier starts: ")]
    assert line in words(done.output)
    assert "a cold start" in done.output
