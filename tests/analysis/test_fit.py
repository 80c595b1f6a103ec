"""Fitted buckets: covering, within limits, optimal where they say so, never worse."""

from __future__ import annotations

import itertools
from dataclasses import replace
from functools import partial

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from warmup_insights.analysis.fit.cost import (
    Limits,
    assign,
    execution_cost,
    measure_waste,
    tighten,
)
from warmup_insights.analysis.fit.report import (
    fit_for_settings,
    taken_from_file,
    with_limits,
)
from warmup_insights.analysis.fit.solve import adds_none, fit_buckets
from warmup_insights.analysis.fit.traffic import (
    Requests,
    Traffic,
    count_shapes,
    traffic_from_requests,
)
from warmup_insights.bucketing.base import Bucket
from warmup_insights.bucketing.file import parse_bucket_lines
from warmup_insights.bucketing.generate import generate
from warmup_insights.bucketing.lookup import BucketTable
from warmup_insights.bucketing.settings import SlidingWindow, settings_from_mapping
from warmup_insights.errors import InputError, SettingError
from warmup_insights.export.buckets import bucket_file_text, fit_table

fitted = partial(
    fit_buckets, block_weight=1, admits=lambda *_: True, warms=adds_none, others=()
)
EMPTY = count_shapes(np.zeros((0, 3)))


def traffic(prompt=(), decode=()):
    """Traffic from {shape: count} of each phase."""

    def counts(found):
        found = dict(found)
        return count_shapes(list(found), list(found.values())) if found else EMPTY

    return Traffic("t", counts(prompt), counts(decode))


def engine_settings(strategy="exp", **changes):
    limits = {
        "max_num_seqs": 16, "block_size": 16, "max_num_batched_tokens": 512,
        "max_model_len": 1024, "num_kv_blocks": 900, **changes,
    }  # fmt: skip
    return settings_from_mapping(limits, {"VLLM_BUCKETING_STRATEGY": strategy})


def cost_of(shape, phase, weight):
    rows = shape[0] if phase == "prompt" else 1
    return shape[0] * shape[1] + weight * rows * shape[2]


def brute_force(points, phase, most, weight):
    """Least executed work for each number of buckets, over every set of the grid."""
    values = [sorted({shape[i] for shape in points}) for i in range(3)]
    if phase == "prompt":
        values[1] = sorted({max(2, value) for value in values[1]})
    found = {}
    for size in range(1, most + 1):
        for chosen in itertools.combinations(sorted(itertools.product(*values)), size):
            total = 0
            for shape, count in points.items():
                fits = (
                    b
                    for b in chosen
                    if all(x >= y for x, y in zip(b, shape, strict=True))
                )
                bucket = next(fits, None)
                if bucket is None:
                    break
                total += count * cost_of(bucket, phase, weight)
            else:
                found[size] = min(found.get(size, total), total)
    return found


def best_split(curves, most):
    return min(
        sum(curve[n] for curve, n in zip(curves, numbers, strict=True))
        for numbers in itertools.product(*curves)
        if sum(numbers) <= most
    )


small_prompts = st.dictionaries(
    st.tuples(
        st.integers(1, 2), st.sampled_from([1, 3, 7, 9]), st.sampled_from([0, 2])
    ),
    st.integers(1, 9),
    max_size=4,
)
small_decodes = st.dictionaries(
    st.tuples(st.integers(1, 3), st.just(1), st.sampled_from([0, 1, 4])),
    st.integers(1, 9),
    max_size=4,
)


@settings(max_examples=60)
@given(small_prompts, small_decodes, st.integers(0, 2), st.sampled_from([0, 1, 3]))
def test_small_cases_equal_brute_force(prompt, decode, extra, weight):
    """With every set compared by other code, and the engine's rule for the lookup."""
    phases = [
        (p, points) for p, points in (("prompt", prompt), ("decode", decode)) if points
    ]
    if not phases:
        return
    most = len(phases) + extra
    fit = fitted(traffic(prompt, decode), Limits(max_buckets=most), block_weight=weight)
    curves = [brute_force(points, p, most, weight) for p, points in phases]
    assert fit.executed == best_split(curves, most)
    # Sizes between those that occur can change the engine's order in three dimensions.
    varies = any(len({shape[i] for shape in prompt}) < 2 for i in range(3))
    assert fit.is_exact or not varies
    assert fit.bound <= fit.executed
    assert fit.usage.num_buckets <= most


