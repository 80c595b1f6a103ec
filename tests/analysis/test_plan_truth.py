"""Plans against truth: random configurations on the simulated device.

Each base run is planned from with several other settings, and each plan is compared with
a run of these settings. Every captured set and every number of blocks must be equal.
"""

from __future__ import annotations

import random

import pytest

from tests.analysis.builders import planner_of, simulate
from warmup_insights.analysis.plan.planning import PlanSettings
from warmup_insights.errors import InputError, SettingError
from warmup_insights.model.events import (
    CaptureSummary,
    KVCacheAllocated,
    WarmupFinished,
)
from warmup_insights.units import GIB

NUM_BASES = 60
PER_BASE = 4
MAX_BUCKETS = 600


def memory_settings(draw):
    return {
        "gpu_memory_utilization": round(draw.uniform(0.3, 0.98), 3),
        "graph_reserved_mem": round(draw.uniform(0.01, 0.8), 3),
        "graph_prompt_ratio": round(draw.uniform(0, 1), 2),
        "graph_prompt_strategy": draw.choice(["min_tokens", "max_bs"]),
        "graph_decode_strategy": draw.choice(["min_tokens", "max_bs"]),
    }


def base_settings(draw):
    settings = {
        "model": draw.choice(["llama-3-8b", "llama-3.2-1b", "mistral-7b", "small"]),
        "dtype": "bfloat16",
        "block_size": draw.choice([64, 128]),
        "max_model_len": draw.choice([1024, 2048, 4096]),
        "max_num_seqs": draw.choice([4, 8, 16]),
        "max_num_batched_tokens": draw.choice([2048, 4096]),
        "bucket_dimensions": draw.choice([2, 3, 3]),
        "defrag": draw.random() < 0.5,
    }
    if settings["bucket_dimensions"] == 3:
        environment = {"VLLM_BUCKETING_STRATEGY": draw.choice(["exp", "lin", "pad"])}
        if draw.random() < 0.3:
            environment["VLLM_CONTIGUOUS_PA"] = "true"
        if draw.random() < 0.3:
            environment["VLLM_PROMPT_BS_BUCKET_MAX"] = "4"
        settings["environment"] = environment
    return settings


def base_run(draw):
    """A run that can be planned from, and the settings that stay fixed; else None."""
    settings, total = base_settings(draw), draw.choice([None, 24 * GIB, 40 * GIB])
    try:
        outcome, events = simulate({**settings, **memory_settings(draw)}, total)
        planner = planner_of(events)
    except (InputError, SettingError):
        return None
    if outcome.status != "finished":
        return None
    if (
        sum(len(part.buckets) for part in (planner.summary.buckets or {}).values())
        > MAX_BUCKETS
    ):
        return None
    return planner, settings, total


@pytest.mark.long
@pytest.mark.parametrize("seed", range(4))
def test_planned_sets_are_those_of_the_run(seed):
    draw = random.Random(seed)
    done, errors = 0, []
    while done < NUM_BASES // 4:
        base = base_run(draw)
        if base is None:
            continue
        planner, settings, total = base
        for _ in range(PER_BASE):
            changes = memory_settings(draw)
            plan = planner.plan(PlanSettings(**changes))
            outcome, truth = simulate({**settings, **changes}, total)
            if outcome.status != "finished":
                assert plan.outcome != "fits", (settings, changes, outcome.error)
                continue
            assert plan.outcome == "fits", (settings, changes)
            blocks = [e.num_blocks for e in truth if isinstance(e, KVCacheAllocated)]
            assert [plan.num_kv_blocks] == blocks, (settings, changes)
            for event in truth:
                if isinstance(event, CaptureSummary):
                    part = plan.phases[event.phase]
                    assert list(part.captured_buckets) == event.buckets, (
                        settings, changes,
                    )  # fmt: skip
                elif isinstance(event, WarmupFinished) and event.duration_s:
                    errors.append(abs(plan.time.warmup_s / event.duration_s - 1))
        done += 1
    assert done * PER_BASE * 4 >= 200
    assert sorted(errors)[len(errors) // 2] < 0.01
    assert max(errors) < 0.15
