"""Upstream vLLM: torch.compile and its caches.

Source: vLLM `compilation/backends.py`, `compilation/monitor.py`,
`compilation/decorators.py`.
"""

from __future__ import annotations

import re

from parsers._vllm_loading import SECONDS, marked
from parsers.base import LineRule, Made, Sample
from parsers.convert import text_of
from parsers.signals import RankNamed
from warmup_insights.model.events import (
    CompileFinished,
    Note,
    PhaseMarked,
)

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
    hint: str,
    pattern: str,
    what: str,
    sample: Sample,
    *,
    cached: bool = False,
) -> LineRule:
    return LineRule(
        rule, hint, pattern, CompileFinished,
        fixed={"what": what, "from_cache": cached}, samples=(sample,),
    )  # fmt: skip


COMPILE_RULES: tuple[LineRule, ...] = (
    _compile(
        "compile_dynamo",
        "Dynamo bytecode transform time",
        rf"{PART}Dynamo bytecode transform time: {SECONDS} s",
        "dynamo",
        Sample(
            "INFO 07-16 20:02:46 [backends.py:1155] Dynamo bytecode transform time: "
            "7.06 s",
            {"what": "dynamo", "duration_s": 7.06},
        ),
    ),
    _compile(
        "compile_graph",
        "Compiling a graph for",
        rf"{PART}Compiling a graph for (?P<detail>[^\n]{{1,60}}?) takes {SECONDS} s",
        "graph",
        Sample(
            "INFO 07-16 20:03:18 [backends.py:393] Compiling a graph for compile range "
            "(1, 8192) takes 8.37 s",
            {"detail": "compile range (1, 8192)", "duration_s": 8.37},
        ),
    ),
    _compile(
        "compile_cached",
        "Directly load the compiled graph",
        rf"{PART}Directly load the compiled graph(?:\(s\))? for (?P<detail>[^\n]{{1,60}}?) from the "
        rf"cache(?:, took {SECONDS} s)?",
        "graph",
        Sample(
            "INFO 08-01 20:03:18 [backends.py:393] Directly load the compiled graph(s) "
            "for dynamic shape from the cache, took 2.826 s",
            {"from_cache": True, "duration_s": 2.826},
        ),
        cached=True,
    ),
    _compile(
        "compile_total",
        "torch.compile t",
        rf"{PART}torch\.compile (?:takes|took) {SECONDS} s in total",
        "total",
        Sample(
            "INFO 07-16 20:03:40 [monitor.py:53] torch.compile took 52.05 s in total",
            {"what": "total", "duration_s": 52.05},
        ),
    ),
    _compile(
        "compile_aot",
        "Directly load AOT compilation",
        rf"{PART}Directly load AOT compilation from path ",
        "aot",
        Sample(
            "(Worker_TP0 pid=7) INFO 09-16 17:30:51 [decorators.py:326] [backbone] "
            "Directly load AOT compilation from path /c/rank_0_0/model",
            {"what": "aot", "from_cache": True, "part": "backbone"},
        ),
        cached=True,
    ),
    _compile(
        "compile_and_profile",
        "torch.compile and initial profiling",
        rf"{PART}torch\.compile and initial profiling/warmup run together took "
        rf"{SECONDS} s in total",
        "total_with_profile_run",
        Sample(
            "INFO 09-16 17:30:51 [decorators.py:716] torch.compile and initial "
            "profiling/warmup run together took 60.50 s in total",
            {"what": "total_with_profile_run", "duration_s": 60.5},
        ),
    ),
    LineRule(
        "profile_run_took",
        "Initial profiling/warmup run took",
        rf"{TAG}Initial profiling/warmup run took {SECONDS} s",
        PhaseMarked,
        fixed=marked("profile_run", "end"),
        samples=(
            Sample(
                "INFO 07-16 20:03:46 [monitor.py:81] Initial profiling/warmup run took "
                "5.85 s",
                {"name": "profile_run", "duration_s": 5.85},
            ),
        ),
    ),
    LineRule(
        "compile_started",
        ("for vLLM's torch.compile", "Starting torch.compile"),
        rf"{TAG}(?:Using cache directory: (?P<path>.{{1,300}}) for vLLM's torch\.compile|"
        r"Starting torch\.compile\s*$)",
        build=_compile_started,
        samples=(
            Sample(
                "INFO 07-16 20:02:46 [backends.py:1094] Using cache directory: /c for "
                "vLLM's torch.compile",
                {"name": "compile", "edge": "start", "path": "/c"},
            ),
        ),
    ),
    LineRule(
        "compile_saved",
        "saved AOT compiled function",
        rf"{TAG}saved AOT compiled function to (?P<path>\S{{1,300}})",
        PhaseMarked,
        fixed=marked("compile", "end"),
        samples=(
            Sample(
                "INFO 07-16 20:03:40 [decorators.py:708] saved AOT compiled function to "
                "/c",
                {"name": "compile", "edge": "end", "path": "/c"},
            ),
        ),
    ),
    LineRule(
        "compile_note",
        (
            "Compiling model again",
            "Cache the graph of",
            "torch.compile cache is disabled",
            "unable to save AOT",
            "Saved compiler manager cache",
        ),
        rf"{TAG}(?P<text>Compiling model again due to a load failure.{{0,200}}|"
        r"Cache the graph of .{1,100}|vLLM's torch\.compile cache is disabled\.|"
        r"unable to save AOT compiled function to .{1,200}|"
        r"Saved compiler manager cache in .{1,40})",
        Note,
        fixed={"topic": "compile"},
        samples=(
            Sample(
                "INFO 07-16 20:03:10 [backends.py:378] Cache the graph of compile range "
                "(1, 1) for later use",
                {"topic": "compile"},
            ),
        ),
    ),
)