def test_nothing_is_called_optimal_that_sizes_between_those_that_occur_can_beat():
    """A batch of 4 sorts (4, 4, 6) behind (3, 9, 0), so shapes of (3, 4, 0) run there."""
    points = {(3, 9, 0): 1, (3, 4, 0): 30, (3, 4, 6): 1, (1, 9, 0): 30}
    buckets = [Bucket(3, 9, 0), Bucket(4, 4, 6)]
    found = traffic(points)
    beaten_by = measure_waste(found.prompt, buckets, "prompt", 1).executed
    fit = fitted(found, Limits(max_buckets=2))
    assert fit.executed == brute_force(points, "prompt", 2, 1)[2]
    assert fit.bound <= beaten_by < fit.executed
    assert not fit.is_exact


@settings(max_examples=20, deadline=None)
@given(small_decodes.filter(bool), st.integers(2, 9))
def test_small_cases_within_seconds_equal_brute_force(decode, bound):
    """A bucket takes as many seconds as its batch and its blocks together."""
    values = [sorted({shape[i] for shape in decode}) for i in range(3)]
    grid = sorted(itertools.product(*values))
    found = traffic(decode=decode).decode
    wastes = [
        measure_waste(found, map(Bucket._make, chosen), "decode", 1)
        for size in range(1, len(grid) + 1)
        for chosen in itertools.combinations(grid, size)
        if sum(b[0] + b[2] for b in chosen) <= bound
    ]
    costs = [waste.executed for waste in wastes if not waste.uncovered_shapes]
    limits = Limits(max_warmup_s=bound, seconds=lambda phase, b: b[0] + b[2])
    if not costs:
        with pytest.raises(InputError, match="raise the limit"):
            fitted(Traffic("t", EMPTY, found), limits)
        return
    fit = fitted(Traffic("t", EMPTY, found), limits)
    assert fit.executed == min(costs)
    assert fit.is_exact


