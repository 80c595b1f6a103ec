"""vLLM on TPU: tpu-inference, and the backend that was in vLLM's tree up to 0.12.

It pads to buckets and compiles a graph for each before it serves.
Source: tpu-inference `runner/compilation_manager.py`, `runner/utils.py`,
`runner/kv_cache_manager.py`, `worker/tpu_worker.py`; vLLM `v1/worker/tpu_model_runner.py`.
"""

from __future__ import annotations

import re

from parsers._vllm_kernels import note_rule, stage_rule
from parsers.base import Dialect, LineRule, Made, Sample
from parsers.convert import ints_of, text_of
from parsers.signals import PrecompileFinished, PrecompileStarted
from warmup_insights.model.events import (
    BucketsGenerated,
    CompileFinished,
    KVCacheAllocated,
    MemoryBudgetSet,
    Note,
    PhaseMarked,
)
from warmup_insights.units import gib

_NUM = r"[\d.]{1,16}"
_DIMENSIONS = {"token": "num_tokens", "request": "num_reqs", "attn request": "num_reqs"}


def _paddings(match: re.Match[str]) -> Made:
    kind = match["kind"]
    values = ints_of(match["list"])
    return BucketsGenerated(
        phase=f"{kind.replace(' ', '_')}s", count=len(values),
        buckets=[(value,) for value in values], dimensions=[_DIMENSIONS[kind]],
    )  # fmt: skip


def _started(match: re.Match[str]) -> Made:
    return PrecompileStarted(text_of(match["graph"]), text_of(match["shape"]))


def _finished(match: re.Match[str]) -> Made:
    seconds = float(match["seconds"])
    if match["graph"] is None:
        return PrecompileFinished(seconds)
    return CompileFinished(
        what=text_of(match["graph"]), detail=text_of(match["shape"]), duration_s=seconds
    )


def _memory(match: re.Match[str]) -> Made:
    cap = match["cap"]
    return MemoryBudgetSet(
        total_bytes=gib(match["limit"]), usable_bytes=gib(cap) if cap else None,
        consumed_bytes=gib(match["used"]), kv_cache_bytes=gib(match["avail"]),
    )  # fmt: skip


def _hbm(match: re.Match[str]) -> Made:
    """Memory of the first device, used and in total."""
    values = {"used_bytes": gib(match["used"]), "total_bytes": gib(match["total"])}
    return Note(topic="kv_cache", text=text_of(match[0]), values=values)


def _weights_file(match: re.Match[str]) -> list[Made]:
    """One line for each file, in order: with the first the download is over.

    Source: tpu-inference `models/jax/utils/weight_utils.py`.
    """
    return [PhaseMarked(name="download", edge="end")] if match["first"] else []


_GRAPH = r"(?P<graph>[^>{]{1,80}) --> (?P<shape>\{[^}]{0,300}\})"

