"""vLLM's platform plugins for Neuron, Ascend and Apple's GPUs: what they word in a way of
their own.

Neuron, compilation, weights and warm-up of NxD Inference: vLLM 0.6 to 0.9
`model_executor/model_loader/neuronx_distributed.py`; vllm-neuron
`worker/neuronx_distributed_model_loader.py`; neuronx-distributed-inference
`models/application_base.py`; neuronx-distributed `trace/model_builder.py`. The last two
log without vLLM's prefix, most often as `INFO:Neuron:` and without a time; libneuronxla
`neuron_cc_wrapper.py` logs each module with one.
Ascend: vllm-ascend `worker/worker.py` and `worker/model_runner_v1.py`.
Apple: vllm-metal `v1/model_lifecycle.py`, `v1/cache_policy.py`, `v1/model_runner.py`,
`metal/__init__.py`. Its GB are 10**9 bytes.
"""

from __future__ import annotations

import re
from functools import partial

from parsers.base import (
    NUMBER,
    SECONDS,
    LineRule,
    Made,
    Sample,
    line_rule,
    phase_end,
    phase_start,
)
from parsers.rules.vllm_memory import GRAPHS_TOOK, ON_STARTUP, SUGGESTED
from warmup_insights.model.events import (
    CompileFinished,
    KVCacheAllocated,
    MemoryBudgetSet,
)
from warmup_insights.units import GIB

_NXD = r"(?:[A-Z]{4,8}:Neuron:|\[[^\]\n]{1,160}\] )?"
_NXD_SECONDS = r"(?P<duration_s>[\d.]{1,24})(?: seconds|$)"
_HLOS = {
    "Generated all HLOs": "trace",
    "Done compilation for the priority HLO": "priority hlo",
    "Finished Compilation for all HLOs": "hlo",
}


def _compiled(match: re.Match[str]) -> Made:
    what, seconds = _HLOS[match["words"]], float(match["duration_s"])
    return CompileFinished(what=what, from_cache=None, duration_s=seconds)


def _module_compiled(match: re.Match[str]) -> Made:
    return CompileFinished(what="module", from_cache=match["cached"] is not None)


_ascend_rule = partial(line_rule, device="ascend")
_metal_rule = partial(line_rule, device="metal")
_KERNELS = "v2 paged-attention Metal kernels"
_metal_start = partial(phase_start, device="metal")
_metal_end = partial(phase_end, device="metal")


def _divided(match: re.Match[str]) -> list[Made]:
    """What the first pass of the model keeps is the overhead (`model_runner.py
    profile_run`)."""
    sizes = {
        f"{name}_bytes": round(float(match[name]) * 1e9)
        for name in ("total", "usable", "weights", "activation", "kv_cache")
    }
    blocks, tokens = int(match["num_blocks"]), int(match["num_tokens"])
    allocated = KVCacheAllocated(
        num_blocks=blocks,
        block_size=tokens // blocks if blocks else None,
        allocated_bytes=blocks * int(match["per_block"]),
    )
    share = float(match["fraction"])
    return [MemoryBudgetSet(gpu_memory_utilization=share, **sizes), allocated]


