"""Defragmentation: the warm-up leaves the cache alone, the plan follows the rule."""

from __future__ import annotations

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.runner.helpers import BLOCK, make_engine, of_kind
from warmup_insights.model.events import DefragStep, DefragWarmup
from warmup_insights.rules.memory import CacheLayout
from warmup_insights.runner.engine import Emitter
from warmup_insights.runner.scheduler import (
    THRESHOLDS,
    BlockPool,
    plan_swaps,
    warm_up_defragmenter,
)


def fill(engine):
    """Random bytes everywhere, and a copy of them."""
    with torch.inference_mode():
        for cache in engine.caches:
            for tensor in cache:
                tensor.normal_()
    return [[tensor.clone() for tensor in cache] for cache in engine.caches]


def same(engine, copies, blocks=slice(None)):
    return all(
        torch.equal(tensor[blocks], copy[blocks])
        for cache, kept in zip(engine.caches, copies, strict=True)
        for tensor, copy in zip(cache, kept, strict=True)
    )


def warm_up(engine, num_blocks, with_graphs):
    events = []
    warm_up_defragmenter(
        engine,
        CacheLayout(num_blocks, BLOCK),
        Emitter(events.append, engine.device),
        with_graphs=with_graphs,
    )
    return events


@pytest.mark.parametrize("with_graphs", [False, True], ids=["eager", "graphs"])
def test_the_warm_up_leaves_every_byte_of_the_cache_as_it_was(with_graphs):
    engine = make_engine(num_blocks=6)
    copies = fill(engine)
    events = warm_up(engine, 6, with_graphs)
    assert same(engine, copies)
    assert len(of_kind(events, DefragStep)) == 8


def test_a_single_swap_does_change_the_cache():
    """The byte comparison above can fail: one swap more and it does."""
    engine = make_engine(num_blocks=6)
    copies = fill(engine)
    engine.swap_blocks([(1, 0)], 8, with_graph=False)
    assert not same(engine, copies)
    assert same(engine, copies, slice(2, None))


def test_every_threshold_is_warmed_and_the_first_one_twice():
    events = warm_up(make_engine(num_blocks=6), 6, False)
    steps = [step.threshold for step in of_kind(events, DefragStep)]
    assert steps == [8, 16, 32, 64, 128, 256, 512, 8]
    started, completed = of_kind(events, DefragWarmup)
    assert started.thresholds == completed.thresholds == list(THRESHOLDS)
    assert completed.status == "completed"
    assert completed.duration_s > 0


@pytest.mark.parametrize("num_blocks", [0, 1])
def test_too_few_blocks_skip_the_warm_up_with_the_engines_words(num_blocks):
    events = warm_up(make_engine(num_blocks=2), num_blocks, False)
    started, skipped = of_kind(events, DefragWarmup)
    assert started.status == "started"
    assert (skipped.status, skipped.reason) == (
        "skipped", f"insufficient blocks ({num_blocks})",
    )  # fmt: skip
    assert of_kind(events, DefragStep) == []


@pytest.mark.parametrize("with_graph", [False, True])
def test_blocks_of_a_pair_change_places(with_graph):
    engine = make_engine(num_blocks=8)
    copies = fill(engine)
    engine.swap_blocks([(7, 0), (5, 2)], 8, with_graph=with_graph)
    order = [7, 1, 5, 3, 4, 2, 6, 0, 8]
    for cache, kept in zip(engine.caches, copies, strict=True):
        for tensor, copy in zip(cache, kept, strict=True):
            assert torch.equal(tensor, copy[order])


def test_the_graph_of_a_threshold_serves_other_pairs():
    engine = make_engine(num_blocks=8)
    copies = fill(engine)
    engine.swap_blocks([(1, 0)], 8, with_graph=True)
    engine.swap_blocks([(6, 3)], 8, with_graph=True)
    engine.swap_blocks([(1, 0), (6, 3)], 8, with_graph=True)
    assert same(engine, copies)


def test_the_plan_by_hand():
    """Used 0, 3 and 50 with a trigger of 32: 50 - 32 > 3, so 50 goes to 1, 3 to 2."""
    plan = plan_swaps({0, 3, 50}, 32, range(100))
    assert plan.pairs == [(50, 1), (3, 2)]
    assert (plan.padded, plan.max_id_before, plan.max_id_after) == (8, 50, 2)


def test_the_trigger_compares_the_highest_block_with_the_number_in_use():
    """Highest 35 and 3 in use: 35 - 32 is not above 3, and 36 - 32 is."""
    assert plan_swaps({0, 1, 35}, 32, range(100)) is None
    assert plan_swaps({0, 1, 36}, 32, range(100)) is not None
    assert plan_swaps(set(), 0, range(100)) is None


def test_not_more_than_the_largest_threshold_at_once():
    plan = plan_swaps(range(1000, 2000), 32, range(3000))
    assert len(plan.pairs) == plan.padded == 512


@settings(max_examples=200)
@given(used=st.sets(st.integers(0, 300), max_size=60), trigger=st.integers(0, 40))
def test_a_plan_lowers_the_highest_block_and_touches_no_other_block(used, trigger):
    plan = plan_swaps(used, trigger, range(301))
    if plan is None:
        assert not used or max(used) - trigger <= len(used) or max(used) < len(used)
        return
    sources, targets = zip(*plan.pairs, strict=True)
    assert set(sources) <= used
    assert not set(targets) & used
    after = (used - set(sources)) | set(targets)
    assert max(after) == plan.max_id_after < plan.max_id_before
    assert after == set(range(len(used)))
    assert len(plan.pairs) <= plan.padded


def test_the_pool_follows_a_swap():
    """The used block is free afterwards, in the place of the one it changed with."""
    pool = BlockPool(CacheLayout(6, BLOCK))
    blocks = pool.allocate(4)
    pool.free(blocks[:2])
    pool.swap([(3, 0)])
    assert pool.used == {0, 2}
    assert pool.allocate(4) == [4, 5, 3, 1]


@settings(max_examples=100)
@given(st.lists(st.integers(0, 5), max_size=40))
def test_the_pool_hands_out_each_block_once(choices):
    pool = BlockPool(CacheLayout(7, BLOCK))
    held = []
    for choice in choices:
        if choice < 3 and pool.num_free > choice:
            held.append(pool.allocate(choice + 1))
        elif held:
            pool.free(held.pop(choice % len(held)))
        flat = [block for blocks in held for block in blocks]
        assert len(flat) == len(set(flat)) == 7 - pool.num_free
        assert set(flat) == pool.used
