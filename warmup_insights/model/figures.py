"""The figures of a run summary by name: unit, which way is better, how to read them.

Command line, dashboard, comparisons, checks, sweeps, exports and the columns of the
store all use this one table, so that a figure has one name, one value and one text
everywhere. A figure that is unknown for a run is None.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, Literal

from warmup_insights.model.phases import phase_words
from warmup_insights.model.summary import Contradiction, MemoryPart, RunSummary
from warmup_insights.units import (
    GIB,
    KIB,
    MIB,
    TIB,
    format_bytes,
    format_count,
    format_duration,
    format_percent,
    is_of_hundredths,
    round_to,
)  # fmt: skip

Unit = Literal["s", "bytes", "count", "percent", "number"]
Better = Literal["lower", "higher"]
Read = Callable[[RunSummary], float | None]

CLOCK_STEP_S = 1e-4
"""Recorded times that differ by less are the same time."""


@dataclass(frozen=True)
class Figure:
    """One number of a summary.

    `better` is None where neither direction is an improvement. `per_device` is true
    when the number depends on the device as well, so that it cannot be judged
    between devices; `per_rank` when it is one rank's share of a model.
    """

    name: str
    title: str
    unit: Unit
    group: str
    better: Better | None
    source: str | Read = ""
    """Where the summary has it, with dots, or what makes it of the summary; empty where it
    has its own name in the section of its group."""
    per_device: bool = False
    per_rank: bool = False

    @property
    def key(self) -> str:
        """Its name among all figures: that of a phase of the start-up has a prefix."""
        return f"phase:{self.name}" if self.group == "phases" else self.name

    def read(self, summary: RunSummary) -> float | None:
        """The value; None where it is unknown."""
        if not isinstance(self.source, str):
            return self.source(summary)
        value: Any = summary
        for name in (self.source or f"{self.group}.{self.name}").split("."):
            if isinstance(value, dict):
                value = value.get(name)
            elif value is not None:
                value = getattr(value, name)
        return number(value)

    def trusted(self, summary: RunSummary) -> float | None:
        """The value; None where the evidence for it contradicts itself."""
        return None if self.key in contradictory(summary) else self.read(summary)

    def step(self, summary: RunSummary) -> float:
        """The step between two neighbouring values that this run could have stated: of a
        figure that is made of sizes, that of the coarsest of them."""
        value = self.read(summary)
        if value is None:
            return 0.0
        if self.name == "graph_unused_blocks":
            size = summary.memory_or_none.block_bytes or 1
            return BY_NAME["graph_unused_bytes"].step(summary) / size
        if self.name == "block_bytes":
            low, high = summary.memory_or_none.block_bytes_range or (value, value)
            return high - low
        steps = [resolution(summary, value, self.unit)]
        steps += [part.step(summary) for part in self._parts(summary)]
        return max(steps)

    def doubt(self, summary: RunSummary) -> float:
        """How far rounding can have moved the value: half a step, of a sum half a step of
        each of its parts."""
        if self.name == "graph_unused_blocks":
            size = summary.memory_or_none.block_bytes or 1
            return BY_NAME["graph_unused_bytes"].doubt(summary) / size
        parts = [part.doubt(summary) for part in self._parts(summary)]
        return sum(parts) if parts else self.step(summary) / 2

    def _parts(self, summary: RunSummary) -> list[Figure]:
        """The sizes that a sum or difference of sizes is made of; none of other figures, and
        of a sum that is stated by itself."""
        is_of_free = summary.memory_or_none.free_bytes is not None
        whole = "total_bytes" if is_of_free else "free_bytes"  # not in the margin
        parts = [
            BY_NAME[part]
            for part in (MADE_OF[self.name] if self.name in _SUMS else ())
            if (self.name, part) != ("margin_bytes", whole)
        ]
        return parts if any(part.read(summary) is not None for part in parts) else []

    def text(self, summary: RunSummary) -> str:
        """The value for people, with the digits that it has, marked where its evidence
        contradicts itself."""
        text = format_figure(self.read(summary), self.unit, self.step(summary))
        return text + contradiction_mark(summary, self.key)


def contradictory(summary: RunSummary) -> frozenset[str]:
    """Keys of the figures whose evidence contradicts itself, or whose parts' does."""
    return _with_made(
        name for broken in summary.contradictions for name in broken.figures
    )


