"""A comparison as tables of text, for the terminal and for Markdown."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

from warmup_insights.analysis.compare import (
    BucketChange,
    Change,
    Comparison,
    CostChange,
    FigureRow,
    RunHead,
    SettingRow,
)
from warmup_insights.export.tables import (
    MAX_CELL,
    TextTable,
    escape_markdown,
    excerpt,
    make_table,
    markdown_table,
)
from warmup_insights.model.events import Bucket
from warmup_insights.model.figures import Unit, format_figure
from warmup_insights.model.summary import Setting
from warmup_insights.units import format_bytes, format_duration

BEFORE_DIFFERENCE = 60
"""Characters of a long setting that are shown before the first that differs."""
MOST_MISSES = 50
MAX_BUCKETS = 6
"""Buckets that a cell names before it counts the rest."""

_VERDICTS = {"better": " better", "worse": " worse", "noise": " within noise"}


def comparison_tables(result: Comparison, *, full: bool = False) -> list[TextTable]:
    """The tables of a comparison, the first first; empty ones are left out.

    Without `full`, figures that are the same in every run are left out.
    """
    names = [run.head for run in result.runs]
    tables = [
        runs_table(result.runs),
        settings_table(result.settings, names),
        *_figures(result, names, full),
        gaps_table(result, names),
        _memory(result, names),
        bucket_sets_table(result),
        _costs(result),
        misses_table(result, names, MOST_MISSES),
    ]
    return [table for table in tables if table.rows]


def comparison_markdown(result: Comparison) -> str:
    """Markdown fit for a pull request: tables, and what could not be compared."""
    first, *rest = [run.title for run in result.runs]
    others = ", ".join(rest)
    parts = [f"## Warm-up: {escape_markdown(f'{first} against {others}')}\n"]
    parts += [f"> {escape_markdown(note)}\n" for note in result.notes]
    parts += [f"- {escape_markdown(text)}\n" for text in result.reasons]
    parts += [markdown_table(table) for table in comparison_tables(result)]
    return "\n".join(parts)


def change_texts(row: FigureRow) -> list[str]:
    """The changes of a row in words."""
    return [
        _change_text(change, row.unit, max(row.steps[0], step))
        for change, step in zip(row.changes, row.steps[1:], strict=True)
    ]


def _change_text(change: Change, unit: Unit, step: float) -> str:
    """A change in words, such as `+1.2 GiB (+5.3 %) better`."""
    if change.is_same:
        return "same"
    if change.absolute is None:
        return "unknown"
    sign = "+" if change.absolute >= 0 else "-"
    text = sign + (
        f"{abs(change.absolute):.4g} points"
        if unit == "percent"
        else format_figure(abs(change.absolute), unit, step)
    )
    if change.percent is not None and unit != "percent":
        text += f" ({change.percent:+.1f} %)"
    return text + _VERDICTS.get(change.verdict, "")


def runs_table(runs: Sequence[RunHead]) -> TextTable:
    """What each run is, under what heads its column."""
    rows = [
        (
            run.head,
            run.title,
            run.run_id,
            (run.status or "?")
            + (f" ({run.made_up})" if run.made_up else "")
            + (f", serving: {run.serving_end}" if run.serving_end else ""),
            " ".join(part for part in (run.engine, run.version) if part) or "?",
            run.model or "?",
            run.device or "?",
        )
        for run in runs
    ]
    header = ("run", "name", "id", "status", "engine", "model", "device")
    first = 1 if all(row[0] == row[1] for row in rows) else 0
    return make_table("Runs", header[first:], [row[first:] for row in rows])


def settings_table(rows: Sequence[SettingRow], names: Sequence[str]) -> TextTable:
    """Settings of the runs, one column for each."""
    cells = [(row.name, *_setting_texts(row.values)) for row in rows]
    return make_table("Settings that differ", ("setting", *names), cells)


_COMMA = re.compile(r"(?<=[\d\"'\]}]),(?=[\[{\"'\d-])")


def _setting_texts(values: Sequence[Setting]) -> list[str]:
    """Values as text; of those that are cut short, from shortly before they differ."""
    # A list without spaces is wrapped nowhere.
    texts = [
        None if value is None else " ".join(_COMMA.sub(", ", str(value)).split())
        for value in values
    ]
    known = [text for text in texts if text is not None]
    columns = enumerate(zip(*known, strict=False))
    shared = next((i for i, chars in columns if len(set(chars)) > 1),
                  min(map(len, known), default=0))  # fmt: skip
    start = shared - BEFORE_DIFFERENCE
    if start <= 0 or max(map(len, known), default=0) <= MAX_CELL:
        start = 0
    mark = "\N{HORIZONTAL ELLIPSIS}" if start else ""
    return ["(not stated)" if t is None else f"{mark}{t[start:]}" for t in texts]


_GROUPS = (
    ("time", "Time"),
    ("phases", "Time by phase"),
    ("memory", "Memory"),
    ("capacity", "Capacity"),
    ("buckets", "Buckets and graphs"),
    ("serving", "Serving"),
)


def _figures(
    result: Comparison, names: Sequence[str], full: bool
) -> Iterator[TextTable]:
    header = ["figure", names[0]]
    for name in names[1:]:
        header += [name, "change"]
    right = range(1, len(header))
    for group, title in _GROUPS:
        rows = result.phases if group == "phases" else result.figures
        cells = []
        for row in rows:
            if row.group == group and (full or row.is_telling):
                first, *others = row.texts
                pairs = zip(others, change_texts(row), strict=True)
                cells.append([row.title, first, *(c for pair in pairs for c in pair)])
        yield make_table(title, header, cells, right=right)


def gaps_table(result: Comparison, names: Sequence[str]) -> TextTable:
    """Unlogged time between the same two lines of the runs; empty for one run."""
    rows = [
        (
            excerpt(row.before),
            excerpt(row.after),
            *("-" if v is None else format_duration(v) for v in row.values),
        )
        for row in result.gaps
        if sum(value is not None for value in row.values) > 1
    ]
    header = ("after", "before", *names)
    title = "Unlogged time between the same lines"
    return make_table(title, header, rows, right=range(2, len(header)))


def _memory(result: Comparison, names: Sequence[str]) -> TextTable:
    labels = dict.fromkeys(part.label for parts in result.memory for part in parts)
    sizes = [{part.label: part.bytes for part in parts} for parts in result.memory]
    rows = [
        (label, *(format_bytes(s[label]) if label in s else "?" for s in sizes))
        for label in labels
    ]
    header = ("part", *names)
    return make_table("Memory budget", header, rows, right=range(1, len(header)))


def bucket_sets_table(result: Comparison) -> TextTable:
    """How the bucket sets changed against the first run, one row per run and phase."""
    heads, rows = {run.run_id: run.head for run in result.runs}, []
    for change in result.buckets:
        if change.added is None or change.removed is None:
            reason = f"not compared: {change.reason or 'no bucket lists'}"
            rows.append((heads[change.run_id], change.phase, "?", reason, *[""] * 7))
            continue
        rows.append(
            (
                heads[change.run_id],
                change.phase,
                str(change.num_common),
                _shapes(change.added, change.added_cost_s),
                _shapes(change.removed, change.removed_cost_s),
                _shapes(change.captured, None),
                _shapes(change.uncaptured, None),
                *(str(len(costs)) for costs in _moved(change)),
            )
        )
    header = (
        "run", "phase", "in both", "added", "removed", "graph gained", "graph lost",
        "slower", "faster", "larger", "smaller",
    )  # fmt: skip
    return make_table("Bucket sets", header, rows, right=(2, *range(7, 11)))


def _shapes(shapes: Sequence[Bucket] | None, seconds: float | None) -> str:
    if shapes is None:
        return "?"
    if not shapes:
        return "0"
    text = f"{len(shapes)}: {', '.join(str(shape) for shape in shapes[:MAX_BUCKETS])}"
    if len(shapes) > MAX_BUCKETS:
        text += f" and {len(shapes) - MAX_BUCKETS} more"
    return text + (f" ({format_duration(seconds)})" if seconds is not None else "")


def _moved(change: BucketChange) -> tuple[tuple[CostChange, ...], ...]:
    return change.slower, change.faster, change.larger, change.smaller


def _costs(result: Comparison) -> TextTable:
    heads = {run.run_id: run.head for run in result.runs}
    rows = []
    for change in result.buckets:
        most = {cost.bucket: cost for costs in _moved(change) for cost in costs[:3]}
        rows += [
            (
                heads[change.run_id], change.phase, str(cost.bucket),
                *(format_duration(value) for value in cost.duration_s),
                *(format_bytes(value) for value in cost.memory_bytes),
            )
            for cost in most.values()
        ]  # fmt: skip
    header = (
        "run", "phase", "bucket", "time before", "after", "memory before", "after",
    )  # fmt: skip
    title = "Buckets whose cost changed most"
    return make_table(title, header, rows, right=range(3, 7))


def misses_table(
    result: Comparison, names: Sequence[str], most: int | None = None
) -> TextTable:
    """Shapes without a bucket, and how often each run met them."""
    rows = [
        (row.phase, str(row.shape), *("?" if c is None else str(c) for c in row.counts))
        for row in result.misses[:most]
    ]
    header = ("phase", "shape", *names)
    more = len(result.misses) - len(rows)
    note = f"and {more} more shapes" if more > 0 else ""
    title = "Shapes without a bucket"
    return make_table(title, header, rows, right=range(2, len(header)), note=note)
