"""vllm-gaudi, v0.10.0 to 2026-08, and the dump of its runtime configuration.

Source: vllm-gaudi `vllm_gaudi/v1/worker/hpu_model_runner.py`, `hpu_worker.py`,
`v1/engine/core_patch.py`, `extension/bucketing/`, `extension/defragmentation.py`,
`extension/runtime.py`, `extension/debug.py`, `extension/utils.py`.
"""

from __future__ import annotations

import re

from parsers.base import (
    Dialect,
    LineRule,
    Made,
    Sample,
    gaudi_note,
    gaudi_rule,
    phase_end,
    phase_start,
)
from parsers.engine.convert import ints_of, model_of, settings_of
from parsers.engine.evidence import ENGINE_CONFIG
from parsers.engine.signals import (
    ConfigLine,
    ConfigSection,
    ExecutedShape,
    FailureLine,
    OmittedBucket,
    ValidationMarked,
)
from parsers.rules.hpu_buckets import BUCKET_RULES
from parsers.rules.hpu_memory import MEMORY_RULES
from parsers.rules.hpu_misses import MISS_RULES
from parsers.rules.hpu_warmup import WARMUP_RULES
from warmup_insights.model.events import (
    Bucket,
    BucketsGenerated,
    BucketUsed,
    CompileFinished,
    ConfigRecorded,
    DefragRan,
    DefragWarmup,
    EngineInitialized,
    GraphSkipped,
    KVCacheAllocated,
    MemoryMeasured,
    PhaseMarked,
    SamplerConfig,
    SamplerWarmup,
    ServerReady,
    WarmupStep,
)
from warmup_insights.units import GIB


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


def _switch_started(match: re.Match[str]) -> list[Made]:
    """The engine drops its model and starts another one, which is a run of its own
    (`core_patch.py`): it loads, divides the memory, makes buckets and warms up anew."""
    return [
        PhaseMarked(name="model_switch", edge="start"),
        ConfigRecorded(model=model_of(match["model"])),
    ]


def _switched(match: re.Match[str]) -> list[Made]:
    seconds = float(match["duration_s"])
    return [EngineInitialized(duration_s=seconds), ServerReady()]


_STAGES: tuple[LineRule, ...] = (
    gaudi_rule(
        "sampler_started",
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
        r"Starting sampler warmup\.\.\.",
        "sampler_warmup",
        "INFO 09-22 16:39:42 [hpu_model_runner.py:3350] Starting sampler warmup...",
        device="hpu",
        engine="vllm-gaudi",
    ),
    gaudi_rule(
        "sampler_completed",
        r"Sampler warmup completed successfully",
        SamplerWarmup,
        "INFO 09-22 16:39:43 [hpu_model_runner.py:3411] Sampler warmup completed "
        "successfully",
        fixed={"status": "completed"},
    ),
    gaudi_rule(
        "defrag_started",
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
        r"Defragmenter warmup completed successfully",
        DefragWarmup,
        "INFO 09-22 16:26:27 [hpu_model_runner.py:3452] Defragmenter warmup completed "
        "successfully",
        fixed={"status": "completed"},
    ),
    gaudi_rule(
        "defrag_skipped",
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
        r"Failed to determine available blocks from KV cache.{0,80}",
        "defrag",
        "WARNING 09-22 16:26:24 [hpu_model_runner.py:3428] Failed to determine "
        "available blocks from KV cache, defaulting to 0",
    ),
    gaudi_rule(
        "defrag_ran",
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
        r"\[defrag\] (?!defragmentation done|max_id_used=\d{1,12}->)",
        None,
        "WARNING 11-20 07:34:25 [debug.py:18] [defrag] updating state: 4 new_blocks 0 "
        "finished reqs",
    ),
    gaudi_rule(
        "executed_shape",
        r"\[fwd\] \('(?P<phase>\w{1,20})', (?P<shape>\d{1,12}(?:, \d{1,12}){1,3})\)",
        ExecutedShape,
        Sample(
            "WARNING 11-20 07:34:16 [debug.py:18] [fwd] ('prompt', 1, 1024, 0)",
            {"phase": "prompt", "shape": (1, 1024, 0)},
        ),
    ),
    gaudi_rule(
        "multimodal_buckets",
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
        r"Multimodal warmup will compile over .{1,200}|"
        r"No multimodal warmup resolutions .{1,200}|"
        r"MultiModal bucket config file .{1,200}|Capping non-GDN mamba-hybrid .{1,200}",
        "multimodal",
        "INFO 07-27 23:22:27 hpu_model_runner.py:5845] No multimodal warmup "
        "resolutions for this native-resolution vision tower: x",
    ),
    phase_start(
        "pooler_started",
        r"Starting pooler warmup with prompt buckets: ",
        "pooler_warmup",
        "INFO 03-01 23:22:27 [hpu_model_runner.py:5845] Starting pooler warmup with "
        "prompt buckets: [(1, 128, 0)]",
        device="hpu",
        engine="vllm-gaudi",
    ),
    gaudi_rule(
        "pooler_step",
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
        r"Pooler warmup completed successfully",
        "pooler_warmup",
        "INFO 03-01 23:22:27 [hpu_model_runner.py:5845] Pooler warmup completed "
        "successfully",
        device="hpu",
        engine="vllm-gaudi",
    ),
    gaudi_rule(
        "validation",
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
        r"(?P<name>Environment|Features|User flags|Experimental flags):\s*$",
        ConfigSection,
        Sample(
            "INFO 11-20 07:31:58 [runtime.py:28] User flags:", {"name": "User flags"}
        ),
        files=("runtime.py",),
        hint=("Environment:", "Features:", "User flags:", "Experimental flags:"),
    ),
    gaudi_rule(
        "runtime_value",
        r"    (?P<key>[A-Za-z_][\w.]{0,80}): ?(?P<value>[^\n]{0,400})$",
        ConfigLine,
        Sample(
            "INFO 11-20 07:31:58 [runtime.py:32]     bucketing_strategy: exp",
            {"key": "bucketing_strategy", "value": "exp"},
        ),
        fixed={"needs_section": True},
        files=("runtime.py",),
        startup_only=True,
        hint="    ",
    ),
    gaudi_rule(
        "model_config",
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
        hint=("model config: ModelConfig(", ", hf_config_path="),
    ),
)
"""Sampler, defragmenter, multimodal and pooler warm-up; the dump of the configuration."""

