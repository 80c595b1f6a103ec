"""The capture rule against a naive implementation, over random costs and budgets."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from warmup_insights.errors import SettingError
from warmup_insights.rules.capture import (
    GraphBudget,
    capture_graphs,
    num_units,
    order_candidates,
)


def naive_order(buckets, strategy):
    if strategy == "min_tokens":
        return sorted(buckets, key=lambda b: (b[0] * b[1], b[1], b[0], b[2:]))
    return sorted(buckets, key=lambda b: (-b[0], b[1], b[2:]))


class Naive:
    """The rule as the seed tells it, written as one would by hand."""

    def __init__(self, cost):
        self.cost = cost
        self.done = []

    def spent(self, phase):
        return sum(self.cost(p, b) for p, b in self.done if p == phase)

    def guess(self, phase, bucket):
        def weight(b):
            return b[0] * b[1] if phase == "prompt" else b[0]

        units = 0.001
        for other_phase, other in self.done:
            units += weight(other) if other_phase == phase else 0
        return weight(bucket) / units * self.spent(phase)

    def go(self, phase, buckets, left):
        everything = True
        for bucket in buckets:
            if self.guess(phase, bucket) >= left:
                everything = False
            elif (phase, bucket) not in self.done:
                self.done.append((phase, bucket))
                left -= self.cost(phase, bucket)
        return everything


def naive(prompt, decode, total, ratio, strategies, cost):
    """The captured (phase, bucket) in order."""
    rule = Naive(cost)

    def left():
        return total - rule.spent("prompt") - rule.spent("decode")

    prompts = naive_order(prompt, strategies[0])
    decodes = naive_order(decode, strategies[1])
    all_prompts = rule.go("prompt", prompts, ratio * total)
    all_decodes = rule.go("decode", decodes, total - ratio * total)
    if left() > 0 and not all_prompts and all_decodes:
        all_prompts = rule.go("prompt", prompts, left())
    if left() > 0 and not all_decodes and all_prompts:
        rule.go("decode", decodes, left())
    return rule.done


def buckets(dimensions):
    numbers = [st.integers(1, 8), st.integers(1, 64)]
    if dimensions == 3:
        numbers.append(st.integers(0, 5))
    return st.lists(st.tuples(*numbers), unique=True, max_size=12)


@st.composite
def cases(draw):
    dimensions = draw(st.sampled_from([2, 3]))
    prompt, decode = draw(buckets(dimensions)), draw(buckets(dimensions))
    prices = {
        (phase, bucket): draw(st.integers(-5, 3000))
        for phase, found in (("prompt", prompt), ("decode", decode))
        for bucket in found
    }
    kinds = st.sampled_from(["min_tokens", "max_bs"])
    return {
        "prompt": prompt,
        "decode": decode,
        "total": draw(st.integers(-100, 20_000)),
        "ratio": draw(st.sampled_from([0.0, 0.1, 0.3, 0.5, 1.0])),
        "strategies": (draw(kinds), draw(kinds)),
        "prices": prices,
    }


def run_rule(case):
    order = []

    def capture(candidate):
        order.append((candidate.phase, candidate.bucket))
        return case["prices"][candidate.phase, candidate.bucket]

    budget = GraphBudget(10**6, case["total"], case["ratio"])
    prompt, decode = capture_graphs(
        case["prompt"],
        case["decode"],
        budget,
        capture,
        prompt_strategy=case["strategies"][0],
        decode_strategy=case["strategies"][1],
    )
    return order, prompt, decode


@settings(max_examples=400)
@given(cases())
def test_the_captured_set_and_order_equal_the_naive_rule(case):
    order, prompt, decode = run_rule(case)
    expected = naive(
        case["prompt"],
        case["decode"],
        case["total"],
        case["ratio"],
        case["strategies"],
        lambda phase, bucket: case["prices"][phase, bucket],
    )
    assert order == expected
    assert prompt.buckets == sorted(b for phase, b in expected if phase == "prompt")
    assert decode.buckets == sorted(b for phase, b in expected if phase == "decode")


@settings(max_examples=200)
@given(cases())
def test_every_candidate_is_captured_or_skipped_once(case):
    _, prompt, decode = run_rule(case)
    for captures, candidates in ((prompt, case["prompt"]), (decode, case["decode"])):
        skipped = [candidate.bucket for candidate in captures.skipped]
        assert sorted(captures.buckets + skipped) == sorted(candidates)
        prices = [case["prices"][captures.phase, bucket] for bucket in captures.buckets]
        assert captures.used_bytes == sum(prices)


def test_min_tokens_breaks_ties_by_length_then_batch_size():
    """The order of the seed's log: 512 tokens come as (4, 128), (2, 256), (1, 512)."""
    found = order_candidates([(1, 512), (2, 256), (4, 128), (1, 128)], "min_tokens")
    assert found == [(1, 128), (4, 128), (2, 256), (1, 512)]


def test_max_bs_starts_with_the_largest_batch_and_its_shortest():
    found = order_candidates([(1, 128), (4, 256), (4, 128), (2, 128)], "max_bs")
    assert found == [(4, 128), (4, 256), (2, 128), (1, 128)]


def test_an_unknown_strategy_is_named():
    with pytest.raises(SettingError, match=r"'max_tokens'.*min_tokens, max_bs"):
        order_candidates([], "max_tokens")


def test_prompts_weigh_tokens_and_decodes_sequences():
    assert num_units("prompt", (4, 128, 3)) == 512
    assert num_units("decode", (4, 1, 128)) == 4
    assert num_units("decode", (4, 2048)) == 4


def test_nothing_is_captured_without_memory():
    """A budget that is used up, or negative, captures not even the first."""
    for total in (0, -1):
        prompt, decode = capture_graphs(
            [(1, 128)], [(1, 128)], GraphBudget(0, total, 0.3), lambda _: 1,
            prompt_strategy="min_tokens", decode_strategy="max_bs",
        )  # fmt: skip
        assert prompt.captured == decode.captured == []
        assert len(prompt.skipped) == len(decode.skipped) == 1


@pytest.mark.parametrize(("gets_rest", "captured"), [(True, 2), (False, 1)])
def test_decodes_of_some_versions_get_nothing_of_what_prompts_leave(
    gets_rest, captured
):
    """Half of 100 is for prompts, which take 10; a second decode needs more than half."""
    _, decode = capture_graphs(
        [(1, 128)], [(8, 128), (4, 128)], GraphBudget(100, 100, 0.5),
        lambda candidate: 10 if candidate.phase == "prompt" else 40,
        prompt_strategy="min_tokens", decode_strategy="max_bs",
        decodes_get_rest=gets_rest,
    )  # fmt: skip
    assert len(decode.captured) == captured
