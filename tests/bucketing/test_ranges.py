"""The values of one dimension: worked examples, properties, and what is refused."""

from __future__ import annotations

from itertools import pairwise

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from warmup_insights.bucketing.exponential import exponential_range
from warmup_insights.bucketing.linear import linear_range, padding_aware_range
from warmup_insights.errors import SettingError


@pytest.mark.parametrize(
    ("parameters", "expected"),
    [
        ((2, 32, 64), [2, 4, 8, 16, 32, 64]),
        ((128, 128, 512), [128, 256, 384, 512]),
        ((0, 4, 10), [0, 4, 8]),
        ((0, 1, 0), [0]),
        ((0, 8, 3), [0]),
        ((1, 32, 50), [1, 2, 4, 8, 16, 32]),
        ((3, 8, 20), [3, 6, 8, 16]),
        ((48, 32, 128), [64, 96, 128]),
        ((1, 32, 4), [1, 2, 4]),
    ],
)
def test_linear_examples(parameters, expected):
    assert linear_range(*parameters) == expected


@pytest.mark.parametrize(
    ("parameters", "expected"),
    [
        # 128 * 16 ** (i / 9), rounded up to 128, equal ones once.
        ((128, 128, 2048, 10), [128, 256, 384, 512, 640, 896, 1152, 1536, 2048]),
        ((1, 1, 1, 1), [1]),
        ((0, 1, 1, 2), [0, 1]),
        ((128, 128, 64, 6), [64]),
        ((1, 2, 3, 3), [1, 2, 3]),
        ((0, 4, 2, 2), [0, 2]),
        ((20, 8, 6, 3), [6, 8, 16]),
    ],
)
def test_exponential_examples(parameters, expected):
    assert exponential_range(*parameters) == expected


def test_exponential_example_of_the_documentation():
    """min 128, step 128, max 4096, limit 13: dense at the small end, at most 13."""
    values = exponential_range(128, 128, 4096, 13)
    assert values[:4] == [128, 256, 384, 512]
    assert values[-1] == 4096
    assert len(values) <= 13
    gaps = [after - before for before, after in pairwise(values)]
    assert gaps[-1] > 3 * gaps[0]


def test_contiguous_pa_keeps_the_largest_unrounded_and_maybe_twice():
    """With a step above the maximum the range ends with the maximum two times."""
    assert exponential_range(1, 16, 8, 4, use_contiguous_pa=True) == [1, 8, 8]
    assert exponential_range(1, 16, 8, 4) == [1, 8]


@pytest.mark.parametrize(
    ("parameters", "expected"),
    [
        ((0, 8, 64, 64, 0), [0, 1, 2, 4, 8, 16, 24, 32, 40, 48, 56, 64]),
        ((0, 8, 64, 64, 50), [0, 1, 2, 4, 8, 16, 32, 64]),
        ((0, 8, 64, 16, 50), [0, 1, 2, 4, 8, 16, 32, 48, 64]),
        ((16, 16, 128, 32, 25), [16, 32, 48, 64, 80, 96, 128]),
        ((1, 1, 1, 1, 25), [1]),
        ((0, 2, 0, 0, 25), [0]),
        ((5, 3, 11, 0, 0), [5, 8, 11]),
    ],
)
def test_padding_aware_examples(parameters, expected):
    assert padding_aware_range(*parameters) == expected


@given(st.integers(0, 300), st.integers(1, 300), st.integers(0, 3000))
def test_linear_is_sorted_and_within_bounds(smallest, step, extra):
    """Sorted, no value twice, nothing outside; the minimum is in, up to one step."""
    largest = smallest + step + extra
    values = linear_range(smallest, step, largest)
    assert values == sorted(set(values))
    assert smallest <= values[0]
    assert values[-1] <= largest
    if smallest <= step:
        assert values[0] == smallest


@given(
    st.integers(0, 300),
    st.integers(1, 300),
    st.integers(1, 9000),
    st.integers(2, 20),
    st.booleans(),
)
@example(173, 25, 2, 2, False)
def test_exponential_holds_minimum_and_maximum(
    smallest, step, extra, limit, contiguous
):
    """Sorted, at most the limit (and 0 or 1), with its maximum and a lowest value.

    Only the maximum may be there twice: with contiguous PA, or where a value that an error
    of the last bit rounded up is lowered to it.
    """
    first = step if smallest in (0, 1) else smallest
    largest = first + extra
    values = exponential_range(
        smallest, step, largest, limit, use_contiguous_pa=contiguous
    )
    unique = sorted(set(values))
    assert values in (unique, [*unique, largest])
    assert values[-1] == largest
    assert len(values) <= limit + 1
    # The first value is rounded up to the step as all others are.
    assert values[0] == (
        smallest if smallest in (0, 1) else min(largest, -(-smallest // step) * step)
    )


@given(
    st.integers(0, 200),
    st.integers(1, 100),
    st.integers(0, 4000),
    st.integers(0, 600),
    st.integers(0, 50),
)
def test_padding_aware_holds_minimum_and_maximum(
    smallest, step, extra, pad_max, percent
):
    values = padding_aware_range(smallest, step, smallest + extra, pad_max, percent)
    assert values == sorted(set(values))
    assert values[0] == smallest
    assert values[-1] == smallest + extra


@given(st.integers(1, 64), st.integers(1, 64), st.integers(0, 50))
def test_padding_aware_keeps_the_percentage(blocks, step, percent):
    """Above the first step no value pads more than the percentage, or one step."""
    largest = step * blocks
    values = padding_aware_range(step, step, largest, largest, percent)
    for before, after in pairwise(values[1:]):
        padding = after - before - 1
        assert padding <= max(step - 1, after * percent / 100)


@pytest.mark.parametrize(
    ("function", "parameters", "words"),
    [
        (linear_range, (8, 2, 4), ["NAME_MIN=8", "NAME_MAX=4"]),
        (linear_range, (1, 0, 4), ["NAME_STEP=0"]),
        (linear_range, (-1, 1, 4), ["NAME_MIN=-1"]),
        (linear_range, (5, 4, 7), ["NAME_MIN=5", "NAME_STEP=4", "NAME_MAX=7"]),
        (linear_range, (1, 1, 10**9), ["NAME_STEP=1", "NAME_MAX=1000000000"]),
        (padding_aware_range, (8, 2, 4, 0, 0), ["NAME_MIN=8", "NAME_MAX=4"]),
        (padding_aware_range, (1, 0, 4, 0, 0), ["NAME_STEP=0"]),
        (padding_aware_range, (1, 1, 4, -1, 0), ["NAME_PAD_MAX=-1"]),
        (padding_aware_range, (1, 1, 4, 0, 51), ["NAME_PAD_PERCENT=51"]),
        (padding_aware_range, (1, 1, 4, 0, -1), ["NAME_PAD_PERCENT=-1"]),
        (exponential_range, (1, 1, 4, 0), ["NAME", "limit=0"]),
        (exponential_range, (1, 0, 4, 3), ["NAME", "step=0"]),
        (exponential_range, (1, 1, -4, 3), ["NAME", "max=-4"]),
        (exponential_range, (-1, 1, 4, 3), ["NAME", "min=-1"]),
    ],
)
def test_wrong_parameters_are_named(function, parameters, words):
    """One sentence that names what is wrong and its value."""
    with pytest.raises(SettingError) as caught:
        function(*parameters, name="NAME")
    for word in words:
        assert word in str(caught.value)
    assert not str(caught.value).endswith(".")
