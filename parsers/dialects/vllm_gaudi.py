"""vllm-gaudi, v0.10.0 to 2026-08, and the dump of its runtime configuration.

Source: vllm-gaudi `vllm_gaudi/v1/worker/hpu_model_runner.py`, `hpu_worker.py`,
`extension/bucketing/`, `extension/defragmentation.py`, `extension/runtime.py`,
`extension/debug.py`.
"""

from __future__ import annotations

import re

from parsers.base import Dialect, Made, Sample, phase_end, phase_start
from parsers.engine.convert import ints_of, settings_of
from parsers.engine.signals import (
    ConfigLine,
    ConfigSection,
    ExecutedShape,
    ValidationMarked,
)
from parsers.rules.gaudi_notes import GAUDI_NOTE_RULES
from parsers.rules.gaudi_stages import DEFRAG_RULES, SAMPLER_RULES
from parsers.rules.hpu_buckets import BUCKET_RULES
from parsers.rules.hpu_memory import MEMORY_RULES
from parsers.rules.hpu_misses import MISS_RULES
from parsers.rules.hpu_warmup import WARMUP_RULES
from parsers.rules.of_device import gaudi_note, gaudi_rule
from warmup_insights.model.events import (
    Bucket,
    BucketsGenerated,
    CompileFinished,
    ConfigRecorded,
    GraphSkipped,
    WarmupStep,
)


def _multimodal_buckets(match: re.Match[str]) -> Made:
    values = ints_of(match["list"])
    return BucketsGenerated(
        phase="multimodal", count=len(values), buckets=[(value,) for value in values]
    )


_OF_MODEL = ("model", "dtype", "max_model_len", "quantization", "enforce_eager")


def _model_config(match: re.Match[str]) -> Made:
    """Of the many fields of a model's configuration those that other lines state, too."""
    settings = settings_of(match["rest"])
    return ConfigRecorded(
        settings={name: settings[name] for name in _OF_MODEL if name in settings}
    )


_RESOLUTION = re.compile(
    r"\((\d{1,6}), ?(\d{1,6})(?:, ?(?:None|(\d{1,6})|\((\d{1,6}), ?(\d{1,6})\)))?,?\)"
)
MAX_ITEMS = 256


def _multimodal_resolutions(match: re.Match[str]) -> Made:
    """Width, height and, where it is set, the count of items: one bucket per count."""
    buckets: list[Bucket] = []
    for width, height, count, low, high in _RESOLUTION.findall(match["list"]):
        size = (int(width), int(height))
        if count:
            buckets.append((*size, int(count)))
        elif low:
            last = min(int(high), int(low) + MAX_ITEMS)
            buckets += [(*size, items) for items in range(int(low), last + 1)]
        else:
            buckets.append(size)
    has_counts = any(len(bucket) == 3 for bucket in buckets)
    return BucketsGenerated(
        phase="multimodal", count=len(buckets), buckets=buckets,
        dimensions=["width", "height", *(["count"] if has_counts else [])],
    )  # fmt: skip


def _pooler_step(match: re.Match[str]) -> Made:
    return WarmupStep(
        phase="pooler",
        bucket=(int(match["bs"]), int(match["query"]), int(match["blocks"])),
    )