def contradiction_mark(summary: RunSummary, key: str) -> str:
    """What stands behind the figure; empty unless its evidence contradicts itself."""
    return " (contradictory)" if key in contradictory(summary) else ""


def broken_laws(summary: RunSummary, figure: str) -> list[Contradiction]:
    """The contradictions that concern a figure or what it is made of."""
    return [
        broken
        for broken in summary.contradictions
        if figure in _with_made(broken.figures)
    ]


def _with_made(names: Iterable[str]) -> frozenset[str]:
    """Figures and all that are made of them."""
    found = set(names)
    for name, parts in MADE_OF.items():
        if not found.isdisjoint(parts):
            found.add(name)
    return frozenset(found)


MADE_OF = {
    "block_bytes": ("kv_cache_bytes", "kv_cache_allocated_bytes", "num_kv_blocks"),
    "kv_cache_tokens": ("num_kv_blocks",),
    "max_concurrency": ("kv_cache_tokens",),
    "at_start_bytes": ("total_bytes", "free_bytes"),
    "margin_bytes": ("total_bytes", "free_bytes", "usable_bytes"),
    "other_bytes": ("total_bytes", "weights_bytes", "profile_bytes", "kv_cache_bytes",
                    "graph_reserved_bytes", "margin_bytes"),
    "graph_memory_bytes": ("prompt_graph_used_bytes", "decode_graph_used_bytes"),
    "graph_unused_bytes": ("graph_reserved_bytes", "graph_memory_bytes"),
    "graph_unused_blocks": ("graph_unused_bytes", "block_bytes"),
    "prompt_capture_percent": ("prompt_captured", "prompt_generated"),
    "decode_capture_percent": ("decode_captured", "decode_generated"),
    "captured_percent": ("prompt_capture_percent", "decode_capture_percent"),
}  # fmt: skip
"""Figures to those that they are made of, which come before them."""
_SUMS = (
    "at_start_bytes", "margin_bytes", "other_bytes", "graph_memory_bytes",
    "graph_unused_bytes",
)  # fmt: skip
"""Those of them that are sums and differences of sizes."""


def number(value: Any) -> float | None:
    """A finite number as it is; None for everything else."""
    if isinstance(value, bool) or not isinstance(value, int | float):
        return None
    return value if math.isfinite(value) else None


def first_known(*values: Any) -> Any:
    """The first that is not None."""
    return next((value for value in values if value is not None), None)


def sum_known(values: Iterable[Any]) -> Any:
    """The sum of what is known; None when nothing is."""
    known = [value for value in values if value is not None]
    return sum(known) if known else None


def least_known(values: Iterable[Any]) -> Any:
    """The least of what is known; None when nothing is."""
    return min((value for value in values if value is not None), default=None)


def _part_bytes(name: str) -> Read:
    """A part of the memory budget; 0 where it is none and the others add up to the whole."""

    def read(summary: RunSummary) -> float | None:
        parts = summary.memory_or_none.parts
        found = [part.bytes for part in parts if part.name == name]
        is_whole = parts and all(part.name != "other" for part in parts)
        return sum(found) if found or is_whole else None

    return read


def leaves_budget(summary: RunSummary) -> bool:
    """Whether the KV cache takes less than its budget: a setting gives its blocks, or a
    rank with less memory."""
    is_left = any(part.name == "unused" for part in summary.memory_or_none.parts)
    return is_left or summary.fixed_blocks is not None


_OFFLOAD = re.compile(r"cpu_bytes_to_use\W{1,4}(\d{1,18})\b(?!\.)")


