"""Upstream vLLM: stages beside loading and capture, each with its own lines.

Source: vLLM `model_executor/warmup/`, `v1/worker/encoder_cudagraph.py`,
`v1/worker/mm_encoder_model_runner.py`, `v1/worker/startup_plan.py`,
`v1/worker/cpu_model_runner.py`, `v1/executor/abstract.py`, `device_allocator/`,
`renderers/base.py`, `utils/jit_monitor.py`; vllm-omni `cuda_graph_decoder_wrapper.py`.
"""

from __future__ import annotations

import re

from parsers.base import (
    NUMBER,
    SECONDS,
    LineRule,
    Made,
    Sample,
    line_rule,
    note_rule,
    phase_end,
    phase_start,
)
from parsers.engine.convert import text_of, words_of
from warmup_insights.model.events import (
    MemoryBudgetSet,
    MemoryMeasured,
    Note,
    PhaseMarked,
    SleepModeChanged,
)
from warmup_insights.units import GIB, gib


def _chat_template(match: re.Match[str]) -> Made:
    took = match["took"]
    scale = 1e-3 if took.endswith("ms") else 1.0
    seconds = round(float(took.rstrip("ms")) * scale, 6)
    return PhaseMarked(name="chat_template_warmup", edge="end", duration_s=seconds)


def _encoder_captured(match: re.Match[str]) -> list[Made]:
    seconds, taken = float(match["seconds"]), gib(match["taken"])
    return [
        PhaseMarked(name="encoder_graph_capture", edge="end", duration_s=seconds),
        MemoryMeasured(stage="encoder_graphs", delta_bytes=taken, duration_s=seconds),
    ]


def _encoder_complete(match: re.Match[str]) -> list[Made]:
    values = {"num_graphs": int(match["count"])}
    if match["local"]:
        values = {"num_global": values["num_graphs"], "num_local": int(match["local"])}
    return [
        PhaseMarked(name="encoder_graph_capture", edge="end"),
        Note(topic="cuda_graphs", text=text_of(match[0]), values=values),
    ]


def _encoder_profiled(match: re.Match[str]) -> list[Made]:
    """The profiling run begins with the encoder, and the model is compiled after it
    (`v1/worker/gpu_model_runner.py profile_run`, `gpu/mm/encoder_runner.py`)."""
    text = text_of(match[0])
    if match["runs"] is None:
        return [Note(topic="multimodal", text=text)]
    return [
        PhaseMarked(name="profile_run", edge="start"),
        Note(topic="multimodal", text=text, values={"runs_encoder": True}),
    ]


def _slept(match: re.Match[str]) -> Made:
    action = {"fall": "sleep", "wake": "wake_up", "disc": "discard"}[
        match["action"][:4]
    ]
    return SleepModeChanged(
        action=action, duration_s=float(match["seconds"]),
        tags=words_of(match["tags"] or ""),
    )  # fmt: skip


def _plan_applied(match: re.Match[str]) -> list[Made]:
    values = {
        "outcome": "applied",
        "free_bytes": gib(match["free_gib"]),
        "baseline_bytes": gib(match["baseline_gib"]),
    }
    return [
        MemoryBudgetSet(kv_cache_bytes=int(match["bytes"])),
        Note(topic="startup_plan", text=text_of(match["text"]), values=values),
    ]