_NOTES: tuple[LineRule, ...] = (
    gaudi_rule(
        "gaudi_model_class",
        # vLLM `model_executor/models/registry.py`, of a model that a plugin replaces.
        r"Model architecture \w{1,100} is already registered, and will be overwritten by "
        r"the new model class vllm_gaudi[./]",
        None,
        "WARNING 01-21 06:55:23 [registry.py:802] Model architecture "
        "Qwen3VLForConditionalGeneration is already registered, and will be "
        "overwritten by the new model class "
        "vllm_gaudi.models.qwen3_vl:HpuQwen3_VLForConditionalGeneration.",
    ),
    gaudi_note(
        "file_buckets_omitted",
        r"The following \w{1,20} buckets from custom bucketing file .{1,100}",
        "buckets_omitted",
        "WARNING 08-21 07:43:17 [common.py:528] The following prompt buckets from "
        "custom bucketing file (VLLM_BUCKETING_FROM_FILE) were omitted during warmup:",
    ),
    gaudi_rule(
        "file_bucket_omitted",
        r"\s{2}(?P<bucket>\(\d{1,9}, \d{1,9}, \d{1,9}\))\s*$",
        OmittedBucket,
        Sample(
            "WARNING 08-21 07:43:17 [common.py:532]   (1, 8192, 500)",
            {"bucket": (1, 8192, 500)},
        ),
        fixed={"condition": "not allowed by the configuration"},
        files=("common.py",),
        levels=("WARNING",),
        startup_only=True,
        hint="  (",
    ),
    gaudi_note(
        "gaudi_decision",
        r"\[HPU\] (?:INC quantization detected, loading weights to CPU|"
        r"Forcing CompilationLevel\.\w{1,40} compilation).{0,100}|"
        r"Warming up for video is not implemented|"
        r"Currently, HPU does not support level 2 sleep mode\. .{1,100}",
        "decision",
        "INFO 01-21 07:43:17 [platform.py:160] [HPU] INC quantization detected, "
        "loading weights to CPU first",
    ),
    gaudi_note(
        "bucket_capped",
        r"Fallback prompt ctx (?P<num_blocks>\d{1,12}) exceeds theoretical max "
        r"(?P<max_blocks>\d{1,12}) .{1,200}|"
        r"block_bucket_size \((?P<bucket_blocks>\d{1,12})\) exceeds total KV blocks "
        r"\((?P<total_blocks>\d{1,12})\).{1,200}",
        "capped",
        "WARNING 08-21 07:43:17 [common.py:276] Fallback prompt ctx 200 exceeds "
        "theoretical max 120 (max_model_len=15360, block_size=128), capping.",
        values={"num_blocks": 200, "max_blocks": 120},
    ),
    gaudi_rule(
        "vision_padded",
        r"Padding current (?:number pixel|image size) (?P<shape>\d{1,12}) to "
        r"(?P<bucket>\d{1,12})",
        BucketUsed,
        Sample(
            "INFO 08-21 07:43:17 [vision.py:223] Padding current number pixel 1500 to "
            "1600",
            {"shape": (1500,), "bucket": (1600,)},
        ),
        fixed={"phase": "multimodal"},
    ),
    gaudi_rule(
        "model_switch_started",
        r"\[gaudi_reconfigure\] start: target_model=(?P<model>[\w./:@+-]{1,300})(?:\s|$)",
        _switch_started,
        Sample(
            "INFO 08-21 07:43:17 [core_patch.py:255] [gaudi_reconfigure] start: "
            "target_model=a/b",
            {"name": "model_switch", "edge": "start"},
        ),
        starts=ENGINE_CONFIG,
    ),
    gaudi_rule(
        "model_switch_took",
        r"\[gaudi_reconfigure\] completed in (?P<duration_s>[\d.]{1,12})s",
        _switched,
        Sample(
            "INFO 08-21 07:43:17 [core_patch.py:372] [gaudi_reconfigure] completed in "
            "12.34s",
            {"duration_s": 12.34},
        ),
    ),
    gaudi_rule(
        "model_switch_failed",
        r"\[gaudi_reconfigure\] failed: (?P<message>.{1,2000})",
        FailureLine,
        Sample(
            "ERROR 08-21 07:43:17 [core_patch.py:374] [gaudi_reconfigure] failed: "
            "RuntimeError: no room",
            {"message": "RuntimeError: no room"},
        ),
    ),
    gaudi_rule(
        "model_switch_blocks",
        r"\[gaudi_reconfigure\] kv cache reinitialized: num_gpu_blocks="
        r"(?P<num_blocks>\d{1,12})",
        KVCacheAllocated,
        Sample(
            "INFO 08-21 07:43:17 [core_patch.py:304] [gaudi_reconfigure] kv cache "
            "reinitialized: num_gpu_blocks=4108",
            {"num_blocks": 4108},
        ),
    ),
    gaudi_note(
        "model_switch_note",
        r"\[gaudi_reconfigure\] rollback.{1,300}|"
        r"\[gaudi_reconfigure\] caller complete: .{1,200}? elapsed=(?P<duration_s>[\d.]{1,12})s|"
        r"Model switch failed during .{1,300}|Successfully switched from .{1,200}|"
        r"Switching from .{1,120} to .{1,120}|Model sleep state: .{1,200}|"
        r"(?:Initializing engine with|Engine initialized with|Reconfiguring engine for): .{1,200}",
        "model_switch",
        "INFO 08-21 07:43:17 [multi_model_async_llm.py:322] [gaudi_reconfigure] "
        "caller complete: to=a/b elapsed=13.50s",
        values={"duration_s": 13.5},
    ),
    # What the scheduler divides by its blocks; the states beside them take the rest.
    gaudi_note(
        "hybrid_cache",
        r"Hybrid model .{1,60}?: adjusted usable KV cache from .{1,200}|"
        r"HPU hybrid cache: reducing available KV cache memory by .{1,200}",
        "hybrid_cache",
        "INFO 08-21 07:43:17 [hpu_worker.py:493] Hybrid model (standard Mamba2 + "
        "ATN): adjusted usable KV cache from 60 GiB to 50 GiB (attn_page=1, "
        "mamba_state=2, ratio=0.500)",
    ),
    gaudi_rule(
        "blocks_aligned",
        r"After alignment, num_blocks=(?P<num_blocks>\d{1,12}) is less than",
        KVCacheAllocated,
        Sample(
            "WARNING 08-21 07:43:17 [hpu_model_runner.py:6877] After alignment, "
            "num_blocks=4000 is less than kv_cache_config.num_blocks=4108. This is "
            "expected for heterogeneous models like Gemma4.",
            {"num_blocks": 4000},
        ),
    ),
    gaudi_rule(
        "host_batch",
        r"Allocating unified persistent batch took (?P<host_delta_gib>[\d.]{1,12}) GB of host memory",
        MemoryMeasured,
        Sample(
            "INFO 12-01 07:43:17 [hpu_model_runner.py:6391] Allocating unified "
            "persistent batch took 1.5000 GB of host memory",
            {"host_delta_bytes": round(1.5 * GIB)},
        ),
        fixed={"stage": "host_batch"},
    ),
    gaudi_note(
        "gaudi_note",
        r"HPU hybrid cache: .{1,300}|Warmup not yet supported for pooling tasks.{1,200}|"
        r"Skipping invalid bucketing line .{1,200}|Skipping line \d{1,9} due to .{1,200}|"
        r"Invalid VLLM_GRAPH_RESERVED_MEM value.{1,100}|FusedSDPA slicing .{1,300}|"
        r"GDN compact: .{1,300}|use_sliding_window (?:True|False), .{1,200}|"
        r"VLLM_MULTIMODAL_RESOLUTIONS warms a single .{1,300}|"
        r"Setting granitemoehybrid block_size to .{1,200}|"
        r"Skipping line due to (?:eval error|incorrect format).{1,200}",
        "gaudi",
        "WARNING 08-21 07:43:17 [hpu_model_runner.py:5302] Warmup not yet supported "
        "for pooling tasks: {'embed'}",
    ),
)
"""What was left out, capped or switched, outside the steps of warm-up."""

DIALECT = Dialect(
    name="vllm-gaudi",
    title="vllm-gaudi, the vLLM plugin for Intel Gaudi",
    versions="v0.10.0 to v0.27 (2026-08)",
    source="vllm_gaudi/v1/worker/hpu_model_runner.py, hpu_worker.py; vllm_gaudi/extension/",
    rules=(
        *_STAGES,
        *_NOTES,
        *BUCKET_RULES,
        *WARMUP_RULES,
        *MISS_RULES,
        *MEMORY_RULES,
    ),
)