def kv_offload_bytes(summary: RunSummary) -> int | None:
    """Host memory that a setting gives the KV cache, of all ranks together (vLLM
    `v1/kv_offload/cpu/spec.py`; GiB in `config/cache.py kv_offloading_size`)."""
    transfer = summary.config.get("kv_transfer_config")
    stated = _OFFLOAD.search(transfer) if isinstance(transfer, str) else None
    if stated is not None:
        return int(stated[1])
    size = number(summary.config.get("kv_offloading_size"))
    return None if size is None else round(size * GIB)


def kv_cache_bytes(summary: RunSummary) -> int | None:
    """The budget of the KV cache, which it fills but for a rest of a block. Where it takes
    less, the bytes of its blocks, or what allocating them took; None where no line states
    either, and where nothing is left on the device of an engine that has tokens elsewhere."""
    memory = summary.memory_or_none
    if (memory.kv_cache_bytes or 0) < 0 and memory.kv_cache_tokens:
        return None
    if not leaves_budget(summary):
        return memory.kv_cache_bytes
    blocks, size = memory.num_kv_blocks, memory.block_bytes
    if blocks is not None and size is not None:
        return blocks * size
    return memory.kv_cache_allocated_bytes or None


def graph_memory_bytes(summary: RunSummary) -> float | None:
    """What graphs took: of both phases together, or of the CUDA graphs.

    None while one of the phases that exist does not state it. CUDA graphs of mixed batches
    are of no phase: where all graphs took more than those of the phases, that counts.
    """
    used = [part.graph_used_bytes for part in (summary.buckets or {}).values()]
    known = [value for value in used if value is not None]
    of_all = None if summary.graphs is None else summary.graphs.memory_bytes
    if used and len(known) == len(used):
        return max(sum(known), of_all or 0)
    return None if known else of_all


def graph_unused_bytes(summary: RunSummary) -> float | None:
    """Reserved for graphs and not taken by them; negative when they took more."""
    reserved = summary.memory_or_none.graph_reserved_bytes
    used = graph_memory_bytes(summary)
    return None if reserved is None or used is None else reserved - used


def unused_blocks(summary: RunSummary) -> float | None:
    """KV blocks that fit into what was reserved for graphs and not taken by them."""
    unused, size = graph_unused_bytes(summary), summary.memory_or_none.block_bytes
    return None if unused is None or not size else int(unused / size)


def captured_percent(summary: RunSummary) -> float | None:
    """Share of the generated buckets with a graph; None if it is unknown for a phase.

    CUDA graphs are captured for a list of sizes, all of it or the start fails: the bars of a
    log state how long it is, and without any the graphs of a capture that ended.
    """
    parts = list((summary.buckets or {}).values())
    if all(part.generated is None for part in parts):
        graphs = summary.graphs
        if graphs is None or graphs.captured is None:
            return None
        if not graphs.bars:
            is_over = bool(graphs.captures) and graphs.duration_s is not None
            return 100.0 if is_over else None
        total = sum(bar.total for bar in graphs.bars)
        captured = sum(bar.captured for bar in graphs.bars)
        return 100.0 * captured / total if total else None
    known = [
        (part.captured, part.generated)
        for part in parts
        if part.captured is not None and part.generated is not None
    ]
    total = sum(generated for _, generated in known)
    if len(known) < len(parts) or not total:
        return None
    return 100.0 * sum(captured for captured, _ in known) / total


def num_misses(summary: RunSummary, phase: str | None = None) -> float | None:
    """Distinct shapes that no bucket covered, of all phases or of one.

    An engine without buckets has none to miss, and a log that ends before the server was
    ready cannot have misses: none is not zero.
    """
    count = sum(1 for miss in summary.misses if phase in (None, miss.phase))
    if summary.misses:
        return count
    return 0 if summary.buckets and summary.time.ready_at is not None else None


