"""Upstream vLLM: kernels that are warmed up, tuned or compiled.

Source: vLLM `model_executor/warmup/`, `utils/jit_monitor.py`,
`distributed/device_communicators/flashinfer_all_reduce.py`; flashinfer `autotuner.py`;
TileLang `jit/kernel.py`.
"""

from __future__ import annotations

import re

from parsers.base import (
    SECONDS,
    LineRule,
    Made,
    Sample,
    line_rule,
    note_rule,
    phase_end,
    phase_start,
)
from parsers.engine.convert import text_of
from warmup_insights.model.events import Note, PhaseMarked, RuntimeCompile


def _runtime_compile(match: re.Match[str]) -> Made:
    rest = match["rest"].partition(". This causes a latency spike")[0]
    kernel, _, detail = rest.partition(" (")
    return RuntimeCompile(
        what=text_of(match["what"]), kernel=text_of(kernel)[:300],
        detail=text_of(detail.removesuffix(")"))[:300] or None,
    )  # fmt: skip


def _warmed(match: re.Match[str]) -> list[Made]:
    """The last line of a worker's warm-up (`gpu_worker.py compile_or_warm_up_model`)."""
    return [
        Note(topic="jit_monitor", text=text_of(match[0])),
        PhaseMarked(name="model_warmup", edge="end"),
    ]


def _built(match: re.Match[str]) -> list[Made]:
    """aiter prints the line twice, with a timestamp where the root logger prints too."""
    took = float(match["duration_s"])
    ended = PhaseMarked(name="kernel_build", edge="end", duration_s=took)
    if match["own"] is None:
        return [ended]
    name = text_of(match["what"])
    values = {"what": name, "duration_s": took}
    text = f"aiter built {name} in {took:g} s"
    return [Note(topic="kernel_build", text=text, values=values), ended]


