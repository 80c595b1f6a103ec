"""Advice on the part of a start that took longest, where no other rule treats it."""

from __future__ import annotations

from collections.abc import Iterator

from warmup_insights.analysis.advice.facts import RunFacts
from warmup_insights.analysis.advice.finding import Finding, Rule
from warmup_insights.analysis.advice.start import Start, words_of
from warmup_insights.model.summary import RunSummary
from warmup_insights.units import format_duration

_SHOWN_BY = {
    "configure": ("PYTHONPROFILEIMPORTTIME", "PYTHONPROFILEIMPORTTIME=1 prints each import"),
    "import": ("PYTHONPROFILEIMPORTTIME", "PYTHONPROFILEIMPORTTIME=1 prints each import"),
    "distributed_init": ("NCCL_DEBUG", "NCCL_DEBUG=INFO prints what the ranks wait for"),
}  # fmt: skip
_REFERENCE = ("device", "the device whose step this is (--device)")
_CONVERTED = (
    "quantization",
    "a checkpoint that is quantised as the kernels want it: after reading, weights are "
    "converted, packed or laid out anew at each start",
    "no figure: the log does not divide it",
)
LONG_S = 20.0
"""Kept graphs are read from a local disk in less (3 to 10 s on real starts)."""
_DEBUG = ("VLLM_LOGGING_LEVEL", "VLLM_LOGGING_LEVEL=DEBUG prints its steps")
_RECORDER = (
    "warmup-insights vllm",
    "`warmup-insights vllm serve ...` records every step of it with its time",
)
_RECORDED = frozenset({
    "prompt_warmup", "decode_warmup", "prompt_graphs", "decode_graphs", "graph_capture",
    "unified_warmup", "sampler_warmup", "defrag_warmup",
})  # fmt: skip


def largest_part(facts: RunFacts) -> Iterator[Finding]:
    """The phase that took longest, where no other rule treats it."""
    start = facts.start
    if start is None:
        return
    phase = start.dominant
    seconds = start.seconds[phase]
    setting, shown = _RECORDER if phase in _RECORDED else _SHOWN_BY.get(phase, _DEBUG)
    if facts.summary.engine.name == "reference":
        setting, shown = _REFERENCE
    effect = "no figure without that"
    known = _known(facts.summary, start, phase)
    if known is not None:
        setting, shown, effect = known
    else:
        shown += "; nothing in this run states what it consists of"
    others = sorted(start.seconds.items(), key=lambda item: -item[1])[1:4]
    yield Finding(
        "largest_part",
        "low",
        f"{words_of(phase)} took {start.of_all(seconds)}, more than any other part.",
        {"part_s": seconds, "start_s": start.wall_s, "share": start.share(seconds)},
        setting,
        shown,
        effect,
        tuple(f"then {words_of(name)}: {start.of_all(own)}" for name, own in others),
        phase=phase,
        part_s=seconds,
    )


def _known(
    summary: RunSummary, start: Start, phase: str
) -> tuple[str, str, str] | None:
    """What a phase consists of, and what makes it shorter, where the run shows it."""
    if phase == "compile":
        return _loaded_words(summary)
    is_quantized = str(summary.config.get("quantization")) != "None"
    if phase == "load_model" and "load_weights" in start.seconds and is_quantized:
        return _CONVERTED
    return None


def _loaded_words(summary: RunSummary) -> tuple[str, str, str] | None:
    """Of a compilation whose graphs came from the cache: what is left of it."""
    compiled = summary.compile
    if compiled is None or compiled.cache != "hit":
        return None
    dynamo = [
        part.duration_s or 0.0 for part in compiled.parts if part.what == "dynamo"
    ]
    spent = f" (Dynamo {format_duration(max(dynamo))})" if dynamo else ""
    reading = sum(part.duration_s or 0.0 for part in compiled.parts if part.from_cache)
    if reading > max([LONG_S, *dynamo]):
        return (
            "VLLM_CACHE_ROOT",
            "VLLM_CACHE_ROOT on a local disk of each host, with a copy of what is kept",
            f"reading the graphs that are kept took {format_duration(reading)}; no figure: the log "
            "does not name the file system they lie on",
        )
    return (
        "VLLM_CACHE_ROOT",
        "nothing: the graphs came from the cache; keep it",
        f"tracing runs again at each start{spent}; versions that keep the whole function "
        "load it instead",
    )


RULES = (
    Rule(
        "largest_part",
        "no other rule treats the phase that took longest",
        "a log that holds the whole start: its phases",
        largest_part,
        formula="the seconds of the phase, as a share of the time from the first line to "
        "ready",
        margin="silent where the first line is not the first of a start, or half of the time "
        "is in no line",
        source="the engine's own lines at the beginning and the end of each phase",
        example="hpu_plugin start of Qwen3-MoE: initialising the device 88 of 116 s",
    ),
)
