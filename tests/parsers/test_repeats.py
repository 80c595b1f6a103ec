"""Lines whose head or message was seen before give what a closer look gives."""

from __future__ import annotations

import random
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from parsers import all_rules, repeats
from parsers.engine import LineParser
from parsers.repeats import MAX_MESSAGES, Repeats
from parsers.stamps import Clock
from warmup_insights.model.events import encode

ROOT = Path(__file__).resolve().parents[2]
LOGS = sorted(
    path
    for folder in (ROOT / "sample_logs", ROOT.parent / "shared" / "logs")
    for path in folder.rglob("*.log")
)
HEADS = (
    "(EngineCore pid=2) WARNING {} [common.py:300] ",
    "(EngineCore pid=3) WARNING {} [common.py:300] ",
    "(Worker_TP1 pid=9) INFO {} [hpu_model_runner.py:2679] ",
    "INFO {} [hpu_model_runner.py:2679] ",
    "api-1  | (EngineCore pid=2) INFO {} [hpu_model_runner.py:2679] ",
    "(EngineCore pid=2) INFO {} hpu_model_runner.py:2679] ",
    "",
)
STAMPS = ("07-01 00:00:01", "07-01 00:00:02", "07-01 09:00:00", "12-31 23:59:59",
          "01-01 00:00:00", "hh:mm:ss", "12345678901234", "99-99 99:99:99")  # fmt: skip
MESSAGES = (
    "Decode bucket for (3, 1, 9) was not prepared. Adding new bucket: (64, 1, 4096)",
    "Decode bucket for (3, 1, 9) was not prepared. INFO 07-01 00:00:01 [a.py:1] took 3 s",
    "[Warmup][Graph/decode][1/9] batch_size:4 query_len:1 num_blocks:8 free_mem:10.45 GiB",
    "[Warmup][Graph/decode][2/9] batch_size:4 query_len:1 num_blocks:7 free_mem:10.4 GiB",
    "[defrag] defragmentation done max_id_used=900->812 num_used=810 swapped=30/32",
    "Generated 2 decode buckets [bs, query, num_blocks]: [(1, 1, 8), ",
    "Generated 2 decode buckets [bs, query, num_blocks]: [(1, 1, 8), (1, 1, 9)]",
    "(1, 1, 9)]",
    "Application startup complete.",
    "vLLM API server version 0.11.0",
    "Initializing a V1 LLM engine (v0.11.0) with config: model='m'",
    "Decode bucket for (3, 1, 9) was not prepared [repeated 7x across cluster]",
    "Nothing that a rule would know",
    "{",
)


def closely(lines: list[str]) -> LineParser:
    parser = make_parser()
    for number, line in enumerate(lines, 1):
        parser._repeats = Repeats()
        parser.feed_slowly(line, number)
    parser.close()
    return parser


def make_parser() -> LineParser:
    return LineParser(all_rules(), clock=Clock(year=2026))


def in_passing(lines: list[str]) -> tuple[LineParser, int]:
    """A parser, and how many lines it took without a closer look."""
    parser, known = make_parser(), 0
    for number, line in enumerate(lines, 1):
        if parser.feed_known(line, number):
            known += 1
        else:
            parser.feed_slowly(line, number)
    parser.close()
    return parser, known


def encode_groups(parser: LineParser) -> list[tuple[int, list[bytes]]]:
    return [(n, [encode(e) for e in events]) for n, events in parser.take()]


def assert_same(lines: list[str]) -> int:
    expected, (found, known) = closely(lines), in_passing(lines)
    assert encode_groups(found) == encode_groups(expected)
    assert found.report.as_dict() == expected.report.as_dict()
    assert found.report.kept_lines == expected.report.kept_lines
    assert found.runs == expected.runs
    return known


@pytest.mark.parametrize("path", LOGS, ids=lambda path: path.name)
def test_real_and_sample_logs_twice_over(path):
    lines = path.read_bytes().decode("utf-8", "replace").split("\n")[:3000]
    assert_same(lines + lines)


LINE = st.builds(
    lambda head, stamp, message: head.format(stamp) + message,
    st.sampled_from(HEADS), st.sampled_from(STAMPS), st.sampled_from(MESSAGES),
)  # fmt: skip


@settings(max_examples=400)
@given(st.lists(LINE, max_size=60))
def test_any_mixture_of_lines(lines):
    assert_same(lines)


def test_a_serving_log_is_read_in_passing():
    rng = random.Random(1)
    lines = [HEADS[0].format(STAMPS[0]) + MESSAGES[10], *(
        HEADS[0].format(f"07-01 00:{n // 60:02d}:{n % 60:02d}")
        + f"Decode bucket for ({rng.randint(1, 9)}, 1, 9) was not prepared."
        for n in range(300)
    )]  # fmt: skip
    assert assert_same(lines) >= 298


def test_what_is_remembered_is_bounded():
    lines = [HEADS[3].format(STAMPS[0]) + MESSAGES[10]]
    lines += [
        HEADS[3].format(STAMPS[0]) + f"Decode bucket for ({n}, 1, 9) was not prepared."
        for n in range(MAX_MESSAGES + 10)
        for _ in range(2)
    ]
    parser, known = in_passing(lines)
    assert known > 1.9 * MAX_MESSAGES
    assert sum(map(len, parser._repeats._messages.values())) <= MAX_MESSAGES


MISS = "(EngineCore pid=2) WARNING 07-01 00:00:01 [common.py:300] Decode bucket for (1, 1, {}) "
MISS += "was not prepared. Adding new bucket: (64, 1, 4096)"


def remembered(parser: LineParser) -> int:
    return sum(len(messages) for messages in parser._repeats._messages.values())


def test_messages_that_never_come_again_are_remembered_for_a_trial_only(monkeypatch):
    monkeypatch.setattr(repeats, "TRIAL", 100)
    monkeypatch.setattr(repeats, "PAUSE", 1000)
    lines = [MISS.format(n) for n in range(900)]
    parser, known = in_passing(lines)
    assert known >= 890
    assert remembered(parser) < 110
    assert_same(lines)


def test_messages_that_come_again_are_remembered_on(monkeypatch):
    monkeypatch.setattr(repeats, "TRIAL", 100)
    lines = [MISS.format(n // 2) for n in range(900)]
    parser, _ = in_passing(lines)
    assert remembered(parser) >= 440


def test_after_the_pause_there_is_another_trial(monkeypatch):
    monkeypatch.setattr(repeats, "TRIAL", 100)
    monkeypatch.setattr(repeats, "PAUSE", 300)
    once = [MISS.format(n) for n in range(400)]
    again = [MISS.format(1000 + n // 2) for n in range(900)]
    parser, _ = in_passing(once + again)
    assert remembered(parser) >= 400
