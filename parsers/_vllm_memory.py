"""Upstream vLLM: memory, KV cache and CUDA graphs, V0 to 2026-09.

Source: vLLM `v1/worker/gpu_worker.py`, `v1/worker/gpu_model_runner.py`,
`v1/worker/gpu/model_runner.py`, `v1/core/kv_cache_utils.py`, `worker/model_runner.py`,
`executor/executor_base.py`; delayed capture: vLLM pull requests 22897 and 23184.
"""

from __future__ import annotations

import re

from parsers.base import LineRule, Made, Sample
from parsers.convert import int_of
from parsers.signals import BarUpdate, LazyCaptureFinished, LazyCaptureStarted
from warmup_insights.events import (
    ConfigRecorded,
    GraphMemoryEstimated,
    GraphsCaptured,
    KVCacheAllocated,
    MemoryBudgetSet,
    Note,
    PhaseMarked,
)  # fmt: skip
from warmup_insights.units import GIB, MIB, gib, mib, parse_clock

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


def _bar(match: re.Match[str]) -> Made:
    return BarUpdate(
        name=match["bar"].strip(), done=int(match["done"]), total=int(match["total"]),
        elapsed_s=parse_clock(match["elapsed"]),
    )  # fmt: skip


def _pool(match: re.Match[str]) -> Made:
    return GraphMemoryEstimated(
        actual_bytes=gib(match["actual"]), estimated_bytes=gib(match["estimated"])
    )


def _lazy_end(match: re.Match[str]) -> Made:
    return LazyCaptureFinished(float(match["seconds"]), mib(match["took"]))


BAR_NAMES = (
    r"Capturing [\w ]{0,20}CUDA graph[\w ]{0,10}(?: \([\w ,-]{1,40}\))?|"
    r"(?:Prompt|Decode) warmup processing|Unified Attention warmup"
)

