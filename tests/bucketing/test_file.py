"""Bucket files: the grammar, where errors are, limits, and the way back."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.bucketing.helpers import make_settings
from warmup_insights.bucketing.base import Bucket
from warmup_insights.bucketing.file import (
    MAX_BUCKETS_PER_LINE,
    MAX_LINE_LENGTH,
    format_bucket_file,
    parse_bucket_line,
    parse_bucket_lines,
    read_bucket_file,
)
from warmup_insights.bucketing.lint import lint_bucket_lines
from warmup_insights.errors import InputError


def parse(*lines):
    return parse_bucket_lines(lines, "f.txt")


def test_precise_lists_ranges_and_mixed_lines():
    """The documented examples: 2 precise, 6 from lists, 3 from a range, and mixed."""
    file = parse(
        "# comment",
        "",
        "(1, 2048, 0)",
        "(64, 1, 1024)",
        "(1, [256, 512], [0, 4, 8])",
        "(1, 1, range(256, 512, 128))",
        "([64, 128, 256], 1, range(512, 1024, 32))",
    )
    assert len(file.prompt) + len(file.decode) == 1 + 1 + 6 + 2 + 48
    assert file.prompt == (
        *((1, 256, blocks) for blocks in (0, 4, 8)),
        *((1, 512, blocks) for blocks in (0, 4, 8)),
        (1, 2048, 0),
    )
    assert Bucket(64, 1, 1024) in file.decode
    assert (1, 1, 512) not in file.decode  # the stop of a range is not in it


@pytest.mark.parametrize(
    "line",
    [
        "(1, 128, 0)",
        "  ( 1 ,128, 0 )  # why",
        "1, 128, 0",
        "(1, 128, 0,)",
        "([1], [128,], range(0, 1))",
        "(range(1, 0, -1), range( 128 , 129 , 1 ), +0)",
        "(1,\t128,0)\r\n",
    ],
)
def test_one_bucket_in_many_spellings(line):
    assert parse(line).prompt == (Bucket(1, 128, 0),)


@pytest.mark.parametrize("line", ["(1, [], 0)", "(1, 1, range(5, 5))", "(1, 1, [])"])
def test_empty_lists_and_ranges_stand_for_nothing(line):
    assert parse(line).prompt == parse(line).decode == ()


@pytest.mark.parametrize(
    ("line", "words"),
    [
        ("(1, 128)", ["expected ,", "')'"]),
        ("(1, 128, 0", ["expected )", "the end of the line"]),
        ("(1, 128, 0))", ["')'", "follows"]),
        ("(1, 128, 0) (2, 128, 0)", ["follows"]),
        ("(1, 128, 0, 4)", ["expected )"]),
        ("hello", ["whole number", "'hello'"]),
        ("(1, 1.5, 0)", ["expected ,", "'.5, 0)'"]),
        ("(1, 128, -1)", ["number of blocks -1"]),
        ("(0, 128, 1)", ["batch size 0"]),
        ("(1, 0, 1)", ["query length 0"]),
        ("(1, [1, [2]], 0)", ["whole number", "'[2]], 0)'"]),
        ("(1, [range(1, 3)], 0)", ["whole number"]),
        ("(1, [1 2], 0)", ["expected ,"]),
        ("(1, range(5), 0)", ["also needs a stop"]),
        ("(1, range(1, 5, 0), 0)", ["step of a range is 0"]),
        ("(1, ranges(1, 5), 0)", ["whole number"]),
        ("(1, range(1, 99999999), 0)", ["99999998 values"]),
        (f"(1, {'9' * 50}, 0)", ["too large"]),
        ("(1, 9999999999, 0)", ["query length 9999999999"]),
        ("(True, 128, 0)", ["whole number", "'True, 128, 0)'"]),
        ("(1, 128, __import__('os'))", ["whole number"]),
        ("(١, 128, 0)", ["whole number"]),
        ("(" * 1000, ["whole number"]),
    ],
)
def test_errors_name_file_line_and_problem(line, words):
    with pytest.raises(InputError) as caught:
        parse("# first", "(1, 1, 1)", line)
    message = str(caught.value)
    assert message.startswith("f.txt:3: ")
    assert "\n" not in message
    for word in words:
        assert word in message


def test_one_line_cannot_fill_the_memory():
    """10,000 values in each of three ranges would be 10 ** 12 buckets."""
    line = "(range(1, 10001), range(1, 10001), range(1, 10001))"
    with pytest.raises(InputError, match=f"1000000000000 .* {MAX_BUCKETS_PER_LINE}"):
        parse(line)


def test_many_lines_cannot_fill_the_memory():
    line = "(range(1, 11), range(1, 101), range(0, 100))"  # 100,000
    with pytest.raises(InputError, match=r"f.txt:6: .* 500000 buckets"):
        parse_bucket_lines([line] * 10**6, "f.txt")


def test_a_line_without_end_is_refused_and_not_read_whole(tmp_path):
    path = tmp_path / "long.txt"
    path.write_text("(1, 1, " + "0" * (3 * MAX_LINE_LENGTH) + ")\n(1, 128, 0)\n")
    with pytest.raises(InputError, match=r"long.txt:1: .* longer than"):
        read_bucket_file(path)


def test_files_that_cannot_be_read_are_named(tmp_path):
    with pytest.raises(InputError, match=r"absent\.txt cannot be read"):
        read_bucket_file(tmp_path / "absent.txt")
    with pytest.raises(InputError, match="cannot be read"):
        read_bucket_file(tmp_path)
    binary = tmp_path / "binary"
    binary.write_bytes(b"\xff\xfe(1, 128, 0)")
    with pytest.raises(InputError, match="UTF-8"):
        read_bucket_file(binary)


BUCKETS = st.sets(
    st.builds(Bucket, st.integers(1, 999), st.integers(2, 9999), st.integers(0, 9999)),
    max_size=40,
)


@given(BUCKETS, BUCKETS)
def test_written_files_read_back_equal(prompt, decode):
    steps = {bucket._replace(query_len=1) for bucket in decode}
    text = format_bucket_file(prompt, steps)
    file = parse_bucket_lines(text.splitlines(), "written")
    assert file.prompt == tuple(sorted(prompt))
    assert file.decode == tuple(sorted(steps))


@given(st.text(max_size=60))
def test_any_text_is_parsed_or_refused(text):
    file, problems = lint_bucket_lines([text], "f.txt")
    assert all(min(bucket) >= 0 for bucket in file.prompt + file.decode)
    if any(problem.line and problem.level == "error" for problem in problems):
        with pytest.raises(InputError, match=r"f\.txt:1: "):
            parse(text)
    else:
        assert parse(text) == file


@pytest.mark.parametrize(
    ("prompt", "decode"),
    [([Bucket(1, 1, 0)], []), ([], [Bucket(1, 2, 4)])],
)
def test_buckets_that_would_change_phase_are_not_written(prompt, decode):
    with pytest.raises(InputError, match="cannot be written"):
        format_bucket_file(prompt, decode)


def test_lint_lists_every_problem_in_line_order():
    file, problems = lint_bucket_lines(
        ["(1, 128, 0)", "nonsense", "(1, [128, 128], 0)", "(1, [], 0)", "(2, 256)"],
        "f.txt",
    )
    assert file.prompt == (Bucket(1, 128, 0),)
    assert [(problem.line, problem.level) for problem in problems] == [
        (0, "error"),  # no decode bucket
        (2, "error"),
        (3, "warning"),
        (4, "warning"),
        (5, "error"),
    ]
    assert "line 1" in problems[2].message


def test_lint_of_a_sound_file_is_empty():
    _, problems = lint_bucket_lines(["(1, 128, 0)", "(1, 1, 4)"], "f.txt")
    assert problems == []


def test_lint_with_settings_says_what_the_engine_drops():
    lines = ["(1, 128, 0)", "(2, 2048, 0)", "(1, 1, 40)", "(8, 1, 4)"]
    _, problems = lint_bucket_lines(lines, "f.txt", make_settings())
    assert [problem.line for problem in problems] == [2, 3, 4]
    assert "batch_size * query_len" in problems[0].message
    assert "becomes (1, 1, 32)" in problems[1].message
    assert "batch_size <= num_blocks" in problems[2].message


def test_lint_notices_numbers_given_twice_in_one_list():
    _, problems = lint_bucket_lines(["(1, [128, 128], 0)", "(1, 1, 4)"], "f.txt")
    assert [problem.message for problem in problems] == [
        "f.txt:1: a list holds the same number twice."
    ]


@pytest.mark.parametrize(
    "line",
    [
        "(1, 07, 0)", "([1, 02], 128, 0)", "(1, range(+2, 9), 0)", "(1, 1__0, 0)",
        "(1, 8x, 0)", "(1, range(0x1, 9), 0)", "(1, range(1_0, 20), 0)",
    ],
)  # fmt: skip
def test_numbers_that_the_engine_does_not_take_are_refused(line):
    """`file_strategy.py`: Python reads what a pattern without a plus has not replaced."""
    with pytest.raises(InputError, match="not read"):
        parse_bucket_line(line, "f:1")


@pytest.mark.parametrize("text", ["0x80", "0B1000_0000", "0o200", "1_28", "+128"])
def test_whole_numbers_are_those_of_python(text):
    """`file_strategy.py` reads a line with `ast.literal_eval`."""
    assert parse_bucket_line(f"(1, [{text}], 0)", "f:1") == ((1, 128, 0),)


def test_numbers_of_a_range_may_begin_with_a_zero():
    assert parse_bucket_line("(1, range(02, 05), 00)", "f:1") == (
        (1, 2, 0), (1, 3, 0), (1, 4, 0),
    )  # fmt: skip
