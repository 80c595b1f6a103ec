"""Upstream vLLM: how the memory of a device is divided, and the size of the KV cache, V0 to
2026-09.

Source: vLLM `v1/worker/gpu_worker.py` (`determine_available_memory`,
`compile_or_warm_up_model`), `utils/mem_utils.py`, `v1/worker/utils.py`,
`v1/worker/cpu_worker.py`, `v1/worker/xpu_worker.py`, `worker/worker.py`; of the cache
`v1/core/kv_cache_utils.py`, `v1/core/kv_cache_planning.py`, `v1/metrics/loggers.py`,
`executor/executor_base.py`.
"""

from __future__ import annotations

import re

from parsers.base import NUMBER, LineRule, Made, Sample, cuda_rule, line_rule
from parsers.engine.convert import convert_groups
from warmup_insights.model.events import (
    ConfigRecorded,
    KVCacheAllocated,
    MemoryBudgetSet,
    MemoryMeasured,
    PhaseMarked,
)
from warmup_insights.units import GIB, MIB, mib


def _profiled(match: re.Match[str]) -> list[Made]:
    parts = convert_groups(match.groupdict())
    ended = PhaseMarked(
        name="profile_run", edge="end", duration_s=parts.pop("duration_s")
    )
    if "consumed_bytes" in parts:
        # Weights are part of what was consumed; the engine no longer adds them up.
        del parts["weights_bytes"]
    return [ended, MemoryBudgetSet(**parts)] if parts else [ended]


def _xpu_after(match: re.Match[str]) -> Made:
    """The peak holds what torch keeps, which are the weights, and memory outside of torch
    where there is some (`v1/worker/xpu_worker.py determine_available_memory`)."""
    kept, outside = float(match["torch"]), float(match["non_torch"])
    activation = float(match["peak"]) - kept - max(outside, 0.0)
    return MemoryBudgetSet(
        non_torch_bytes=mib(match["non_torch"]),
        activation_bytes=mib(f"{activation:.2f}") if activation >= 0 <= kept else None,
    )


def _profiled_in_one(match: re.Match[str]) -> Made:
    stated = convert_groups(match.groupdict())
    usable = round(stated["total_bytes"] * stated["gpu_memory_utilization"])
    return MemoryBudgetSet(usable_bytes=usable, **stated)


def _counted(match: re.Match[str]) -> list[Made]:
    """The profiling run is over, and nothing is allocated yet: executors print it at the
    start of `initialize_cache` (`executor/executor_base.py`, before 0.6.5 in each one)."""
    return [
        PhaseMarked(name="profile_run", edge="end"),
        KVCacheAllocated(**convert_groups(match.groupdict())),
    ]


def _after_init(match: re.Match[str]) -> list[Made]:
    """A model without a KV cache has one block (`v1/core/kv_cache_utils.py
    get_kv_cache_config_from_groups`)."""
    blocks = int(match["num_blocks"])
    return [] if blocks == 1 else [KVCacheAllocated(num_blocks=blocks)]


def _overridden(match: re.Match[str]) -> list[Made]:
    if match["own"] == "0":
        # Nothing is allocated yet: the engine profiles graphs with its own minimum.
        return []
    blocks = int(match["num_blocks"])
    return [
        ConfigRecorded(settings={"num_gpu_blocks_override": blocks}),
        KVCacheAllocated(num_blocks=blocks),
    ]


_UTILIZATION = rf"(?P<gpu_memory_utilization>{NUMBER})"
GRAPHS_TOOK = r"(?:(?P<graph_gib>[\d.]{1,16})|-[\d.]{1,16})"
"""A difference of free memory: below zero, another program gave more back than graphs took,
which is unknown then."""
ON_STARTUP = (
    rf"Free memory on device \((?P<free_gib>{NUMBER})/(?P<total_gib>{NUMBER}) GiB\) on startup\. "
    rf"Desired GPU memory utilization is \({_UTILIZATION}, (?P<usable_gib>{NUMBER}) GiB\)\. "
)
"""How the budget begins that an engine sums up once it is warm."""
SUGGESTED = (
    r"`--kv-cache-memory=(?P<suggested_kv_cache_bytes>-?\d{1,18})`[^`]{0,60}"
    r"`--kv-cache-memory=(?P<suggested_full_kv_cache_bytes>-?\d{1,18})`[^`]{0,60}?"
)