def _lazy_s(summary: RunSummary) -> float | None:
    lazy = summary.graphs.lazy if summary.graphs is not None else []
    seconds: float | None = sum_known(row.duration_s for row in lazy)
    return seconds


_COMPILE_MONITORS = ("jit_monitor", "bridge_monitor")


def _lazy_captures(summary: RunSummary) -> int | None:
    """Graphs that were captured while the engine served; null where it did not."""
    graphs = summary.graphs
    if graphs is None or (summary.serving is None and not graphs.lazy):
        return None
    return len(graphs.lazy)


def _runtime_compiles(summary: RunSummary) -> float | None:
    """Kernels and recipes compiled while serving; none is zero only where something looks
    for them (vLLM's monitor, since 0.26; the plugin on Gaudi)."""
    found = summary.serving.jit if summary.serving is not None else []
    is_watched = any(note.topic in _COMPILE_MONITORS for note in summary.notes)
    return len(found) if found or (is_watched and summary.serving is not None) else None


def _graph_steps_percent(summary: RunSummary) -> float | None:
    """Share of the steps while serving that ran in a CUDA graph, of those counted."""
    uses = summary.serving.graph_uses if summary.serving is not None else []
    total = sum(use.count for use in uses)
    in_graphs = sum(use.count for use in uses if use.mode != "NONE")
    return 100.0 * in_graphs / total if total else None


def _graph_padding_percent(summary: RunSummary) -> float | None:
    """Share of padding in the tokens that ran in CUDA graphs while serving."""
    uses = summary.serving.graph_uses if summary.serving is not None else []
    padded = sum(use.count * use.padded_tokens for use in uses if use.mode != "NONE")
    needed = sum(use.count * use.num_tokens for use in uses if use.mode != "NONE")
    return 100.0 * (padded - needed) / padded if padded else None


def _gc_percent(summary: RunSummary) -> float | None:
    share = None if summary.gc is None else summary.gc.share
    return None if share is None else 100.0 * share


def _phase_figures(phase: str) -> tuple[Figure, ...]:
    def figure(
        key: str, title: str, unit: Unit, better: Better | None, **more: bool
    ) -> Figure:
        name, source = f"{phase}_{key}", f"buckets.{phase}.{key}"
        return Figure(name, f"{phase} {title}", unit, "buckets", better, source, **more)

    return (
        figure("generated", "buckets generated", "count", None),
        figure("omitted", "buckets omitted", "count", None),
        figure("warmed", "buckets warmed", "count", None),
        figure("captured", "graphs captured", "count", None),
        figure("captured_reported", "graphs captured, as reported", "count", None),
        figure("capture_percent", "share captured", "percent", "higher"),
        figure("graph_budget_bytes", "graph budget", "bytes", None, per_device=True),
        figure(
            "graph_used_bytes", "graph memory", "bytes", "lower",
            per_device=True, per_rank=True,
        ),
        Figure(
            f"{phase}_missed", f"{phase} bucket misses", "count", "buckets", "lower",
            lambda summary: num_misses(summary, phase),
        ),
        figure("steps_s", "steps and captures", "s", "lower", per_device=True),
        figure("gc_s", "garbage collection", "s", "lower", per_device=True),
        figure("compiled", "compilations in steps", "count", None),
        figure("reused", "buckets that compiled nothing", "count", None),
    )  # fmt: skip


_time = partial(Figure, unit="s", group="time", better="lower", per_device=True)
_memory = partial(Figure, unit="bytes", group="memory", per_device=True, per_rank=True)


def _pod_s(begin: str, end: str) -> Read:
    """Seconds between two moments of the pod's start; None where one is unknown or they
    are in another order."""

    def read(summary: RunSummary) -> float | None:
        if summary.pod is None:
            return None
        first, last = getattr(summary.pod, begin), getattr(summary.pod, end)
        known = first is not None and last is not None and last >= first
        return last - first if known else None

    return read


