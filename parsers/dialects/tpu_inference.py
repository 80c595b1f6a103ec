"""vLLM on TPU: tpu-inference, and the backend that was in vLLM's tree up to 0.12.

It pads to buckets and compiles a graph for each before it serves.
Source: tpu-inference `runner/compilation_manager.py`, `runner/utils.py`,
`runner/kv_cache_manager.py`, `worker/tpu_worker.py`; vLLM `v1/worker/tpu_model_runner.py`.
"""

from __future__ import annotations

import re

from parsers.base import (
    Dialect,
    LineRule,
    Made,
    Sample,
    line_rule,
    note_rule,
    phase_end,
    phase_start,
)
from parsers.engine.convert import ints_of, text_of
from parsers.engine.evidence import PARTED
from parsers.engine.signals import (
    PaddingListed,
    PaddingsBegun,
    PrecompileFinished,
    PrecompileStarted,
    ShapeBegun,
)
from parsers.rules.of_device import tpu_note, tpu_rule
from parsers.rules.tpu_memory import MEMORY_RULES
from warmup_insights.model.events import BucketsGenerated, CompileFinished, PhaseMarked

_NUM = r"[\d.]{1,16}"
_DIMENSIONS = {"token": "num_tokens", "request": "num_reqs", "attn request": "num_reqs"}


def _paddings(match: re.Match[str]) -> Made:
    kind = match["kind"]
    values = ints_of(match["list"])
    return BucketsGenerated(
        phase=f"{kind.replace(' ', '_')}s", count=len(values),
        buckets=[(value,) for value in values], dimensions=[_DIMENSIONS[kind]],
    )  # fmt: skip


def _paddings_begun(match: re.Match[str]) -> Made:
    if match["requests"]:
        return PaddingsBegun("requests", "num_reqs")
    return PaddingsBegun("tokens", "num_tokens")


def _shape(match: re.Match[str]) -> str:
    """The sizes of a graph, without its arrays."""
    shape = match["shape"] or f"{match['cut_shape'].rpartition(', ')[0] or '{'}}}"
    return text_of(shape)


def _started(match: re.Match[str]) -> Made:
    return PrecompileStarted(text_of(match["graph"]), _shape(match))


def _graph_started(match: re.Match[str]) -> list[Made]:
    """vLLM `v1/worker/tpu_model_runner.py`: a line for each shape follows."""
    is_model = match["graph"] == "the model"
    started = PrecompileStarted("backbone" if is_model else match["graph"], "")
    marked = PhaseMarked(name="compile", edge="start")
    return [marked, started] if is_model else [started]


def _compiled(match: re.Match[str]) -> Made:
    ended = re.search(_ENDED, match["rest"])
    if ended is None:  # a later line holds the end of its arrays
        return _started(match)
    # JAX's own cache may have answered: the line does not state it.
    return CompileFinished(
        what=text_of(match["graph"]), detail=_shape(match),
        duration_s=float(ended["duration_s"]), from_cache=None,
    )  # fmt: skip


_NAME = r"(?:worker\d{1,4} )?(?P<graph>[^>{]{1,80}) --> "
_SHAPE = r"(?:(?P<shape>\{[^}(]{0,300}\})|(?P<cut_shape>\{[^}(]{1,300})\()"
"""Up to its first array: those may go over several lines."""
_ENDED = rf" finished in (?:in )?(?P<duration_s>{_NUM}) \[secs\]"