GRAPH_RULES: tuple[LineRule, ...] = (
    LineRule(
        "progress_bar",
        ("Capturing ", "warmup processing", "Unified Attention warmup"),
        rf"(?P<bar>{BAR_NAMES}):?\s{{1,8}}\d{{1,3}}%[^\d\[]{{0,400}}"
        r"(?P<done>\d{1,7})/(?P<total>\d{1,7}) \[(?P<elapsed>[\d:]{4,12})<",
        build=_bar,
        anywhere=True,
        samples=(
            Sample(
                "Capturing CUDA graphs (mixed prefill-decode, PIECEWISE):  34%|███▍      "
                "| 23/67 [00:02<00:04,  8.92it/s]",
                {
                    "name": "Capturing CUDA graphs (mixed prefill-decode, PIECEWISE)",
                    "done": 23,
                    "total": 67,
                    "elapsed_s": 2.0,
                },
            ),
            Sample(
                "Prompt warmup processing:  45%|████▌     | 43/96 [05:10<05:58,  "
                "6.77s/item, 43/96]",
                {"name": "Prompt warmup processing", "done": 43, "elapsed_s": 310.0},
            ),
            Sample(
                "Capturing CUDA graph shapes: 100% 35/35 [00:48<00:00,  1.39s/it]",
                {"name": "Capturing CUDA graph shapes", "done": 35, "elapsed_s": 48.0},
            ),
        ),
    ),
    LineRule(
        "graphs_captured",
        "Graph capturing finished in",
        r"Graph capturing finished in (?P<duration_s>[\d.]{1,12}) secs"
        rf"(?:, took (?P<memory_gib>{_NUM}) GiB|\.)",
        GraphsCaptured,
        device="cuda",
        samples=(
            Sample(
                "(EngineCore_0 pid=306836) INFO 08-19 06:59:47 [gpu_model_runner.py:2718]"
                " Graph capturing finished in 4 secs, took 0.54 GiB",
                {"duration_s": 4.0, "memory_bytes": round(0.54 * GIB)},
            ),
            Sample(
                "INFO 11-01 06:59:47 model_runner.py:2718] Graph capturing finished in "
                "37 secs.",
                {"duration_s": 37.0, "memory_bytes": None},
            ),
        ),
    ),
    LineRule(
        "lazy_capture_started",
        "Graph capturing for",
        r"Graph capturing for (?P<num_tokens>\d{1,9}) input tokens",
        LazyCaptureStarted,
        device="cuda",
        samples=(
            Sample(
                "(EngineCore_0 pid=1) INFO 08-19 07:06:32 [gpu_model_runner.py:2721] "
                "Graph capturing for 512 input tokens",
                {"num_tokens": 512},
            ),
        ),
    ),
    LineRule(
        "lazy_capture_finished",
        "finished in ",
        rf"\s{{4,60}}finished in (?P<seconds>{_NUM}) secs, took (?P<took>{_NUM}) MiB",
        build=_lazy_end,
        device="cuda",
        samples=(
            Sample(
                "(EngineCore_0 pid=1) INFO 08-19 07:06:32 [gpu_model_runner.py:2721]     "
                "                    finished in 0.073 secs, took -342.00 MiB",
                {"duration_s": 0.073, "memory_bytes": -342 * MIB},
            ),
        ),
    ),
    LineRule(
        "graph_memory_estimated",
        "Estimated CUDA graph memory",
        rf"Estimated CUDA graph memory: (?P<estimated_gib>{_NUM}) GiB total",
        GraphMemoryEstimated,
        device="cuda",
        samples=(
            Sample(
                "(Worker_TP0 pid=2) INFO 07-16 20:03:55 [gpu_model_runner.py:6720] "
                "Estimated CUDA graph memory: 0.06 GiB total",
                {"estimated_bytes": round(0.06 * GIB)},
            ),
        ),
    ),
    LineRule(
        "graph_pool_memory",
        "CUDA graph pool memory",
        rf"CUDA graph pool memory: (?P<actual>{_NUM}) GiB \(actual\), "
        rf"(?P<estimated>{_NUM}) GiB \(estimated\)",
        build=_pool,
        device="cuda",
        samples=(
            Sample(
                "(Worker_TP0 pid=2) INFO 07-16 20:04:10 [gpu_worker.py:793] CUDA graph "
                "pool memory: 0.73 GiB (actual), 0.36 GiB (estimated), difference: 0.37 "
                "GiB (50.4%).",
                {
                    "actual_bytes": round(0.73 * GIB),
                    "estimated_bytes": round(0.36 * GIB),
                },
            ),
        ),
    ),
    LineRule(
        "graph_capture_started",
        (
            "Capturing cudagraphs for decoding",
            "Capturing the model for CUDA graphs",
            "Registering ",
            "Capturing model for",
        ),
        r"Capturing cudagraphs for decoding|Capturing the model for CUDA graphs|"
        r"Registering \d{1,9} cuda graph addresses|Capturing model for .{1,60}",
        PhaseMarked,
        fixed={"name": "graph_capture", "edge": "start"},
        device="cuda",
        samples=(
            Sample(
                "INFO 04-24 08:27:56 [model_runner.py:1456] Capturing cudagraphs for "
                "decoding. This may lead to unexpected consequences",
                {"name": "graph_capture", "edge": "start"},
            ),
        ),
    ),
    LineRule(
        "graph_profile_started",
        "Profiling CUDA graph memory",
        r"Profiling CUDA graph memory: ",
        PhaseMarked,
        fixed={"name": "graph_memory_profile", "edge": "start"},
        device="cuda",
        samples=(
            Sample(
                "(Worker_TP0 pid=2) INFO 07-16 20:03:46 [gpu_model_runner.py:6595] "
                "Profiling CUDA graph memory: PIECEWISE=51 (largest=512), FULL=35 "
                "(largest=256)",
                {"name": "graph_memory_profile", "edge": "start"},
            ),
        ),
    ),
    LineRule(
        "graph_note",
        (
            "CUDA graph memory profiling",
            "cudagraph capture sizes",
            "cudagraph_mode",
            "Skipping CUDA graph capture",
            "CUDA graph persistent memory",
        ),
        r"(?P<text>In v[\d.]{1,8}, CUDA graph memory profiling will.{0,300}|"
        r"CUDA graph memory profiling is .{1,300}|"
        r"Capping cudagraph capture sizes .{1,300}|CUDAGraphMode\.\w{1,40} is .{1,300}|"
        r"Skipping CUDA graph capture.{0,200}|CUDA graph persistent memory.{1,200})",
        Note,
        fixed={"topic": "cuda_graphs"},
        device="cuda",
        samples=(
            Sample(
                "WARNING 03-08 16:44:29 [compilation.py:1233] Capping cudagraph capture "
                "sizes from max 512 to 352 to fit Mamba cache blocks",
                {"topic": "cuda_graphs"},
            ),
        ),
    ),
)

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