def _before_first_line(summary: RunSummary) -> float | None:
    """From the start of the container to the first line; None where the zone of the log
    is unknown, for the pod's times are UTC."""
    started = summary.pod.container_started_at if summary.pod is not None else None
    first = summary.time.started
    if started is None or first is None or summary.time.timezone is None:
        return None
    return first - started if first >= started else None


FIGURES: tuple[Figure, ...] = (
    _time("ready_s", "time to ready"),
    _time("pod_scheduled_s", "pod created to scheduled",
          source=_pod_s("created_at", "scheduled_at")),
    _time("pod_pull_s", "pulling images", source="pod.pull_s"),
    _time("pod_started_s", "pod created to container started",
          source=_pod_s("created_at", "container_started_at")),
    _time("before_first_line_s", "container started to first line",
          source=_before_first_line),
    _time("pod_ready_s", "container started to ready for traffic",
          source=_pod_s("container_started_at", "ready_at")),
    _time("wall_s", "start-up, first to last line"),
    _time("engine_init_s", "engine initialisation"),
    _time("compile_s", "compilation", source="compile.seconds"),
    _time("recipe_s", "compiling recipes", source="recipes.seconds"),
    _time("warmup_s", "warm-up"),
    _time("graph_capture_s", "graph capture", source="graphs.duration_s"),
    _time("sampler_s", "sampler warm-up", source="sampler.duration_s"),
    _time("defrag_s", "defragmenter warm-up", source="defrag.duration_s"),
    _time("gc_s", "garbage collection in steps", source="gc.seconds"),
    _time("gc_warmup_s", "garbage collection in warm-up", source="gc.warmup_s"),
    _time("gc_freeze_s", "freezing the collector", source="gc.freeze_s"),
    _time("unlogged_s", "unlogged time"),
    _time("lazy_s", "captures while serving, time", source=_lazy_s),
    # In times after ready the clients have a part: neither way is better.
    _time("first_response_s", "ready to first response", better=None,
          source="serving.first_response_s"),
    _time("first_tokens_s", "ready to first tokens, at most", better=None,
          source="serving.first_tokens_s"),
    _time("first_request_s", "first request, arrival to end", better=None,
          source="serving.first_request_s"),
    _memory("total_bytes", "device memory", better=None, per_rank=False),
    _memory("weights_bytes", "weights", better="lower"),
    _memory("host_weights_bytes", "weights in host memory", better=None),
    _memory("profile_bytes", "profiling run", better="lower"),
    _memory("non_torch_bytes", "outside of PyTorch", better="lower"),
    _memory("free_bytes", "free before the division", better="higher"),
    _memory("usable_bytes", "usable", better=None),
    _memory("at_start_bytes", "in use at the start", better="lower"),
    _memory("margin_bytes", "margin", better=None, source=_part_bytes("margin")),
    _memory("graph_reserved_bytes", "reserved for graphs", better=None),
    _memory("graph_memory_bytes", "taken by graphs", better="lower",
            source=graph_memory_bytes),
    _memory("graph_unused_bytes", "reserved for graphs, unused", better=None,
            source=graph_unused_bytes),
    _memory("kv_cache_bytes", "KV cache", better="higher", source=kv_cache_bytes),
    _memory("kv_offload_bytes", "host memory for the KV cache, all ranks", better=None,
            source=kv_offload_bytes, per_rank=False),
    _memory("kv_cache_allocated_bytes", "KV cache, as allocated", better=None),
    _memory("warmup_allocated_bytes", "taken by warm-up", better="lower"),
    _memory("other_bytes", "not accounted for", better="lower",
            source=_part_bytes("other")),
    _memory("graph_estimated_bytes", "graphs, as estimated", better=None,
            source="graphs.estimated_bytes"),
    Figure(
        "num_kv_blocks", "KV blocks", "count", "capacity", "higher",
        "memory.num_kv_blocks", per_device=True, per_rank=True,
    ),
    Figure(
        "block_bytes", "bytes of a KV block", "bytes", "capacity", None,
        "memory.block_bytes", per_device=True, per_rank=True,
    ),
    Figure(
        "graph_unused_blocks", "KV blocks in the unused reserve", "count", "capacity",
        None, unused_blocks, per_device=True, per_rank=True,
    ),
    Figure(
        "kv_cache_tokens", "KV cache tokens", "count", "capacity", "higher",
        "memory.kv_cache_tokens", per_device=True,
    ),
    Figure(
        "max_concurrency", "requests at full length", "number", "capacity", "higher",
        "memory.max_concurrency", per_device=True,
    ),
    Figure(
        "captured_percent", "share of buckets or sizes with a graph", "percent", "buckets",
        "higher", captured_percent,
    ),
    Figure(
        "recipes", "recipes compiled before ready", "count", "buckets", None,
        "recipes.count",
    ),
    *_phase_figures("prompt"),
    *_phase_figures("decode"),
    Figure(
        "graphs_captured", "graphs captured", "count", "buckets", None,
        "graphs.captured",
    ),
    Figure(
        "lazy_captures", "captures while serving", "count", "buckets", "lower",
        _lazy_captures,
    ),
    Figure(
        "runtime_compiles", "compilations while serving", "count", "buckets", "lower",
        _runtime_compiles,
    ),
    Figure("graph_steps_percent", "steps in CUDA graphs while serving", "percent",
           "buckets", None, _graph_steps_percent),
    Figure("graph_padding_percent", "padding in CUDA graphs while serving", "percent",
           "buckets", None, _graph_padding_percent),
    Figure("misses", "bucket misses", "count", "buckets", "lower", num_misses),
    Figure("gc_percent", "collector's share of steps", "percent", "buckets", "lower",
           _gc_percent),
)  # fmt: skip
"""Every figure, in the order in which tables show them."""

