"""Upstream vLLM: memory, KV cache and CUDA graphs, V0 to 2026-09.

Source: vLLM `v1/worker/gpu_worker.py`, `v1/worker/gpu_model_runner.py`,
`v1/worker/gpu/model_runner.py`, `v1/core/kv_cache_utils.py`, `worker/model_runner.py`,
`executor/executor_base.py`; delayed capture: vLLM pull requests 22897 and 23184.
"""

from __future__ import annotations

import re

from parsers.base import LineRule, Made, Sample
from parsers.convert import int_of
from warmup_insights.model.events import (
    ConfigRecorded,
    KVCacheAllocated,
    MemoryBudgetSet,
    PhaseMarked,
)
from warmup_insights.units import GIB, gib

_NUM = r"-?[\d.]{1,16}"


def _kv_size(match: re.Match[str]) -> Made:
    per, times = match["per"], match["times"]
    return KVCacheAllocated(
        num_tokens=int_of(match["tokens"]),
        tokens_per_request=int_of(per) if per else None,
        max_concurrency=float(times) if times else None,
    )


def _budget(match: re.Match[str]) -> Made:
    return MemoryBudgetSet(
        total_bytes=gib(match["total"]), usable_bytes=gib(match["usable"]),
        gpu_memory_utilization=float(match["util"]),
        weights_bytes=gib(match["weights"]) if match["weights"] else None,
        activation_bytes=gib(match["peak"]) if match["peak"] else None,
        non_torch_bytes=gib(match["non_torch"]) if match["non_torch"] else None,
        free_bytes=gib(match["free"]),
    )  # fmt: skip


def _profiled_total(match: re.Match[str]) -> Made:
    return MemoryBudgetSet(
        total_bytes=gib(match["total"]), usable_bytes=gib(match["usable"]),
        gpu_memory_utilization=float(match["util"]),
    )  # fmt: skip


def _profiled_parts(match: re.Match[str]) -> Made:
    return MemoryBudgetSet(
        weights_bytes=gib(match["weights"]), non_torch_bytes=gib(match["non_torch"]),
        activation_bytes=gib(match["peak"]), kv_cache_bytes=gib(match["cache"]),
    )  # fmt: skip


