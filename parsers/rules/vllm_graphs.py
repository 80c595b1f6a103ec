"""Upstream vLLM: CUDA graphs, V0 to 2026-09.

Source: vLLM `v1/worker/gpu_model_runner.py`, `v1/worker/gpu/model_runner.py`,
`worker/model_runner.py`; delayed capture: vLLM pull requests 22897 and 23184.
"""

from __future__ import annotations

import re

from parsers.base import (
    NUMBER,
    LineRule,
    Made,
    Sample,
    cuda_note,
    cuda_rule,
    line_rule,
    note_rule,
    phase_end,
    phase_start,
)
from parsers.engine.signals import BarUpdate, LazyCaptureFinished, LazyCaptureStarted
from warmup_insights.model.events import (
    GraphMemoryEstimated,
    GraphsCaptured,
    MemoryBudgetSet,
    Note,
    PhaseMarked,
)
from warmup_insights.units import GIB, MIB, gib, parse_clock


def _bar(match: re.Match[str]) -> Made:
    item_s, error_s = _item_seconds(match)
    place = match["place"]
    return BarUpdate(
        name=match["bar"].strip(), done=int(match["done"]), total=int(match["total"]),
        elapsed_s=parse_clock(match["elapsed"]), item_s=item_s, item_error_s=error_s,
        place=int(place) if place is not None else None,
    )  # fmt: skip


def _item_seconds(match: re.Match[str]) -> tuple[float | None, float]:
    """Seconds per item as drawn, and the rounding of the drawn figure."""
    rate = match["rate"] or "0"
    drawn = float(rate.removesuffix("s/"))
    if drawn <= 0.0:
        return None, 0.0
    if rate.endswith("s/"):
        return drawn, DRAWN_ERROR
    return 1.0 / drawn, DRAWN_ERROR / drawn**2


def _cut_bar(match: re.Match[str]) -> list[Made]:
    """How many graphs of the second kind there are is behind the end of the line, and so
    the number of all."""
    if match["full"] is None:
        return []
    return [
        GraphMemoryEstimated(modes=["FULL", "PIECEWISE"]),
        PhaseMarked(name="graph_capture", edge="start"),
    ]


def _profiled(match: re.Match[str]) -> list[Made]:
    begun = PhaseMarked(name="graph_memory_profile", edge="start")
    if match["kinds"] is None:
        return [begun]
    modes = [part.partition("=")[0] for part in match["kinds"].split(", ")]
    return [begun, GraphMemoryEstimated(modes=modes)]


def _estimated(match: re.Match[str]) -> list[Made]:
    return [
        GraphMemoryEstimated(estimated_bytes=gib(match["estimated"])),
        PhaseMarked(name="graph_memory_profile", edge="end"),
    ]


def _reserved(match: re.Match[str]) -> list[Made]:
    used = match["used"] or match["without"] or match["disabled"]
    rest, text = match["rest"], match[0].rstrip(" to")
    return [
        GraphMemoryEstimated(
            is_reserved=match["enabled"] is not None,
            utilization_without=float(rest) if rest else None,
        ),
        MemoryBudgetSet(gpu_memory_utilization=float(used)),
        Note(topic="cuda_graphs", text=text[:300]),
    ]


DRAWN_ERROR = 0.005
"""Half of the last digit of a rate."""
BAR_NAMES = (
    r"Capturing [\w ]{0,20}CUDA graphs?(?: \w{1,9})?(?: \([\w ,-]{1,40}\))?|"
    r"(?:Prompt|Decode) warmup processing|Unified Attention warmup|"
    # `Loading checkpoint shards` is of transformers.
    r"(?:Multi-thread loading(?: pt checkpoint)?|"
    r"Loading (?:safetensors|pt|np_cache) checkpoint) shards"
    r"(?: \(eager\))?|Loading safetensors using \w{1,20} \w{1,20}(?: Streamer)?|"
    r"JIT kernel warmup \(\d{1,9} compile keys\)|Compiling CuTeDSL kernels|"
    r"DeepGEMM warmup|DeepGemm\([^)]{0,60}\) warmup(?: \([^)]{0,60}\){1,2})?"
    r"(?: \[[^\]]{0,60}\])?|"
    r"DeepGemmExperts GEMM warmup \(MAX_M=\d{1,9}\)|"
    # For each layer, once it has its weights (`layers/attention/mla_attention.py`,
    # `v1/attention/backends/mla/common.py process_weights_after_loading`).
    r"\[Aiter Triton\] Pre-compiling \w{1,9} BMM kernel"
)

