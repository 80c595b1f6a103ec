"""What stands out in a summary, and what its log lacks, in sentences."""

from __future__ import annotations

from collections.abc import Iterator

from warmup_insights.analysis.sentences import (
    contradiction_sentence,
    count_text,
    spike_words,
)
from warmup_insights.bucketing.base import GPUS
from warmup_insights.model.figures import graph_memory_bytes
from warmup_insights.model.summary import (
    PHASES,
    SHORTEST_S,
    PhaseBuckets,
    RunSummary,
    is_true,
)
from warmup_insights.rules import is_bucketing_off
from warmup_insights.rules.setting_lives import has_setting
from warmup_insights.units import format_bytes, format_duration, format_percent

LIMIT = 12


def oddities(summary: RunSummary) -> list[str]:
    """What a person should look at, the most important first; empty when all is well."""
    found = [contradiction_sentence(broken) for broken in summary.contradictions]
    for rule in (_memory, _captures, _coverage, _time, _sampler, _notes):
        found += list(rule(summary))
    return found[:LIMIT]


def _memory(summary: RunSummary) -> Iterator[str]:
    memory = summary.memory
    if memory is None:
        return
    cache = memory.kv_cache_bytes
    # Some builds have a cache beside the device, which then holds tokens all the same.
    if cache is not None and cache <= 0 and not memory.kv_cache_tokens:
        yield f"There is no memory for the KV cache ({format_bytes(cache)})."
    reserved = memory.graph_reserved_bytes
    used = graph_memory_bytes(summary) or 0
    is_fixed = summary.fixed_blocks is not None
    if reserved and used > 0 and used < 0.5 * reserved and not is_fixed:
        yield (
            f"Graphs took {format_bytes(used)} of {format_bytes(reserved)} reserved for "
            "them; a smaller VLLM_GRAPH_RESERVED_MEM leaves more for the KV cache."
        )
    if reserved and used > 1.05 * reserved:
        yield (
            f"Graphs took {format_bytes(used)}, more than the {format_bytes(reserved)} "
            "reserved for them."
        )


def _captures(summary: RunSummary) -> Iterator[str]:
    for phase, part in (summary.buckets or {}).items():
        captured, generated = part.captured, part.generated
        if captured is not None and generated and captured < generated:
            yield (
                f"{generated - captured} of {generated} {phase} buckets have no graph "
                f"({format_percent(part.capture_percent)} captured)."
            )
        if captured is None and part.captured_reported is not None:
            yield (
                f"The engine reports {part.captured_reported} {phase} graphs as captured, "
                "but that number is the length of the bucket list."
            )
        if part.spikes and part.spikes_s:
            yield (
                f"{count_text(part.spikes, f'{phase} bucket')} took a multiple of the time of "
                f"neighbours, {format_duration(part.spikes_s)} more in all"
                f"{spike_words(summary)}."
            )
        if took_more_than_budget(part):
            yield (
                f"The {phase} graphs took {format_bytes(part.graph_used_bytes)} of a budget "
                f"of {format_bytes(part.graph_budget_bytes)}; the rest came from the other "
                "phase."
            )


def took_more_than_budget(part: PhaseBuckets) -> bool:
    """Whether graphs took more than their share, which that of the other phase had left."""
    budget, used = part.graph_budget_bytes, part.graph_used_bytes
    return bool(budget and used is not None and used > 1.05 * budget)


def _coverage(summary: RunSummary) -> Iterator[str]:
    so_far = {"running": " so far", "unknown": " in the lines of this log"}
    for phase, part in (summary.buckets or {}).items():
        warmed, generated = part.warmed, part.generated
        if warmed is not None and generated and warmed < generated:
            missing = f"{generated - warmed} of {generated} {phase} buckets"
            yield f"{missing} were not warmed{so_far.get(summary.status, '')}."
        if part.omitted:
            yield f"{count_text(part.omitted, f'{phase} bucket')} made and dropped again."
    if summary.misses:
        shapes = count_text(len(summary.misses), "shape")
        yield (
            f"{shapes} met no warmed bucket while serving; each costs a compilation the first "
            "time."
        )


def _time(summary: RunSummary) -> Iterator[str]:
    times = summary.time
    wall, unlogged = times.wall_s, times.unlogged_s
    if wall and wall >= SHORTEST_S and unlogged and unlogged > 0.1 * wall:
        yield (
            f"{format_duration(unlogged)} of {format_duration(wall)} "
            f"({format_percent(100 * unlogged / wall)}) is unlogged time: no line explains it."
        )