MEMORY_RULES: tuple[LineRule, ...] = (
    LineRule(
        "kv_cache_memory",
        "Available KV cache memory",
        rf"Available KV cache memory: (?P<kv_cache_gib>{_NUM}) GiB",
        MemoryBudgetSet,
        samples=(
            Sample(
                "(Worker_TP0 pid=2) INFO 07-16 20:03:56 [gpu_worker.py:560] Available KV "
                "cache memory: -0.85 GiB",
                {"kv_cache_bytes": round(-0.85 * GIB)},
            ),
        ),
    ),
    LineRule(
        "kv_cache_reserved",
        "memory for KV Cache as specified",
        rf"Initial free memory (?P<free_gib>{_NUM}) GiB,? reserved "
        rf"(?P<kv_cache_gib>{_NUM}) ?GiB memory for KV Cache as specified",
        MemoryBudgetSet,
        samples=(
            Sample(
                "INFO 09-11 20:03:56 [gpu_worker.py:560] Initial free memory 78.50 GiB, "
                "reserved 20.00GiB memory for KV Cache as specified by "
                "kv_cache_memory_bytes config and skipped memory profiling.",
                {
                    "free_bytes": round(78.5 * GIB),
                    "kv_cache_bytes": 20 * GIB,
                },
            ),
        ),
    ),
    LineRule(
        "kv_cache_size",
        "KV cache size: ",
        r"(?:GPU|CPU|HPU)? ?KV cache size: (?P<tokens>[\d,]{1,18}) tokens"
        r"(?:, Maximum concurrency for (?P<per>[\d,]{1,16}) tokens per request: "
        r"(?P<times>[\d.]{1,12})x)?",
        build=_kv_size,
        samples=(
            Sample(
                "INFO 09-06 20:23:33 [kv_cache_utils.py:2312] GPU KV cache size: 23,296 "
                "tokens, Maximum concurrency for 4,096 tokens per request: 5.69x",
                {
                    "num_tokens": 23296,
                    "tokens_per_request": 4096,
                    "max_concurrency": 5.69,
                },
            ),
            Sample(
                "(EngineCore pid=1) INFO 07-16 20:03:56 [kv_cache_utils.py:2178] GPU KV "
                "cache size: 574,336 tokens",
                {"num_tokens": 574336, "max_concurrency": None},
            ),
        ),
    ),
    LineRule(
        "max_concurrency",
        "Maximum concurrency for",
        r"Maximum concurrency for (?P<tokens_per_request>[\d,]{1,16}) tokens per request: "
        r"(?P<max_concurrency>[\d.]{1,12})x",
        KVCacheAllocated,
        samples=(
            Sample(
                "INFO 06-04 01:18:37 [executor_base.py:118] Maximum concurrency for 4096 "
                "tokens per request: 199.97x",
                {"tokens_per_request": 4096, "max_concurrency": 199.97},
            ),
        ),
    ),
    LineRule(
        "gpu_blocks",
        ("# GPU blocks", "# cuda blocks"),
        r"# (?:GPU|cuda) blocks: (?P<num_blocks>[\d,]{1,16}), "
        r"# CPU blocks: (?P<num_host_blocks>[\d,]{1,16})",
        KVCacheAllocated,
        device="cuda",
        samples=(
            Sample(
                "INFO 03-21 20:15:46 [executor_base.py:111] # cuda blocks: 7191, # CPU "
                "blocks: 512",
                {"num_blocks": 7191, "num_host_blocks": 512},
            ),
        ),
    ),
    LineRule(
        "blocks_after_init",
        "after num_gpu_blocks is",
        r"vllm cache_config_info with initialization after num_gpu_blocks is: "
        r"(?P<num_blocks>\d{1,12})",
        KVCacheAllocated,
        samples=(
            Sample(
                "INFO 03-21 20:15:46 [core.py:111] vllm cache_config_info with "
                "initialization after num_gpu_blocks is: 75972",
                {"num_blocks": 75972},
            ),
        ),
    ),
    LineRule(
        "blocks_overridden",
        "with num_gpu_blocks_override",
        r"Overriding num_gpu_blocks=\d{1,12} with num_gpu_blocks_override="
        r"(?P<num_blocks>\d{1,12})",
        build=lambda match: ConfigRecorded(
            settings={"num_gpu_blocks_override": int(match["num_blocks"])}
        ),
        samples=(
            Sample(
                "INFO 11-20 07:32:02 [kv_cache_utils.py:2115] Overriding "
                "num_gpu_blocks=28163 with num_gpu_blocks_override=64",
                {"settings": {"num_gpu_blocks_override": 64}},
            ),
        ),
    ),
    LineRule(
        "memory_on_startup",
        "Free memory on device (",
        rf"Free memory on device \((?P<free>{_NUM})/(?P<total>{_NUM}) GiB\) on startup\. "
        rf"Desired GPU memory utilization is \((?P<util>{_NUM}), (?P<usable>{_NUM}) GiB\)\. "
        rf"Actual usage is (?:(?P<weights>{_NUM}) GiB for weight, (?P<peak>{_NUM}) GiB for "
        rf"peak activation, (?P<non_torch>{_NUM}) GiB for non-torch memory)?",
        build=_budget,
        device="cuda",
        samples=(
            Sample(
                "(Worker_TP0 pid=2) INFO 07-16 20:04:10 [gpu_worker.py:857] Free memory "
                "on device (92.98/95.0 GiB) on startup. Desired GPU memory utilization "
                "is (0.9, 85.5 GiB). Actual usage is 54.82 GiB for weight, 1.13 GiB for "
                "peak activation, 0.63 GiB for non-torch memory, and 0.06 GiB for "
                "CUDAGraph memory.",
                {
                    "total_bytes": 95 * GIB,
                    "weights_bytes": round(54.82 * GIB),
                    "gpu_memory_utilization": 0.9,
                },
            ),
        ),
    ),
    LineRule(
        "v0_profiled_seconds",
        "Memory profiling takes",
        r"Memory profiling takes (?P<duration_s>[\d.]{1,12}) seconds",
        PhaseMarked,
        fixed={"name": "profile_run", "edge": "end"},
        samples=(
            Sample(
                "INFO 03-21 20:15:45 [worker.py:267] Memory profiling takes 34.26 seconds",
                {"name": "profile_run", "duration_s": 34.26},
            ),
        ),
    ),
    LineRule(
        "v0_profiled_total",
        "the current vLLM instance can use",
        rf"the current vLLM instance can use total_gpu_memory \((?P<total>{_NUM})GiB\) x "
        rf"gpu_memory_utilization \((?P<util>{_NUM})\) = (?P<usable>{_NUM})GiB",
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
        rf"model weights take (?P<weights>{_NUM})GiB; non_torch_memory takes "
        rf"(?P<non_torch>{_NUM})GiB; PyTorch activation peak memory takes "
        rf"(?P<peak>{_NUM})GiB; the rest of the memory reserved for KV Cache is "
        rf"(?P<cache>{_NUM})GiB",
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
