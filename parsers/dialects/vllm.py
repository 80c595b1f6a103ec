"""Upstream vLLM on CUDA, V0 to 2026-09, and the lines that every engine shares with it.

Source: vLLM `v1/worker/`, `v1/engine/`, `model_executor/warmup/`, `entrypoints/`.
"""

from __future__ import annotations

from parsers.base import NO_LEVEL, Dialect, LineRule, Sample, line_rule
from parsers.engine.signals import (
    CodeFence,
    Elided,
    EnvironmentListed,
    OtherEngine,
    StatisticsLine,
)
from parsers.rules.platform_plugins import PLUGIN_RULES
from parsers.rules.vllm_compile import COMPILE_RULES
from parsers.rules.vllm_failures import FAILURE_RULES
from parsers.rules.vllm_graphs import GRAPH_RULES
from parsers.rules.vllm_kernels import KERNEL_RULES
from parsers.rules.vllm_loading import LOAD_RULES
from parsers.rules.vllm_memory import MEMORY_RULES
from parsers.rules.vllm_notes import (
    NOTE_RULES,
    UNKNOWN_VARIABLE,
    VARIABLE_OF_OTHERS,
)
from parsers.rules.vllm_server import END_RULES, REQUEST_RULES, SHUTDOWN_RULES
from parsers.rules.vllm_stages import STAGE_RULES
from parsers.rules.vllm_startup import CONFIG_RULES

_USAGE = (
    r"(?:Engine \d{1,4}: )?Avg prompt throughput: [^:\n\r\x1b^\[\]]{1,60}: "
    r"(?P<tokens_per_s>\d{1,9}(?:\.\d{1,3})?) tokens/s, "
    r"Running: (?P<running>\d{1,7}) reqs, "
    r"(?:Swapped: \d{1,7} reqs, Pending|Waiting): (?P<waiting>\d{1,7}) reqs"
    r"[^\n\r\x1b^\[\]]{1,80}?KV cache usage: (?P<usage_percent>\d{1,3}(?:\.\d{1,3})?)%"
)
_OTHER: tuple[LineRule, ...] = (
    line_rule(
        "engine_usage",
        _USAGE,
        StatisticsLine,
        Sample(
            "(APIServer pid=1) INFO 07-16 19:47:26 [loggers.py:250] Engine 000: Avg "
            "prompt throughput: 409.6 tokens/s, Avg generation throughput: 12.3 "
            "tokens/s, Running: 3 reqs, Waiting: 1 reqs, GPU KV cache usage: 4.2%, "
            "Prefix cache hit rate: 0.0%",
            {"usage_percent": 4.2, "running": 3, "waiting": 1, "tokens_per_s": 12.3},
        ),
        Sample(
            "INFO 02-24 19:47:26 metrics.py:455] Avg prompt throughput: 0.0 tokens/s, "
            "Avg generation throughput: 15.2 tokens/s, Running: 1 reqs, Swapped: 0 "
            "reqs, Pending: 2 reqs, GPU KV cache usage: 0.3%, CPU KV cache usage: 0.0%.",
            {"usage_percent": 0.3, "running": 1, "waiting": 2, "tokens_per_s": 15.2},
        ),
        hint="KV cache usage: ",
    ),
    line_rule(
        "engine_statistics",
        rf"(?!{_USAGE})(?:Engine \d{{1,4}}: (?!vllm cache_config_info)|Avg prompt throughput: )",
        None,
        "INFO 07-16 19:47:26 [loggers.py:250] Engine 000: Avg prompt throughput: "
        "409.6 tokens/s, GPU KV cache usage: 0.0%",
        hint="throughput: ",
    ),
    line_rule(
        "code_fence",
        r"\s{0,12}```",
        CodeFence,
        "```text",
        levels=(NO_LEVEL,),
        hint="```",
    ),
    line_rule(
        # `collect_env.py main`, which imports vLLM right before or behind it.
        "environment_listed",
        r"Collecting environment information\.\.\.\s*$",
        EnvironmentListed,
        "Collecting environment information...",
        levels=(NO_LEVEL,),
        startup_only=True,
    ),
    line_rule(
        # SGLang `server_args.py`; its bars over weights and graphs read as those of vLLM.
        "sglang_arguments",
        r"server_args=ServerArgs\(",
        OtherEngine,
        "[2026-08-01 22:25:21] server_args=ServerArgs(model_path='a/b', tokenizer_path='a/b')",
        startup_only=True,
    ),
    line_rule(
        "elided",
        r"\s{0,8}(?:#\s?)?\.\.\.\s*$",
        Elided,
        "...",
        startup_only=True,
        hint="...",
    ),
    line_rule(
        "startup_chatter",
        r"(?:Using (?:\S{1,60} data type to store kv cache\.|"
        r"(?:DeepSeek's )?\S{1,60} KV cache (?:layout|format)|KV cache scaling factor )|"
        r"Detected (?:EAGLE|MTP) model (?!.{0,200}Sharing target)|Detected quantization_config|"
        r"Clear dynamo cache and cached dynamo bytecode|"
        rf"{UNKNOWN_VARIABLE}{VARIABLE_OF_OTHERS}|"
        r"CPU offload is not supported with torch\.compile yet|"
        r"Overwriting default Qwix quantization|=+compilation_config|"
        r"Enabled custom fusions|Reducing Torch parallelism|While executing %|"
        r"Use tlparse|Original traceback)[^\n]{0,2000}",
        None,
        "(Worker_TP0 pid=514) INFO 07-12 02:33:39 [attention.py:91] Using DeepSeek's "
        "fp8_ds_mla KV cache format.",
    ),
)

DIALECT = Dialect(
    name="vllm",
    title="upstream vLLM",
    versions="V0 (2024) to 2026-09",
    source="vllm/v1/worker/, vllm/v1/engine/core.py, vllm/v1/core/kv_cache_utils.py",
    rules=(
        *CONFIG_RULES, *LOAD_RULES, *COMPILE_RULES, *END_RULES, *FAILURE_RULES, *SHUTDOWN_RULES,
        *GRAPH_RULES,
        *MEMORY_RULES, *KERNEL_RULES, *STAGE_RULES, *NOTE_RULES,
        *REQUEST_RULES, *PLUGIN_RULES, *_OTHER,
    ),
)  # fmt: skip