def _sampler(summary: RunSummary) -> Iterator[str]:
    defrag = summary.defrag
    if defrag is not None and defrag.status == "skipped":
        yield f"The defragmenter warm-up was skipped: {defrag.reason or 'no reason given'}."
    if summary.status == "skipped":
        if is_bucketing_off(summary.config):
            yield "Bucketing is off, so nothing was warmed up: every new shape compiles."
        else:
            yield "Warm-up was skipped: every bucket compiles when it is first needed."
    elif reason := _without_buckets(summary):
        yield (
            f"No bucket was warmed up{reason}: every bucket compiles when it is first "
            "needed."
        )


def _without_buckets(summary: RunSummary) -> str:
    """Why vllm-gaudi ran no bucket; empty where it may have run some.

    It is eager, or since v0.17 its model is one for pooling (`hpu_model_runner.py`,
    `warmup_model`): its warm-up is over at once then, and reports no graphs.
    """
    made = [part for part in (summary.buckets or {}).values() if part.generated]
    is_gaudi = summary.engine.name == "vllm-gaudi" and summary.status == "finished"
    if not is_gaudi or not made or any(part.warmed is not None for part in made):
        return ""
    if str(summary.config.get("enforce_eager")) == "True":
        return " with enforce_eager"
    is_reported = any(part.captured_reported is not None for part in made)
    if summary.time.warmup_s == 0 and not is_reported:
        return ", and the warm-up took no time"
    return ""


_TOPICS = {
    "setting_ignored": "A setting has no effect here",
    "setting_unknown": "vLLM itself has no such variable",
    "capped": "A fallback bucket was capped",
    "no_buckets": "Buckets could not be made",
    "keep_alive": "Processes waited for a long step",
    "elided": "This log is not whole",
    "mixed": "A figure may be of another engine",
}


_WITH_KERNELS = ("cuda", "rocm", "cpu")
"""Devices for which vLLM has kernels of its own (`setup.py`, `platforms/xpu.py`): a TPU and the
devices of plugins have none."""


def _notes(summary: RunSummary) -> Iterator[str]:
    for note in summary.notes:
        title = _TOPICS.get(note.topic)
        if note.topic == "frontend_warmup" and "warmup failed" in note.text:
            title = "The first such request takes longer"
        has_kernels = summary.device.kind in (None, *_WITH_KERNELS)
        if (
            note.topic == "kernels_missing"
            and has_kernels
            and summary.status == "failed"
        ):
            title = "The compiled kernels of vLLM are missing"  # others go on without
        if title is not None:
            times = f" ({note.count} times)" if note.count > 1 else ""
            yield f"{title}: {note.text}{times}."


RECORD = "`warmup-insights vllm serve ...`"
_DEVELOPER = "VLLM_DEVELOPER_MODE"


def lacks(summary: RunSummary) -> list[str]:
    """A sentence for each kind of figure that a log of a finished start lacks.

    Sources of the switches: vllm-gaudi `v1/worker/hpu_model_runner.py`,
    `log_warmup` (only in developer mode); vLLM `v1/worker/gpu_worker.py`,
    `determine_available_memory` (the division of memory at DEBUG).
    """
    if not summary.is_log or summary.status != "finished":
        return []
    if summary.engine.name in ("vllm-gaudi", "vllm-fork"):
        return list(_untimed_buckets(summary))
    if summary.engine.name == "vllm":
        return [*_unmeasured_memory(summary), *_untimed_graphs(summary)]
    return []


def _untimed_buckets(summary: RunSummary) -> Iterator[str]:
    if _without_buckets(summary):
        return
    phases = [name for name in PHASES if summary.phase(name).generated]
    without = [name for name in phases if summary.phase(name).steps_s is None]
    if without:
        is_off = not is_true(summary.config, _DEVELOPER)
        has_switch = has_setting(summary, _DEVELOPER) and is_off
        switch = f"{_DEVELOPER}=true logs" if has_switch else ""
        by = f"{switch} the buckets as they run, and " if switch else ""
        yield (
            f"The time of each {' and '.join(without)} bucket: {by}{RECORD} records all"
        )
    without = [name for name in phases if summary.phase(name).captured is None]
    if without:
        named = "" if without == phases else f"{' and '.join(without)} "
        yield f"Which {named}buckets have a graph: {RECORD} counts the captures"


def _unmeasured_memory(summary: RunSummary) -> Iterator[str]:
    """Only the workers of GPUs log it (vLLM `v1/worker/gpu_worker.py`)."""
    memory, device = summary.memory_or_none, summary.device.kind
    is_stated = memory.kv_cache_bytes is not None and memory.profile_bytes is None
    if is_stated and device in (None, *GPUS):
        yield (
            "What weights, activations and graphs take of the device: "
            "VLLM_LOGGING_LEVEL=DEBUG logs what the profiling run measured"
        )


def _untimed_graphs(summary: RunSummary) -> Iterator[str]:
    graphs = summary.graphs
    if graphs is None or not graphs.captured or graphs.captures:
        return
    if not any(bar.states for bar in graphs.bars):
        yield f"The time of each graph size: {RECORD} records it"