GRAPH_RULES: tuple[LineRule, ...] = (
    line_rule(
        "progress_bar",
        # In a terminal without Unicode the last character drawn is a digit.
        rf"(?P<bar>{BAR_NAMES}):?\s{{1,8}}\d{{1,3}}%"
        r"(?:\|[^|\[]{0,400}\|)?[^\d\[]{0,400}"
        r"(?P<done>\d{1,7})/(?P<total>\d{1,7}) \[(?P<elapsed>[\d:]{4,12})<"
        r"(?:[\d:?]{1,12}, {1,4}(?P<rate>\d{1,6}\.\d\d(?:s/)?)\w{1,12}(?:/s)?"
        r"(?:, (?P<place>\d{1,7})/\d{1,7})?\])?",
        _bar,
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
        Sample(
            "Loading safetensors checkpoint shards: 100% Completed | 4/4 "
            "[00:11<00:00,  2.93s/it]",
            {"name": "Loading safetensors checkpoint shards", "done": 4},
        ),
        Sample(
            "JIT kernel warmup (96 compile keys):  45%|████▌     | 43/96 "
            "[01:10<01:58,  1.77kernel/s]",
            {"name": "JIT kernel warmup (96 compile keys)", "elapsed_s": 70.0},
        ),
        Sample(
            "DeepGemm(fp8_gemm_nt) warmup (W=torch.Size([4096, 7168])) [all tokens]:  "
            "45%|████▌     | 43/96 [01:10<01:58,  1.77it/s]",
            {
                "name": "DeepGemm(fp8_gemm_nt) warmup (W=torch.Size([4096, 7168])) "
                "[all tokens]",
                "done": 43,
            },
        ),
        Sample(
            "[Aiter Triton] Pre-compiling fp8 BMM kernel:  45%|████▌     | 461/1024 "
            "[00:10<00:12, 45.12it/s]",
            {"name": "[Aiter Triton] Pre-compiling fp8 BMM kernel", "done": 461},
        ),
        anywhere=True,
        hint=(
            "Capturing ",
            "warmup processing",
            "Unified Attention warmup",
            "checkpoint shards",
            "loading shards",
            "Loading safetensors using",
            "JIT kernel warmup (",
            "Compiling CuTeDSL kernels",
            "DeepGEMM warmup",
            "DeepGemm(",
            "DeepGemmExperts GEMM warmup",
            "[Aiter Triton] Pre-compiling",
        ),
    ),
    line_rule(
        "bar_cut",
        r"Capturing CUDA graph[\w ]{0,20}(?: \([\w ,-]{1,40}?(?P<full>FULL)?\))?:\s{1,4}"
        r"\d{1,3}%\|[^\d\[]{0,400}$",
        _cut_bar,
        "Capturing CUDA graph shapes: 100%|██████████",
        Sample(
            "Capturing CUDA graphs (decode, FULL): 100%|██████████",
            {"modes": ["FULL", "PIECEWISE"]},
        ),
    ),
    cuda_rule(
        "graphs_captured",
        r"Graph capturing finished in (?P<duration_s>[\d.]{1,12}) secs"
        # A difference of free memory: below zero, another program gave more back.
        r"(?:, took (?:(?P<memory_gib>[\d.]{1,16})|-[\d.]{1,16}) GiB|\.)",
        GraphsCaptured,
        Sample(
            "(EngineCore_0 pid=306836) INFO 08-19 06:59:47 [gpu_model_runner.py:2718] "
            "Graph capturing finished in 4 secs, took 0.54 GiB",
            {"duration_s": 4.0, "memory_bytes": round(0.54 * GIB)},
        ),
        Sample(
            "INFO 11-01 06:59:47 model_runner.py:2718] Graph capturing finished in 37 "
            "secs.",
            {"duration_s": 37.0, "memory_bytes": None},
        ),
        Sample(
            "INFO 12-07 23:26:32 [gpu_model_runner.py:3118] Graph capturing finished "
            "in 2 secs, took -0.09 GiB",
            {"duration_s": 2.0, "memory_bytes": None},
        ),
    ),
    cuda_rule(
        "lazy_capture_started",
        r"Graph capturing for (?P<num_tokens>\d{1,9}) input tokens",
        LazyCaptureStarted,
        Sample(
            "(EngineCore_0 pid=1) INFO 08-19 07:06:32 [gpu_model_runner.py:2721] "
            "Graph capturing for 512 input tokens",
            {"num_tokens": 512},
        ),
    ),
    cuda_rule(
        "lazy_capture_finished",
        rf"\s{{4,60}}finished in (?P<duration_s>{NUMBER}) secs, took (?P<memory_mib>{NUMBER}) MiB",
        LazyCaptureFinished,
        Sample(
            "(EngineCore_0 pid=1) INFO 08-19 07:06:32 [gpu_model_runner.py:2721]     "
            "                    finished in 0.073 secs, took -342.00 MiB",
            {"duration_s": 0.073, "memory_bytes": -342 * MIB},
        ),
    ),
    cuda_rule(
        "graph_memory_estimated",
        rf"Estimated CUDA graph memory: (?P<estimated>{NUMBER}) GiB total",
        _estimated,
        Sample(
            "(Worker_TP0 pid=2) INFO 07-16 20:03:55 [gpu_model_runner.py:6720] "
            "Estimated CUDA graph memory: 0.06 GiB total",
            {"estimated_bytes": round(0.06 * GIB)},
        ),
    ),
    cuda_rule(
        "graph_pool_memory",
        rf"(?:CUDA|ACL) graph pool memory: (?P<actual_gib>{NUMBER}) GiB \(actual\), "
        rf"(?P<estimated_gib>{NUMBER}) GiB \(estimated\)",
        GraphMemoryEstimated,
        Sample(
            "(Worker_TP0 pid=2) INFO 07-16 20:04:10 [gpu_worker.py:793] CUDA graph "
            "pool memory: 0.73 GiB (actual), 0.36 GiB (estimated), difference: 0.37 "
            "GiB (50.4%).",
            {"actual_bytes": round(0.73 * GIB), "estimated_bytes": round(0.36 * GIB)},
        ),
    ),
    phase_start(
        "graph_capture_started",
        r"Capturing cudagraphs for decoding|Capturing the model for CUDA graphs|"
        r"Capturing model for .{1,60}",
        "graph_capture",
        "INFO 04-24 08:27:56 [model_runner.py:1456] Capturing cudagraphs for "
        "decoding. This may lead to unexpected consequences",
        device="cuda",
    ),
    line_rule(
        # A line of its own until 0.6.5 (`worker/model_runner.py capture_model`).
        "graph_capture_hint",
        r"If out-of-memory error occurs during cudagraph capture, consider decreasing|"
        r"CUDA graphs can take additional [\d~]{1,8} GiB memory per GPU\.",
        None,
        "INFO 12-06 11:39:39 model_runner.py:1404] If out-of-memory error occurs during "
        "cudagraph capture, consider decreasing `gpu_memory_utilization` or switching to eager "
        "mode. You can also reduce the `max_num_seqs` as needed to decrease memory usage.",
        "INFO 06-18 22:11:00 model_runner.py:828] CUDA graphs can take additional 1~3 GiB memory "
        "per GPU. If you are running out of memory, consider decreasing "
        "`gpu_memory_utilization` or enforcing eager mode.",
    ),
    phase_end(
        "graph_capture_registered",
        # Printed when `custom_all_reduce.py capture()` is left.
        r"Registering \d{1,9} cuda graph addresses",
        "graph_capture",
        "(VllmWorker rank=0 pid=2) INFO 07-18 19:52:37 [custom_all_reduce.py:196] "
        "Registering 4891 cuda graph addresses",
    ),
    cuda_rule(
        "graph_profile_started",
        r"Profiling CUDA graph memory: "
        r"(?P<kinds>\w{1,20}=\d{1,5} \(largest=\d{1,9}\)"
        r"(?:, \w{1,20}=\d{1,5} \(largest=\d{1,9}\)){0,4})?",
        _profiled,
        Sample(
            "(Worker_TP0 pid=2) INFO 07-16 20:03:46 [gpu_model_runner.py:6595] "
            "Profiling CUDA graph memory: PIECEWISE=51 (largest=512), FULL=35 "
            "(largest=256)",
            {"name": "graph_memory_profile", "edge": "start"},
        ),
    ),
    cuda_rule(
        "graph_estimate_reserved",
        r"(?:(?P<enabled>(?:CUDA|ACL) graph memory profiling is enabled) .{1,120}?"
        rf"current --gpu-memory-utilization=(?P<used>{NUMBER}) "
        rf"(?:is equivalent to --gpu-memory-utilization=(?P<rest>{NUMBER}) )?|"
        r"In v[\d.]{1,8}, CUDA graph memory profiling will .{1,260}?from "
        rf"(?P<without>{NUMBER}) to |"
        r"(?:CUDA|ACL) graph memory profiling is disabled .{1,360}?from "
        rf"(?P<disabled>{NUMBER}) to )",
        _reserved,
        Sample(
            "INFO 08-14 14:07:22 [gpu_worker.py:578] CUDA graph memory profiling is "
            "enabled (default since v0.21.0). The current "
            "--gpu-memory-utilization=0.8200 is equivalent to "
            "--gpu-memory-utilization=0.8048 without CUDA graph memory profiling. To "
            "maintain the same effective KV cache size as before, increase "
            "--gpu-memory-utilization to 0.8352.",
            {"is_reserved": True, "utilization_without": 0.8048},
        ),
        Sample(
            "INFO 03-08 14:07:22 [gpu_worker.py:470] In v0.19, CUDA graph memory "
            "profiling will be enabled by default "
            "(VLLM_MEMORY_PROFILER_ESTIMATE_CUDAGRAPHS=1), which more accurately "
            "accounts for CUDA graph memory during KV cache allocation. To try it "
            "now, set VLLM_MEMORY_PROFILER_ESTIMATE_CUDAGRAPHS=1 and increase "
            "--gpu-memory-utilization from 0.9000 to 0.9099 to maintain the same "
            "effective KV cache size.",
            {"is_reserved": False},
        ),
        Sample(
            "WARNING 08-14 14:07:22 [gpu_worker.py:592] CUDA graph memory profiling "
            "is disabled (VLLM_MEMORY_PROFILER_ESTIMATE_CUDAGRAPHS=0). Without it, "
            "CUDA graph memory is not accounted for during KV cache allocation, which "
            "may require lowering --gpu-memory-utilization to avoid OOM. Consider "
            "re-enabling it (the default as of v0.21.0) and increasing "
            "--gpu-memory-utilization from 0.9200 to 0.9271.",
            {"is_reserved": False},
        ),
    ),
    note_rule(
        "graph_mode",
        r"(?:Enforce eager set|TORCH_COMPILE_DISABLE is set|Cudagraph is disabled|"
        r"Truncating max_cudagraph_capture_size|cudagraph_capture_sizes specified|"
        r"Cudagraph mode \w).{1,300}|"
        r".{1,200}?[OS]\w{4,9} cudagraph_mode (?:from \w{1,40} )?to .{1,100}",
        "cuda_graphs",
        "WARNING 06-03 05:44:02 [vllm.py:1957] Pooling models do not support full "
        "cudagraphs. Overriding cudagraph_mode to PIECEWISE.",
        "WARNING 09-16 05:44:02 [vllm.py:1772] Enforce eager set, disabling "
        "torch.compile and CUDAGraphs. This is equivalent to setting -cc.mode=none "
        "-cc.cudagraph_mode=none",
    ),
    cuda_note(
        "graph_note",
        r"Capping cudagraph capture sizes .{1,300}|CUDAGraphMode\.\w{1,40} is .{1,300}|"
        r"Skipping CUDA graph capture.{0,200}|CUDA graph persistent memory.{1,200}",
        "cuda_graphs",
        "WARNING 03-08 16:44:29 [compilation.py:1233] Capping cudagraph capture sizes "
        "from max 512 to 352 to fit Mamba cache blocks",
    ),
)
