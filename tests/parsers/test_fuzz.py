"""Pieces of real lines, mixed and broken at random: no exception, nothing lost."""

from __future__ import annotations

from hypothesis import given, settings
from hypothesis import strategies as st

from parsers import all_rules
from tests.helpers import read, summary_of
from warmup_insights.model.events import decode, encode

LINES = [sample.line for rule in all_rules() for sample in rule.samples]
WRAPPINGS = [
    "", "(Worker_TP1 pid=3) ", "2026-05-01 23:13:17.078 | ", "app-1  | ", "│ ", "# ",
    "2026-05-01T21:13:17.07Z stdout P ", '{"message": "', "\x1b[32m", "^[[1;36m", "\r",
    "(RayWorkerWrapper pid=263, ip=10.0.16.95) ", "авг 18 14:15:02 host a[1]: ",
]  # fmt: skip
lines = st.sampled_from(LINES)
broken = st.builds(
    lambda a, b, i, j, join: a[:i] + join + b[j:],
    lines, lines, st.integers(0, 200), st.integers(0, 200),
    st.sampled_from(["", " ", "\r", "\\n", "]", "(", "-", "999999999999999999999", "\x00"]),
)  # fmt: skip
wrapped = st.builds(
    lambda prefix, line, end: prefix + line + end,
    st.sampled_from(WRAPPINGS), st.one_of(lines, broken, st.text(max_size=80)),
    st.sampled_from(["", "   │", " [repeated 3x across cluster]", "^M", "\\n", '"}']),
)  # fmt: skip


@settings(max_examples=300)
@given(st.lists(wrapped, max_size=30))
def test_any_mixture_of_lines_is_read_and_summarised(mixture):
    runs, report = read("\n".join(mixture))
    assert report.events == sum(len(found) for found in runs.values())
    for found in runs.values():
        summary = summary_of(found)
        assert summary["time"]["residual_s"] in (None, 0.0)
        for event in found:
            assert decode(encode(event)) == event


@settings(max_examples=200)
@given(st.binary(max_size=400))
def test_any_bytes_are_read(data):
    read(data)