PLUGIN_RULES: tuple[LineRule, ...] = (
    phase_start(
        "neuron_compile_started",
        r"(?:Failed to load the model from|Unable to find precompiled artifacts from) "
        r"\S{1,300} Recompiling\.\.\.|\s{0,4}Compiling and saving model to \S{1,300}|"
        rf"{_NXD}Generating HLOs for the following models: ",
        "compile",
        "WARNING 09-11 14:09:14 [neuronx_distributed.py:250] Failed to load the model "
        "from /tmp/cache. Recompiling...",
        "WARNING 06-11 14:09:14 [neuronx_distributed.py:186] Failed to load the model "
        "from /tmp/cache, Recompiling...",
        "INFO:Neuron:Generating HLOs for the following models: "
        "['context_encoding_model', 'token_generation_model']",
    ),
    line_rule(
        "neuron_compiled",
        rf"{_NXD}(?P<words>{'|'.join(_HLOS)}) in {_NXD_SECONDS}",
        _compiled,
        Sample(
            "INFO:Neuron:Generated all HLOs in 12.25 seconds",
            {"what": "trace", "duration_s": 12.25},
        ),
        Sample(
            "INFO:Neuron:Done compilation for the priority HLO in 10.5 seconds",
            {"what": "priority hlo", "duration_s": 10.5},
        ),
        device="neuron",
    ),
    line_rule(
        "neuron_module_compiled",
        # The compiler ends with its status, also where nothing names the module.
        r"Compil(?:ation Successfully Completed for \S{1,300}|er status PASS$)|"
        r"(?P<cached>Using a cached neff) at \S{1,500}",
        _module_compiled,
        Sample(
            "2026-06-27 01:29:07.000841:  263  [INFO]: Compilation Successfully Completed "
            "for model.MODULE_f5fa77216a0c6f33a515+ada15cd3.hlo_module.pb",
            {"what": "module", "from_cache": False},
        ),
        Sample(
            "2026-06-27 01:40:22.000172:  259  [INFO]: Using a cached neff at "
            "/var/tmp/neuron-compile-cache/MODULE_f5fa77216a0c6f33a515+ada15cd3/model.neff",
            {"what": "module", "from_cache": True},
        ),
        Sample("Compiler status PASS", {"what": "module", "from_cache": False}),
    ),
    phase_end(
        "neuron_built",
        rf"{_NXD}Finished building model in {_NXD_SECONDS}|"
        r"Successfully compiled and saved the model in \S{1,300}",
        "compile",
        Sample(
            "INFO:Neuron:Finished building model in 205.5 seconds",
            {"duration_s": 205.5},
        ),
    ),
    phase_end(
        "neuron_weights",
        rf"{_NXD}Finished weights loading in {_NXD_SECONDS}",
        "load_weights",
        Sample(
            "INFO:Neuron:Finished weights loading in 31.5 seconds", {"duration_s": 31.5}
        ),
    ),
    phase_start(
        "neuron_warmup_started",
        rf"{_NXD}Warming up the model\.\s*$",
        "model_warmup",
        "INFO:Neuron:Warming up the model.",
        hint="Neuron:Warming up the model.",
    ),
    phase_end(
        "neuron_warmup_took",
        rf"{_NXD}Warmup completed in {_NXD_SECONDS}",
        "model_warmup",
        Sample(
            "INFO:Neuron:Warmup completed in 0.4088766574859619 seconds.",
            {"duration_s": 0.4088766574859619},
        ),
        hint="Neuron:Warmup completed in",
    ),
    phase_end(
        "neuron_loaded",
        r"Successfully loaded pre-?compiled model artifacts from \S{1,300}",
        "load_model",
        "INFO 09-11 14:13:21 [neuronx_distributed.py:244] Successfully loaded "
        "precompiled model artifacts from /shared/model/cache",
    ),
    _ascend_rule(
        "ascend_model_class",
        # vLLM `model_executor/models/registry.py`, of a model that a plugin replaces.
        r"Model architecture \w{1,100} is already registered, and will be overwritten by "
        r"the new model class vllm_ascend[./]",
        None,
        "WARNING 06-30 09:36:09 [registry.py:401] Model architecture DeepSeekMTPModel "
        "is already registered, and will be overwritten by the new model class "
        "vllm_ascend.models.deepseek_mtp:CustomDeepSeekMTP.",
    ),
    _ascend_rule(
        "ascend_memory_on_startup",
        rf"{ON_STARTUP}Actual usage: (?P<weights_gib>{NUMBER}) GiB for weights, "
        rf"(?P<activation_gib>{NUMBER}) GiB for peak activation, "
        rf"(?P<non_torch_gib>{NUMBER}) GiB for non-torch memory, "
        rf"{GRAPHS_TOOK} GiB for NPU graph memory"
        rf"(?:\. Replace gpu_memory_utilization with {SUGGESTED}"
        rf"\. Current KV cache memory: (?P<kv_cache_gib>{NUMBER}) GiB)?",
        MemoryBudgetSet,
        Sample(
            "(EngineCore pid=20) INFO 08-20 10:00:56 [worker.py:793] Free memory on "
            "device (60.50/61.25 GiB) on startup. Desired GPU memory utilization is "
            "(0.9, 55.13 GiB). Actual usage: 15.27 GiB for weights, 1.50 GiB for peak "
            "activation, 0.25 GiB for non-torch memory, 0.50 GiB for NPU graph "
            "memory. Replace gpu_memory_utilization with "
            "`--kv-cache-memory=40265318400` (37.50 GiB) to fit into requested "
            "memory, or `--kv-cache-memory=45902462976` (42.75 GiB) to fully utilize "
            "NPU free memory. Current KV cache memory: 37.75 GiB. After warmup: torch "
            "reserved memory 54.00 GiB, torch allocated memory 53.25 GiB.",
            {
                "free_bytes": round(60.5 * GIB),
                "total_bytes": round(61.25 * GIB),
                "usable_bytes": round(55.13 * GIB),
                "gpu_memory_utilization": 0.9,
                "weights_bytes": round(15.27 * GIB),
                "activation_bytes": round(1.5 * GIB),
                "non_torch_bytes": round(0.25 * GIB),
                "graph_bytes": round(0.5 * GIB),
                "suggested_kv_cache_bytes": 40265318400,
                "suggested_full_kv_cache_bytes": 45902462976,
                "kv_cache_bytes": round(37.75 * GIB),
            },
        ),
    ),
    _ascend_rule(
        "ascend_kv_cache_budget",
        r"Available memory: (?P<kv_cache_bytes>\d{1,18}), total memory: (?P<total_bytes>\d{1,18})$",
        MemoryBudgetSet,
        Sample(
            "(Worker_TP1 pid=20) INFO 08-20 10:00:40 [worker_v1.py:235] Available "
            "memory: 11857880064, total memory: 65452113920",
            {"kv_cache_bytes": 11857880064, "total_bytes": 65452113920},
        ),
    ),
    _ascend_rule(
        "ascend_graph_sizes",
        r"(?:Calculated maximum supported|(?:Adjusted|No adjustment needed for) ACL|"
        r"\w{1,30} compilation enabled on NPU\.)",
        None,
        "(EngineCore_1 pid=20) INFO 08-20 10:00:02 [utils.py:334] Calculated maximum "
        "supported batch sizes for ACL graph: 25",
        hint=("ACL graph batch sizes", "batch sizes for ACL graph", "enabled on NPU"),
    ),
    phase_end(
        "ascend_model_loaded",
        r"Model runner load_model total time: (?P<duration_s>[\d.]{1,16}) seconds",
        "load_model",
        Sample(
            "(EngineCore pid=20) INFO 08-20 10:00:32 [model_runner_v1.py:3603] Model "
            "runner load_model total time: 11.25 seconds",
            {"duration_s": 11.25},
        ),
    ),
    _metal_start(
        "metal_loading",
        r"Loading model: .{1,300} \(VLM: (?:True|False)\)",
        "load_model",
        "(EngineCore pid=6) INFO 06-15 16:52:28 [model_lifecycle.py:151] Loading model: "
        "Qwen/Qwen3-0.6B (VLM: False)",
    ),
    _metal_end(
        "metal_loaded",
        rf"(?:(?:MLX-LM|MLX-VLM|GGUF|AWQ) m|M)odel loaded in {SECONDS}s: ",
        "load_model",
        Sample(
            "(EngineCore pid=6) INFO 06-15 16:52:29 [model_lifecycle.py:207] Model loaded "
            "in 1.01s: Qwen/Qwen3-0.6B",
            {"duration_s": 1.01},
        ),
        files=("model_lifecycle.py",),
    ),
    _metal_rule(
        "metal_memory",
        r"Paged attention memory breakdown: metal_limit=(?P<total>[\d.]{1,12})GB, "
        r"fraction=(?P<fraction>[\d.]{1,20}), usable_metal=(?P<usable>[\d.]{1,12})GB, "
        r"model_memory=(?P<weights>[\d.]{1,12})GB, overhead=(?P<activation>[\d.]{1,12})GB, "
        r"(?:.{1,200}, )?kv_budget=(?P<kv_cache>[\d.]{1,12})GB, "
        r"per_block_bytes=(?P<per_block>\d{1,15}), num_blocks=(?P<num_blocks>\d{1,12}), "
        r"max_tokens_cached=(?P<num_tokens>\d{1,15})",
        _divided,
        Sample(
            "(EngineCore pid=6) INFO 06-15 16:52:29 [cache_policy.py:580] Paged attention "
            "memory breakdown: metal_limit=14.30GB, fraction=0.2, usable_metal=2.86GB, "
            "model_memory=1.19GB, overhead=0.79GB, kv_budget=0.88GB, "
            "per_block_bytes=1835008, num_blocks=479, max_tokens_cached=7664",
            {
                "total_bytes": 14_300_000_000,
                "usable_bytes": 2_860_000_000,
                "gpu_memory_utilization": 0.2,
                "weights_bytes": 1_190_000_000,
                "activation_bytes": 790_000_000,
                "kv_cache_bytes": 880_000_000,
            },
        ),
    ),
    _metal_rule(
        "metal_cache",
        r"KV cache: [\d.]{1,12} MB \(|KV cache config received: \d|"
        r"Paged attention: reporting MPS cache capacity ",
        None,
        "(EngineCore pid=6) INFO 06-15 16:52:29 [kv_cache.py:167] KV cache: 879.0 MB (28 "
        "layers, 479 blocks, 16 tokens/block)",
    ),
    _metal_start(
        "metal_warmup_started",
        rf"Warming up (?:model|{_KERNELS})\.\.\.$",
        "model_warmup",
        "(EngineCore pid=6) INFO 06-15 16:52:29 [model_runner.py:815] Warming up model...",
    ),
    _metal_end(
        "metal_warmup_done",
        r"(?:Model|Paged-attention Metal kernel) warm-up complete$",
        "model_warmup",
        "(EngineCore pid=6) INFO 06-15 16:52:29 [model_runner.py:821] Model warm-up "
        "complete",
    ),
)