BY_NAME: dict[str, Figure] = {figure.name: figure for figure in FIGURES}


PART_FIGURES = {
    "weights": "weights_bytes", "profiling": "profile_bytes",
    "non_torch": "non_torch_bytes", "at_start": "at_start_bytes", "margin": "margin_bytes",
    "graphs": "graph_reserved_bytes", "unused": "kv_cache_bytes",
    "kv_cache": "kv_cache_bytes", "other": "other_bytes",
}  # fmt: skip
"""Part of the memory budget to the figure that holds it."""


def part_text(summary: RunSummary, part: MemoryPart) -> str:
    """The size of a part of the memory budget, with the digits and the mark of its figure."""
    name = PART_FIGURES[part.name]
    memory = summary.memory_or_none
    if part.name == "graphs" and memory.graph_reserved_bytes is None:
        name = "graph_estimated_bytes"
    if part.name == "kv_cache" and part.bytes == memory.kv_cache_allocated_bytes:
        name = "kv_cache_allocated_bytes"
    step = BY_NAME[name].step(summary) if name in _SUMS else 0.0
    return format_bytes(part.bytes, step) + contradiction_mark(summary, name)


def text_of(summary: RunSummary, name: str) -> str:
    """A figure of the table as text."""
    return BY_NAME[name].text(summary)


def phase_figures(summaries: Sequence[RunSummary]) -> list[Figure]:
    """One figure per phase of the start-up that any of the runs has."""
    names = dict.fromkeys(n for s in summaries for n in s.time.seconds_by_phase())
    return [phase_figure(name) for name in names]


def phase_figure(phase: str) -> Figure:
    """The seconds of one phase of the start-up."""
    return Figure(
        phase, phase_words(phase), "s", "phases", "lower",
        lambda summary: summary.time.seconds_by_phase().get(phase), per_device=True,
    )  # fmt: skip