STAGE_RULES: tuple[LineRule, ...] = (
    phase_end(
        "multimodal_warmup_took",
        rf"(?:Readonly m|M)ulti-modal warmup completed in {SECONDS}s",
        "multimodal_warmup",
        Sample(
            "(APIServer pid=1) INFO 07-16 20:04:15 [base.py:65] Multi-modal warmup "
            "completed in 8.175s",
            {"duration_s": 8.175},
        ),
    ),
    line_rule(
        "chat_template_took",
        r"Chat template warmup completed in (?P<took>[\d.]{1,12}m?s)",
        _chat_template,
        Sample(
            "(APIServer pid=1) DEBUG 07-16 20:04:15 [base.py:379] Chat template "
            "warmup completed in 0.175s",
            {"name": "chat_template_warmup", "duration_s": 0.175},
        ),
        Sample(
            "(APIServer pid=1) INFO 03-08 08:25:36 [serving.py:218] Chat template "
            "warmup completed in 1380.6ms",
            {"name": "chat_template_warmup", "duration_s": 1.3806},
        ),
    ),
    phase_start(
        "cpu_warmup_started",
        r"Warming up model for the compilation\.\.\.",
        "model_warmup",
        "INFO 10-28 13:27:48 [cpu_model_runner.py:77] Warming up model for the "
        "compilation...",
    ),
    phase_end(
        "cpu_warmup_done",
        r"Warming up done\.",
        "model_warmup",
        "INFO 10-28 13:27:50 [cpu_model_runner.py:87] Warming up done.",
    ),
    phase_start(
        "decoder_graphs_started",
        r"Starting CUDA Graph warmup for \d{1,5} (?:sizes|shapes): |"
        r"MOSS-TTS codec CUDA Graph warmup: nq=",
        "decoder_graph_capture",
        "(Worker pid=23) INFO 04-04 11:36:08 [cuda_graph_decoder_wrapper.py:104] Starting CUDA "
        "Graph warmup for 3 sizes: [2, 25, 325]",
        "(Worker pid=23) INFO 04-04 11:36:08 [cuda_graph_codec.py:104] MOSS-TTS codec CUDA "
        "Graph warmup: nq=8 capture_sizes=[25, 50]",
        startup_only=True,
    ),
    phase_end(
        "decoder_graphs_complete",
        r"(?:MOSS-TTS codec )?CUDA Graph warmup complete(?:: \d{1,5}/\d{1,5} captured|"
        r"\. Captured \d{1,5} graphs)",
        "decoder_graph_capture",
        "(Worker pid=23) INFO 04-04 11:36:50 [cuda_graph_decoder_wrapper.py:123] CUDA Graph "
        "warmup complete. Captured 3 graphs.",
        "(Worker pid=23) INFO 04-04 11:36:50 [cuda_graph_decoder_wrapper.py:123] CUDA Graph "
        "warmup complete: 3/3 captured",
        startup_only=True,
    ),
    line_rule(
        "encoder_graphs_took",
        r"Encoder graph capturing finished in (?P<seconds>[\d.]{1,12}) secs, took "
        rf"(?P<taken>{NUMBER}) GiB",
        _encoder_captured,
        Sample(
            "INFO 09-16 20:04:12 [mm_encoder_model_runner.py:94] Encoder graph "
            "capturing finished in 12 secs, took 0.80 GiB (24 graphs)",
            {"name": "encoder_graph_capture", "duration_s": 12.0},
        ),
    ),
    line_rule(
        "encoder_graphs_complete",
        r"Encoder CUDA graph capture complete\. Captured (?P<count>\d{1,7}) "
        r"(?:graphs|budget graphs|global \+ (?P<local>\d{1,7}) local budget graphs)",
        _encoder_complete,
        Sample(
            "INFO 09-16 20:04:12 [encoder_cudagraph.py:269] Encoder CUDA graph "
            "capture complete. Captured 24 graphs across 3 paths.",
            {"name": "encoder_graph_capture", "edge": "end"},
        ),
    ),
    line_rule(
        "sleep_took",
        r"It took (?P<seconds>[\d.]{1,16}) seconds to (?P<action>fall asleep|wake up|"
        r"discard)(?: tags (?P<tags>.{1,200}?))?\.\s*$",
        _slept,
        Sample(
            "INFO 09-16 20:14:12 [abstract.py:408] It took 1.250000 seconds to fall "
            "asleep.",
            {"action": "sleep", "duration_s": 1.25, "tags": []},
        ),
        Sample(
            "INFO 03-16 20:15:12 executor_base.py:219] It took 0.750000 seconds to "
            "wake up.",
            {"action": "wake_up", "duration_s": 0.75, "tags": []},
        ),
        Sample(
            "INFO 09-16 20:15:12 [abstract.py:426] It took 0.500000 seconds to wake "
            "up tags {'weights', 'kv_cache'}.",
            {"action": "wake_up", "duration_s": 0.5, "tags": ["weights", "kv_cache"]},
        ),
        hint=("to fall asleep", "seconds to wake up", "to discard tags"),
    ),
    line_rule(
        "sleep_freed",
        rf"Sleep mode (?:\(level=\d\) )?freed (?P<freed_gib>{NUMBER}) GiB memory, "
        rf"(?P<used_gib>{NUMBER}) GiB memory is still in use|"
        # What the allocator freed is part of what the worker states.
        rf"(?:CuMem|XpuMem)Allocator: sleep freed {NUMBER} GiB memory in total, of which "
        rf"(?P<host_gib>{NUMBER}) GiB is backed up in CPU",
        SleepModeChanged,
        Sample(
            "INFO 09-16 20:14:12 [gpu_worker.py:335] Sleep mode freed 60.5 GiB "
            "memory, 1.25 GiB memory is still in use.",
            {"freed_bytes": round(60.5 * GIB), "used_bytes": round(1.25 * GIB)},
        ),
        Sample(  # vllm-ascend `worker/worker.py`
            "INFO 09-16 20:14:12 [worker.py:240] Sleep mode (level=1) freed 60.50 GiB "
            "memory, 1.25 GiB memory is still in use.",
            {"freed_bytes": round(60.5 * GIB), "used_bytes": round(1.25 * GIB)},
        ),
        Sample(
            "INFO 09-16 20:14:12 [cumem.py:282] CuMemAllocator: sleep freed 60.50 GiB "
            "memory in total, of which 15.00 GiB is backed up in CPU and the rest "
            "45.50 GiB is discarded directly.",
            {"freed_bytes": None, "host_bytes": 15 * GIB},
        ),
        fixed={"action": "sleep"},
    ),
    line_rule(
        "sleep_discarded",
        rf"(?:CuMem|XpuMem)Allocator: discarded (?P<freed_gib>{NUMBER}) GiB for tags "
        r"(?P<tags>.{1,200}?)\.\s*$",
        SleepModeChanged,
        Sample(
            "INFO 09-16 20:14:12 [cumem.py:319] CuMemAllocator: discarded 45.50 GiB "
            "for tags ('kv_cache',).",
            {"freed_bytes": round(45.5 * GIB), "tags": ["kv_cache"]},
        ),
        fixed={"action": "discard"},
    ),
    line_rule(
        "startup_plan_applied",
        r"(?P<text>Applying persisted startup plan \(fingerprint \w{1,80}\): "
        r"kv_cache_memory_bytes=(?P<bytes>\d{1,18}) .{1,40}?recorded free-memory baseline "
        rf"(?P<baseline_gib>{NUMBER}) GiB, current (?P<free_gib>{NUMBER}) GiB.{{1,300}})",
        _plan_applied,
        Sample(
            "INFO 09-16 20:04:12 [startup_plan.py:153] Applying persisted startup "
            "plan (fingerprint ab12): kv_cache_memory_bytes=8417154969 (7.84 GiB), "
            "recorded free-memory baseline 78.57 GiB, current 78.57 GiB. Memory "
            "profiling will be skipped.",
            {"kv_cache_bytes": 8417154969},
        ),
    ),
    note_rule(
        "startup_plan_refused",
        rf"Startup plan not applied: current free memory \((?P<free_gib>{NUMBER}) GiB\) is "
        rf"below the recorded baseline \((?P<baseline_gib>{NUMBER}) GiB\).{{0,200}}",
        "startup_plan",
        "INFO 09-16 20:04:12 [startup_plan.py:123] Startup plan not applied: current "
        "free memory (70.50 GiB) is below the recorded baseline (78.50 GiB); falling "
        "back to full memory profiling.",
        values={"free_bytes": round(70.5 * GIB), "baseline_bytes": round(78.5 * GIB)},
        outcome="refused",
    ),
    note_rule(
        "startup_plan_saved",
        r"Saved startup plan to .{1,300}",
        "startup_plan",
        "INFO 09-16 20:04:12 [startup_plan.py:180] Saved startup plan to /c/p.json",
        outcome="saved",
    ),
    note_rule(
        "startup_plan",
        r"Startup plan not applied: (?!current free memory).{1,300}|"
        r"Failed to save startup plan to .{1,300}|"
        r"Ignoring unreadable startup plan .{1,300}",
        "startup_plan",
        "WARNING 09-16 20:04:12 [startup_plan.py:96] Ignoring unreadable startup plan "
        "/p: x",
    ),
    note_rule(
        "encoder_profile_short",
        r"The sequence length used for profiling \([^()]{1,80}\) is too short to hold the "
        r"multi-modal embeddings in the worst case \([^()]{1,300}\)",
        "multimodal",
        "WARNING 08-04 16:54:49 [profiling.py:247] The sequence length used for profiling "
        "(max_num_batched_tokens / max_num_seqs = 4096) is too short to hold the multi-modal "
        "embeddings in the worst case (98304 tokens in total, out of which {'image': 81920, "
        "'video': 16384} are reserved for multi-modal embeddings).",
    ),
    note_rule(
        "encoder_graphs_many",
        r"Capturing (?P<num_graphs>\d{1,7}) encoder CUDA graphs; .{1,200}|"
        r"Gemma4 MTP: captured centroids CUDA graphs for sizes (?P<batch_sizes>.{1,200})",
        "cuda_graphs",
        "WARNING 09-16 20:04:12 [encoder_cudagraph.py:252] Capturing 240 encoder CUDA "
        "graphs; capture axes multiply the per-budget graph count, consider pruning "
        "axis keys.",
        values={"num_graphs": 240},
    ),
    note_rule(
        "memory_grew",
        rf"Free memory grew by (?P<grown_gib>{NUMBER}) GiB during profiling \(initial "
        rf"(?P<initial_gib>{NUMBER}) GiB, current (?P<free_gib>{NUMBER}) GiB\)\. Sizing the "
        rf"KV cache from the (?P<reserved_gib>{NUMBER}) GiB torch reserved.{{0,100}}",
        "memory",
        "WARNING 09-16 20:04:12 [gpu_worker.py:146] Free memory grew by 1.5 GiB "
        "during profiling (initial 70.0 GiB, current 71.5 GiB). Sizing the KV cache "
        "from the 20.0 GiB torch reserved instead of the profiling difference.",
        values={
            "grown_bytes": round(1.5 * GIB),
            "initial_bytes": 70 * GIB,
            "free_bytes": round(71.5 * GIB),
            "reserved_bytes": 20 * GIB,
        },
    ),
    note_rule(
        "experts_rearranged",
        rf"Rearranged experts.{{0,20}}?in {SECONDS} (?:s|seconds)\.",
        "experts",
        "INFO 09-16 20:04:12 [eplb_state.py:958] Rearranged experts (profile) in 1.20 s.",
        values={"duration_s": 1.2},
    ),
    note_rule(
        "kernel_built",
        r"(?:FlyDSL _get_kernel BUILD #(?P<num_built>\d{1,9}) dt=|"
        r"Built FlyDSL \w{1,40} kernel #(?P<number>\d{1,9}) in )"
        r"(?P<duration_s>[\d.]{1,12})s \((?:total |cumulative=)(?P<total_s>[\d.]{1,12})s\)"
        r".{0,200}",
        "kernel_warmup",
        "INFO 09-16 20:04:12 [flydsl.py:390] Built FlyDSL UltraQuant kernel #1 in "
        "2.50s (total 2.6s), key=x",
        values={"number": 1, "duration_s": 2.5, "total_s": 2.6},
    ),
    line_rule(
        "encoder_profile",
        r"(?P<runs>Encoder cache will be initialized with a budget of ).{1,300}|"
        r"Skipping (?:memory profiling for multimodal encoder|"
        r"encoder profiling for embedding-only mode) .{1,200}",
        _encoder_profiled,
        Sample(
            "INFO 09-16 20:04:12 [gpu_model_runner.py:6104] Encoder cache will be "
            "initialized with a budget of 8192 tokens, and profiled with 1 image "
            "items of the maximum feature size.",
            {"name": "profile_run", "edge": "start"},
        ),
    ),
)
