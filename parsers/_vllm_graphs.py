"""Upstream vLLM: CUDA graphs, V0 to 2026-09.

Source: vLLM `v1/worker/gpu_model_runner.py`, `v1/worker/gpu/model_runner.py`,
`worker/model_runner.py`; delayed capture: vLLM pull requests 22897 and 23184.
"""

from __future__ import annotations

import re

from parsers.base import LineRule, Made, Sample
from parsers.signals import BarUpdate, LazyCaptureFinished, LazyCaptureStarted
from warmup_insights.model.events import (
    GraphMemoryEstimated,
    GraphsCaptured,
    Note,
    PhaseMarked,
)
from warmup_insights.units import GIB, MIB, gib, mib, parse_clock

_NUM = r"-?[\d.]{1,16}"


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