_RULES: tuple[LineRule, ...] = (
    *MEMORY_RULES,
    tpu_rule(
        "tpu_paddings",
        "paddings: [",
        r"Prepared (?P<kind>token|request|attn request) paddings: (?P<list>\[[\d, ]{1,20000}\])",
        _paddings,
        Sample(
            "INFO 10-21 20:56:14 [utils.py:93] Prepared token paddings: [16, 32, 64]",
            {
                "phase": "tokens",
                "count": 3,
                "buckets": [(16,), (32,), (64,)],
                "dimensions": ["num_tokens"],
            },
        ),
        engine="tpu-inference",
    ),
    tpu_rule(
        "tpu_precompile",
        "Precompile ",
        rf"Precompile {_NAME}{_SHAPE}",
        _started,
        Sample(
            "INFO 10-21 20:57:35 [compilation_manager.py:58] Precompile backbone --> "
            "{'num_tokens': 16}",
            {"graph": "backbone", "shape": "{'num_tokens': 16}"},
        ),
        Sample(
            "INFO 08-07 23:14:42 [compilation_manager.py:137] Precompile worker0 "
            "backbone --> {'num_tokens': 32, 'num_reqs': 256, "
            "'shared_attention_metadata': "
            "SharedAttentionMetadata(input_positions=Array([1, 1, 1, 1,",
            {"graph": "backbone", "shape": "{'num_tokens': 32, 'num_reqs': 256}"},
        ),
    ),
    tpu_rule(
        "tpu_graph_compiled",
        "Compilation of ",
        rf"Compilation of {_NAME}{_SHAPE}(?P<rest>.{{0,8000}})",
        _compiled,
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
            "INFO 08-07 23:14:49 [compilation_manager.py:175] Compilation of worker0 "
            "backbone --> {'num_tokens': 64, 'num_reqs': 128, "
            "'shared_attention_metadata': "
            "SharedAttentionMetadata(input_positions=Array([1, 1, 1, 1,",
            {"graph": "backbone", "shape": "{'num_tokens': 64, 'num_reqs': 128}"},
        ),
    ),
    tpu_rule(
        "tpu_compiled",
        "[secs]",
        rf"(?:Compilation|\)\}}){_ENDED}",
        PrecompileFinished,
        Sample(
            "INFO 10-21 20:58:15 [compilation_manager.py:68] Compilation finished in "
            "39.64 [secs].",
            {"duration_s": 39.64},
        ),
        Sample(
            "INFO 08-07 23:14:49 [compilation_manager.py:175]        1, 1, 1], "
            "dtype=int32), padded_num_reqs=128)} finished in 7.25 [secs].",
            {"duration_s": 7.25},
        ),
        anywhere=True,
    ),
    tpu_rule(
        "tpu_stage_compiled",
        (
            "Compilation for ",
            "Encoder compilation finished",
            "pre-compilation finished",
        ),
        r"(?:(?:\s{1,8}-- )?Compilation for )?(?P<what>prefill|prefix prefill|decode|"
        r"Multimodal .{1,40}? Encoder|KV cache swap) (?:done|(?:pre-)?compilation finished) "
        r"in (?:in )?(?P<duration_s>[\d.]{1,16}) (?:s|\[secs\])",
        CompileFinished,
        Sample(
            "INFO 04-21 20:58:15 [tpu_model_runner.py:303] Compilation for prefill "
            "done in 12.50 s.",
            {"what": "prefill", "duration_s": 12.5},
        ),
        Sample(
            "INFO 02-21 20:58:15 tpu_model_runner.py:891]     -- Compilation for "
            "prefix prefill done in 17.25 [secs].",
            {"what": "prefix prefill", "duration_s": 17.25},
        ),
        Sample(
            "INFO 09-11 20:57:35 [tpu_model_runner.py:1348] Multimodal image Encoder "
            "compilation finished in in 7.25 [secs].",
            {"what": "Multimodal image Encoder", "duration_s": 7.25},
        ),
        fixed={"from_cache": None},
    ),
    tpu_rule(
        "tpu_graph_started",
        "with different input shapes",
        r"Compiling (?P<graph>[a-z_][a-z0-9_ ]{0,60}?) with different input shapes",
        _graph_started,
        Sample(
            "INFO 04-21 20:57:35 [tpu_model_runner.py:1397] Compiling compute_logits "
            "with different input shapes.",
            {"graph": "compute_logits", "shape": ""},
        ),
    ),
    tpu_rule(
        "tpu_paddings_begun",
        (
            "Preparing request paddings",
            "Using exponential token",
            "Using incremental token",
            "Using exponential paddings",
            "Using incremental paddings",
        ),
        r"(?P<requests>Preparing request paddings)|"
        r"Using (?:exponential|incremental) (?:token )?paddings:",
        _paddings_begun,
        Sample(
            "INFO 04-21 20:57:35 [tpu_model_runner.py:1392] Using exponential token "
            "paddings:",
            {"phase": "tokens", "dimension": "num_tokens"},
        ),
        Sample(
            "INFO 04-06 20:57:35 [tpu_model_runner.py:1018] Using incremental paddings:",
            {"phase": "tokens", "dimension": "num_tokens"},
        ),
        Sample(
            "INFO 04-21 20:57:35 [tpu_model_runner.py:1358] Preparing request "
            "paddings:",
            {"phase": "requests", "dimension": "num_reqs"},
        ),
    ),
    line_rule(
        "tpu_padding",
        "    ",
        r"\s{1,8}(?P<size>\d{1,7})\s*$",
        PaddingListed,
        Sample("INFO 04-21 20:57:35 [tpu_model_runner.py:1365]     16", {"size": 16}),
        files=("tpu_model_runner.py",),
        startup_only=True,
    ),
    line_rule(
        "tpu_shape",
        "-- num_tokens: ",
        r"\s{0,8}-- num_tokens: (?P<num_tokens>\d{1,9})\s*$",
        ShapeBegun,
        Sample(
            "INFO 04-21 20:57:36 [tpu_model_runner.py:1018]   -- num_tokens: 32",
            {"num_tokens": 32},
        ),
        files=("tpu_model_runner.py",),
    ),
    phase_start(
        "tpu_precompile_started",
        "Precompile all the subgraphs",
        r"Precompile all the subgraphs",
        "compile",
        "INFO 10-21 20:57:35 [compilation_manager.py:73] Precompile all the subgraphs "
        "with possible input shapes.",
        device="tpu",
    ),
    phase_end(
        "tpu_warmup_pass",
        "Warm-up call pass finished",
        r"Warm-up call pass finished in (?P<duration_s>[\d.]{1,16}) \[secs\]",
        "model_warmup",
        Sample(
            "INFO 08-21 20:58:15 [compilation_manager.py:228] Warm-up call pass "
            "finished in 4.50 [secs] over 12 tasks.",
            {"duration_s": 4.5},
        ),
        device="tpu",
    ),
    phase_end(
        "tpu_encoder_profiled",
        "Encoder profiling finished",
        r"Multimodal Encoder profiling finished in (?:in )?(?P<duration_s>[\d.]{1,16}) "
        r"\[secs\]",
        "encoder_profile",
        Sample(
            "INFO 09-11 20:57:35 [tpu_model_runner.py:1548] Multimodal Encoder "
            "profiling finished in 7.25 [secs].",
            {"duration_s": 7.25},
        ),
    ),
    tpu_note(
        PARTED,
        "Creating DisaggEngineCore",
        r"Creating DisaggEngineCore(?:Proc)? with slice_sizes .{1,200}",
        "tpu",
        "INFO 08-21 20:56:35 [core_tpu.py:647] Creating DisaggEngineCoreProc with "
        "slice_sizes [4, 4]...",
        engine="tpu-inference",
    ),
    note_rule(
        "tpu_graphs_added",
        (
            "compiled XLA graphs",
            "Warmup drafter_propose",
            "Compact-mamba sizing skipped",
            "Hybrid KV cache: padding every",
            "No memory stats available for devices",
            "Memory stats unavailable for ",
        ),
        r"Add new (?P<num_graphs>\d{1,7}) compiled XLA graphs due to .{1,100}|"
        r"Warmup drafter_propose: num_reqs=(?P<num_reqs>\d{1,7})|"
        r"Compact-mamba sizing skipped: .{1,300}|"
        r"Hybrid KV cache: padding every layer spec to .{1,400}|"
        r"No memory stats available for devices .{1,400}|"
        r"Memory stats unavailable for \d{1,5} of \d{1,5} devices .{1,200}",
        "tpu",
        "INFO 09-11 20:57:35 [tpu_model_runner.py:316] Add new 12 compiled XLA graphs "
        "due to backbone",
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
        ),
        r"Compiling Multimodal .{1,50} with different input shapes\.|"
        r"Compiling (?:select_from_array|gather_logprobs|dflash) (?!with different ).{1,80}|"
        r"Precompiling (?:DFlash|continue_decode) .{1,200}|Pre-warming \w{1,40} for .{1,200}|"
        r"Enabling JAX compile cache\.|Parallel AOT compilation enabled .{1,80}|"
        r"AOT lower skipped for .{1,200}|Failed to lower .{1,80} with compile_only=True.{0,200}|"
        r"Skipping precompilation of .{1,300}|.{1,60} precompilation skipped since .{1,200}|"
        r"Skipping decode-heavy step .{1,60}|Precompile slice and insert for .{1,60}|"
        r"max_num_reqs must be supported .{1,200}",
        "tpu",
        "INFO 08-21 20:57:35 [compilation_manager.py:120] Parallel AOT compilation "
        "enabled (NUM_PRECOMPILE_WORKERS=8).",
        startup_only=True,
    ),
)

DIALECT = Dialect(
    name="tpu-inference",
    title="vLLM on TPU: tpu-inference, and in the tree",
    versions="2025-04 to 2026-10",
    source="tpu_inference/runner/, tpu_inference/worker/; vllm/v1/worker/tpu_model_runner.py",
    rules=_RULES,
)
