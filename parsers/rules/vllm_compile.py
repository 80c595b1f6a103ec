"""Upstream vLLM: torch.compile and its caches.

Source: vLLM `compilation/backends.py`, `compilation/monitor.py`,
`compilation/decorators.py`.
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
from parsers.engine.signals import ArtifactFrame, CacheFactor, RankNamed
from warmup_insights.model.events import CompileFinished, Note, PhaseMarked
from warmup_insights.secrets import mask

_RANK_FOLDER = re.compile(r"/rank_(\d{1,4})_0(?=[/ ])")
"""Of the first replica: `rank_{rank}_{data parallel rank}` (`backends.py`)."""


PART = r"(?:\[(?P<part>[^\]\s]{1,60})\] )?"
"""The model that a line is about, since vLLM 0.32 (`backends.py _log_prefix`)."""
TAG = r"(?:\[[^\]\s]{1,60}\] )?"


def _compile_started(match: re.Match[str]) -> list[Made]:
    path = match["path"]
    marked = PhaseMarked(name="compile", edge="start", path=path and text_of(path))
    folder = _RANK_FOLDER.search(match[0])
    return [marked, RankNamed(int(folder[1]))] if folder else [marked]


def _compile(
    rule: str,
    pattern: str,
    what: str,
    *samples: Sample,
    cached: bool = False,
) -> LineRule:
    return line_rule(
        rule, pattern, CompileFinished, *samples,
        fixed={"what": what, "from_cache": cached},
    )  # fmt: skip


def _profiled_model(match: re.Match[str]) -> list[Made]:
    """The first run of the model; the profiling run goes on with the sampler's
    (`v1/worker/gpu_model_runner.py profile_run`)."""
    took = float(match["duration_s"])
    return [
        PhaseMarked(name="profile_run", edge="end", duration_s=took),
        PhaseMarked(name="profile_run", edge="start"),
    ]


def _cache_factor(match: re.Match[str]) -> Made:
    name, value = match["name"], match["value"].strip("'")
    return CacheFactor(name, text_of(str(mask(name, value))))


def _cache_key(match: re.Match[str]) -> Made:
    """The hashes that the name of the cache directory is made of."""
    names = ("env", "config", "compiler", "code")
    hashes = {name: text_of(match[name]) for name in names if match[name]}
    return Note(
        topic="compile_cache_key",
        text=text_of(match["text"]),
        values={"hashes": hashes},
    )


COMPILE_RULES: tuple[LineRule, ...] = (
    _compile(
        "compile_dynamo",
        rf"{PART}Dynamo bytecode transform time: {SECONDS} s",
        "dynamo",
        Sample(
            "INFO 07-16 20:02:46 [backends.py:1155] Dynamo bytecode transform time: "
            "7.06 s",
            {"duration_s": 7.06},
        ),
    ),
    _compile(
        "compile_graph",
        rf"{PART}Compiling a graph for (?P<detail>[^\n]{{1,60}}?) takes {SECONDS} s",
        "graph",
        Sample(
            "INFO 07-16 20:03:18 [backends.py:393] Compiling a graph for compile "
            "range (1, 8192) takes 8.37 s",
            {"detail": "compile range (1, 8192)", "duration_s": 8.37},
        ),
    ),
    _compile(
        "compile_cached",
        rf"{PART}Directly load the compiled graph(?:\(s\))? for (?P<detail>[^\n]{{1,60}}?) from the "
        rf"cache(?:, took {SECONDS} s)?",
        "graph",
        Sample(
            "INFO 08-01 20:03:18 [backends.py:393] Directly load the compiled "
            "graph(s) for dynamic shape from the cache, took 2.826 s",
            {"duration_s": 2.826},
        ),
        cached=True,
    ),
    _compile(
        "compile_total",
        rf"{PART}torch\.compile (?:takes|took) {SECONDS} s in total",
        "total",
        Sample(
            "INFO 07-16 20:03:40 [monitor.py:53] torch.compile took 52.05 s in total",
            {"duration_s": 52.05},
        ),
    ),
    _compile(
        "compile_aot",
        rf"{PART}Directly load AOT compilation from path (?P<detail>\S{{1,300}})",
        "aot",
        Sample(
            "(Worker_TP0 pid=7) INFO 09-16 17:30:51 [decorators.py:326] [backbone] "
            "Directly load AOT compilation from path /c/rank_0_0/model",
            {"part": "backbone", "detail": "/c/rank_0_0/model"},
        ),
        cached=True,
    ),
    _compile(
        "compile_and_profile",
        rf"{PART}torch\.compile and initial profiling(?:/warmup run together| run) took "
        rf"{SECONDS} s in total",
        "total_with_profile_run",
        Sample(
            "INFO 09-16 17:30:51 [decorators.py:716] torch.compile and initial "
            "profiling/warmup run together took 60.50 s in total",
            {"duration_s": 60.5},
        ),
        Sample(
            "INFO 03-09 12:57:31 [monitor.py:35] torch.compile and initial profiling "
            "run took 3.37 s in total",
            {"duration_s": 3.37},
        ),
    ),
    line_rule(
        "profile_run_took",
        rf"{TAG}Initial profiling/warmup run took {SECONDS} s",
        _profiled_model,
        Sample(
            "INFO 07-16 20:03:46 [monitor.py:81] Initial profiling/warmup run took "
            "5.85 s",
            {"name": "profile_run", "duration_s": 5.85},
        ),
    ),
    line_rule(
        "compile_started",
        rf"{TAG}(?:Using cache directory: (?P<path>.{{1,300}}) for vLLM's torch\.compile|"
        r"Starting torch\.compile\s*$)",
        _compile_started,
        Sample(
            "INFO 07-16 20:02:46 [backends.py:1094] Using cache directory: /c for "
            "vLLM's torch.compile",
            {"name": "compile", "edge": "start", "path": "/c"},
        ),
    ),
    phase_start(
        "compile_saving",
        rf"{TAG}saving AOT compiled function to \S",
        "compile",
        "INFO 03-23 12:23:19 [decorators.py:580] saving AOT compiled function to /c",
    ),
    phase_end(
        "compile_saved",
        rf"{TAG}saved AOT compiled function to (?P<path>\S{{1,300}})",
        "compile",
        Sample(
            "INFO 07-16 20:03:40 [decorators.py:708] saved AOT compiled function to /c",
            {"path": "/c"},
        ),
    ),
    line_rule(
        "compile_cache_factor",
        r"[ {]?'(?P<name>[A-Za-z_][A-Za-z0-9_]{1,99})': (?P<value>.{1,300}?)[,}]?\s*$",
        _cache_factor,
        Sample(
            "(EngineCore pid=42) DEBUG 06-20 14:50:56 [compilation/backends.py:1091]  "
            "'VLLM_XLA_USE_SPMD': False,",
            {"name": "VLLM_XLA_USE_SPMD", "value": "False"},
        ),
        levels=("DEBUG",),
        files=("backends.py",),
        startup_only=True,
        hint=("'VLLM_", "'XDG_", "'CUDA_", "'LOCAL_RANK", "'RAY_", "'NCCL_", "'TORCH"),
    ),
    line_rule(
        "compile_cache_factors_end",
        r"Vllm config hash: \S{1,100}",
        CacheFactor,
        "(EngineCore pid=42) DEBUG 06-20 14:50:56 [compilation/backends.py:1091] Vllm "
        "config hash: 84b7dc96bd",
        fixed={"name": None},
        startup_only=True,
    ),
    line_rule(
        "compile_artifact_frame",
        r'\s{0,40}File "(?P<path>[^"]{1,400}?(?:/torch_compile_cache/|/torch_aot_compile/|'
        r"_inductor/standalone_compile\.py|vllm/compilation/caching\.py|"
        r'_dynamo/aot_compile\.py)[^"]{0,400})", line \d',
        ArtifactFrame,
        Sample(
            "(EngineCore pid=5) ERROR 04-07 10:56:15 [core.py:383]   File "
            '"/c/torch_compile_cache/ea2d23402a/rank_0_0/inductor_cache/bx/cbx.py", '
            "line 370, in call",
            {
                "path": "/c/torch_compile_cache/ea2d23402a/rank_0_0/inductor_cache/bx/cbx.py"
            },
        ),
    ),
    line_rule(
        "compile_cache_key",
        rf"{TAG}(?P<text>torch\.compile cache factors: (?:env=(?P<env>\S{{1,100}}) )?"
        r"cfg=(?P<config>\S{1,100}) comp=(?P<compiler>\S{1,100}) code=(?P<code>\S{1,100}) "
        r"dir=\S{1,300})",
        _cache_key,
        Sample(
            "(EngineCore pid=7) DEBUG 10-16 20:02:46 [backends.py:1110] torch.compile "
            "cache factors: env=e1 cfg=c1 comp=p1 code=o1 dir=/c/53d0/rank_0_0/backbone",
            {
                "topic": "compile_cache_key",
                "values": {
                    "hashes": {
                        "env": "e1",
                        "config": "c1",
                        "compiler": "p1",
                        "code": "o1",
                    }
                },
            },
        ),
        startup_only=True,
    ),
    note_rule(
        "compile_aot_refused",
        rf"{TAG}(?:Cannot load aot compilation from path|Compiling model again due to a load "
        r"failure from) (?P<path>\S{1,300}), (?:error|reason): (?P<reason>.{0,300})",
        "compile",
        "WARNING 01-16 20:04:12 [decorators.py:300] Cannot load aot compilation from "
        "path /c/rank_0_0/model, error: x y",
        "WARNING 11-22 20:04:12 [decorators.py:333] [backbone] Compiling model again "
        "due to a load failure from /c/rank_0_0/model, reason: x y",
        values={"path": "/c/rank_0_0/model", "reason": "x y"},
        outcome="refused",
    ),
    note_rule(
        "compile_cache_off",
        rf"{TAG}vLLM's torch\.compile cache is disabled\.",
        "compile",
        "INFO 09-16 20:03:10 [backends.py:1090] vLLM's torch.compile cache is disabled.",
        outcome="off",
    ),
    line_rule(
        "compile_note",
        rf"{TAG}(?P<text>Cache the graph of .{{1,100}}|"
        r"unable to save AOT compiled function to .{1,200}|"
        r"Saved compiler manager cache in .{1,40})",
        Note,
        "INFO 07-16 20:03:10 [backends.py:378] Cache the graph of compile range (1, "
        "1) for later use",
        fixed={"topic": "compile"},
    ),
)
