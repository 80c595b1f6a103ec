"""HabanaAI vllm-fork, V0 and V1, 1.16 to 1.22.

Source: vllm-fork `vllm/worker/hpu_model_runner.py` (once `habana_model_runner.py`),
`hpu_worker.py`, `executor/hpu_executor.py`, `v1/worker/hpu_model_runner.py`.
"""

from __future__ import annotations

import re

from parsers.base import (
    Dialect,
    LineRule,
    Made,
    Sample,
    fork_note,
    fork_rule,
    hpu_note,
    phase_start,
)
from parsers.engine.signals import StepLine
from parsers.rules.hpu_buckets import BUCKET_RULES
from parsers.rules.hpu_memory import MEMORY_RULES, SIZE
from parsers.rules.hpu_misses import MISS_RULES
from parsers.rules.hpu_warmup import WARMUP_RULES
from warmup_insights.model.events import (
    CompileFinished,
    GraphBudgetSet,
    GraphsCaptured,
    GraphSkipped,
    WarmupStep,
)
from warmup_insights.units import GIB, parse_bytes


def _old_step(match: re.Match[str]) -> Made:
    return StepLine(
        phase="prompt" if match["prompt"] == "True" else "decode", mode="eager",
        # The total of this version counts both phases together: no phase's total.
        index=int(match["index"]), total=None,
        bucket=(int(match["batch_size"]), int(match["seq_len"])), free_bytes=None,
    )  # fmt: skip


def _old_capture(match: re.Match[str]) -> Made:
    return WarmupStep(
        phase="decode", mode="graph",
        index=int(match["index"]) + (match["from_zero"] is not None),
        total=int(match["total"]), duration_s=float(match["seconds"]),
        bucket=(int(match["batch_size"]), int(match["seq_len"])),
        memory_bytes=parse_bytes(match["took"]),
    )  # fmt: skip


def _old_skip(match: re.Match[str]) -> Made:
    return GraphSkipped(
        phase="prompt" if match["prompt"] == "True" else "decode",
        bucket=(int(match["batch_size"]), int(match["seq_len"])),
        reason="no memory left for its graph",
        estimate_bytes=round(float(match["estimate"])),
    )  # fmt: skip


