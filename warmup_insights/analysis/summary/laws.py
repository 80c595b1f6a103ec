"""What no run can violate. A summary that does holds evidence that contradicts itself.

Each law gives the figures concerned and both sides of the evidence; nothing is built on
such a figure. A law gives nothing where one of its figures is unknown.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import combinations

from warmup_insights.analysis.summary.memory import divides_total
from warmup_insights.analysis.summary.rank_time import Span
from warmup_insights.model.figures import resolution
from warmup_insights.model.summary import (
    PHASES,
    BucketRow,
    Contradiction,
    RunSummary,
)
from warmup_insights.units import format_bytes, format_duration, parse_isoformat

SHARE = 0.01
"""Of the larger side; a difference below it is rounding."""
INITIALISATION = (
    "encoder_profile", "profile_run", "graph_memory_profile", "kv_cache",
    "kv_offload",
    "prompt_warmup", "decode_warmup", "model_warmup", "graph_capture",
)  # fmt: skip
"""Phases between the beginning and the end of `init engine (profile, create kv cache,
warmup model)`, vllm/v1/engine/core.py (_initialize_kv_caches)."""


@dataclass(frozen=True)
class _Run:
    """A summary with what the laws need beside it."""

    summary: RunSummary
    rows: Sequence[BucketRow]
    stated: Sequence[Span]

    def line(self, figure: str) -> str:
        """Where a figure is stated, for a sentence."""
        line = self.summary.lines.get(figure)
        return "" if line is None else f" (line {line})"

    def exceeds_s(self, first: float, second: float) -> bool:
        """Whether a time is above another by more than both could be rounded."""
        step = resolution(self.summary, first, "s") + resolution(
            self.summary, second, "s"
        )
        return first - second > step + SHARE * abs(second)


Law = Callable[[_Run], Iterable[Contradiction]]


def contradictions(
    summary: RunSummary, rows: Sequence[BucketRow], stated: Sequence[Span]
) -> list[Contradiction]:
    """The laws that the summary breaks. `stated` are phases with both ends marked."""
    run = _Run(summary, rows, stated)
    return [broken for law in LAWS for broken in law(run)]


def memory_fits_the_device(run: _Run) -> Iterator[Contradiction]:
    """The parts of the memory budget are not larger than what they are parts of.

    That is the device, and on CUDA the share of it that the engine allows itself,
    unless the size of the KV cache was given (`--kv-cache-memory-bytes`).
    """
    memory = run.summary.memory_or_none
    if not memory.total_bytes:
        return
    whole, total = "total_bytes", memory.total_bytes
    names = ["weights_bytes", "profile_bytes", "kv_cache_bytes"]
    is_given = bool(run.summary.config.get("kv_cache_memory_bytes"))
    if divides_total(memory) and memory.usable_bytes and not is_given:
        whole, total = "usable_bytes", memory.usable_bytes
        names.append("non_torch_bytes")
    if memory.graph_reserved_bytes is not None:
        names.append("graph_reserved_bytes")
    sizes = {name: getattr(memory, name) for name in names}
    known = {name: size for name, size in sizes.items() if size}
    if sum(known.values()) > total * (1 + SHARE):
        yield _broken(
            run, "the parts of the memory budget fit into what is divided",
            *((f"memory.{name}", format_bytes(size))
              for name, size in ((whole, total), *known.items())),
        )  # fmt: skip


def memory_levels_fall(run: _Run) -> Iterator[Contradiction]:
    """Usable memory is not above what it is a share of, nor the cache above usable."""
    memory = run.summary.memory_or_none
    pairs = (
        ("free_bytes", "total_bytes"), ("usable_bytes", "total_bytes"),
        ("weights_bytes", "total_bytes"), ("kv_cache_bytes", "usable_bytes"),
        ("graph_reserved_bytes", "usable_bytes"),
    )  # fmt: skip
    for small, large in pairs:
        first, second = getattr(memory, small), getattr(memory, large)
        if first is None or second is None or first <= second * (1 + SHARE):
            continue
        yield _broken(
            run, f"{_words(small)} is not more than {_words(large)}",
            (f"memory.{small}", format_bytes(first)),
            (f"memory.{large}", format_bytes(second)),
        )  # fmt: skip


def cache_keeps_its_budget(run: _Run) -> Iterator[Contradiction]:
    """What was allocated for the KV cache is its budget and a padding block at most,
    unless the number of its blocks was overridden."""
    memory = run.summary.memory_or_none
    if run.summary.fixed_blocks is not None:
        return
    budget, taken = memory.kv_cache_bytes, memory.kv_cache_allocated_bytes
    if not memory.num_kv_blocks or taken is None or budget is None or budget <= 0:
        return
    step = resolution(run.summary, budget, "bytes")
    if taken > budget + 2 * (memory.block_bytes or 0) + step + SHARE * budget:
        yield _broken(
            run, "the KV cache is not larger than its budget and one padding block",
            ("memory.kv_cache_allocated_bytes", format_bytes(taken)),
            ("memory.kv_cache_bytes", format_bytes(budget)),
        )  # fmt: skip


def blocks_fill_the_cache(run: _Run) -> Iterator[Contradiction]:
    """What was allocated for the KV cache is its blocks and a padding block."""
    memory = run.summary.memory_or_none
    blocks, size = memory.num_kv_blocks, memory.block_bytes
    taken = memory.kv_cache_allocated_bytes
    if not blocks or not size or not taken:
        return
    slack = 2 * size + resolution(run.summary, taken, "bytes") + SHARE * taken
    if abs(taken - blocks * size) <= slack:
        return
    yield Contradiction(
        law="what was allocated for the KV cache is its blocks",
        figures=["block_bytes"],
        evidence=[
            f"allocated: {format_bytes(taken)}"
            f"{run.line('memory.kv_cache_allocated_bytes')}",
            f"{blocks} blocks of {format_bytes(size)}{run.line('memory.num_kv_blocks')}",
        ],
    )


def counts_fall(run: _Run) -> Iterator[Contradiction]:
    """Captured graphs are not more than warmed buckets, nor these than generated ones."""
    for phase in PHASES:
        part = run.summary.phase(phase)
        chain = [
            (name, count)
            for name, count in (
                ("captured", part.captured), ("warmed", part.warmed),
                ("generated", part.generated),
            )
            if count is not None
        ]  # fmt: skip
        for (small, first), (large, second) in combinations(chain, 2):
            if first > second:
                yield Contradiction(
                    law=f"{small} {phase} buckets are not more than {large} ones",
                    figures=[f"{phase}_{small}", f"{phase}_{large}"],
                    evidence=[f"{small}: {first}", f"{large}: {second}"],
                )


def steps_fit_the_warmup(run: _Run) -> Iterator[Contradiction]:
    """The steps of a rank do not take longer than its warm-up."""
    warmup_s = run.summary.time.warmup_s
    timed = [(row, row.duration_s) for row in run.rows if row.duration_s is not None]
    if warmup_s is None or not timed:
        return
    spent = sum(seconds for _, seconds in timed)
    doubt = resolution(run.summary, warmup_s, "s") + sum(
        max(row.resolution_s or 0.0, resolution(run.summary, seconds, "s") / 2)
        for row, seconds in timed
    )
    if spent - doubt <= warmup_s * (1 + SHARE):
        return
    phases = sorted({row.phase for row, _ in timed})
    yield Contradiction(
        law="the steps of a rank do not take longer than its warm-up",
        figures=["warmup_s", *(f"{phase}_steps_s" for phase in phases)],
        evidence=[
            f"{len(timed)} buckets in {format_duration(spent)}",
            f"warm-up: {format_duration(warmup_s)}{run.line('time.warmup_s')}",
        ],
    )


def stated_times_fit_the_clock(run: _Run) -> Iterator[Contradiction]:
    """What the engine states it took is not longer than the start-up on the clock."""
    times = run.summary.time
    wall = times.wall_s
    if wall is None or wall <= 0 or times.ready_at is None:
        return  # without ready the clock covers an excerpt of the start-up
    for name, value in (
        ("warmup_s", times.warmup_s), ("engine_init_s", times.engine_init_s),
    ):  # fmt: skip
        if value is not None and run.exceeds_s(value, wall + 1.0):
            yield _broken(
                run, f"{_words(name)} is not longer than the start-up",
                (f"time.{name}", format_duration(value)),
                ("time.wall_s", format_duration(wall)),
            )  # fmt: skip


def phases_fit_the_initialisation(run: _Run) -> Iterator[Contradiction]:
    """What is part of `init engine ... took` does not take longer than it states. Of several
    engines the one that states it may be another than that of the first rank."""
    has_several = (run.summary.setting("data_parallel_size") or 1) > 1
    whole = None if has_several else run.summary.time.engine_init_s
    seconds = run.summary.time.seconds_by_phase()
    parts = {name: seconds[name] for name in INITIALISATION if name in seconds}
    # A stretch between two lines of whole seconds is up to one too long.
    if whole is None or not run.exceeds_s(sum(parts.values()), whole + 1.0):
        return
    took = [f"{_words(name)} {format_duration(s)}" for name, s in parts.items()]
    yield Contradiction(
        law="phases of the engine's initialisation are not longer than it",
        figures=["engine_init_s", *(f"phase:{name}" for name in parts)],
        evidence=[
            f"engine init: {format_duration(whole)}{run.line('time.engine_init_s')}",
            ", ".join(took),
        ],
    )


def phases_add_up(run: _Run) -> Iterator[Contradiction]:
    """Phases and unlogged time are the start-up, exactly."""
    times = run.summary.time
    if times.residual_s is not None and abs(times.residual_s) > 1e-3:
        explained = sum(phase.duration_s for phase in times.phases)
        yield Contradiction(
            law="phases and unlogged time add up to the start-up",
            figures=["wall_s", "unlogged_s"],
            evidence=[
                f"start-up: {format_duration(times.wall_s)}",
                f"phases: {format_duration(explained)}, unlogged: "
                f"{format_duration(times.unlogged_s)}",
            ],
        )


def phases_nest(run: _Run) -> Iterator[Contradiction]:
    """Phases of one rank do not overlap unless one lies inside the other."""
    for first, second in combinations(run.stated, 2):
        low, high = sorted((first, second), key=lambda span: (span.start, -span.end))
        overlap = low.end - high.start
        slack = 1.0 if run.summary.is_log else 0.01
        if overlap <= slack or high.end <= low.end + slack:
            continue
        if high.start - low.start <= slack:
            continue
        yield Contradiction(
            law="phases of one rank follow each other or nest",
            figures=[f"phase:{low.name}", f"phase:{high.name}"],
            evidence=[
                f"{low.name} ends {format_duration(overlap)} after {high.name} begins",
                f"{high.name} ends {format_duration(high.end - low.end)} after {low.name}",
            ],
        )


def serving_follows_ready(run: _Run) -> Iterator[Contradiction]:
    """Nothing that happened before ready counts as serving; in a log, whose timestamps are
    of several processes and whole seconds, by more than a second."""
    serving = run.summary.serving_or_none
    ready, ended = (
        parse_isoformat(text) for text in (serving.ready_at, serving.ended_at)
    )
    slack = 1.0 if run.summary.is_log else 0.01
    if ready is not None and ended is not None and ready - ended > slack:
        line = None if serving.end is None else serving.end.line
        yield Contradiction(
            law="serving does not end before the server is ready",
            figures=["ready_s"],
            evidence=[
                f"ready at {serving.ready_at}",
                f"ended at {serving.ended_at}"
                + ("" if line is None else f" (line {line})"),
            ],
        )


LAWS: tuple[Law, ...] = (
    memory_fits_the_device, memory_levels_fall, cache_keeps_its_budget,
    blocks_fill_the_cache, counts_fall,
    steps_fit_the_warmup, stated_times_fit_the_clock, phases_fit_the_initialisation,
    phases_add_up, phases_nest, serving_follows_ready,
)  # fmt: skip
"""Every law, in the order in which contradictions are shown."""


def _broken(run: _Run, law: str, *sides: tuple[str, str]) -> Contradiction:
    """A contradiction of figures: section and name, and the text of each."""
    named = [(path, path.partition(".")[2], text) for path, text in sides]
    return Contradiction(
        law=law,
        figures=[name for _, name, _ in named],
        evidence=[
            f"{_words(name)}: {text}{run.line(path)}" for path, name, text in named
        ],
    )


def _words(name: str) -> str:
    for ending in ("_bytes", "_s"):
        name = name.removesuffix(ending)
    return name.replace("_", " ")
