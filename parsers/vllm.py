"""Upstream vLLM on CUDA, V0 to 2026-09, and the lines that every engine shares with it.

Source: vLLM `v1/worker/`, `v1/engine/`, `model_executor/warmup/`, `entrypoints/`.
"""

from __future__ import annotations

from parsers._vllm_ending import END_RULES
from parsers._vllm_graphs import GRAPH_RULES
from parsers._vllm_memory import MEMORY_RULES
from parsers._vllm_startup import (
    COMPILE_RULES,
    CONFIG_RULES,
    LOAD_RULES,
)
from parsers.base import Dialect, LineRule, Sample
from parsers.signals import Elided
from warmup_insights.model.events import Note, PhaseMarked

_OTHER: tuple[LineRule, ...] = (
    LineRule(
        "engine_statistics",
        "throughput: ",
        r"Engine \d{1,4}: |Avg prompt throughput: ",
        samples=(
            Sample(
                "INFO 07-16 19:47:26 [loggers.py:250] Engine 000: Avg prompt throughput: "
                "409.6 tokens/s, GPU KV cache usage: 0.0%"
            ),
        ),
    ),
    LineRule(
        "kernel_warmup",
        (
            "Warming up ",
            "Autotuning process starts",
            "CuTeDSL warmup",
            "Compile and warming up",
        ),
        r"Warming up (?:ll_bf16|[\w-]{1,40} (?:kernel|GEMM|attention))|"
        r"Compile and warming up model for size|Skipping CuTeDSL warmup|"
        r".{0,120}?\[Autotuner\]: Autotuning process starts",
        PhaseMarked,
        fixed={"name": "kernel_warmup", "edge": "start"},
        samples=(
            Sample(
                "(Worker_TP3 pid=2) INFO 07-16 20:03:58 [kernel_warmup.py:65] Warming up "
                "ll_bf16 router GEMM kernels.",
                {"name": "kernel_warmup", "edge": "start"},
            ),
        ),
    ),
    LineRule(
        "kernel_warmup_end",
        "Autotuning process ends",
        r".{0,120}?\[Autotuner\]: Autotuning process ends",
        PhaseMarked,
        fixed={"name": "kernel_warmup", "edge": "end"},
        samples=(
            Sample(
                "(Worker_TP3 pid=2) 2026-07-16 20:03:58,155 - INFO - autotuner.py:674 - "
                "flashinfer.jit: [Autotuner]: Autotuning process ends",
                {"name": "kernel_warmup", "edge": "end"},
            ),
        ),
    ),
    LineRule(
        "multimodal_warmup_took",
        "ulti-modal warmup completed",
        r"(?:Readonly m|M)ulti-modal warmup completed in (?P<duration_s>[\d.]{1,12})s",
        PhaseMarked,
        fixed={"name": "multimodal_warmup", "edge": "end"},
        samples=(
            Sample(
                "(APIServer pid=1) INFO 07-16 20:04:15 [base.py:65] Multi-modal warmup "
                "completed in 8.175s",
                {"name": "multimodal_warmup", "duration_s": 8.175},
            ),
        ),
    ),
    LineRule(
        "runtime_jit",
        "Kernel JIT",
        r"(?P<text>Kernel JIT monitor activated.{0,100})",
        Note,
        fixed={"topic": "jit_monitor"},
        samples=(
            Sample(
                "(Worker_TP0 pid=2) INFO 07-16 20:04:11 [jit_monitor.py:79] Kernel JIT "
                "monitor activated; monitored JIT compilations during inference",
                {"topic": "jit_monitor"},
            ),
        ),
    ),
    LineRule(
        "elided",
        "...",
        r"\s{0,8}(?:#\s?)?\.\.\.\s*$",
        Elided,
        startup_only=True,
        samples=(Sample("...", {}),),
    ),
    LineRule(
        "bar_cut",
        "Capturing CUDA graph",
        r"Capturing CUDA graph[\w ,()-]{0,60}:\s{1,4}\d{1,3}%\|[^\d\[]{0,400}$",
        samples=(Sample("Capturing CUDA graph shapes: 100%|██████████"),),
    ),
    LineRule(
        "startup_chatter",
        (
            "KV cache",
            "kv cache",
            "bucketing",
            "compil",
            "Compil",
            "took",
            "profil",
            "cudagraph",
            "weights",
            "Overriding draft",
            "Streamed",
            "quantiz",
            "num_blocks",
            "aptur",
            "armup",
            "arming up",
            "bucket",
            "warmed",
        ),
        r"(?:Using (?!cache directory)[^\n]{0,200}(?:KV cache|kv cache|data type|compil|weights|kernel)|"
        r"Checkpoint size|Filesystem type for checkpoints|Auto-prefetch|"
        r"EP weight filter|Tiered EP weight filter|Deferring \d|"
        r"\[HPU\] Forcing CompilationMode|=+compilation_config|Enabled custom fusions|"
        r"Profiler? |profiling |KV cache page sizes|Streamed \d|Explicitly set|Reducing Torch parallelism|Overwriting|"
        r"While executing|Use tlparse|Original traceback|Time spent downloading weights|"
        r"Loading safetensors|Loading pt checkpoint|Weight|Checkpoint|Parameter |"
        r"Fusing|Replaced \d|Inductor|Found|Cudagraph|Detected (?!flags)|"
        r"vLLM is using|Triton|Prefetching)[^\n]{0,2000}",
        samples=(
            Sample(
                "INFO 07-16 19:53:31 [weight_utils.py:869] Filesystem type for "
                "checkpoints: GPFS. Checkpoint size: 361.06 GiB. weights"
            ),
        ),
    ),
)

DIALECT = Dialect(
    name="vllm",
    title="upstream vLLM",
    versions="V0 (2024) to 2026-09",
    source="vllm/v1/worker/, vllm/v1/engine/core.py, vllm/v1/core/kv_cache_utils.py",
    rules=(
        *CONFIG_RULES, *LOAD_RULES, *COMPILE_RULES, *END_RULES, *GRAPH_RULES,
        *MEMORY_RULES, *_OTHER,
    ),
)  # fmt: skip
