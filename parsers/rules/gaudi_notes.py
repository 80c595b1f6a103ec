"""vllm-gaudi: what was left out, capped or switched, outside the steps of warm-up.

Source: vllm-gaudi `vllm_gaudi/extension/bucketing/`, `extension/utils.py`,
`v1/worker/hpu_model_runner.py`, `hpu_worker.py`, `v1/engine/core_patch.py`.
"""

from __future__ import annotations

import re

from parsers.base import LineRule, Made, Sample
from parsers.engine.convert import model_of
from parsers.engine.evidence import ENGINE_CONFIG
from parsers.engine.signals import FailureLine, OmittedBucket
from parsers.rules.of_device import gaudi_note, gaudi_rule
from warmup_insights.model.events import (
    BucketUsed,
    ConfigRecorded,
    EngineInitialized,
    KVCacheAllocated,
    MemoryMeasured,
    PhaseMarked,
    ServerReady,
)
from warmup_insights.units import GIB


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


GAUDI_NOTE_RULES: tuple[LineRule, ...] = (
    gaudi_rule(
        "gaudi_model_class",
        "new model class vllm_gaudi",
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
        "were omitted during warmup",
        r"The following \w{1,20} buckets from custom bucketing file .{1,100}",
        "buckets_omitted",
        "WARNING 08-21 07:43:17 [common.py:528] The following prompt buckets from "
        "custom bucketing file (VLLM_BUCKETING_FROM_FILE) were omitted during warmup:",
    ),
    gaudi_rule(
        "file_bucket_omitted",
        "  (",
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
    ),
    gaudi_note(
        "gaudi_decision",
        (
            "INC quantization detected",
            "Forcing CompilationLevel",
            "Warming up for video is not",
            "HPU does not support level 2 sleep",
        ),
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
        ("exceeds theoretical max", "exceeds total KV blocks"),
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
        "Padding current ",
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
        "[gaudi_reconfigure] start",
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
        "[gaudi_reconfigure] completed",
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
        "[gaudi_reconfigure] failed",
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
        "kv cache reinitialized",
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
        (
            "[gaudi_reconfigure] rollback",
            "[gaudi_reconfigure] caller",
            "Model switch failed",
            "Successfully switched from",
            "Switching from ",
            "Model sleep state",
            "nitializing engine with: ",
            "Engine initialized with",
            "Reconfiguring engine for",
        ),
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
        ("adjusted usable KV cache from", "HPU hybrid cache: reducing"),
        r"Hybrid model .{1,60}?: adjusted usable KV cache from .{1,200}|"
        r"HPU hybrid cache: reducing available KV cache memory by .{1,200}",
        "hybrid_cache",
        "INFO 08-21 07:43:17 [hpu_worker.py:493] Hybrid model (standard Mamba2 + "
        "ATN): adjusted usable KV cache from 60 GiB to 50 GiB (attn_page=1, "
        "mamba_state=2, ratio=0.500)",
    ),
    gaudi_rule(
        "blocks_aligned",
        "After alignment, num_blocks",
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
        "Allocating unified persistent batch",
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
        (
            "HPU hybrid cache",
            "Warmup not yet supported",
            "Skipping invalid bucketing line",
            "due to incorrect format",
            "Invalid VLLM_GRAPH_RESERVED_MEM",
            "FusedSDPA slicing",
            "GDN compact: ",
            "use_sliding_window",
            "warms a single item",
            "Setting granitemoehybrid block_size",
            "Skipping line due to",
        ),
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