KERNEL_RULES: tuple[LineRule, ...] = (
    phase_start(
        "sizes_warmed",
        # `gpu_worker.py compile_or_warm_up_model`: sizes that no graph is captured for.
        r"Compile and warming up model for size \d{1,9}",
        "compile_warmup",
        "(Worker_TP3 pid=2) INFO 07-16 20:03:50 [gpu_worker.py:415] Compile and warming "
        "up model for size 8192",
    ),
    phase_start(
        "kernel_warmup",
        r"Warming up (?:ll_bf16|BF16x3|Kimi|Step5|DeepSeek|MiniMax|CuTeDSL|Qwen|Mamba|"
        r"watermark|[\w-]{1,40} (?:kernel|GEMM|attention))|"
        r"JIT kernel warmup starting\.|"
        r"Running FlashInfer (?:BF16-only )?autotune|Autotuning FlashInfer |"
        r".{0,120}?\[Autotuner\]: Autotuning process starts",
        "kernel_warmup",
        "(Worker_TP3 pid=2) INFO 07-16 20:03:58 [kernel_warmup.py:65] Warming up "
        "ll_bf16 router GEMM kernels.",
        "INFO 09-16 20:03:58 [kernel_warmup.py:179] JIT kernel warmup starting.",
        "INFO 09-23 20:03:58 [kernel_warmup.py:391] Running FlashInfer BF16-only "
        "autotune with 8192 tokens.",
    ),
    phase_end(
        "kernel_warmup_end",
        r".{0,120}?\[Autotuner\]: Autotuning process ends",
        "kernel_warmup",
        "(Worker_TP3 pid=2) 2026-07-16 20:03:58,155 - INFO - autotuner.py:674 - "
        "flashinfer.jit: [Autotuner]: Autotuning process ends",
    ),
    phase_end(
        "kernel_warmup_took",
        r"(?:JIT kernel warmup (?:finished in|failed after)|"
        r"CuTeDSL warmup compiled \d{1,9} units in|"
        r"[\w ]{0,60}TileLang warmup finished in|"
        r"ROCm segmented attention autotune ready: .{1,120}?elapsed=) ?"
        rf"{SECONDS} ?s",
        "kernel_warmup",
        Sample(
            "INFO 09-16 20:04:02 [kernel_warmup.py:192] JIT kernel warmup finished in "
            "4.20s.",
            {"duration_s": 4.2},
        ),
        Sample(
            "INFO 07-16 20:04:02 [cutedsl_warmup.py:113] CuTeDSL warmup compiled 12 "
            "units in 3.50 s.",
            {"duration_s": 3.5},
        ),
        Sample(
            "INFO 07-16 20:04:02 [deepseek_v4_mhc_warmup.py:205] DeepSeek V4 mHC "
            "TileLang warmup finished in 2.50 seconds.",
            {"duration_s": 2.5},
        ),
        Sample(
            "INFO 09-16 20:04:02 [rocm_segmented_attn_autotune_warmup.py:1168] ROCm "
            "segmented attention autotune ready: tp_rank=0/8 local_tuned=1 tuned=8 "
            "loaded=0 failed=0 elapsed=7.25s cache=/c",
            {"duration_s": 7.25},
        ),
    ),
    note_rule(
        "kernel_warmup_skipped",
        r"Skipping (?!defragmenter|prompt graph|FlashInfer autotune because it)[\w/+ -]{2,60}?(?:warmup|autotun\w{1,3})\b.{0,300}|"
        r"Mamba2 SSD kernel warmup failed .{1,200}|wvSplitKrc workspace warmup failed|"
        r"GDN prefill kernel warmup \(T=\d{1,9}\) failed .{1,200}",
        "kernel_warmup",
        "INFO 07-16 20:03:58 [cutedsl_warmup.py:96] Skipping CuTeDSL warmup because "
        "no compile units were requested.",
        startup_only=True,
    ),
    note_rule(
        "kernel_warmed",
        r"Warmed (?:up )?.{1,300}|FlashInfer GDN prefill (?:kernel )?is JIT-compiled.{1,200}|"
        r"ROCm segmented attention (?:tuning plan|autotune): .{1,300}",
        "kernel_warmup",
        "INFO 09-16 20:03:58 [b12x_warmup.py:96] Warmed up 12 b12x MoE kernel "
        "signature(s).",
        startup_only=True,
    ),
    note_rule(
        "autotune_cache",
        r"(?:Using|No|FlashInfer|Installed) .{0,80}?autotune (?:cache|table).{0,300}|"
        r"flashinfer metadata classifier unavailable.{1,200}|"
        r"FlashInfer's precompiled kernels are missing.{1,500}",
        "autotune",
        "INFO 09-16 20:03:58 [kernel_warmup.py:96] Using FlashInfer autotune cache "
        "file: /c/tuned.json",
        startup_only=True,
    ),
    line_rule(
        "runtime_compile",
        r"(?P<what>[\w ]{1,40}?) during inference: (?P<rest>.{1,900})",
        _runtime_compile,
        Sample(
            "WARNING 07-16 20:10:11 [jit_monitor.py:140] Triton kernel JIT "
            "compilation during inference: _fwd_kernel (BLOCK=64). This causes a "
            "latency spike; consider extending warmup to cover this shape/config.",
            {
                "what": "Triton kernel JIT compilation",
                "kernel": "_fwd_kernel",
                "detail": "BLOCK=64",
            },
        ),
        Sample(
            "WARNING 07-16 20:10:11 [jit_monitor.py:140] CuTeDSL JIT compilation "
            "during inference: gemm. This causes a latency spike; consider extending "
            "warmup to cover this shape/config.",
            {"what": "CuTeDSL JIT compilation", "kernel": "gemm", "detail": None},
        ),
    ),
    line_rule(
        "aiter_types",
        r"(?:\[aiter\] )?type hints mismatch, override to --> ",
        None,
        "[2026-03-10 20:21:10] INFO core.py:1031: type hints mismatch, override to "
        "--> moe_fused(num_tokens_buf: torch.Tensor)",
    ),
    line_rule(
        "aiter_built",
        rf"(?P<own>\[aiter\] )?finish build \[(?P<what>\w{{1,120}})\], cost {SECONDS}s",
        _built,
        Sample(
            "(Worker_TP2 pid=2) [aiter] finish build [module_rmsnorm], cost 281.1s ",
            {
                "topic": "kernel_build",
                "values": {"what": "module_rmsnorm", "duration_s": 281.1},
            },
        ),
        Sample(
            "(Worker_TP2 pid=2) [2026-03-10 20:16:30] INFO core.py:863: finish build "
            "[module_rmsnorm], cost 281.1s",
            {"name": "kernel_build", "edge": "end", "duration_s": 281.1},
        ),
        device="rocm",
        startup_only=True,
    ),
    phase_start(
        "tilelang_begins",
        r".{0,120}?TileLang begins to compile kernel `",
        "kernel_build",
        "(Worker_TP1 pid=5) 2026-07-12 02:34:02  [TileLang:tilelang.jit.kernel:INFO] "
        "(kernel.py:133): TileLang begins to compile kernel `mhc_post_tilelang` with "
        "`out_idx=None`",
        startup_only=True,
    ),
    phase_end(
        "tilelang_completes",
        r".{0,120}?TileLang completes to compile kernel `",
        "kernel_build",
        "(Worker_TP1 pid=5) 2026-07-12 02:34:08  [TileLang:tilelang.jit.kernel:INFO] "
        "(kernel.py:141): TileLang completes to compile kernel `mhc_post_tilelang`",
        startup_only=True,
    ),
    note_rule(
        "all_reduce_unfused",
        r"Failed to initialize Flashinfer allreduce workspace\. .{1,100}",
        "setting_ignored",
        "(Worker_TP0 pid=2) WARNING 04-20 00:18:19 [allreduce_rms_fusion.py:781] Failed to "
        "initialize Flashinfer allreduce workspace. Flashinfer allreduce-norm fusion will be "
        "disabled.",
        device="cuda",
        startup_only=True,
    ),
    note_rule(
        "all_reduce_workspace",
        r"Failed to initialize FlashInfer All(?: Reduce workspace: .{1,300}|"
        r"reduce norm fusion workspace with backend=\w{1,20})",
        "kernel_build",
        "(Worker_TP0 pid=2) WARNING 04-20 00:18:19 [flashinfer_all_reduce.py:72] Failed to "
        "initialize FlashInfer All Reduce workspace: Ninja build failed. Ninja output:",
        "(Worker_TP0 pid=2) WARNING 04-20 00:18:19 [flashinfer_all_reduce.py:154] Failed to "
        "initialize FlashInfer Allreduce norm fusion workspace with backend=trtllm",
        device="cuda",
        startup_only=True,
    ),
    line_rule(
        "runtime_jit",
        r"Kernel JIT monitor activated.{0,100}",
        _warmed,
        Sample(
            "(Worker_TP0 pid=2) INFO 07-16 20:04:11 [jit_monitor.py:79] Kernel JIT "
            "monitor activated; monitored JIT compilations during inference",
            {"topic": "jit_monitor"},
        ),
    ),
    note_rule(
        "autotune_off",
        r"Skipping FlashInfer autotune because it is disabled\.",
        "autotune",
        "INFO 10-16 20:03:58 [kernel_warmup.py:255] Skipping FlashInfer autotune "
        "because it is disabled.",
        outcome="off",
        startup_only=True,
    ),
    note_rule(
        "autotune_loaded",
        r".{0,120}?\[Autotuner\]: Loaded (?P<loaded>\d{1,9}) configs from \S{1,300}",
        "autotune",
        "(EngineCore pid=2) 2026-08-01 21:22:02,163 - INFO - autotuner.py:1899 - "
        "flashinfer.jit: [Autotuner]: Loaded 84 configs from /c/a.json",
        values={"loaded": 84},
        startup_only=True,
    ),
    note_rule(
        "autotune_saved",
        r".{0,120}?\[Autotuner\]: Saved \d{1,9} configs to (?P<path>\S{1,300}) "
        r"\((?P<new>\d{1,9}) new, (?P<previous>\d{1,9}) from previous config\)",
        "autotune",
        "2026-08-01 21:23:31,152 - INFO - autotuner.py:1808 - flashinfer.jit: "
        "[Autotuner]: Saved 84 configs to /c/autotune_configs.json (84 new, 0 from "
        "previous config)",
        values={"new": 84, "previous": 0, "path": "/c/autotune_configs.json"},
    ),
)
