from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from warmup_insights.units import (
    GIB,
    MIB,
    format_bytes,
    format_duration,
    format_time,
    isoformat,
    parse_bytes,
    parse_clock,
    parse_duration,
    parse_isoformat,
    parse_size,
)  # fmt: skip


@pytest.mark.parametrize(
    ("text", "size"),
    [
        ("0 B", 0), ("512 B", 512), ("1024 B", 1024), ("9318930329 bytes", 9318930329),
        ("64 KiB", 65536),
        ("-8 KiB", -8192), ("-1.238 MiB", round(-1.238 * 2**20)), ("504 MiB", 504 * 2**20),
        ("1024 GiB", 2**40), ("79.19GiB", round(79.19 * 2**30)),
        ("14.96 GB", round(14.96 * 2**30)),
    ],
)  # fmt: skip
def test_sizes_as_engines_print_them(text, size):
    assert parse_bytes(text) == size


@pytest.mark.parametrize("text", ["", "GiB", "1,5 GiB", "12 parsecs", "1.2.3 GiB"])
def test_what_is_no_size_is_refused(text):
    with pytest.raises(ValueError, match="is not a size"):
        parse_bytes(text)


@given(
    st.from_regex(r"[0-9.\u0663_e+-]{0,21} (?:GiB|MiB|KiB|TiB|B|GB)", fullmatch=True)
)
def test_sizes_as_they_are_mostly_printed_are_read_like_all_others(text):
    """A blank more makes no difference, but for the way it is read."""
    try:
        expected = parse_bytes(" " + text)
    except ValueError:
        with pytest.raises(ValueError, match="is not a size"):
            parse_bytes(text)
    else:
        assert parse_bytes(text) == expected


@given(st.integers(-(2**50), 2**50))
def test_formatted_size_reads_back_within_four_digits(size):
    # Four digits, then a whole number of bytes.
    assert parse_bytes(format_bytes(size)) == pytest.approx(size, rel=5e-4, abs=1)


def test_no_size_is_so_many_of_its_unit_that_it_needs_an_exponent():
    """What `doctor` requests of a host is more than any machine has."""
    assert format_bytes(1 << 60) == "1 EiB"
    assert format_bytes(2000 * 2**40) == "1.953 PiB"


def test_format_of_the_engines():
    assert format_bytes(1024) == "1 KiB"
    assert format_bytes(1025) == "1.001 KiB"
    assert format_bytes(None) == "?"


@pytest.mark.parametrize(
    ("size", "step", "text"),
    [
        (0.66 * GIB, 0, "0.66 GiB"),  # as vLLM prints it, not 675.8 MiB
        (7.92 * GIB - 7.26 * GIB, 0, "0.66 GiB"), (-0.05 * GIB, 0, "-0.05 GiB"),
        (GIB, 0, "1 GiB"), (GIB - 32768, 0, "1 GiB"), (1000, 0, "1000 B"),
        (512 * MIB, 0, "512 MiB"), (675.9 * MIB, 0, "675.9 MiB"), (3, 0, "3 B"),
        (75.6 * MIB, 0.01 * GIB, "0.07 GiB"), (1.234 * GIB, 0.01 * GIB, "1.23 GiB"),
        (36.04 * GIB, 0.1 * GIB, "36 GiB"), (2 * MIB, 0.01 * GIB, "0 GiB"), (0, 0.01 * GIB, "0 B"),
    ],
)  # fmt: skip
def test_sizes_have_the_digits_of_their_evidence(size, step, text):
    assert format_bytes(round(size), step) == text


@pytest.mark.parametrize(
    ("seconds", "text"),
    [(0, "0 s"), (0.0005, "0.5 ms"), (0.057, "57 ms"), (4.2, "4.2 s"), (125, "2 min 05 s"),
     (3720, "1 h 02 min"), (None, "?"), (-5, "-5 s")],
)  # fmt: skip
def test_durations_for_people(seconds, text):
    assert format_duration(seconds) == text


def test_durations_and_clocks():
    assert parse_duration("350 ms") == pytest.approx(0.35)
    assert parse_duration("2 min") == 120.0
    assert parse_duration("49 secs") == 49.0
    assert parse_clock("05:10") == 310.0
    assert parse_clock("1:02:03") == 3723.0
    for wrong in ("5", "1:2:3:4", "a:b"):
        with pytest.raises(ValueError, match="not an elapsed time"):
            parse_clock(wrong)


@given(st.floats(0, 4e9, allow_nan=False))
def test_times_read_back(seconds):
    assert parse_isoformat(isoformat(seconds)) == pytest.approx(seconds, abs=1e-5)


def test_a_size_of_a_user_has_a_unit():
    assert [parse_size(text) for text in ("2GiB", "2 GB", "512M", "0")] == [
        2 * GIB, 2 * GIB, GIB // 2, 0,
    ]  # fmt: skip
    for text in ("12", "-1", "12.5 "):
        with pytest.raises(ValueError, match="has no unit"):
            parse_size(text)


@pytest.mark.parametrize("moment", [-98e9, 1e12, float("inf"), float("nan")])
def test_a_time_that_no_calendar_has_is_unknown(moment):
    assert (isoformat(moment), format_time(moment)) == (None, "?")
