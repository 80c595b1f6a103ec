"""Upstream vLLM before V1: how memory was divided.

Source: vLLM `worker/worker.py`, `determine_num_available_blocks`.
"""

from __future__ import annotations

import re

from parsers.base import LineRule, Made, Sample
from parsers.rules.vllm_memory import NUM, sizes_of
from warmup_insights.model.events import MemoryBudgetSet
from warmup_insights.units import GIB, gib


def _profiled_total(match: re.Match[str]) -> Made:
    return MemoryBudgetSet(
        gpu_memory_utilization=float(match["util"]),
        **sizes_of(match, "total", "usable"),
    )


def _profiled_parts(match: re.Match[str]) -> Made:
    return MemoryBudgetSet(
        **sizes_of(match, "weights", "non_torch", "activation", "kv_cache")
    )


def _profiled_in_one(match: re.Match[str]) -> Made:
    sizes, util = (
        sizes_of(match, "total", "non_torch", "kv_cache"),
        float(match["util"]),
    )
    usable = round(gib(match["total"]) * util)
    return MemoryBudgetSet(**sizes, usable_bytes=usable, gpu_memory_utilization=util)


MEMORY_V0_RULES: tuple[LineRule, ...] = (
    LineRule(
        "v0_profiled_in_one",
        "Memory profiling results: total_gpu_memory=",
        # Up to 0.6.5 (`worker/worker.py`); its peak holds weights and activations.
        rf"Memory profiling results: total_gpu_memory=(?P<total>{NUM})GiB initial_memory_"
        rf"usage={NUM}GiB peak_torch_memory={NUM}GiB memory_usage_post_profile={NUM}Gi[bB] "
        rf"non_torch_memory=(?P<non_torch>{NUM})GiB kv_cache_size=(?P<kv_cache>{NUM})GiB "
        rf"gpu_memory_utilization=(?P<util>{NUM})",
        build=_profiled_in_one,
        samples=(
            Sample(
                "INFO 11-27 02:16:23 worker.py:232] Memory profiling results: "
                "total_gpu_memory=139.72GiB initial_memory_usage=19.65GiB "
                "peak_torch_memory=16.53GiB memory_usage_post_profile=22.18GiB "
                "non_torch_memory=5.68GiB kv_cache_size=110.52GiB "
                "gpu_memory_utilization=0.95",
                {
                    "total_bytes": round(139.72 * GIB),
                    "non_torch_bytes": round(5.68 * GIB),
                    "kv_cache_bytes": round(110.52 * GIB),
                    "gpu_memory_utilization": 0.95,
                },
            ),
        ),
    ),
    LineRule(
        "v0_profiled_total",
        "the current vLLM instance can use",
        rf"the current vLLM instance can use total_gpu_memory \((?P<total>{NUM})GiB\) x "
        rf"gpu_memory_utilization \((?P<util>{NUM})\) = (?P<usable>{NUM})GiB",
        build=_profiled_total,
        device="cuda",
        samples=(
            Sample(
                "INFO 03-21 20:15:45 [worker.py:267] the current vLLM instance can use "
                "total_gpu_memory (79.19GiB) x gpu_memory_utilization (0.90) = 71.27GiB",
                {"usable_bytes": round(71.27 * GIB), "gpu_memory_utilization": 0.9},
            ),
        ),
    ),
    LineRule(
        "v0_profiled_parts",
        "model weights take",
        rf"model weights take (?P<weights>{NUM})GiB; non_torch_memory takes "
        rf"(?P<non_torch>{NUM})GiB; PyTorch activation peak memory takes "
        rf"(?P<activation>{NUM})GiB; the rest of the memory reserved for KV Cache is "
        rf"(?P<kv_cache>{NUM})GiB",
        build=_profiled_parts,
        device="cuda",
        samples=(
            Sample(
                "INFO 03-21 20:15:45 [worker.py:267] model weights take 12.55GiB; "
                "non_torch_memory takes 0.16GiB; PyTorch activation peak memory takes "
                "2.38GiB; the rest of the memory reserved for KV Cache is 56.18GiB.",
                {"kv_cache_bytes": round(56.18 * GIB)},
            ),
        ),
    ),
)
