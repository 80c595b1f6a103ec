"""All findings of a run together: one value for each setting, and a plan that fits.

Runs are those of the reference engine on a simulated device, under settings that
Hypothesis makes, with traffic that meets some buckets and misses others.
"""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from tests.analysis.builders import changed, facts_of, simulate
from warmup_insights.analysis.advice import RunFacts, advise
from warmup_insights.analysis.plan.planning import PlanSettings
from warmup_insights.model.events import AnyEvent, BucketMiss, BucketUsed, ServerReady
from warmup_insights.units import GIB

PLANNED = {
    "gpu_memory_utilization": "gpu_memory_utilization",
    "VLLM_GRAPH_RESERVED_MEM": "graph_reserved_mem",
    "VLLM_GRAPH_PROMPT_RATIO": "graph_prompt_ratio",
}
SHARES = st.sampled_from([0.01, 0.1, 0.3, 0.5, 0.8, 0.9, 0.95, 1.0])
RANGES = st.fixed_dictionaries(
    {
        "VLLM_BUCKETING_STRATEGY": st.sampled_from(["exp", "lin"]),
        "VLLM_PROMPT_QUERY_BUCKET_STEP": st.just("512"),
        "VLLM_PROMPT_CTX_BUCKET_MAX": st.sampled_from(["0", "8"]),
        "VLLM_DECODE_BS_BUCKET_STEP": st.sampled_from(["2", "4", "16"]),
        "VLLM_DECODE_BLOCK_BUCKET_STEP": st.sampled_from(["128", "256", "1024"]),
        "VLLM_DECODE_BLOCK_BUCKET_MAX": st.sampled_from(["512", "1024", "1152"]),
        "VLLM_CONTIGUOUS_PA": st.sampled_from(["true", "false"]),
    }
)


def served(found: list[AnyEvent], shape: tuple[int, int, int]) -> list[AnyEvent]:
    """The run with traffic after it: a bucket that is used, and a shape that is missed."""
    last = max((event.time or 0.0) for event in found)
    return [
        *found,
        ServerReady(time=last + 1),
        BucketUsed(phase="decode", shape=(1, 1, 1), bucket=(1, 1, 128), duration_s=0.1,
                   time=last + 2),
        BucketMiss(phase="prompt", shape=shape, time=last + 3),
    ]  # fmt: skip


def together(facts: RunFacts) -> dict[str, Any]:
    """Every setting that the findings of a run change; fails where two disagree."""
    given_values: dict[str, Any] = {}
    for finding in advise(facts):
        for name, value in finding.changes.items():
            assert given_values.setdefault(name, value) == value, finding.rule
    return given_values


@pytest.mark.long
@settings(max_examples=60, deadline=None)
@given(
    utilization=SHARES,
    reserve=SHARES,
    total_gib=st.sampled_from([18, 24, 40, 96]),
    num_seqs=st.sampled_from([4, 16, 64]),
    ranges=RANGES,
    engine=st.sampled_from(["reference", "vllm-gaudi"]),
    length=st.sampled_from([100, 5000]),
    skips=st.booleans(),
)
@example(
    utilization=1.0, reserve=0.1, total_gib=18, num_seqs=16, engine="reference", length=100,
    skips=False,
    ranges={
        "VLLM_BUCKETING_STRATEGY": "exp", "VLLM_PROMPT_QUERY_BUCKET_STEP": "512",
        "VLLM_PROMPT_CTX_BUCKET_MAX": "0", "VLLM_DECODE_BS_BUCKET_STEP": "2",
        "VLLM_DECODE_BLOCK_BUCKET_STEP": "128", "VLLM_DECODE_BLOCK_BUCKET_MAX": "512",
        "VLLM_CONTIGUOUS_PA": "true",
    },
)  # fmt: skip
def test_all_changes_together_have_one_value_each_and_fit(
    utilization, reserve, total_gib, num_seqs, ranges, engine, length, skips
):
    _, found = simulate(
        {"model": "llama-3.1-8b", "dtype": "bfloat16", "block_size": 128},
        total_bytes=total_gib * GIB, max_model_len=2048, max_num_seqs=num_seqs,
        max_num_batched_tokens=2048, gpu_memory_utilization=utilization,
        graph_reserved_mem=reserve, environment=ranges, skip_warmup=skips,
    )  # fmt: skip
    first = changed(found[0], engine=engine, version="0.20.1")
    facts = facts_of(served([first, *found[1:]], (1, length, 0)))
    changes = together(facts)
    planned = {PLANNED[n]: v for n, v in changes.items() if n in PLANNED}
    if facts.planner is None or not planned:
        return
    plan = facts.planner.plan(PlanSettings(**planned))
    assert plan.outcome == "fits"
    assert plan.free_after_graphs_bytes >= 0.05 * plan.free_bytes