MEMORY_RULES: tuple[LineRule, ...] = (
    line_rule(
        "kv_cache_memory",
        rf"Available KV cache memory: (?P<kv_cache_gib>{NUMBER}) GiB",
        MemoryBudgetSet,
        Sample(
            "(Worker_TP0 pid=2) INFO 07-16 20:03:56 [gpu_worker.py:560] Available KV "
            "cache memory: -0.85 GiB",
            {"kv_cache_bytes": round(-0.85 * GIB)},
        ),
    ),
    line_rule(
        "kv_cache_reserved",
        rf"Initial free memory (?P<free_gib>{NUMBER}) GiB,? reserved "
        rf"(?P<kv_cache_gib>{NUMBER}) ?GiB (?:memory )?for KV Cache as specified",
        MemoryBudgetSet,
        Sample(
            "INFO 09-11 20:03:56 [gpu_worker.py:560] Initial free memory 78.50 GiB, "
            "reserved 20.00GiB memory for KV Cache as specified by kv_cache_memory_bytes",
            {"free_bytes": round(78.5 * GIB), "kv_cache_bytes": 20 * GIB},
        ),
        Sample(  # vllm-ascend `worker/worker.py`
            "Initial free memory 60.50 GiB, reserved 20.00 GiB for KV Cache as specified",
            {"kv_cache_bytes": 20 * GIB},
        ),
    ),
    cuda_rule(
        "memory_on_startup",
        rf"{ON_STARTUP}Actual usage is (?:(?P<weights_gib>{NUMBER}) GiB for weight, |"
        rf"(?P<consumed_gib>{NUMBER}) GiB for consumed memory \(weights \+ non-torch\), )?"
        rf"(?:(?P<activation_gib>{NUMBER}) GiB for peak activation,)?"
        rf"(?: (?P<non_torch_gib>{NUMBER}) GiB for non-torch memory,)?"
        rf"(?: and {GRAPHS_TOOK} GiB for CUDAGraph memory\.)?"
        rf"(?: Replace gpu_memory_utilization config with {SUGGESTED}"
        rf"\. Current kv cache memory in use is (?P<kv_cache_bytes>{NUMBER} (?:GiB|bytes)))?",
        MemoryBudgetSet,
        Sample(
            "(Worker_TP0 pid=2) INFO 07-16 20:04:10 [gpu_worker.py:857] Free memory "
            "on device (92.98/95.0 GiB) on startup. Desired GPU memory utilization is "
            "(0.9, 85.5 GiB). Actual usage is 54.82 GiB for weight, 1.13 GiB for peak "
            "activation, 0.63 GiB for non-torch memory, and 0.06 GiB for CUDAGraph "
            "memory. Replace gpu_memory_utilization config with "
            "`--kv-cache-memory=30831827456` (28.71 GiB) to fit into requested "
            "memory, or `--kv-cache-memory=38857497088` (36.19 GiB) to fully utilize "
            "gpu memory. Current kv cache memory in use is 28.86 GiB.",
            {
                "free_bytes": round(92.98 * GIB),
                "total_bytes": 95 * GIB,
                "usable_bytes": round(85.5 * GIB),
                "gpu_memory_utilization": 0.9,
                "weights_bytes": round(54.82 * GIB),
                "activation_bytes": round(1.13 * GIB),
                "non_torch_bytes": round(0.63 * GIB),
                "graph_bytes": round(0.06 * GIB),
                "suggested_kv_cache_bytes": 30831827456,
                "suggested_full_kv_cache_bytes": 38857497088,
                "kv_cache_bytes": round(28.86 * GIB),
            },
        ),
        Sample(
            "INFO 06-16 14:14:04 [gpu_worker.py:391] Free memory on device "
            "(78.57/79.18 GiB) on startup. Desired GPU memory utilization is (0.9, "
            "71.26 GiB). Actual usage is 56.93 GiB for weight, 5.58 GiB for peak "
            "activation, 0.07 GiB for non-torch memory, and 0.69 GiB for CUDAGraph "
            "memory. Replace gpu_memory_utilization config with "
            "`--kv-cache-memory=8417154969` to fit into requested memory, or "
            "`--kv-cache-memory=16270032384` to fully utilize gpu memory. Current kv "
            "cache memory in use is 9318930329 bytes.",
            {"kv_cache_bytes": 9318930329, "graph_bytes": round(0.69 * GIB)},
        ),
        Sample(
            "INFO 12-07 23:26:32 [gpu_worker.py:391] Free memory on device "
            "(104.28/119.7 GiB) on startup. Desired GPU memory utilization is (0.15, 17.95 "
            "GiB). Actual usage is 7.34 GiB for weight, 1.13 GiB for peak activation, "
            "-7.12 GiB for non-torch memory, and -0.09 GiB for CUDAGraph memory.",
            {"weights_bytes": round(7.34 * GIB), "graph_bytes": None},
        ),
        Sample(
            "INFO 09-16 14:14:04 [gpu_worker.py:1066] Free memory on device "
            "(78.57/79.18 GiB) on startup. Desired GPU memory utilization is (0.9, "
            "71.26 GiB). Actual usage is 57.0 GiB for consumed memory (weights + "
            "non-torch), 5.58 GiB for peak activation, and 0.69 GiB for CUDAGraph "
            "memory. Replace gpu_memory_utilization config with "
            "`--kv-cache-memory=8417154969` (7.84 GiB) to fit into requested memory, "
            "or `--kv-cache-memory=16270032384` (15.15 GiB) to fully utilize gpu "
            "memory. Current kv cache memory in use is 8.68 GiB.",
            {
                "consumed_bytes": 57 * GIB,
                "weights_bytes": None,
                "non_torch_bytes": None,
                "activation_bytes": round(5.58 * GIB),
                "graph_bytes": round(0.69 * GIB),
                "kv_cache_bytes": round(8.68 * GIB),
            },
        ),
    ),
    line_rule(
        "memory_requested",
        rf"Initial free memory: (?P<free_gib>{NUMBER}) GiB(?:; Requested memory: "
        rf"{_UTILIZATION} \(util\), |, free memory: {NUMBER} GiB, requested GPU memory: )"
        rf"(?P<usable_gib>{NUMBER}) GiB",
        MemoryBudgetSet,
        Sample(
            "DEBUG 09-02 20:06:36 [v1/worker/gpu_worker.py:548] Initial free memory: "
            "78.66 GiB; Requested memory: 0.825000 (util), 65.32 GiB",
            {
                "free_bytes": round(78.66 * GIB),
                "usable_bytes": round(65.32 * GIB),
                "gpu_memory_utilization": 0.825,
            },
        ),
        Sample(
            "DEBUG 07-02 20:06:36 [gpu_worker.py:250] Initial free memory: 78.66 GiB, "
            "free memory: 61.25 GiB, requested GPU memory: 65.32 GiB",
            {
                "free_bytes": round(78.66 * GIB),
                "usable_bytes": round(65.32 * GIB),
                "gpu_memory_utilization": None,
            },
        ),
    ),
    line_rule(
        "memory_after_profiling",
        rf"Free memory after profiling: (?P<free_gib>{NUMBER}) GiB \(total\)",
        MemoryMeasured,
        Sample(
            "DEBUG 09-02 20:06:36 [v1/worker/gpu_worker.py:554] Free memory after "
            "profiling: 77.45 GiB (total), 64.1 GiB (within requested)",
            {"free_bytes": round(77.45 * GIB)},
        ),
        fixed={"stage": "profile_run"},
    ),
    line_rule(
        "memory_before_profiling",
        r"(?:Rank \d{1,4}, )?Before profile_run, free_memory_pre_profile: "
        r"(?P<free_gib>[\d.]{1,24}) ?GiB, total_gpu_memory: (?P<total_gib>[\d.]{1,24}) ?GiB",
        MemoryMeasured,
        Sample(
            "(VllmWorkerProcess pid=7) WARNING 03-03 20:36:03 [worker.py:223] Rank 2, "
            "Before profile_run, free_memory_pre_profile: 28.5GiB, total_gpu_memory: "
            "44.5GiB",
            {"free_bytes": round(28.5 * GIB), "total_bytes": round(44.5 * GIB)},
        ),
        fixed={"stage": "before_profile_run"},
    ),
    line_rule(
        "memory_profiled",
        r"Memory profiling takes (?P<duration_s>[\d.]{1,12}) seconds"
        rf"(?:\. Total non KV cache memory: {NUMBER} ?GiB; "
        rf"torch peak memory increase: (?P<activation_gib>{NUMBER}) ?GiB; "
        rf"(?:non-torch forward increase memory: (?P<non_torch_gib>{NUMBER}) ?GiB|"
        rf"total consumed \(from mem_get_info\): (?P<consumed_gib>{NUMBER}) ?GiB); "
        rf"weights memory: (?P<weights_gib>{NUMBER}) ?GiB)?",
        _profiled,
        Sample(
            "INFO 03-21 20:15:45 [worker.py:267] Memory profiling takes 34.26 seconds",
            {"name": "profile_run", "duration_s": 34.26},
        ),
        Sample(
            "DEBUG 09-02 20:06:36 [gpu_worker.py:559] Memory profiling takes 14.06 "
            "seconds. Total non KV cache memory: 1.05GiB; torch peak memory increase: "
            "0.24GiB; non-torch forward increase memory: 0.14GiB; weights memory: "
            "0.67GiB.",
            {"name": "profile_run", "duration_s": 14.06},
        ),
    ),
    line_rule(
        "memory_multimodal_reserve",
        rf"Reserving {NUMBER} GiB of GPU memory for frontend multimodal decoding .{{1,300}}?"
        rf"KV cache memory reduced to (?P<kv_cache_gib>{NUMBER}) GiB",
        MemoryBudgetSet,
        Sample(
            "INFO 09-16 14:14:04 [gpu_worker.py:667] Reserving 2.0 GiB of GPU memory "
            "for frontend multimodal decoding (1.0 GiB raw-frame semaphore budget, "
            "1.0 GiB decoder+CUDA-context across 1 API server(s) @ 1.0 GiB/server); "
            "KV cache memory reduced to 20.5 GiB.",
            {"kv_cache_bytes": round(20.5 * GIB)},
        ),
    ),
    line_rule(
        "memory_cpu",
        rf"(?:Auto|Explicitly) set \((?P<kv_cache_gib>{NUMBER})/(?P<total_gib>{NUMBER})\) GiB for KV "
        rf"cache on node \d{{1,5}}(?:, with (?P<usable_gib>{NUMBER}) GiB requested memory for "
        rf"the worker\. (?P<consumed_gib>{NUMBER}) GiB)?",
        MemoryBudgetSet,
        Sample(
            "INFO 09-16 14:14:04 [cpu_worker.py:262] Auto set (20.0/64.0) GiB for KV "
            "cache on node 0, with 32.0 GiB requested memory for the worker. 12.0 GiB "
            "memory was consumed by non-kv usages.",
            {
                "kv_cache_bytes": 20 * GIB,
                "total_bytes": 64 * GIB,
                "usable_bytes": 32 * GIB,
                "consumed_bytes": 12 * GIB,
            },
        ),
        Sample(
            "INFO 09-16 14:14:04 [cpu_worker.py:262] Explicitly set (1.0/15.51) GiB "
            "for KV cache on node 0.",
            {"kv_cache_bytes": GIB, "usable_bytes": None},
        ),
        device="cpu",
    ),
    line_rule(
        "memory_cpu_by_default",
        # `platforms/cpu.py`: the worker takes what is stated (`determine_available_memory`).
        r"(?:Environment variable VLLM_CPU_KVCACHE_SPACE \(GiB\) for CPU backend is not set, "
        rf"using|VLLM_CPU_KVCACHE_SPACE not set\. Using) (?P<kv_cache_gib>{NUMBER}) "
        r"(?:by default|GiB for KV cache)\.",
        MemoryBudgetSet,
        Sample(
            "WARNING 04-16 09:21:54 [cpu.py:106] Environment variable VLLM_CPU_KVCACHE_SPACE "
            "(GiB) for CPU backend is not set, using 4 by default.",
            {"kv_cache_bytes": 4 * GIB},
        ),
        Sample(
            "WARNING 03-30 22:28:09 [cpu.py:136] VLLM_CPU_KVCACHE_SPACE not set. Using 15.5 "
            "GiB for KV cache.",
            {"kv_cache_bytes": round(15.5 * GIB)},
        ),
        device="cpu",
    ),
    line_rule(
        "memory_xpu_before",
        rf"Before memory profiling run, total GPU memory: (?P<total_mib>{NUMBER}) MB, model load "
        rf"takes (?P<weights_mib>{NUMBER}) MB",
        MemoryBudgetSet,
        Sample(
            "INFO 09-16 14:14:04 [xpu_worker.py:100] Before memory profiling run, "
            "total GPU memory: 46679.00 MB, model load takes 15316.50 MB, free gpu "
            "memory is 31000.00 MB.",
            {"total_bytes": 46679 * MIB, "weights_bytes": round(15316.5 * MIB)},
        ),
        device="xpu",
    ),
    line_rule(
        "memory_xpu_after",
        rf"After memory profiling run, peak memory usage is (?P<peak>{NUMBER}) MB, ?torch mem "
        rf"is (?P<torch>{NUMBER}) MB, non-torch mem is (?P<non_torch>{NUMBER}) MB, free gpu "
        rf"memory is {NUMBER} MB",
        _xpu_after,
        Sample(
            "INFO 09-16 14:14:04 [xpu_worker.py:134] After memory profiling run, peak "
            "memory usage is 16000.00 MB,torch mem is 15400.00 MB, non-torch mem is "
            "128.00 MB, free gpu memory is 30000.00 MB.",
            {"non_torch_bytes": 128 * MIB, "activation_bytes": 472 * MIB},
        ),
        device="xpu",
    ),
    line_rule(
        "v0_profiled_in_one",
        # Up to 0.6.5 (`worker/worker.py`); its peak holds weights and activations.
        rf"Memory profiling results: total_gpu_memory=(?P<total_gib>{NUMBER})GiB initial_memory_"
        rf"usage={NUMBER}GiB peak_torch_memory=(?P<torch_peak_gib>{NUMBER})GiB "
        rf"memory_usage_post_profile={NUMBER}Gi[bB] "
        rf"non_torch_memory=(?P<non_torch_gib>{NUMBER})GiB kv_cache_size=(?P<kv_cache_gib>{NUMBER})GiB "
        rf"gpu_memory_utilization={_UTILIZATION}",
        _profiled_in_one,
        Sample(
            "INFO 11-27 02:16:23 worker.py:232] Memory profiling results: "
            "total_gpu_memory=139.72GiB initial_memory_usage=19.65GiB "
            "peak_torch_memory=16.53GiB memory_usage_post_profile=22.18GiB "
            "non_torch_memory=5.68GiB kv_cache_size=110.52GiB "
            "gpu_memory_utilization=0.95",
            {
                "total_bytes": round(139.72 * GIB),
                "torch_peak_bytes": round(16.53 * GIB),
                "non_torch_bytes": round(5.68 * GIB),
                "kv_cache_bytes": round(110.52 * GIB),
                "gpu_memory_utilization": 0.95,
            },
        ),
    ),
    cuda_rule(
        "v0_profiled_total",
        rf"the current vLLM instance can use total_gpu_memory \((?P<total_gib>{NUMBER})GiB\) x "
        rf"gpu_memory_utilization \({_UTILIZATION}\) = (?P<usable_gib>{NUMBER})GiB",
        MemoryBudgetSet,
        Sample(
            "INFO 03-21 20:15:45 [worker.py:267] the current vLLM instance can use "
            "total_gpu_memory (79.19GiB) x gpu_memory_utilization (0.90) = 71.27GiB",
            {"usable_bytes": round(71.27 * GIB), "gpu_memory_utilization": 0.9},
        ),
    ),
    cuda_rule(
        "v0_profiled_parts",
        rf"model weights take (?P<weights_gib>{NUMBER})GiB; non_torch_memory takes "
        rf"(?P<non_torch_gib>{NUMBER})GiB; PyTorch activation peak memory takes "
        rf"(?P<activation_gib>{NUMBER})GiB; the rest of the memory reserved for KV Cache is "
        rf"(?P<kv_cache_gib>{NUMBER})GiB",
        MemoryBudgetSet,
        Sample(
            "INFO 03-21 20:15:45 [worker.py:267] model weights take 12.55GiB; "
            "non_torch_memory takes 0.16GiB; PyTorch activation peak memory takes "
            "2.38GiB; the rest of the memory reserved for KV Cache is 56.18GiB.",
            {"kv_cache_bytes": round(56.18 * GIB)},
        ),
    ),
    line_rule(
        "kv_cache_size",
        r"(?:[A-Z]{2,8}(?: \+ host)? )?KV cache size: (?P<num_tokens>[\d,]{1,18}) tokens"
        r"(?:, Maximum concurrency for (?P<tokens_per_request>[\d,]{1,16}) tokens per request: "
        r"(?P<max_concurrency>[\d.]{1,12})x)?",
        KVCacheAllocated,
        Sample(
            "INFO 09-06 20:23:33 [kv_cache_utils.py:2312] GPU KV cache size: 23,296 "
            "tokens, Maximum concurrency for 4,096 tokens per request: 5.69x",
            {"num_tokens": 23296, "tokens_per_request": 4096, "max_concurrency": 5.69},
        ),
        Sample(
            "(EngineCore pid=1) INFO 07-16 20:03:56 [kv_cache_utils.py:2178] GPU KV "
            "cache size: 574,336 tokens",
            {"num_tokens": 574336, "max_concurrency": None},
        ),
    ),
    line_rule(
        "max_concurrency",
        r"Maximum concurrency for (?P<tokens_per_request>[\d,]{1,16}) tokens per request: "
        r"(?P<max_concurrency>[\d.]{1,12})x",
        KVCacheAllocated,
        Sample(
            "INFO 06-04 01:18:37 [executor_base.py:118] Maximum concurrency for 4096 "
            "tokens per request: 199.97x",
            {"tokens_per_request": 4096, "max_concurrency": 199.97},
        ),
    ),
    cuda_rule(
        "gpu_blocks",
        r"# (?:GPU|cuda|CUDA) blocks: (?P<num_blocks>[\d,]{0,15}\d)"
        r"(?:, # CPU blocks: (?P<num_host_blocks>[\d,]{1,16}))?",
        _counted,
        Sample(
            "INFO 01-21 20:15:46 [uniproc_executor.py:64] # GPU blocks: 7191",
            {"num_blocks": 7191, "num_host_blocks": None},
        ),
        Sample(
            "INFO 03-21 20:15:46 [executor_base.py:111] # cuda blocks: 7191, # CPU "
            "blocks: 512",
            {"num_blocks": 7191, "num_host_blocks": 512},
        ),
        hint=("# GPU blocks", "# cuda blocks", "# CUDA blocks"),
    ),
    line_rule(
        "device_blocks",
        r"(?:OpenVINO \w{1,20}: )?"
        r"# (?:TPU|tpu|xpu|XPU|cpu|CPU|rocm|device|neuron|npu) blocks: "
        r"(?P<num_blocks>[\d,]{0,15}\d)"
        r"(?:[,;] # (?:CPU|swap) blocks: (?P<num_host_blocks>[\d,]{1,16}))?",
        KVCacheAllocated,
        Sample(
            "INFO 03-21 20:15:46 [executor_base.py:111] # tpu blocks: 7191, # CPU "
            "blocks: 512",
            {"num_blocks": 7191, "num_host_blocks": 512},
        ),
        Sample(
            "INFO 12-21 20:15:46 openvino_executor.py:69] OpenVINO CPU: # device "
            "blocks: 700; # swap blocks: 0",
            {"num_blocks": 700, "num_host_blocks": 0},
        ),
        Sample(
            "INFO 12-21 20:15:46 cpu_executor.py:210] # CPU blocks: 3276",
            {"num_blocks": 3276, "num_host_blocks": None},
        ),
        hint=(
            "# TPU blocks",
            "# tpu blocks",
            "# xpu blocks",
            "# XPU blocks",
            "# cpu blocks",
            "# rocm blocks",
            "# CPU blocks",
            "# device blocks",
            "# neuron blocks",
            "# npu blocks",
        ),
    ),
    line_rule(
        "blocks_after_init",
        r"(?:Engine \d{1,4}: |\d{1,4} Engines: )?vllm cache_config_info with initialization after num_gpu_blocks is: "
        r"(?P<num_blocks>\d{1,12})",
        _after_init,
        Sample(
            "INFO 12-07 12:15:33 [loggers.py:142] Engine 000: vllm cache_config_info with "
            "initialization after num_gpu_blocks is: 1",
        ),
        Sample(
            "INFO 03-21 20:15:46 [core.py:111] vllm cache_config_info with "
            "initialization after num_gpu_blocks is: 75972",
            {"num_blocks": 75972},
        ),
        Sample(
            "INFO 06-16 14:14:04 [loggers.py:142] Engine 000: vllm cache_config_info "
            "with initialization after num_gpu_blocks is: 17463",
            {"num_blocks": 17463},
        ),
    ),
    line_rule(
        "block_size_forced",
        # `platforms/cuda.py check_and_update_config`
        r"Forcing kv cache block size to (?P<size>\d{1,9}) for ",
        lambda match: ConfigRecorded(settings={"block_size": int(match["size"])}),
        Sample(
            "INFO 04-16 10:27:39 [cuda.py:160] Forcing kv cache block size to 64 for "
            "FlashMLA backend.",
            {"settings": {"block_size": 64}},
        ),
    ),
    line_rule(
        "blocks_overridden",
        r"Overriding num_gpu_blocks=(?P<own>\d{1,12}) with num_gpu_blocks_override="
        r"(?P<num_blocks>\d{1,12})",
        _overridden,
        Sample(
            "INFO 11-20 07:32:02 [kv_cache_utils.py:2115] Overriding "
            "num_gpu_blocks=28163 with num_gpu_blocks_override=64",
            {"settings": {"num_gpu_blocks_override": 64}},
        ),
    ),
)
