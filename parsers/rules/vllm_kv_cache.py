"""Upstream vLLM: size of the KV cache, V0 to 2026-09.

Source: vLLM `v1/core/kv_cache_utils.py`, `v1/core/kv_cache_planning.py`,
`v1/metrics/loggers.py`, `executor/executor_base.py`.
"""

from __future__ import annotations

import re

from parsers.base import LineRule, Made, Sample, line_rule
from parsers.engine.convert import convert_groups
from parsers.rules.of_device import cuda_rule
from warmup_insights.model.events import ConfigRecorded, KVCacheAllocated, PhaseMarked


def _counted(match: re.Match[str]) -> list[Made]:
    """The profiling run is over, and nothing is allocated yet: executors print it at the
    start of `initialize_cache` (`executor/executor_base.py`, before 0.6.5 in each one)."""
    return [
        PhaseMarked(name="profile_run", edge="end"),
        KVCacheAllocated(**convert_groups(match.groupdict())),
    ]


def _overridden(match: re.Match[str]) -> list[Made]:
    if match["own"] == "0":
        # Nothing is allocated yet: the engine profiles graphs with its own minimum.
        return []
    blocks = int(match["num_blocks"])
    return [
        ConfigRecorded(settings={"num_gpu_blocks_override": blocks}),
        KVCacheAllocated(num_blocks=blocks),
    ]


KV_CACHE_RULES: tuple[LineRule, ...] = (
    line_rule(
        "kv_cache_size",
        "KV cache size: ",
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
        "Maximum concurrency for",
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
        ("# GPU blocks", "# cuda blocks", "# CUDA blocks"),
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
    ),
    line_rule(
        "device_blocks",
        (
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
    ),
    line_rule(
        "blocks_after_init",
        "after num_gpu_blocks is",
        r"(?:Engine \d{1,4}: |\d{1,4} Engines: )?vllm cache_config_info with initialization after num_gpu_blocks is: "
        r"(?P<num_blocks>\d{1,12})",
        KVCacheAllocated,
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
        "Forcing kv cache block size to ",
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
        "with num_gpu_blocks_override",
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
