"""Two or more runs side by side: what was set differently, and what came of it.

The first run is the baseline; every other one is judged against it. A figure that one
of the two does not know is `unknown`, one that cannot be judged between these runs is
`not_comparable` with the reason, and a difference that the rounding of a log can hide is
`same`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from warmup_insights.analysis.comparability import Comparability
from warmup_insights.analysis.compare_buckets import BucketChange, compare_buckets
from warmup_insights.analysis.compare_settings import SettingRow, compare_settings
from warmup_insights.analysis.figures import FIGURES, Figure, Unit, resolution
from warmup_insights.analysis.serving import serving_figures
from warmup_insights.analysis.waterfall import MemoryPart, memory_parts
from warmup_insights.errors import InputError

Summary = Mapping[str, Any]
BucketRows = Sequence[Mapping[str, Any]]

SCHEMA = 1


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
    """One figure of all runs; `changes` has one entry per run after the first."""

    name: str
    title: str
    unit: Unit
    group: str
    better: str | None
    values: tuple[float | None, ...]
    changes: tuple[Change, ...]


@dataclass(frozen=True)
class MissRow:
    """A shape without a bucket, and how often each run met it; None is unknown."""

    phase: str
    shape: tuple[int, ...]
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

    def as_dict(self) -> dict[str, Any]:
        """Plain values."""
        from dataclasses import asdict

        return {"schema": SCHEMA, **asdict(self)}


def compare(
    summaries: Sequence[Summary], bucket_rows: Sequence[BucketRows] | None = None
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
    figures = [*FIGURES, *serving_figures(summaries)]
    return Comparison(
        runs=tuple(_head(summary) for summary in summaries),
        notes=tuple(dict.fromkeys(note for fit in fits for note in fit.notes)),
        settings=settings,
        partly_stated=partly,
        figures=tuple(_known(_row(f, summaries, fits) for f in figures)),
        phases=tuple(_row(f, summaries, fits) for f in _phase_figures(summaries)),
        memory=tuple(
            tuple(memory_parts(s.get("memory") or _NO_MEMORY)) for s in summaries
        ),
        buckets=tuple(
            change
            for index, fit in enumerate(fits, start=1)
            for change in compare_buckets(
                (summaries[0], rows[0]), (summaries[index], rows[index]), fit
            )
        ),
        misses=_misses(summaries),
    )


_NO_MEMORY: dict[str, Any] = {"total_bytes": None}


def change(figure: Figure, old: Summary, new: Summary, fit: Comparability) -> Change:
    """What became of a figure from one run to another."""
    before, after = figure.read(old), figure.read(new)
    if before is None or after is None:
        return Change(None, None, "unknown")
    difference = after - before
    percent = 100.0 * difference / abs(before) if before else None
    return Change(difference, percent, _verdict(figure, old, new, fit))


def _verdict(figure: Figure, old: Summary, new: Summary, fit: Comparability) -> str:
    before, after = figure.read(old) or 0.0, figure.read(new) or 0.0
    if not fit.allows(figure):
        return "not_comparable"
    step = max(
        resolution(old, before, figure.unit), resolution(new, after, figure.unit)
    )
    if abs(after - before) <= step:
        return "same"
    if figure.better is None:
        return "changed"
    return "better" if (after > before) == (figure.better == "higher") else "worse"


def _row(
    figure: Figure, summaries: Sequence[Summary], fits: Sequence[Comparability]
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
    )


def _known(rows: Any) -> list[FigureRow]:
    return [row for row in rows if any(value is not None for value in row.values)]


def phase_seconds(summary: Summary) -> dict[str, float]:
    """Phase name to seconds, stretches of one name added up, in order of first start."""
    total: dict[str, float] = {}
    for phase in (summary.get("time") or {}).get("phases") or ():
        name, seconds = phase.get("name"), phase.get("duration_s")
        if isinstance(name, str) and isinstance(seconds, int | float):
            total[name] = total.get(name, 0.0) + seconds
    return total


def _phase_figures(summaries: Sequence[Summary]) -> list[Figure]:
    names = dict.fromkeys(name for s in summaries for name in phase_seconds(s))

    def figure(name: str) -> Figure:
        return Figure(
            name, name.replace("_", " "), "s", "phases", "lower",
            lambda summary: phase_seconds(summary).get(name), per_device=True,
        )  # fmt: skip

    return [figure(name) for name in names]


def _misses(summaries: Sequence[Summary]) -> tuple[MissRow, ...]:
    found = [
        {
            (miss["phase"], tuple(miss["shape"])): miss.get("count", 1)
            for miss in summary.get("misses") or ()
        }
        for summary in summaries
    ]
    is_whole = [bool((s.get("time") or {}).get("ready_at")) for s in summaries]
    keys = dict.fromkeys(key for misses in found for key in misses)
    return tuple(
        MissRow(
            phase,
            shape,
            tuple(
                misses.get((phase, shape), 0 if whole or misses else None)
                for misses, whole in zip(found, is_whole, strict=True)
            ),
        )
        for phase, shape in keys
    )


def _head(summary: Summary) -> RunHead:
    engine, device = summary.get("engine") or {}, summary.get("device") or {}
    return RunHead(
        run_id=str(summary.get("run_id")),
        label=summary.get("label"),
        source=(summary.get("source") or {}).get("name"),
        status=summary.get("status"),
        engine=engine.get("name"),
        version=engine.get("version"),
        model=summary.get("model"),
        device=device.get("name") or device.get("kind"),
        synthetic=bool(summary.get("synthetic")),
    )


def _check(summaries: Sequence[Summary]) -> None:
    if len(summaries) < 2:
        raise InputError(
            "One run cannot be compared; name two or more, the first is the baseline"
        )
    ids = [summary.get("run_id") for summary in summaries]
    twice = next((run for run in ids if ids.count(run) > 1), None)
    if twice is not None:
        raise InputError(f"Run {twice} is named twice; name different runs")
