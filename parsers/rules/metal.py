"""vLLM on Apple's GPUs: what vllm-metal words in a way of its own.

Source: vllm-metal `v1/model_lifecycle.py`, `v1/cache_policy.py`, `v1/model_runner.py`,
`metal/__init__.py`. Its GB are 10**9 bytes.
"""

from __future__ import annotations

import re
from functools import partial

from parsers.base import SECONDS, LineRule, Made, Sample, phase_end, phase_start
from parsers.rules.of_device import metal_rule
from warmup_insights.model.events import KVCacheAllocated, MemoryBudgetSet

_KERNELS = "v2 paged-attention Metal kernels"
_start = partial(phase_start, device="metal")
_end = partial(phase_end, device="metal")


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


METAL_RULES: tuple[LineRule, ...] = (
    _start(
        "metal_loading",
        "Loading model: ",
        r"Loading model: .{1,300} \(VLM: (?:True|False)\)",
        "load_model",
        "(EngineCore pid=6) INFO 06-15 16:52:28 [model_lifecycle.py:151] Loading model: "
        "Qwen/Qwen3-0.6B (VLM: False)",
    ),
    _end(
        "metal_loaded",
        "odel loaded in ",
        rf"(?:(?:MLX-LM|MLX-VLM|GGUF|AWQ) m|M)odel loaded in {SECONDS}s: ",
        "load_model",
        Sample(
            "(EngineCore pid=6) INFO 06-15 16:52:29 [model_lifecycle.py:207] Model loaded "
            "in 1.01s: Qwen/Qwen3-0.6B",
            {"duration_s": 1.01},
        ),
        files=("model_lifecycle.py",),
    ),
    metal_rule(
        "metal_memory",
        "Paged attention memory breakdown",
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
    metal_rule(
        "metal_cache",
        ("KV cache: ", "KV cache config received", "MPS cache capacity"),
        r"KV cache: [\d.]{1,12} MB \(|KV cache config received: \d|"
        r"Paged attention: reporting MPS cache capacity ",
        None,
        "(EngineCore pid=6) INFO 06-15 16:52:29 [kv_cache.py:167] KV cache: 879.0 MB (28 "
        "layers, 479 blocks, 16 tokens/block)",
    ),
    _start(
        "metal_warmup_started",
        ("Warming up model...", f"Warming up {_KERNELS}"),
        rf"Warming up (?:model|{_KERNELS})\.\.\.$",
        "model_warmup",
        "(EngineCore pid=6) INFO 06-15 16:52:29 [model_runner.py:815] Warming up model...",
    ),
    _end(
        "metal_warmup_done",
        ("Model warm-up complete", "Paged-attention Metal kernel warm-up complete"),
        r"(?:Model|Paged-attention Metal kernel) warm-up complete$",
        "model_warmup",
        "(EngineCore pid=6) INFO 06-15 16:52:29 [model_runner.py:821] Model warm-up "
        "complete",
    ),
)
