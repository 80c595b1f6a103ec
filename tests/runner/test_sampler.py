"""The sampler, and its warm-up."""

from __future__ import annotations

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.runner.helpers import make_engine, of_kind
from warmup_insights.model.events import (
    PhaseMarked,
    SamplerConfig,
    SamplerStep,
    SamplerWarmup,
)
from warmup_insights.runner.engine import Emitter, SamplingParams
from warmup_insights.runner.sampling import Sampler, SamplingTensors, restrict
from warmup_insights.runner.warmup import sampler_batch_sizes, warm_up_sampler

SEED_CONFIGS = [
    (0.0, 1.0, 0), (1.0, 1.0, 0), (0.7, 0.9, 50),
    (0.3, 0.95, 20), (1.2, 0.8, 100), (0.8, 0.85, 0),
]  # fmt: skip


def warm_up(sizes):
    events = []
    engine = make_engine()
    warm_up_sampler(engine, sizes, Emitter(events.append, engine.device))
    return events


def test_batch_sizes_are_0_and_1_then_those_of_the_decode_buckets():
    assert sampler_batch_sizes([138, 138]) == [0, 1, 138]
    assert sampler_batch_sizes([1, 2, 4, 2]) == [0, 1, 2, 4]


def test_the_12_configurations_are_those_of_the_documentation_in_order():
    events = warm_up([2])
    found = [
        (e.temperature, e.top_p, e.top_k, e.batch_changed)
        for e in of_kind(events, SamplerConfig)
    ]
    assert found == [
        (*config, changed) for changed in (True, False) for config in SEED_CONFIGS
    ]


def test_every_configuration_runs_at_every_batch_size_and_is_timed():
    events = warm_up([4, 2])
    steps = of_kind(events, SamplerStep)
    assert [step.batch_size for step in steps] == [
        n for n in (0, 1, 2, 4) for _ in range(12)
    ]
    assert all(step.duration_s > 0 for step in steps)
    started, completed = of_kind(events, SamplerWarmup)
    assert (started.status, completed.status) == ("started", "completed")
    assert started.batch_sizes == [0, 1, 2, 4]
    assert completed.duration_s >= sum(step.duration_s for step in steps)
    assert [mark.edge for mark in of_kind(events, PhaseMarked)] == ["start", "end"]


def test_greedy_takes_the_most_likely_token():
    logits = torch.tensor([[0.1, 3.0, 2.0], [5.0, 1.0, 1.0]])
    sampler = Sampler("cpu", 0)
    found = sampler.sample(logits, [SamplingParams()] * 2, batch_changed=True)
    assert found.tolist() == [1, 0]


def test_rows_of_a_batch_sample_differently():
    """One greedy row, one that may only take its best two tokens."""
    logits = torch.tensor([[1.0, 2.0, 3.0, 2.5]]).repeat(2, 1)
    sampler = Sampler("cpu", 0)
    params = [SamplingParams(), SamplingParams(5.0, 1.0, 2)]
    draws = [
        sampler.sample(logits, params, batch_changed=False).tolist() for _ in range(200)
    ]
    assert {row[0] for row in draws} == {2}
    assert {row[1] for row in draws} == {2, 3}


def test_the_frequencies_follow_the_probabilities():
    """20000 draws of p = 0.1, 0.2, 0.7: each within 4 standard deviations."""
    probabilities = torch.tensor([0.1, 0.2, 0.7])
    logits = probabilities.log().repeat(20_000, 1)
    found = Sampler("cpu", 1).sample(
        logits, [SamplingParams(1.0)] * 20_000, batch_changed=True
    )
    shares = torch.bincount(found, minlength=3) / 20_000
    spread = (probabilities * (1 - probabilities) / 20_000).sqrt()
    assert ((shares - probabilities).abs() < 4 * spread).all()


def test_a_changed_batch_is_sent_again_and_an_unchanged_one_is_not(monkeypatch):
    made = []
    make = SamplingTensors.make
    monkeypatch.setattr(
        SamplingTensors,
        "make",
        lambda params, device: made.append(1) or make(params, device),
    )
    sampler, params = Sampler("cpu", 0), [SamplingParams(1.0)]
    logits = torch.zeros(1, 4)
    sampler.sample(logits, params, batch_changed=False)
    sampler.sample(logits, params, batch_changed=False)
    assert len(made) == 1
    sampler.sample(logits, params, batch_changed=True)
    assert len(made) == 2
    sampler.sample(logits, [SamplingParams(0.5)], batch_changed=False)
    assert len(made) == 3


def test_an_empty_batch_gives_no_tokens():
    for params in ([], [SamplingParams(1.0)][:0]):
        assert Sampler("cpu", 0).sample(
            torch.zeros(0, 5), params, batch_changed=True
        ).shape == (0,)


def allowed_by_hand(logits, top_k, top_p):
    """Tokens that top-k and then top-p leave, one row, by sorting in Python."""
    order = sorted(range(len(logits)), key=lambda i: -logits[i])
    kept = order[: top_k or len(order)]
    total = sum(2.718281828459045 ** logits[i] for i in kept)
    reached, chosen = 0.0, []
    for token in kept:
        if chosen and reached >= top_p:
            break
        chosen.append(token)
        reached += 2.718281828459045 ** logits[token] / total
    return set(chosen)


@settings(max_examples=200)
@given(
    logits=st.lists(st.integers(-400, 400), min_size=2, max_size=12, unique=True).map(
        lambda values: [value / 100 for value in values]
    ),
    top_k=st.integers(0, 14),
    top_p=st.sampled_from([0.05, 0.31, 0.52, 0.83, 0.94, 1.0]),
)
def test_top_k_and_top_p_leave_the_tokens_that_a_loop_leaves(logits, top_k, top_p):
    left = restrict(
        torch.tensor([logits], dtype=torch.float64),
        torch.tensor([top_k]),
        torch.tensor([top_p], dtype=torch.float64),
    )
    found = set(torch.isfinite(left[0]).nonzero().flatten().tolist())
    assert found == allowed_by_hand(logits, min(top_k, len(logits)), top_p)


@pytest.mark.parametrize("temperature", [0.0, -1.0])
def test_a_temperature_of_0_is_greedy(temperature):
    assert SamplingParams(temperature).is_greedy
