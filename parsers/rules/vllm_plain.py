"""Upstream vLLM and tpu-inference: lines with words that matter and no fact of a start.

Source: vLLM `v1/spec_decode/llm_base_proposer.py`, `logging_utils/
dump_input.py`; tpu-inference `tpu_platform.py`, `runner/`.
"""

from __future__ import annotations

from parsers.base import LineRule, Sample

_WORDINGS: tuple[tuple[str, str, str], ...] = (
    (
        "haring target model ",
        r"(?:Detected \w{1,40} model.{0,200}?)?Sharing target model "
        r"(?:embedding weights|lm_head weights|topk_indices_buffer) with the draft",
        "INFO 07-26 03:15:01 [llm_base_proposer.py:1473] Sharing target model embedding "
        "weights with the draft model.",
    ),
    (
        "Running batch with cudagraph_mode: ",
        r"Running batch with cudagraph_mode: ",
        "DEBUG 11-26 16:08:03 [v1/worker/gpu_model_runner.py:4310] Running batch with "
        "cudagraph_mode: NONE, batch_descriptor: BatchDescriptor(num_tokens=3)",
    ),
    (
        "Torch profiler disabled",
        r"(?:Rank \d{1,5}: )?Torch profiler disabled",
        "INFO 08-05 12:13:48 [gpu_model_runner.py:6859] Rank 0: Torch profiler disabled "
        "for CUDA graph capture",
    ),
    (
        "Dumping ",
        r"Dumping scheduler (?:output|stats)",
        "ERROR 06-13 21:02:05 [dump_input.py:81] Dumping scheduler stats: "
        "SchedulerStats(num_running_reqs=1, kv_cache_usage=0.5)",
    ),
    (
        "Initialized sharding configuration",
        r"Initialized sharding configuration: ",
        "INFO 11-04 22:31:49 [tpu_jax.py:118] Initialized sharding configuration: "
        "ShardingConfigManager(total_devices=8)",
    ),
    (
        "[MoE requantization]",
        r"\[MoE requantization\]: re-quantizing MoE weights to ",
        "INFO 06-26 20:50:03 [moe_weights.py:1239] [MoE requantization]: re-quantizing "
        "MoE weights to float8_e4m3fn",
    ),
    (
        "Hybrid KV cache layout",
        r"Hybrid KV cache layout: num_kv_cache_groups=",
        "INFO 06-26 20:33:42 [kv_cache_manager.py:912] Hybrid KV cache layout: "
        "num_kv_cache_groups=1, num_kv_cache_tensors=30",
    ),
)  # fmt: skip

PLAIN_RULES: tuple[LineRule, ...] = (
    LineRule(
        "plain",
        tuple(hint for hint, _, _ in _WORDINGS),
        "|".join(pattern for _, pattern, _ in _WORDINGS),
        samples=tuple(Sample(line) for _, _, line in _WORDINGS),
    ),
)
