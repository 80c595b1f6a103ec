"""vllm-gaudi: the sampler and the defragmenter, in warm-up and at run time.

Source: vllm-gaudi `vllm_gaudi/v1/worker/hpu_model_runner.py`,
`extension/defragmentation.py`, `extension/debug.py`.
"""

from __future__ import annotations

import re
from typing import Any

from parsers.base import LineRule, Made, Sample
from warmup_insights.model.events import (
    DefragRan,
    DefragWarmup,
    Note,
    PhaseMarked,
    SamplerConfig,
    SamplerWarmup,
)


def _defrag_ran(match: re.Match[str]) -> Made:
    before, after, used, swapped, padded = match.groups()
    return DefragRan(
        max_id_before=int(before), max_id_after=int(after),
        num_used=int(used) if used else None,
        swapped=int(swapped) if swapped else None,
        padded=int(padded) if padded else None,
    )  # fmt: skip


def _starting_sampler(match: re.Match[str]) -> Made:
    return PhaseMarked(name="sampler_warmup", edge="start")


def gaudi_rule(
    name: str,
    hint: str | tuple[str, ...],
    pattern: str,
    *samples: Sample,
    **more: Any,
) -> LineRule:
    """A rule of lines that only vllm-gaudi prints."""
    return LineRule(
        name, hint, pattern, samples=samples, engine="vllm-gaudi", device="hpu", **more
    )


SAMPLER_RULES = (
    gaudi_rule(
        "sampler_started",
        "Warming up sampler with batch sizes",
        r"Warming up sampler with batch sizes: \[(?P<batch_sizes>[\d, ]{0,4000})\]?",
        Sample(
            "INFO 09-22 16:39:42 [hpu_model_runner.py:3347] Warming up sampler with "
            "batch sizes: [0, 1, 138] and following configs:",
            {"status": "started", "batch_sizes": [0, 1, 138]},
        ),
        event=SamplerWarmup,
        fixed={"status": "started"},
    ),
    gaudi_rule(
        "sampler_config",
        "batch_changed=",
        r"temp=(?P<temperature>[\d.]{1,12}), top_p=(?P<top_p>[\d.]{1,12}), "
        r"top_k=(?P<top_k>\d{1,9}), batch_changed=(?P<batch_changed>True|False)",
        Sample(
            "INFO 09-22 16:39:42 [hpu_model_runner.py:3349] temp=0.7, top_p=0.9, "
            "top_k=50, batch_changed=True",
            {"temperature": 0.7, "top_p": 0.9, "top_k": 50, "batch_changed": True},
        ),
        event=SamplerConfig,
    ),
    gaudi_rule(
        "sampler_running",
        "Starting sampler warmup",
        r"Starting sampler warmup\.\.\.",
        Sample(
            "INFO 09-22 16:39:42 [hpu_model_runner.py:3350] Starting sampler warmup...",
            {"name": "sampler_warmup", "edge": "start"},
        ),
        build=_starting_sampler,
    ),
    gaudi_rule(
        "sampler_completed",
        "Sampler warmup completed",
        r"Sampler warmup completed successfully",
        Sample(
            "INFO 09-22 16:39:43 [hpu_model_runner.py:3411] Sampler warmup completed "
            "successfully",
            {"status": "completed"},
        ),
        event=SamplerWarmup,
        fixed={"status": "completed"},
    ),
)

DEFRAG_RULES = (
    gaudi_rule(
        "defrag_started",
        "Warming up defragmenter with thresholds",
        r"Warming up defragmenter with thresholds: \[(?P<thresholds>[\d, ]{0,400})\]?",
        Sample(
            "INFO 09-22 16:26:24 [hpu_model_runner.py:3428] Warming up defragmenter with "
            "thresholds: [8, 16, 32, 64, 128, 256, 512]",
            {"status": "started", "thresholds": [8, 16, 32, 64, 128, 256, 512]},
        ),
        event=DefragWarmup,
        fixed={"status": "started"},
    ),
    gaudi_rule(
        "defrag_completed",
        "Defragmenter warmup completed",
        r"Defragmenter warmup completed successfully",
        Sample(
            "INFO 09-22 16:26:27 [hpu_model_runner.py:3452] Defragmenter warmup "
            "completed successfully",
            {"status": "completed"},
        ),
        event=DefragWarmup,
        fixed={"status": "completed"},
    ),
    gaudi_rule(
        "defrag_skipped",
        "Skipping defragmenter warmup",
        r"Skipping defragmenter warmup, (?P<reason>[^\n]{1,200})",
        Sample(
            "WARNING hh:mm:ss hpu_model_runner.py:#### Skipping defragmenter warmup, "
            "insufficient blocks (1)",
            {"status": "skipped", "reason": "insufficient blocks (1)"},
        ),
        event=DefragWarmup,
        fixed={"status": "skipped"},
    ),
    gaudi_rule(
        "defrag_blocks_unknown",
        "Failed to determine available blocks",
        r"(?P<text>Failed to determine available blocks from KV cache.{0,80})",
        Sample(
            "WARNING 09-22 16:26:24 [hpu_model_runner.py:3428] Failed to determine "
            "available blocks from KV cache, defaulting to 0",
            {"topic": "defrag"},
        ),
        event=Note,
        fixed={"topic": "defrag"},
    ),
    gaudi_rule(
        "defrag_ran",
        "max_id_used=",
        r"(?:\[defrag\] )?(?:defragmentation done )?max_id_used=(?P<before>\d{1,12})->(?P<after>\d{1,12})"
        r"(?: num_used=(?P<used>\d{1,12}))?"
        r"(?: swapped=(?P<swapped>\d{1,9})/(?P<padded>\d{1,9}))?",
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
        build=_defrag_ran,
    ),
    gaudi_rule(
        "defrag_debug",
        "[defrag]",
        r"\[defrag\] (?!defragmentation done|max_id_used=\d{1,12}->)",
        Sample(
            "WARNING 11-20 07:34:25 [debug.py:18] [defrag] updating state: 4 new_blocks "
            "0 finished reqs"
        ),
    ),
)