_RULES: tuple[LineRule, ...] = (
    fork_rule(
        "fork_graph_budget",
        rf"Using (?P<total_bytes>{SIZE})/(?P<free_bytes>{SIZE}) of free device memory for HPUGraphs"
        # One release breaks its text in the source, inside the quotes.
        rf"(?:,\s{{1,40}}(?P<prompt_bytes>{SIZE})\s{{1,60}}for prompt"
        rf"(?: and (?P<decode_bytes>{SIZE})\s{{1,60}}for decode)?"
        r"(?: \(VLLM_GRAPH_PROMPT_RATIO=(?P<prompt_ratio>[\d.]{1,12})\))?)?",
        GraphBudgetSet,
        Sample(
            "INFO 08-02 17:38:22 hpu_model_runner.py:1159] Using 15.85 GiB/55.43 GiB "
            "of free device memory for HPUGraphs, 4.755 GiB for prompt and 11.095 GiB "
            "for decode (VLLM_GRAPH_PROMPT_RATIO=0.3)",
            {
                "prompt_bytes": round(4.755 * GIB),
                "decode_bytes": round(11.095 * GIB),
                "prompt_ratio": 0.3,
            },
        ),
        Sample(
            "INFO 08-02 17:38:22 hpu_model_runner.py:1159] Using 15.85 GiB/55.43 GiB "
            "of free device memory for HPUGraphs",
            {"total_bytes": round(15.85 * GIB), "prompt_bytes": None},
        ),
        Sample(
            "INFO 07-02 17:38:22 [hpu_model_runner.py:2351] Using 15.85 GiB/55.43 GiB "
            "of free device memory for HPUGraphs, 4.755 GiB                    for "
            "prompt and 11.095 GiB for decode (VLLM_GRAPH_PROMPT_RATIO=0.3)",
            {"prompt_bytes": round(4.755 * GIB), "decode_bytes": round(11.095 * GIB)},
        ),
    ),
    fork_rule(
        "fork_warmup_step_1_16",
        r"\[Warmup\]\[(?P<index>\d{1,6})/(?P<total>\d{1,6})\] batch_size:"
        r"(?P<batch_size>\d{1,9}) seq_len:(?P<seq_len>\d{1,9}) "
        r"is_prompt:(?P<prompt>True|False) mem_usage:",
        _old_step,
        Sample(
            "INFO 05-21 10:00:00 habana_model_runner.py:900] [Warmup][1/48] "
            "batch_size:4 seq_len:1024 is_prompt:True mem_usage:62.3%",
            {"phase": "prompt", "bucket": (4, 1024), "index": 1, "total": None},
        ),
    ),
    fork_rule(
        "fork_capture_1_16",
        r"\[(?P<index>\d{1,6})/(?P<total>\d{1,6})\] Capturing "
        r"(?:HpuGraph|(?P<from_zero>HPUGraphRunner)) for batch "
        r"(?P<batch_size>\d{1,9}), max_seq_len (?P<seq_len>\d{1,9}), .{0,200}? done in "
        rf"(?P<seconds>[\d.]{{1,12}}) seconds! Took (?P<took>{SIZE}) of device memory",
        _old_capture,
        Sample(
            "DEBUG 05-08 10:00:00 habana_model_runner.py:900] [3/48] Capturing "
            "HpuGraph for batch 4, max_seq_len 512, block_count 4, seqs 4 done in "
            "1.23 seconds! Took 1 GiB of device memory (20 GiB/94.62 GiB used)",
            {"bucket": (4, 512), "duration_s": 1.23, "memory_bytes": GIB},
        ),
        Sample(
            "DEBUG 05-08 10:00:00 habana_model_runner.py:1008] [3/48] Capturing "
            "HPUGraphRunner for batch 8, max_seq_len 512, block_count 4, allocated "
            "2.5 GiB device memory in total (19 GiB/94.62 GiB used)... done in 2.50 "
            "seconds! Took 3 GiB of device memory (22 GiB/94.62 GiB used)",
            {"bucket": (8, 512), "index": 4, "memory_bytes": 3 * GIB},
        ),
    ),
    fork_rule(
        "fork_capture_end_1_16",
        r"Graph capturing finished in (?P<duration_s>[\d.]{1,12}) secs, allocated "
        rf"(?P<memory_bytes>{SIZE}) of device memory",
        GraphsCaptured,
        Sample(
            "INFO 05-08 10:00:00 habana_model_runner.py:900] Graph capturing finished "
            "in 60 secs, allocated 10 GiB of device memory (30 GiB/94.62 GiB used)",
            {"duration_s": 60.0, "memory_bytes": 10 * GIB},
        ),
    ),
    phase_start(
        "fork_capture_start_1_16",
        r"Capturing the model for HPUGraphs\.|Starting capture \d{1,6} valid HPUGraphs\.",
        "graph_capture",
        "INFO 05-08 10:00:00 habana_model_runner.py:900] Starting capture 48 valid "
        "HPUGraphs. Skipping capture of 12/60 graphs due to batch/context constraints.",
        device="hpu",
        engine="vllm-fork",
    ),
    fork_rule(
        "fork_graph_skipped",
        r"warmup skipped: is_prompt: (?P<prompt>True|False), batch_size: "
        r"(?P<batch_size>\d{1,9}), seq_len: (?P<seq_len>\d{1,9}), memory estimated: "
        r"(?P<estimate>[\d.]{1,32})",
        _old_skip,
        Sample(
            "INFO 06-19 07:42:00 habana_model_runner.py:989] warmup skipped: "
            "is_prompt: False, batch_size: 32, seq_len: 1280, memory estimated: "
            "78028018.23873146",
            {"phase": "decode", "bucket": (32, 1280), "estimate_bytes": 78028018},
        ),
    ),
    fork_note(
        "fork_prompt_graphs_skipped",
        r"Skipping prompt graph warmup",
        "graphs_skipped",
        "INFO 06-19 07:41:34 habana_model_runner.py:966] Skipping prompt graph "
        "warmup...",
    ),
    fork_rule(
        "fork_recompile",
        r"VLLM_HPU_STEP_GRAPH_COMPILATION: (?P<detail>.{1,300})",
        CompileFinished,
        "WARNING 05-08 10:00:00 hpu_model_runner.py:900] "
        "VLLM_HPU_STEP_GRAPH_COMPILATION: [(1, 2)], is_prompt: True, num_seqs: 1, "
        "max_context_len: 0, max_num_blocks 4",
        fixed={"what": "recipe"},
    ),
    hpu_note(
        "fork_cpu_fallback",
        r"VLLM_HPU_STEP_CPU_FALLBACK: .{1,300}?, is_prompt: (?:True|False), num_seqs: "
        r"(?P<num_seqs>\d{1,9}), max_context_len: (?P<max_context_len>\d{1,9}), "
        r"max_num_blocks (?P<max_num_blocks>\d{1,9})",
        "cpu_fallback",
        "WARNING 05-08 10:00:00 [hpu_worker.py:250] VLLM_HPU_STEP_CPU_FALLBACK: [(3, "
        "2)], is_prompt: True, num_seqs: 4, max_context_len: 17, max_num_blocks 9",
        values={"num_seqs": 4, "max_context_len": 17, "max_num_blocks": 9},
    ),
    hpu_note(
        "fork_file",
        r"Cannot use PT_COMPILE_ONLY_MODE\..{0,200}|Using PT_COMPILE_ONLY_MODE\.",
        "compile_only_mode",
        "DEBUG 05-08 10:00:00 hpu_model_runner.py:900] Using PT_COMPILE_ONLY_MODE.",
    ),
)

DIALECT = Dialect(
    name="vllm-fork",
    title="HabanaAI vllm-fork, V0 and V1",
    versions="1.16 to 1.22",
    source="vllm/worker/hpu_model_runner.py, hpu_worker.py; v1/worker/hpu_model_runner.py",
    rules=(*_RULES, *BUCKET_RULES, *WARMUP_RULES, *MISS_RULES, *MEMORY_RULES),
)