_RULES: tuple[LineRule, ...] = (
    LineRule(
        "tpu_paddings",
        "paddings: [",
        r"Prepared (?P<kind>token|request|attn request) paddings: (?P<list>\[[\d, ]{1,2000}\])",
        build=_paddings,
        device="tpu",
        engine="tpu-inference",
        samples=(
            Sample(
                "INFO 10-21 20:56:14 [utils.py:93] Prepared token paddings: [16, 32, 64]",
                {
                    "phase": "tokens",
                    "count": 3,
                    "buckets": [(16,), (32,), (64,)],
                    "dimensions": ["num_tokens"],
                },
            ),
        ),
    ),
    LineRule(
        "tpu_precompile",
        "Precompile ",
        rf"Precompile (?:worker\d{{1,4}} )?{_GRAPH}",
        build=_started,
        device="tpu",
        samples=(
            Sample(
                "INFO 10-21 20:57:35 [compilation_manager.py:58] Precompile backbone --> "
                "{'num_tokens': 16}",
                {"graph": "backbone", "shape": "{'num_tokens': 16}"},
            ),
        ),
    ),
    LineRule(
        "tpu_compiled",
        "[secs]",
        rf"Compilation (?:of (?:worker\d{{1,4}} )?{_GRAPH} )?finished in "
        rf"(?P<seconds>{_NUM}) \[secs\]",
        build=_finished,
        device="tpu",
        samples=(
            Sample(
                "INFO 06-25 23:55:52 [compilation_manager.py:167] Compilation of worker0 "
                "sample --> {'num_reqs': 8, 'do_sampling': True} finished in 0.02 [secs].",
                {
                    "what": "sample",
                    "detail": "{'num_reqs': 8, 'do_sampling': True}",
                    "duration_s": 0.02,
                },
            ),
            Sample(
                "INFO 10-21 20:58:15 [compilation_manager.py:68] Compilation finished in "
                "39.64 [secs].",
                {"duration_s": 39.64},
            ),
        ),
    ),
    LineRule(
        "tpu_compiled_in_tree",
        "Compilation for ",
        r"Compilation for (?P<what>prefill|prefix prefill|decode) done in "
        r"(?P<duration_s>[\d.]{1,16}) s",
        CompileFinished,
        device="tpu",
        samples=(
            Sample(
                "INFO 04-21 20:58:15 [tpu_model_runner.py:303] Compilation for prefill "
                "done in 12.50 s.",
                {"what": "prefill", "duration_s": 12.5},
            ),
        ),
    ),
    LineRule(
        "tpu_precompile_started",
        ("Precompile all the subgraphs", "Compiling the model with different input"),
        r"Precompile all the subgraphs|Compiling the model with different input shapes",
        PhaseMarked,
        fixed={"name": "compile", "edge": "start"},
        device="tpu",
        samples=(
            Sample(
                "INFO 10-21 20:57:35 [compilation_manager.py:73] Precompile all the "
                "subgraphs with possible input shapes.",
                {"name": "compile", "edge": "start"},
            ),
        ),
    ),
    LineRule(
        "tpu_load_started",
        "Init worker | ",
        r"Init worker \| rank=",
        PhaseMarked,
        fixed={"name": "load_model", "edge": "start"},
        device="tpu",
        engine="tpu-inference",
        samples=(
            Sample(
                "INFO 10-21 20:56:14 [tpu_worker_jax.py:147] Init worker | rank=0 | "
                "node_id=0 | is_driver_worker=True | hbm=[(0.0, 31.25)]GiB",
                {"name": "load_model", "edge": "start"},
            ),
        ),
    ),
    LineRule(
        "tpu_load_ended",
        "Init model | ",
        r"Init model \| hbm=",
        PhaseMarked,
        fixed={"name": "load_model", "edge": "end"},
        device="tpu",
        engine="tpu-inference",
        samples=(
            Sample(
                "INFO 10-21 20:57:32 [tpu_jax_runner.py:307] Init model | hbm=[(7.63, "
                "31.25)]GiB",
                {"name": "load_model", "edge": "end"},
            ),
        ),
    ),
    LineRule(
        "tpu_warmup_pass",
        "Warm-up call pass finished",
        r"Warm-up call pass finished in (?P<duration_s>[\d.]{1,16}) \[secs\]",
        PhaseMarked,
        fixed={"name": "model_warmup", "edge": "end"},
        device="tpu",
        samples=(
            Sample(
                "INFO 08-21 20:58:15 [compilation_manager.py:228] Warm-up call pass "
                "finished in 4.50 [secs] over 12 tasks.",
                {"name": "model_warmup", "duration_s": 4.5},
            ),
        ),
    ),
    LineRule(
        "tpu_memory",
        "Memory statistics | ",
        rf"Memory statistics \| total_hbm_limit_gb=(?P<limit>{_NUM})GiB \| "
        rf"(?:total_hbm_limit_cap_gb=(?P<cap>{_NUM})GiB \| )?"
        rf"total_hbm_used_gb=(?P<used>{_NUM})GiB \| total_hbm_avail_gb=(?P<avail>{_NUM})GiB",
        build=_memory,
        device="tpu",
        engine="tpu-inference",
        samples=(
            Sample(
                "INFO 10-21 20:57:32 [tpu_worker_jax.py:169] Memory statistics | "
                "total_hbm_limit_gb=249.97GiB | total_hbm_limit_cap_gb=237.47GiB | "
                "total_hbm_used_gb=61.03GiB | total_hbm_avail_gb=176.44GiB",
                {
                    "total_bytes": gib(249.97),
                    "usable_bytes": gib(237.47),
                    "consumed_bytes": gib(61.03),
                    "kv_cache_bytes": gib(176.44),
                },
            ),
        ),
    ),
    LineRule(
        "tpu_kv_cache_renewed",
        ("kv-cache | ", "KV cache delete complete"),
        r"(?:Deleting kv-cache \| num_layers=\d{1,6} \| hbm_before|"
        r"KV cache delete complete \| hbm_after|Reinitializing kv-cache \| hbm_before)="
        rf"\[\((?P<used>{_NUM}), (?P<total>{_NUM})\).{{0,2000}}",
        build=_hbm,
        device="tpu",
        engine="tpu-inference",
        samples=(
            Sample(
                "INFO 08-21 20:57:35 [kv_cache_manager.py:1278] Deleting kv-cache | "
                "num_layers=32 | hbm_before=[(21.5, 31.25), (21.5, 31.25)]Gb",
                {"values": {"used_bytes": gib(21.5), "total_bytes": gib(31.25)}},
            ),
        ),
    ),
    LineRule(
        "tpu_stage_compiled",
        ("Encoder compilation finished", "pre-compilation finished"),
        r"(?P<what>Multimodal .{1,40}? Encoder|KV cache swap) "
        r"(?:compilation|pre-compilation) finished in (?:in )?(?P<duration_s>[\d.]{1,16}) "
        r"\[secs\]",
        CompileFinished,
        device="tpu",
        samples=(
            Sample(
                "INFO 09-11 20:57:35 [tpu_model_runner.py:1348] Multimodal image Encoder "
                "compilation finished in in 7.25 [secs].",
                {"what": "Multimodal image Encoder", "duration_s": 7.25},
            ),
        ),
    ),
    stage_rule(
        "tpu_download",
        "Downloading weights from HF",
        r"Downloading weights from HF \S{1,200}$",
        "download",
        "start",
        Sample(
            "INFO 10-21 20:56:15 [weight_utils.py:100] Downloading weights from HF o/m",
            {"name": "download", "edge": "start"},
        ),
    ),
    LineRule(
        "tpu_weights_file",
        "Loading weights from ",
        r"Loading weights from /\S{1,400}?(?:/(?P<first>model(?:-0{0,8}1-of-\d{1,9})?))?"
        r"\.safetensors$",
        build=_weights_file,
        samples=(
            Sample(
                "INFO 10-21 20:57:13 [weight_utils.py:122] Loading weights from "
                "/hub/models--o--m/snapshots/9216/model-00001-of-00017.safetensors",
                {"name": "download", "edge": "end"},
            ),
        ),
    ),
    stage_rule(
        "tpu_encoder_profiled",
        "Encoder profiling finished",
        r"Multimodal Encoder profiling finished in (?:in )?(?P<duration_s>[\d.]{1,16}) "
        r"\[secs\]",
        "encoder_profile",
        "end",
        Sample(
            "INFO 09-11 20:57:35 [tpu_model_runner.py:1548] Multimodal Encoder profiling "
            "finished in 7.25 [secs].",
            {"name": "encoder_profile", "edge": "end", "duration_s": 7.25},
        ),
    ),
    note_rule(
        "tpu_graphs_added",
        ("compiled XLA graphs", "Warmup drafter_propose", "Compact-mamba KV cache"),
        r"Add new (?P<num_graphs>\d{1,7}) compiled XLA graphs due to .{1,100}|"
        r"Warmup drafter_propose: num_reqs=(?P<num_reqs>\d{1,7})|"
        r"Compact-mamba KV cache: num_gpu_blocks_override=(?P<num_blocks>\d{1,12}) .{1,400}",
        "tpu",
        "INFO 09-11 20:57:35 [tpu_model_runner.py:316] Add new 12 compiled XLA graphs due "
        "to backbone",
        values={"num_graphs": 12},
    ),
    note_rule(
        "tpu_note",
        (
            "with different input shapes",
            "Compiling ",
            "Precompiling ",
            "Pre-warming ",
            "Enabling JAX compile cache",
            "Parallel AOT compilation",
            "AOT lower skipped",
            "with compile_only=True",
            "Skipping precompilation",
            "precompilation skipped",
            "Skipping decode-heavy",
            "Precompile slice and insert",
            "NUM_REQS_BUCKETS",
            "Preparing request paddings",
            "Using exponential token",
            "Using incremental token",
        ),
        r"Compiling (?!the model).{1,60} with different input shapes\.|"
        r"Compiling (?:select_from_array|gather_logprobs|dflash) .{1,80}|"
        r"Precompiling (?:DFlash|continue_decode) .{1,200}|Pre-warming \w{1,40} for .{1,200}|"
        r"Enabling JAX compile cache\.|Parallel AOT compilation enabled .{1,80}|"
        r"AOT lower skipped for .{1,200}|Failed to lower .{1,80} with compile_only=True.{0,200}|"
        r"Skipping precompilation of .{1,300}|.{1,60} precompilation skipped since .{1,200}|"
        r"Skipping decode-heavy step .{1,60}|Precompile slice and insert for .{1,60}|"
        r"max_num_reqs must be supported .{1,200}|"
        r"(?:Preparing request|Using (?:exponential|incremental) token) paddings:",
        "tpu",
        "INFO 08-21 20:57:35 [compilation_manager.py:120] Parallel AOT compilation enabled "
        "(NUM_PRECOMPILE_WORKERS=8).",
        startup_only=True,
    ),
    LineRule(
        "tpu_kv_cache",
        "Init kv-cache | ",
        r"Init kv-cache \| .{1,200}? \| num_blocks=\[?(?P<num_blocks>\d{1,12})",
        KVCacheAllocated,
        device="tpu",
        engine="tpu-inference",
        samples=(
            Sample(
                "INFO 10-21 20:57:35 [kv_cache_manager.py:218] Init kv-cache | "
                "num_layers=64 | shape=(num_blocks, (128, 8, 2, 128)) | num_blocks=[5645, "
                "5645]",
                {"num_blocks": 5645},
            ),
        ),
    ),
)

DIALECT = Dialect(
    name="tpu-inference",
    title="vLLM on TPU: tpu-inference, and in the tree",
    versions="2025-04 to 2026-08",
    source="tpu_inference/runner/, tpu_inference/worker/; vllm/v1/worker/tpu_model_runner.py",
    rules=_RULES,
)