_OTHER = (
    gaudi_rule(
        "executed_shape",
        "[fwd]",
        r"\[fwd\] \('(?P<phase>\w{1,20})', (?P<shape>\d{1,12}(?:, \d{1,12}){1,3})\)",
        ExecutedShape,
        Sample(
            "WARNING 11-20 07:34:16 [debug.py:18] [fwd] ('prompt', 1, 1024, 0)",
            {"phase": "prompt", "shape": (1, 1024, 0)},
        ),
    ),
    gaudi_rule(
        "multimodal_buckets",
        "ultimodal bucket ",
        r"Multimodal bucket : (?P<list>\[.{0,4000})",
        _multimodal_buckets,
        Sample(
            "INFO 07-27 23:22:27 hpu_model_runner.py:5845] Multimodal bucket : [1600, "
            "3136]",
            {"phase": "multimodal", "count": 2, "buckets": [(1600,), (3136,)]},
        ),
    ),
    gaudi_rule(
        "multimodal_resolutions",
        "multimodal warmup resolutions",
        r"Using explicit multimodal warmup resolutions \(.{1,80}?\): (?P<list>\[.{0,4000})",
        _multimodal_resolutions,
        Sample(
            "INFO 07-27 23:22:27 hpu_model_runner.py:5845] Using explicit multimodal "
            "warmup resolutions (WxH): [(864, 480), (1024, 768)]",
            {"phase": "multimodal", "buckets": [(864, 480), (1024, 768)]},
        ),
        Sample(
            "INFO 08-21 23:22:27 [hpu_model_runner.py:5845] Using explicit multimodal "
            "warmup resolutions (width, height, count[or min, max]): [(864, 480, "
            "None), (1024, 768, 2), (640, 480, (1, 3))]",
            {
                "buckets": [
                    (864, 480),
                    (1024, 768, 2),
                    (640, 480, 1),
                    (640, 480, 2),
                    (640, 480, 3),
                ],
                "dimensions": ["width", "height", "count"],
            },
        ),
    ),
    gaudi_note(
        "multimodal_note",
        ("ultimodal warmup", "ulti-modal", "MultiModal bucket", "mamba-hybrid"),
        r"Multimodal warmup will compile over .{1,200}|"
        r"No multimodal warmup resolutions .{1,200}|"
        r"MultiModal bucket config file .{1,200}|Capping non-GDN mamba-hybrid .{1,200}",
        "multimodal",
        "INFO 07-27 23:22:27 hpu_model_runner.py:5845] No multimodal warmup "
        "resolutions for this native-resolution vision tower: x",
    ),
    phase_start(
        "pooler_started",
        "Starting pooler warmup",
        r"Starting pooler warmup with prompt buckets: ",
        "pooler_warmup",
        "INFO 03-01 23:22:27 [hpu_model_runner.py:5845] Starting pooler warmup with "
        "prompt buckets: [(1, 128, 0)]",
        device="hpu",
        engine="vllm-gaudi",
    ),
    gaudi_rule(
        "pooler_step",
        "total_tokens=",
        r"Warmup: bs=(?P<bs>\d{1,9}), query_len=(?P<query>\d{1,9}), "
        r"num_blocks=(?P<blocks>\d{1,9}), total_tokens=\d{1,12}",
        _pooler_step,
        Sample(
            "INFO 03-01 23:22:27 [hpu_model_runner.py:5845] Warmup: bs=1, "
            "query_len=128, num_blocks=0, total_tokens=128",
            {"phase": "pooler", "bucket": (1, 128, 0)},
        ),
    ),
    phase_end(
        "pooler_completed",
        "Pooler warmup completed",
        r"Pooler warmup completed successfully",
        "pooler_warmup",
        "INFO 03-01 23:22:27 [hpu_model_runner.py:5845] Pooler warmup completed "
        "successfully",
        device="hpu",
        engine="vllm-gaudi",
    ),
    gaudi_rule(
        "validation",
        ("Running validation warmup", "Validation warmup"),
        r"(?P<begun>Running validation warmup|Validation warmup: \d{1,6} )|"
        r"Validation warmup complete\.",
        lambda match: ValidationMarked(running=match["begun"] is not None),
        Sample(
            "INFO 05-01 23:22:27 [hpu_model_runner.py:5845] Running validation warmup "
            "to trigger guard specializations...",
            {"running": True},
        ),
        Sample(
            "INFO 05-01 23:22:27 [hpu_model_runner.py:5845] Validation warmup complete.",
            {"running": False},
        ),
    ),
    gaudi_rule(
        "graph_skipped",
        "Skipping HPU graph capture",
        r"Skipping HPU graph capture for prompt with \[bs, query, num_blocks\] = "
        r"\[(?P<bucket>[\d, ]{5,40})\] due to (?P<reason>[^\n]{1,200}?)\.?$",
        GraphSkipped,
        Sample(
            "DEBUG 05-11 23:22:27 [hpu_model_runner.py:5845] Skipping HPU graph "
            "capture for prompt with [bs, query, num_blocks] = [1, 8192, 512] due to "
            "total token count 73728 exceeding the threshold of 65536.",
            {
                "bucket": (1, 8192, 512),
                "reason": "total token count 73728 exceeding the threshold of 65536",
            },
        ),
        fixed={"phase": "prompt"},
    ),
    gaudi_rule(
        "recompile",
        "graph compilation detected",
        r"\[(?P<what>[^\]]{1,80})\] graph compilation detected: (?P<detail>.{0,300})",
        CompileFinished,
        Sample(
            "WARNING 05-11 23:22:27 [hpu_worker.py:845] [HPUWorker.execute_model] "
            "graph compilation detected: recipe_12 took 1.2",
            {"what": "HPUWorker.execute_model", "detail": "recipe_12 took 1.2"},
        ),
    ),
    gaudi_rule(
        "runtime_section",
        ("Environment:", "Features:", "User flags:", "Experimental flags:"),
        r"(?P<name>Environment|Features|User flags|Experimental flags):\s*$",
        ConfigSection,
        Sample(
            "INFO 11-20 07:31:58 [runtime.py:28] User flags:", {"name": "User flags"}
        ),
        files=("runtime.py",),
    ),
    gaudi_rule(
        "runtime_value",
        "    ",
        r"    (?P<key>[A-Za-z_][\w.]{0,80}): ?(?P<value>[^\n]{0,400})$",
        ConfigLine,
        Sample(
            "INFO 11-20 07:31:58 [runtime.py:32]     bucketing_strategy: exp",
            {"key": "bucketing_strategy", "value": "exp"},
        ),
        fixed={"needs_section": True},
        files=("runtime.py",),
        startup_only=True,
    ),
    gaudi_rule(
        "model_config",
        ("model config: ModelConfig(", ", hf_config_path="),
        # The repr of the model's own configuration stands between its two lines.
        r"(?:model config: ModelConfig\(|, )(?P<rest>(?:model|hf_config_path)=.*)",
        _model_config,
        Sample(
            "DEBUG 02-09 19:44:04 [hpu_model_runner.py:831] model config: "
            "ModelConfig(model='/m', runner='auto', dtype=torch.bfloat16, seed=0, "
            "hf_config=Qwen3VLConfig {",
            {"settings": {"model": "/m", "dtype": "torch.bfloat16"}},
        ),
        Sample(
            "DEBUG 02-09 19:44:04 [hpu_model_runner.py:831] , hf_config_path=None, "
            "max_model_len=32768, quantization='fp8', enforce_eager=False, "
            "multimodal_config=MultiModalConfig(limit_per_prompt={'image': 20}))",
            {
                "settings": {
                    "max_model_len": 32768,
                    "quantization": "fp8",
                    "enforce_eager": False,
                }
            },
        ),
        files=("hpu_model_runner.py",),
        startup_only=True,
    ),
)

DIALECT = Dialect(
    name="vllm-gaudi",
    title="vllm-gaudi, the vLLM plugin for Intel Gaudi",
    versions="v0.10.0 to v0.27 (2026-08)",
    source="vllm_gaudi/v1/worker/hpu_model_runner.py, hpu_worker.py; vllm_gaudi/extension/",
    rules=(
        *SAMPLER_RULES,
        *DEFRAG_RULES,
        *_OTHER,
        *GAUDI_NOTE_RULES,
        *BUCKET_RULES,
        *WARMUP_RULES,
        *MISS_RULES,
        *MEMORY_RULES,
    ),
)