def serving_figures(summaries: Sequence[RunSummary]) -> list[Figure]:
    """One figure per number that a benchmark of any run gives.

    The first result of one run stands against the first of the other, and so on. Keys
    are those of `vllm bench serve --save-result`; `..._throughput` is better higher,
    `..._ms` better lower, anything else has no direction.
    """
    count = max((len(summary.benchmarks) for summary in summaries), default=0)
    figures = []
    for index in range(count):
        keys = dict.fromkeys(
            key
            for summary in summaries
            for key, value in _result(summary, index).items()
            if number(value) is not None
        )
        figures += [_serving_figure(key, index, count) for key in keys]
    return figures


_RESULT_UNITS = {
    "duration": "s", "request_throughput": "requests/s", "request_goodput": "requests/s",
    "output_throughput": "tokens/s", "total_token_throughput": "tokens/s",
}  # fmt: skip
"""Units of keys that do not name theirs (vLLM `benchmarks/serve.py`)."""


def _result_title(key: str) -> str:
    unit = "ms" if key.endswith("_ms") else _RESULT_UNITS.get(key)
    words = key.removesuffix("_ms").replace("_", " ")
    return f"{words} ({unit})" if unit else words


def _serving_figure(key: str, index: int, count: int) -> Figure:
    prefix = f"benchmark {index + 1}: " if count > 1 else ""
    name = f"bench{index + 1}_{key}" if count > 1 else f"bench_{key}"
    better: Better | None = "lower" if key.endswith("_ms") else None
    if key.endswith("throughput") or key == "request_goodput":
        better = "higher"
    return Figure(
        name, f"{prefix}{_result_title(key)}", "number", "serving", better,
        lambda summary: number(_result(summary, index).get(key)), per_device=True,
    )  # fmt: skip


def _result(summary: RunSummary, index: int) -> dict[str, Any]:
    results = summary.benchmarks
    return results[index] if index < len(results) else {}


def all_figures(summaries: Sequence[RunSummary]) -> list[Figure]:
    """The table, then what the benchmarks of these runs give."""
    return [*FIGURES, *serving_figures(summaries)]


def known_figures(summary: RunSummary) -> list[Figure]:
    """Those that a run has."""
    return [one for one in all_figures([summary]) if one.read(summary) is not None]


def format_figure(value: float | None, unit: Unit, step: float = 0.0) -> str:
    """A value for people, `?` for None; sizes and counts have no digit below `step`."""
    if value is None:
        return "?"
    if unit == "bytes":
        return format_bytes(value, step)
    if unit == "s":
        return format_duration(value)
    if unit == "percent":
        return format_percent(value)
    if unit == "count":
        value = round_to(value, step) if step > 1 else value
        return format_count(int(value) if float(value).is_integer() else value)
    return f"{value:,.0f}" if value >= 1000 else f"{value:.4g}"


def resolution(summary: RunSummary, value: float, unit: Unit) -> float:
    """The step between two neighbouring values that this run could have stated.

    Times of logs have whole seconds unless the value itself has a fraction. Recorded
    sizes are exact, recorded times are sums of clock readings.
    """
    if unit == "s":
        return 1.0 if summary.is_log and float(value).is_integer() else CLOCK_STEP_S
    if not summary.is_log or unit != "bytes":
        return 0.0
    return bytes_step(summary.engine.name, value)


def bytes_step(engine: str | None, value: float) -> float:
    """The step of a size in a log of an engine.

    HPU engines print four significant digits (vllm-gaudi `extension/utils.py`,
    `format_bytes`), upstream vLLM GiB with two decimals, or more than four digits,
    tpu-inference two decimals of what all devices have (`worker/tpu_worker.py`).
    """
    if value == 0:
        return 0.0
    if engine == "tpu-inference":
        return 0.01 * GIB
    if engine == "vllm" and is_of_hundredths(value):
        return 0.01 * GIB
    scale = next((s for s in (TIB, GIB, MIB, KIB) if abs(value) > s), 1)
    return float(scale * 10.0 ** (math.floor(math.log10(abs(value) / scale)) - 3))