@pytest.mark.long
@settings(max_examples=25, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(
    st.lists(
        st.tuples(st.integers(1, 700), st.integers(1, 120)), min_size=1, max_size=60
    ),
    st.sampled_from(["exp", "lin", "pad"]),
    st.sampled_from([0, 1, 4]),
)
def test_never_worse_than_a_strategy_on_the_same_traffic_and_limit(pairs, name, weight):
    limits = engine_settings(name)
    lengths = np.array(pairs)
    found = traffic_from_requests(Requests("r", lengths[:, 0], lengths[:, 1]), limits)
    generated = generate(limits)
    lists = {"prompt": generated.prompt, "decode": generated.decode}
    number = sum(len(own) for own in lists.values())
    report = fit_for_settings(
        found, limits, Limits(max_buckets=number), block_weight=weight
    )
    executed = sum(
        measure_waste(found.of(phase), lists[phase], phase, weight).executed
        for phase in lists
    )
    assert report.fit.executed <= executed
    assert report.fit.bound <= report.fit.executed


@pytest.mark.long
@settings(max_examples=40)
@given(
    st.lists(
        st.tuples(st.integers(1, 700), st.integers(1, 120)), min_size=1, max_size=40
    ),
    st.integers(2, 12),
)
def test_a_fit_covers_everything_and_the_engine_takes_it_as_it_is(pairs, most):
    """The written file reads back, no bucket of it is dropped or changed, every step of
    the traffic finds its bucket, and the padding is the one that was promised."""
    limits = engine_settings()
    lengths = np.array(pairs)
    found = traffic_from_requests(Requests("r", lengths[:, 0], lengths[:, 1]), limits)
    report = fit_for_settings(found, limits, Limits(max_buckets=most))
    text = bucket_file_text(report, f"{most} buckets")
    file = parse_bucket_lines(text.splitlines(keepends=True), "file")
    loaded = engine_settings()
    loaded = type(loaded)(**{**vars(loaded), "bucket_file": file})
    generated = generate(loaded)
    assert generated.dropped == ()
    table = BucketTable(loaded, generated)
    executed = 0
    for phase in ("prompt", "decode"):
        own = found.of(phase)
        for shape, count in zip(own.shapes.tolist(), own.counts.tolist(), strict=True):
            result = table.peek(phase, shape)
            assert result.outcome == "found"
            executed += count * cost_of(result.bucket, phase, 1)
    assert executed == report.fit.executed
    assert report.fit.usage.num_buckets <= most


def test_the_bound_is_told_where_the_fit_is_not_proven():
    draw = np.random.default_rng(0)
    lengths = draw.integers(1, 900, (400, 2)) // [1, 8] + 1
    limits = engine_settings(max_num_seqs=12)
    found = traffic_from_requests(Requests("r", lengths[:, 0], lengths[:, 1]), limits)
    report = fit_for_settings(found, limits, Limits(max_buckets=12))
    fit = report.fit
    assert not fit.is_exact
    assert fit.needed < fit.bound < fit.executed
    assert "at most" in fit_table(report).note
    assert 0 < fit.gap_percent < 25


def test_one_dimension_is_exact_at_any_size():
    points = {(1, q, 0): q % 7 for q in range(1, 900)}
    fit = fitted(traffic(points), Limits(max_buckets=9))
    assert fit.is_exact
    assert fit.usage.num_buckets == 9


def test_more_buckets_never_waste_more():
    points = {(1, q, 0): 1 + q % 5 for q in range(10, 400, 7)}
    wasted = [
        fitted(traffic(points), Limits(max_buckets=n)).wasted for n in range(1, 12)
    ]
    assert wasted == sorted(wasted, reverse=True)
    assert fitted(traffic(points), Limits(max_buckets=99)).wasted == 0


def test_shapes_that_never_run_still_get_a_bucket():
    points = {(1, 100, 0): 5, (1, 512, 0): 0}
    fit = fitted(traffic(points), Limits(max_buckets=2))
    assert fit.buckets["prompt"] == ((1, 100, 0), (1, 512, 0))


def test_the_largest_legal_shapes_can_be_covered():
    found = with_limits(traffic({(1, 100, 0): 5}), engine_settings())
    assert [tuple(s) for s in found.prompt.shapes.tolist()] == [
        (1, 100, 0),
        (1, 512, 0),
    ]
    assert [tuple(s) for s in found.decode.shapes.tolist()] == [(16, 1, 900)]
    assert found.prompt.total == 5


def test_a_prompt_of_one_token_is_written_with_two():
    """Query length 1 means decode in a bucket file."""
    fit = fitted(traffic({(1, 1, 0): 3}), Limits(max_buckets=1))
    assert fit.buckets["prompt"] == ((1, 2, 0),)
    assert (fit.needed, fit.executed) == (3, 6)


def test_prompt_buckets_keep_the_token_budget():
    """Two prompts of 300 together, or one of 500: (2, 500, 0) would be dropped."""
    points = {(2, 200, 0): 10, (1, 500, 0): 10}
    free = fitted(traffic(points), Limits(max_buckets=1))
    assert free.buckets["prompt"] == ((2, 500, 0),)
    admits = taken_from_file(engine_settings())
    with pytest.raises(InputError, match="raise the limit"):
        fitted(traffic(points), Limits(max_buckets=1), admits=admits)
    kept = fitted(traffic(points), Limits(max_buckets=2), admits=admits)
    assert kept.buckets["prompt"] == ((1, 500, 0), (2, 200, 0))


def with_file(limits, report):
    """What the engine makes of the written file of a fit."""
    lines = bucket_file_text(report, "some buckets").splitlines(keepends=True)
    loaded = replace(limits, bucket_file=parse_bucket_lines(lines, "file"))
    return generate(loaded)


@pytest.mark.parametrize("version", ["v0.15.1", "v0.17.1", "v0.26.0"])
def test_no_bucket_is_dropped_where_query_and_context_must_fit_together(version):
    """One bucket for both steps would be (1, 512, 40), of 1,152 tokens."""
    limits = replace(engine_settings(), engine_version=version)
    points = {(1, 512, 0): 5, (1, 64, 40): 5, (1, 500, 33): 1}
    found = traffic(points, {(1, 1, 40): 1})
    report = fit_for_settings(found, limits, Limits(max_buckets=3))
    generated = with_file(limits, report)
    assert generated.dropped == ()
    assert generated.prompt == report.fit.buckets["prompt"]
    # 500 and 33 blocks of 16 are 1,028 tokens: that version takes no bucket for them.
    is_early = limits.rules.sums_context
    assert any("find no bucket" in note for note in report.notes) == is_early
    largest = max(b.query_len + 16 * b.num_blocks for b in generated.prompt)
    assert (largest <= 1024) == is_early


def test_prompts_without_context_are_whole_slices_where_attention_has_them():
    """800 has no whole number of slices within the token budget of 900."""
    window = SlidingWindow(slice_size=256, threshold=300)
    limits = replace(engine_settings(max_num_batched_tokens=900), sliding_window=window)
    points = {(1, 200, 0): 3, (1, 400, 0): 3, (1, 800, 0): 1, (1, 400, 7): 1}
    report = fit_for_settings(traffic(points), limits, Limits(max_buckets=5))
    generated = with_file(limits, report)
    assert generated.dropped == ()
    assert {(1, 200, 0), (1, 512, 0), (1, 800, 1)} <= set(generated.prompt)
    table = BucketTable(limits, generated)
    assert all(table.peek("prompt", shape).outcome == "found" for shape in points)


@pytest.mark.parametrize("contiguous", [True, False])
@pytest.mark.parametrize("drafts", [1, 2, 4])
@pytest.mark.parametrize("most", [7, 12, 25])
def test_limits_count_all_that_an_engine_warms_up(contiguous, drafts, most):
    """The buckets that speculative decoding adds to those of the file, and the one that
    stands for a phase without steps."""
    limits = replace(
        engine_settings(), num_speculative_tokens=drafts, use_contiguous_pa=contiguous
    )
    found = traffic((), {(n, 1, n * 3 + n % 5): 1 + n % 7 for n in range(1, 17)})
    report = fit_for_settings(
        found, limits, Limits(max_buckets=most, max_warmup_s=3 * most, seconds=seconds)
    )
    generated = with_file(limits, report)
    pairs = [("prompt", b) for b in generated.prompt]
    pairs += [("decode", b) for b in generated.decode]
    assert report.fit.usage.num_buckets == len(pairs) <= most
    took = sum(seconds(*pair) for pair in pairs)
    assert report.fit.usage.warmup_s == pytest.approx(took)
    more = len(generated.decode) - len(report.fit.buckets["decode"])
    assert any(f"adds {more} decode buckets" in note for note in report.notes)
    table = BucketTable(limits, generated)
    ran = [table.peek("decode", shape).bucket for shape in found.decode.shapes.tolist()]
    costs = [cost_of(bucket, "decode", 1) for bucket in ran]
    executed = sum(np.array(costs) * found.decode.counts)
    assert report.fit.bound <= report.fit.executed == executed
    row = fit_table(report).rows[0]
    assert row[:3] == ("this fit", str(len(pairs)), str(len(set(ran))))


def test_a_limit_that_drafts_alone_exceed_leaves_no_set():
    limits = replace(engine_settings(), num_speculative_tokens=2)
    found = traffic((), {(2, 1, 20): 5})
    with pytest.raises(InputError, match="within 3 buckets; raise the limit"):
        fit_for_settings(found, limits, Limits(max_buckets=3))
    fit = fit_for_settings(found, limits, Limits(max_buckets=4)).fit
    assert (fit.usage.num_buckets, fit.is_exact) == (4, True)


def test_steps_that_no_bucket_covers_are_stated_of_the_fit():
    """An engine takes no prompt from a file that has more context than the model."""
    limits = engine_settings()
    found = traffic({(1, 200, 0): 3, (5, 100, 100): 2})
    report = fit_for_settings(found, limits, Limits(max_buckets=4))
    assert fit_table(report).rows[0][4] == "2"


def seconds(phase, bucket):
    return 1.0 + bucket[0] * bucket[1] / 1000


@pytest.mark.parametrize("bound", [4.0, 7.5, 20.0])
def test_seconds_are_a_limit(bound):
    points = {(1, q, 0): 1 for q in range(50, 1000, 50)}
    fit = fitted(
        traffic(points, {(4, 1, 9): 3}), Limits(max_warmup_s=bound, seconds=seconds)
    )
    spent = sum(seconds(p, b) for p, buckets in fit.buckets.items() for b in buckets)
    assert fit.usage.warmup_s == pytest.approx(spent)
    assert spent <= bound
    assert spent + 2.1 > bound or fit.wasted == 0
    assert fit.bound <= fit.executed


def test_bytes_and_number_are_limits_together():
    points = {(1, q, 0): 1 for q in range(50, 1000, 50)}
    limits = Limits(
        max_buckets=3, max_graph_bytes=2500, bytes=lambda phase, bucket: bucket[1]
    )
    fit = fitted(traffic(points), limits)
    assert len(fit.buckets["prompt"]) <= 3
    assert fit.usage.graph_bytes <= 2500


def test_limits_that_nothing_keeps_are_said():
    both = traffic({(1, 9, 0): 1}, {(1, 1, 1): 1})
    with pytest.raises(InputError, match=r"prompt and decode steps .* within 1 bucket"):
        fitted(both, Limits(max_buckets=1))
    with pytest.raises(InputError, match=r"0\.5 s of warm-up"):
        fitted(both, Limits(max_warmup_s=0.5, seconds=seconds))


def test_limits_are_said_in_words():
    limits = Limits(9, 90.0, 2**31, seconds=seconds, bytes=seconds)
    assert str(limits) == "9 buckets and 1 min 30 s of warm-up and 2 GiB of graphs"


def test_limits_that_are_none_are_refused():
    with pytest.raises(SettingError, match="no limit"):
        Limits()
    with pytest.raises(SettingError, match="of 0 or less"):
        Limits(max_buckets=0)
    with pytest.raises(InputError, match="needs a run"):
        Limits(max_warmup_s=5.0)


def test_lookup_is_that_of_the_engine():
    """A smaller batch with a longer query comes before a larger batch."""
    buckets = [Bucket(1, 512, 0), Bucket(2, 64, 0)]
    shapes = np.array([(1, 64, 0), (2, 64, 0), (2, 65, 0)])
    assert assign(shapes, buckets).tolist() == [0, 1, -1]


def test_lookup_in_many_buckets_is_the_same():
    draw = np.random.default_rng(1)
    buckets = [Bucket(*map(int, row)) for row in draw.integers(1, 30, (900, 3))]
    shapes = draw.integers(1, 32, (300, 3))
    few = assign(shapes, buckets[:400])
    many = assign(shapes, sorted(set(buckets)))
    for chosen, own in (
        (few, sorted(set(buckets[:400]))),
        (many, sorted(set(buckets))),
    ):
        for shape, position in zip(shapes.tolist(), chosen.tolist(), strict=True):
            fits = [
                i
                for i, b in enumerate(own)
                if all(x >= y for x, y in zip(b, shape, strict=True))
            ]
            assert position == (fits[0] if fits else -1)


def test_tightening_keeps_what_is_covered():
    found = traffic(decode={(3, 1, 7): 1, (1, 1, 2): 5}).decode
    assert tighten(found, [Bucket(4, 1, 99), Bucket(9, 1, 999)], "decode") == [
        Bucket(3, 1, 7)
    ]


def test_costs_count_blocks_by_row_in_prompts():
    shapes = np.array([(2, 10, 3)])
    assert execution_cost(shapes, "prompt", 1).tolist() == [26]
    assert execution_cost(shapes, "decode", 1).tolist() == [23]
    assert execution_cost(shapes, "prompt", 0).tolist() == [20]


def test_query_lengths_can_be_multiples():
    found = traffic({(1, q, 0): 1 for q in range(1, 500, 3)}, {(1, 1, 1): 1})
    report = fit_for_settings(
        found, engine_settings(), Limits(max_buckets=5), query_step=64
    )
    lengths = [bucket.query_len for bucket in report.fit.buckets["prompt"]]
    assert all(length % 64 == 0 for length in lengths)
    waste = measure_waste(found.prompt, report.fit.buckets["prompt"], "prompt", 1)
    assert waste.uncovered == 0


def test_strategies_are_judged_on_the_same_traffic():
    found = traffic({(1, 500, 0): 4, (1, 90, 0): 1}, {(1, 1, 1): 1})
    report = fit_for_settings(found, engine_settings(), Limits(max_buckets=3))
    names = [result.name for result in report.strategies]
    assert names == ["exponential", "linear", "padding-aware"]
    for result in report.strategies:
        assert (result.uncovered, result.keeps_limits) == (0, False)
        assert result.num_used <= result.num_buckets
    assert report.as_dict()["fit"]["waste_ratio"] == report.fit.waste_ratio


def test_steps_that_a_strategy_leaves_out_are_counted():
    """Only the linear one reads the range, so only it has no bucket for 500 tokens."""
    changed = engine_settings()
    short = type(changed)(
        **{**vars(changed), "overrides": {"VLLM_PROMPT_QUERY_BUCKET_MAX": 256}}
    )
    found = traffic({(1, 500, 0): 4, (1, 90, 0): 1}, {(1, 1, 1): 1})
    report = fit_for_settings(found, short, Limits(max_buckets=3))
    uncovered = {result.name: result.uncovered for result in report.strategies}
    assert (uncovered["exponential"], uncovered["linear"]) == (0, 4)


def test_a_strategy_that_cannot_be_used_says_why():
    changed = engine_settings()
    broken = type(changed)(
        **{**vars(changed), "overrides": {"VLLM_PROMPT_BS_BUCKET_MIN": 900}}
    )
    found = traffic({(1, 500, 0): 4}, {(1, 1, 1): 1})
    report = fit_for_settings(found, broken, Limits(max_buckets=3))
    errors = {result.name: result.error for result in report.strategies}
    assert errors["exponential"] is None
    assert "VLLM_PROMPT_BS_BUCKET_MIN=900" in errors["linear"]


def test_steps_without_a_bucket_are_counted():
    found = traffic({(1, 9, 0): 4, (1, 99, 0): 2, (1, 999, 0): 0}).prompt
    waste = measure_waste(found, [Bucket(1, 10, 0)], "prompt", 1)
    assert (waste.uncovered, waste.uncovered_shapes) == (2, 2)
    assert (waste.needed, waste.executed, waste.wasted) == (36, 40, 4)


def test_steps_larger_than_the_settings_are_refused():
    with pytest.raises(
        InputError, match="900 tokens, more than max_num_batched_tokens=512"
    ):
        fit_for_settings(
            traffic({(1, 900, 0): 1}), engine_settings(), Limits(max_buckets=3)
        )


def test_many_batch_sizes_of_prompts_are_put_together():
    """More than six: every size alone, powers of two, or all at once are tried."""
    points = {(batch, 10 * batch % 70 + 5, 0): 1 + batch % 3 for batch in range(1, 17)}
    few = fitted(traffic(points), Limits(max_buckets=3))
    many = fitted(traffic(points), Limits(max_buckets=16))
    assert few.usage.num_buckets <= 3
    assert many.wasted == 0
    assert few.bound <= few.executed


def test_the_bound_of_thousands_of_values_is_below_the_optimum():
    """It is thinned out, which only lowers it: in one dimension the optimum is known."""
    points = {(1, q, 0): 1 + q % 3 for q in range(2, 6000)}
    fit = fitted(traffic(points), Limits(max_buckets=6))
    assert 0.99 * fit.executed < fit.bound <= fit.executed


def test_nothing_to_cover_needs_no_bucket():
    fit = fitted(traffic({(1, 9, 0): 1}), Limits(max_buckets=5))
    assert fit.buckets == {"prompt": ((1, 9, 0),)}
    assert (fit.wasted, fit.gap_percent, fit.waste_ratio) == (0, 0.0, 0.0)
