"""Two or more runs side by side: what was set differently, and what came of it.

The first run is the baseline; every other one is judged against it. A figure that is
unknown for one of the two is `unknown`, one that cannot be judged between these runs is
`not_comparable` with the reason, and a difference that the rounding of a log can hide is
`same`.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import msgspec

from warmup_insights.analysis.compare.buckets import BucketChange, compare_buckets
from warmup_insights.analysis.compare.causes import (
    GapRow,
    gap_sentence,
    key_change,
    kv_sentence,
    match_gaps,
)
from warmup_insights.analysis.compare.comparability import Comparability
from warmup_insights.errors import InputError
from warmup_insights.model.events import Bucket
from warmup_insights.model.figures import (
    Figure,
    Unit,
    all_figures,
    format_figure,
    num_misses,
    phase_figures,
)
from warmup_insights.model.summary import (
    SCHEMA,
    BucketRow,
    MemoryPart,
    RunSummary,
    Setting,
)

_TRUE = frozenset({"true", "1", "yes", "on", "t", "y"})
_FALSE = frozenset({"false", "0", "no", "off", "f", "n"})


@dataclass(frozen=True)
class SettingRow:
    """A setting and its value in each run; None where the run does not state it."""

    name: str
    values: tuple[Setting, ...]


def compare_settings(
    summaries: Sequence[RunSummary],
) -> tuple[tuple[SettingRow, ...], tuple[SettingRow, ...]]:
    """Settings that differ, and settings that only some runs state.

    A setting differs when two runs state it and mean different values; `0.9` and
    `"0.90"`, `true` and `"1"` mean the same. Engine, version, model, device and ranks
    count as settings.
    """
    facts = [_facts(summary) for summary in summaries]
    names = list(dict.fromkeys(name for fact in facts for name in fact))
    differing, partly = [], []
    for name in names:
        values = tuple(fact.get(name) for fact in facts)
        stated = [value for value in values if value is not None]
        if not stated:
            continue
        if any(not _means_same(stated[0], value) for value in stated[1:]):
            differing.append(SettingRow(name, values))
        elif len(stated) < len(values):
            partly.append(SettingRow(name, values))
    return tuple(differing), tuple(partly)


def _facts(summary: RunSummary) -> dict[str, Setting]:
    identity = {
        "engine": summary.engine.name,
        "engine version": summary.engine.version,
        "model": summary.model,
        "device": summary.device.kind,
        "device name": summary.device.name,
        "ranks": summary.ranks,
        "kind of start": summary.start.words,
        **{f"{name} cache": state for name, state in summary.start.caches.items()},
    }
    # What is stated twice, once by the identity and once by a setting, is shown once.
    config = {k: v for k, v in summary.config.items() if k not in identity}
    return {**config, **identity}


def _means_same(first: Any, second: Any) -> bool:
    if first == second:
        return True
    (kind, value), (other, another) = _meaning(first), _meaning(second)
    if "boolean" in (kind, other) and "text" not in (kind, other):
        return value in (0, 1) and another in (0, 1) and value == another
    return (kind, value) == (other, another)


def _meaning(value: Any) -> tuple[str, Any]:
    if isinstance(value, bool):
        return ("boolean", value)
    if isinstance(value, int | float):
        return ("number", float(value))
    text = str(value).strip()
    try:
        return ("number", float(text))
    except ValueError:
        pass
    lowered = text.lower()
    if lowered in _TRUE or lowered in _FALSE:
        return ("boolean", lowered in _TRUE)
    return ("text", text)


SAME_TIME = 0.0005
"""Of a time: less is printed as 0.0 % and is no difference."""
_ALWAYS_TELLING = ("warmup_s", "captured_percent", "num_kv_blocks", "misses")


@dataclass(frozen=True)
class Change:
    """From the baseline to one run.

    `verdict` is `better`, `worse`, `changed` (no direction is better), `same`,
    `unknown` or `not_comparable`.
    """

    absolute: float | None
    percent: float | None
    verdict: str


@dataclass(frozen=True)
class FigureRow:
    """One figure of all runs; `changes` has one entry per run after the first.

    `steps` are the smallest differences that the runs could have stated; 0 where exact.
    """

    name: str
    title: str
    unit: Unit
    group: str
    better: str | None
    values: tuple[float | None, ...]
    changes: tuple[Change, ...]
    steps: tuple[float, ...]

    @property
    def texts(self) -> list[str]:
        """The values for people."""
        pairs = zip(self.values, self.steps, strict=True)
        return [format_figure(value, self.unit, step) for value, step in pairs]

    @property
    def is_telling(self) -> bool:
        """Whether the row is worth showing where those that did not change are not."""
        if any(change.verdict != "same" for change in self.changes):
            return True
        return self.name in _ALWAYS_TELLING


@dataclass(frozen=True)
class MissRow:
    """A shape without a bucket, and how often each run met it; None is unknown."""

    phase: str
    shape: Bucket
    counts: tuple[int | None, ...]


@dataclass(frozen=True)
class RunHead:
    """What names a run in a comparison."""

    run_id: str
    label: str | None
    source: str | None
    status: str | None
    engine: str | None
    version: str | None
    model: str | None
    device: str | None
    synthetic: bool

    @property
    def title(self) -> str:
        """The label, else the source, else the id."""
        return self.label or self.source or self.run_id


@dataclass(frozen=True)
class Comparison:
    """Everything about two or more runs; `as_dict` is what `--json` prints."""

    runs: tuple[RunHead, ...]
    notes: tuple[str, ...]
    settings: tuple[SettingRow, ...]
    partly_stated: tuple[SettingRow, ...]
    figures: tuple[FigureRow, ...]
    phases: tuple[FigureRow, ...]
    memory: tuple[tuple[MemoryPart, ...], ...]
    buckets: tuple[BucketChange, ...]
    misses: tuple[MissRow, ...]
    gaps: tuple[GapRow, ...] = ()
    reasons: tuple[str, ...] = ()
    """Why runs differ: keys of the compile caches, parts of the KV caches, gaps."""

    def as_dict(self) -> dict[str, Any]:
        """Plain values."""
        return {"schema": SCHEMA, **msgspec.to_builtins(self)}


def compare(
    summaries: Sequence[RunSummary],
    bucket_rows: Sequence[Sequence[BucketRow]] | None = None,
) -> Comparison:
    """Compare runs, the first of which is the baseline.

    `bucket_rows` are the bucket summaries of the runs in the same order; without them
    the cost of single buckets is unknown.

    Raises:
        InputError: fewer than two runs, or a run twice.
    """
    _check(summaries)
    rows = bucket_rows if bucket_rows is not None else [()] * len(summaries)
    fits = [Comparability(summaries[0], other) for other in summaries[1:]]
    settings, partly = compare_settings(summaries)
    figures = [_row(f, summaries, fits) for f in all_figures(summaries)]
    return Comparison(
        runs=tuple(_head(summary) for summary in summaries),
        notes=tuple(dict.fromkeys(note for fit in fits for note in fit.notes)),
        settings=settings,
        partly_stated=partly,
        figures=tuple(row for row in figures if set(row.values) != {None}),
        phases=tuple(_row(f, summaries, fits) for f in phase_figures(summaries)),
        memory=tuple(tuple(s.memory_or_none.parts) for s in summaries),
        buckets=tuple(
            change
            for index, fit in enumerate(fits, start=1)
            for change in compare_buckets(
                (summaries[0], rows[0]), (summaries[index], rows[index]), fit
            )
        ),
        misses=_misses(summaries),
        gaps=match_gaps(summaries),
        reasons=tuple(_reasons(summaries, fits)),
    )


def _reasons(
    summaries: Sequence[RunSummary], fits: Sequence[Comparability]
) -> Iterator[str]:
    """Sentences about each run and the first; with a name where there are several."""
    for other, fit in zip(summaries[1:], fits, strict=True):
        if fit.subject_reason is not None:
            continue
        pair = (summaries[0], other)
        keys = key_change(*pair)
        found = (
            keys.sentence if keys else None,
            kv_sentence(*pair),
            gap_sentence(match_gaps(pair), pair),
        )
        several = f"{_head(other).title}: " if len(summaries) > 2 else ""
        yield from (f"{several}{text}" for text in found if text is not None)


def change(
    figure: Figure, old: RunSummary, new: RunSummary, fit: Comparability
) -> Change:
    """What became of a figure from one run to another."""
    before, after = figure.read(old), figure.read(new)
    if before is None or after is None:
        return Change(None, None, "unknown")
    difference = after - before
    percent = 100.0 * difference / abs(before) if before else None
    return Change(difference, percent, _verdict(figure, old, new, fit))


def _verdict(
    figure: Figure, old: RunSummary, new: RunSummary, fit: Comparability
) -> str:
    before, after = figure.read(old) or 0.0, figure.read(new) or 0.0
    if not fit.allows(figure):
        return "not_comparable"
    step = max(
        figure.step(old), figure.step(new),
        SAME_TIME * before if figure.unit == "s" else 0.0,
    )  # fmt: skip
    if abs(after - before) <= step:
        return "same"
    if figure.better is None:
        return "changed"
    return "better" if (after > before) == (figure.better == "higher") else "worse"


def _row(
    figure: Figure, summaries: Sequence[RunSummary], fits: Sequence[Comparability]
) -> FigureRow:
    return FigureRow(
        figure.name,
        figure.title,
        figure.unit,
        figure.group,
        figure.better,
        tuple(figure.read(summary) for summary in summaries),
        tuple(
            change(figure, summaries[0], other, fit)
            for other, fit in zip(summaries[1:], fits, strict=True)
        ),
        tuple(figure.step(summary) for summary in summaries),
    )


def _misses(summaries: Sequence[RunSummary]) -> tuple[MissRow, ...]:
    found = [
        {(miss.phase, miss.shape): miss.count for miss in summary.misses}
        for summary in summaries
    ]
    keys = dict.fromkeys(key for misses in found for key in misses)
    return tuple(
        MissRow(
            phase,
            shape,
            tuple(
                misses.get(
                    (phase, shape), 0 if num_misses(summary) is not None else None
                )
                for misses, summary in zip(found, summaries, strict=True)
            ),
        )
        for phase, shape in keys
    )


def _head(summary: RunSummary) -> RunHead:
    return RunHead(
        run_id=summary.run_id,
        label=summary.label,
        source=summary.source.name,
        status=summary.status,
        engine=summary.engine.name,
        version=summary.engine.version,
        model=summary.model,
        device=summary.device.name or summary.device.kind,
        synthetic=summary.synthetic,
    )


def _check(summaries: Sequence[RunSummary]) -> None:
    if len(summaries) < 2:
        raise InputError(
            "One run cannot be compared; name two or more, the first is the baseline"
        )
    ids = [summary.run_id for summary in summaries]
    twice = next((run for run in ids if ids.count(run) > 1), None)
    if twice is not None:
        raise InputError(f"Run {twice} is named twice; name different runs")
