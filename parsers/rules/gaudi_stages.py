"""vllm-gaudi: the sampler and the defragmenter, in warm-up and at run time.

Source: vllm-gaudi `vllm_gaudi/v1/worker/hpu_model_runner.py`,
`extension/defragmentation.py`, `extension/debug.py`.
"""

from __future__ import annotations

from parsers.base import Sample, phase_start
from parsers.rules.of_device import gaudi_note, gaudi_rule
from warmup_insights.model.events import (
    DefragRan,
    DefragWarmup,
    SamplerConfig,
    SamplerWarmup,
)

SAMPLER_RULES = (
    gaudi_rule(
        "sampler_started",
        "Warming up sampler with batch sizes",
        r"Warming up sampler with batch sizes: "
        r"\[(?:(?P<batch_sizes>[\d, ]{0,4000})\])?",
        SamplerWarmup,
        Sample(
            "INFO 09-22 16:39:42 [hpu_model_runner.py:3347] Warming up sampler with "
            "batch sizes: [0, 1, 138] and following configs:",
            {"batch_sizes": [0, 1, 138]},
        ),
        fixed={"status": "started"},
    ),
    gaudi_rule(
        "sampler_config",
        "batch_changed=",
        r"temp=(?P<temperature>[\d.]{1,12}), top_p=(?P<top_p>[\d.]{1,12}), "
        r"top_k=(?P<top_k>\d{1,9}), batch_changed=(?P<batch_changed>True|False)",
        SamplerConfig,
        Sample(
            "INFO 09-22 16:39:42 [hpu_model_runner.py:3349] temp=0.7, top_p=0.9, "
            "top_k=50, batch_changed=True",
            {"temperature": 0.7, "top_p": 0.9, "top_k": 50, "batch_changed": True},
        ),
    ),
    phase_start(
        "sampler_running",
        "Starting sampler warmup",
        r"Starting sampler warmup\.\.\.",
        "sampler_warmup",
        "INFO 09-22 16:39:42 [hpu_model_runner.py:3350] Starting sampler warmup...",
        device="hpu",
        engine="vllm-gaudi",
    ),
    gaudi_rule(
        "sampler_completed",
        "Sampler warmup completed",
        r"Sampler warmup completed successfully",
        SamplerWarmup,
        "INFO 09-22 16:39:43 [hpu_model_runner.py:3411] Sampler warmup completed "
        "successfully",
        fixed={"status": "completed"},
    ),
)

DEFRAG_RULES = (
    gaudi_rule(
        "defrag_started",
        "Warming up defragmenter with thresholds",
        r"Warming up defragmenter with thresholds: "
        r"\[(?:(?P<thresholds>[\d, ]{0,400})\])?",
        DefragWarmup,
        Sample(
            "INFO 09-22 16:26:24 [hpu_model_runner.py:3428] Warming up defragmenter "
            "with thresholds: [8, 16, 32, 64, 128, 256, 512]",
            {"thresholds": [8, 16, 32, 64, 128, 256, 512]},
        ),
        fixed={"status": "started"},
    ),
    gaudi_rule(
        "defrag_completed",
        "Defragmenter warmup completed",
        r"Defragmenter warmup completed successfully",
        DefragWarmup,
        "INFO 09-22 16:26:27 [hpu_model_runner.py:3452] Defragmenter warmup completed "
        "successfully",
        fixed={"status": "completed"},
    ),
    gaudi_rule(
        "defrag_skipped",
        "Skipping defragmenter warmup",
        r"Skipping defragmenter warmup, (?P<reason>[^\n]{1,200})",
        DefragWarmup,
        Sample(
            "WARNING hh:mm:ss hpu_model_runner.py:#### Skipping defragmenter warmup, "
            "insufficient blocks (1)",
            {"reason": "insufficient blocks (1)"},
        ),
        fixed={"status": "skipped"},
    ),
    gaudi_note(
        "defrag_blocks_unknown",
        "Failed to determine available blocks",
        r"Failed to determine available blocks from KV cache.{0,80}",
        "defrag",
        "WARNING 09-22 16:26:24 [hpu_model_runner.py:3428] Failed to determine "
        "available blocks from KV cache, defaulting to 0",
    ),
    gaudi_rule(
        "defrag_ran",
        "max_id_used=",
        r"(?:\[defrag\] )?(?:defragmentation done )?max_id_used="
        r"(?P<max_id_before>\d{1,12})->(?P<max_id_after>\d{1,12})"
        r"(?: num_used=(?P<num_used>\d{1,12}))?"
        r"(?: swapped=(?P<swapped>\d{1,9})/(?P<padded>\d{1,9}))?",
        DefragRan,
        Sample(
            "WARNING 11-20 07:34:25 [debug.py:18] [defrag] defragmentation done "
            "max_id_used=4000->812 num_used=810 swapped=30/32",
            {
                "max_id_before": 4000,
                "max_id_after": 812,
                "num_used": 810,
                "swapped": 30,
                "padded": 32,
            },
        ),
    ),
    gaudi_rule(
        "defrag_debug",
        "[defrag]",
        r"\[defrag\] (?!defragmentation done|max_id_used=\d{1,12}->)",
        None,
        "WARNING 11-20 07:34:25 [debug.py:18] [defrag] updating state: 4 new_blocks 0 "
        "finished reqs",
    ),
)
