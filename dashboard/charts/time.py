"""The time of a start-up: its phases and costliest steps, as frames and as figures."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import pandas as pd

from dashboard import shown
from dashboard.charts.base import (
    Figure,
    Picture,
    bars_height,
    filled,
    name_axes,
    new_figure,
    time_columns,
    time_rows,
    time_unit,
)
from dashboard.charts.buckets import bucket_text
from dashboard.charts.steps import config_name
from dashboard.palette import phase_meaning
from dashboard.text import figure_text, short_name, visible
from warmup_insights.analysis.sentences import extent_text
from warmup_insights.analysis.summary import Folded
from warmup_insights.export.tables import excerpt
from warmup_insights.model.figures import contradiction_mark
from warmup_insights.model.phases import phase_words
from warmup_insights.model.summary import OF_OTHER_RANK, Gap, GraphFacts, RunSummary
from warmup_insights.units import format_duration


def totals_picture(summary: RunSummary) -> Picture:
    """Where the time of the start-up went, by phase."""
    extent = extent_text(summary)
    hint = f"{extent[0].upper()}{extent[1:]}; unlogged time is hatched."
    totals = phase_totals(phases_frame(summary))
    return Picture("Where the time went", hint, totals, phase_bars)


def ranks_picture(summary: RunSummary) -> Picture:
    """The start-up of each rank."""
    wall_s = summary.time.wall_s or 0.0
    return Picture(
        "Each rank",
        "The phases of each rank; ranks above 0 often print little. Colours are those "
        "of the phases above.",
        rank_phases(summary),
        lambda phases: rank_timeline(phases, wall_s),
    )


def phases_frame(summary: RunSummary) -> pd.DataFrame:
    """The start-up in order: name, label, meaning, start_s, duration_s, detail.

    The time between phases is a row of its own, `unlogged`, so that the durations add
    up to the wall time; `detail` has the lines on both sides of it.
    """
    times = summary.time
    rows: list[tuple[str, float, float, str]] = []
    position, end = 0.0, times.wall_s or 0.0
    for phase in times.phases:
        if phase.start_s - position > 1e-6:
            rows.append(_unlogged(position, phase.start_s, times.gaps))
        detail = shown.doubt(summary, f"phase:{phase.name}") or ""
        rows.append((phase.name, phase.start_s, phase.duration_s, detail))
        position = max(position, phase.start_s + phase.duration_s)
    if end - position > 1e-6:
        rows.append(_unlogged(position, end, times.gaps))
    frame = pd.DataFrame(rows, columns=["name", "start_s", "duration_s", "detail"])
    words = {name: phase_words(name) for name in frame["name"]}
    frame["label"] = [
        words[name] + contradiction_mark(summary, f"phase:{name}")
        for name in frame["name"]
    ]
    frame["meaning"] = [phase_meaning(name) for name in frame["name"]]
    return frame


def gaps_frame(summary: RunSummary) -> pd.DataFrame:
    """Unlogged time between two lines, the longest first."""
    rows = [
        (gap.start_s, gap.unlogged_s, gap.line, visible(gap.before), visible(gap.after))
        for gap in summary.time.gaps
    ]
    columns = [
        "from (s)", "gap (s)", "line", "last line before it", "first line after it",
    ]  # fmt: skip
    return pd.DataFrame(rows, columns=columns)


def _unlogged(
    start: float, end: float, gaps: Sequence[Gap]
) -> tuple[str, float, float, str]:
    within = [g for g in gaps if g.start_s < end and g.start_s + g.duration_s > start]
    longest = max(within, key=lambda gap: gap.unlogged_s, default=None)
    detail = ""
    if longest is not None:
        detail = (
            f"between line {longest.line} ({excerpt(longest.before)}) and line "
            f"{longest.next_line} ({excerpt(longest.after)})"
        )
    return "unlogged", start, end - start, detail


def rank_phases(summary: RunSummary) -> pd.DataFrame:
    """The phases of each rank: rank, name, label, meaning, start_s, duration_s."""
    rows = [
        (own.rank, phase.name, phase_words(phase.name), phase_meaning(phase.name),
         phase.start_s, phase.duration_s)
        for own in summary.time.ranks
        for phase in own.phases
    ]  # fmt: skip
    columns = ["rank", "name", "label", "meaning", "start_s", "duration_s"]
    return pd.DataFrame(rows, columns=columns)


def phase_totals(phases: pd.DataFrame) -> pd.DataFrame:
    """Seconds per phase, in the order of first appearance: name, label, meaning,
    duration_s."""
    grouped = phases.groupby("name", sort=False)
    return grouped.agg(
        label=("label", "first"),
        meaning=("meaning", "first"),
        duration_s=("duration_s", "sum"),
    ).reset_index()


COSTLIEST = 15


def steps_picture(folded: Folded) -> Picture:
    """The steps that took longest."""
    steps = costly_steps(folded)
    hint = "Single buckets, captures and compilations, the longest first."
    return Picture(f"The {len(steps)} costliest single steps", hint, steps, step_bars)


def costly_steps(folded: Folded) -> pd.DataFrame:
    """The steps that took longest: name, meaning, duration_s; equal names are numbered."""
    steps = [step for step in _steps(folded) if step[2]]
    steps.sort(key=lambda step: -(step[2] or 0.0))
    top, seen = steps[:COSTLIEST], Counter[str]()
    rows = []
    for name, meaning, seconds in top:
        seen[name] += 1
        is_repeated = sum(step[0] == name for step in top) > 1
        rows.append((f"{name} {seen[name]}" * is_repeated or name, meaning, seconds))
    return pd.DataFrame(rows, columns=["name", "meaning", "duration_s"])


def _steps(folded: Folded) -> Iterator[tuple[str, str, float | None]]:
    """Every step with a name and a meaning: the run and the capture of each bucket, graphs
    of other sizes, sampler, defragmenter, compilations."""
    summary = folded.summary
    for row in folded.rows:
        shape = bucket_text(row.bucket)
        if row.run is not None:
            yield f"{row.phase} warm-up {shape}", "warmed", row.run.duration_s
        if row.capture is not None:
            yield f"{row.phase} capture {shape}", "captured", row.capture.duration_s
    captured = {row.bucket for row in folded.rows if row.capture is not None}
    graphs = summary.graphs or GraphFacts()
    for graph in graphs.captures:
        if graph.bucket not in captured:
            name = f"capture {bucket_text(graph.bucket)}"
            yield name, "captured", graph.duration_s
    for lazy in graphs.lazy:
        name = f"capture while serving ({lazy.num_tokens})"
        yield name, "missed", lazy.duration_s
    for step in summary.sampler.steps if summary.sampler is not None else ():
        name = f"sampler ({step.batch_size}), {config_name(step)}"
        yield name, "sampler", step.duration_s
    for swap in summary.defrag.steps if summary.defrag is not None else ():
        yield f"defragmenter ({swap.threshold})", "defrag", swap.duration_s
    # A total of compilations stands for the seconds of its parts.
    compiled = summary.compile.parts if summary.compile is not None else []
    timed = [part for part in compiled if part.duration_s]
    single = [part for part in timed if not part.what.startswith("total")]
    for part in single or timed:
        cached = ", from cache" * bool(part.from_cache)
        name = f"compile {part.what.replace('_', ' ')}{cached}"
        yield name, "compile", part.duration_s


def dimension_costs(buckets: pd.DataFrame, dimension: int) -> pd.DataFrame:
    """Seconds per value of one dimension: value, duration_s, count; known ones only.

    A spike counts as its neighbours took: another bucket compiles that recipe then.
    """
    known = buckets[buckets["duration_s"].notna()]
    spikes = pd.to_numeric(known["spike_s"]).fillna(0.0)
    frame = pd.DataFrame(
        {
            "value": [bucket[dimension] for bucket in known["bucket"]],
            "duration_s": list(known["duration_s"] - spikes),
        }
    )
    grouped = frame.groupby("value", as_index=False).agg(
        duration_s=("duration_s", "sum"), count=("duration_s", "size")
    )
    return grouped.sort_values("value").reset_index(drop=True)


def timeline(phases: pd.DataFrame) -> Figure:
    """Every phase on a time axis, one row per phase; unexplained time is hatched."""
    rows = [figure_text(words) for words in phases["label"]]
    return _on_axis(phases, rows)


def rank_timeline(phases: pd.DataFrame, wall_s: float = 0.0) -> Figure:
    """The phases of each rank on the axis of the start-up, one row per rank."""
    rows = [rank_name(rank) for rank in phases["rank"]]
    return _on_axis(phases, rows, wall_s)


def rank_name(rank: object) -> str:
    """A rank, or the processes that have none."""
    if not isinstance(rank, int | float) or pd.isna(rank):
        return "no rank"
    return f"rank {int(rank)}"


def _on_axis(phases: pd.DataFrame, rows: list[str], wall_s: float = 0.0) -> Figure:
    order = list(dict.fromkeys(rows))
    ends = phases["start_s"] + phases["duration_s"]
    longest = max(ends.max(), wall_s) if len(phases) else 1.0
    unit, factor = time_unit(longest)
    figure = new_figure(bars_height(len(order)))
    figure.add_bar(
        orientation="h",
        y=rows,
        x=phases["duration_s"] / factor,
        base=phases["start_s"] / factor,
        marker=_fill(phases),
        customdata=[_hover(row) for row in phases.to_dict("records")],
        hovertemplate="%{customdata[0]}<extra></extra>",
        name="phases",
    )
    figure.update_yaxes(
        autorange="reversed", showgrid=False, categoryorder="array", categoryarray=order
    )
    figure.update_xaxes(range=[0, longest / factor * 1.01])
    figure.update_layout(showlegend=False, dragmode="zoom")
    name_axes(figure, f"time ({unit})", None)
    return figure


def _fill(phases: pd.DataFrame) -> dict[str, Any]:
    """With a fine pattern, so that short stretches show it."""
    fill = filled(phases["meaning"])
    return {**fill, "pattern": {**fill["pattern"], "size": 6, "solidity": 0.25}}


def _hover(row: Mapping[Any, Any]) -> list[str]:
    duration, start, detail = row["duration_s"], row["start_s"], row.get("detail", "")
    lines = [
        f"<b>{figure_text(row['label'])}</b> {format_duration(duration)}",
        f"from {format_duration(start)} to {format_duration(start + duration)}",
        *(figure_text(detail[at : at + 78]) for at in range(0, len(detail), 78)),
    ]
    return ["<br>".join(lines)]


def phase_bars(totals: pd.DataFrame) -> Figure:
    """Time per phase, in the order of the start-up."""
    # On two lines, so that a phone has room for the bars.
    names = [
        figure_text(words).replace(OF_OTHER_RANK, f"<br>{OF_OTHER_RANK.strip()}")
        for words in totals["label"]
    ]
    return _ranked(names, totals)


def step_bars(steps: pd.DataFrame) -> Figure:
    """The costliest steps: columns name, meaning, duration_s, the longest first."""
    return _ranked([figure_text(short_name(name)) for name in steps["name"]], steps)


def _ranked(names: list[str], rows: pd.DataFrame) -> Figure:
    seconds = rows["duration_s"]
    texts = [format_duration(value) for value in seconds]
    # Room for the text behind the longest bar, on a phone as well.
    room = 1.2 + 0.05 * max(map(len, texts), default=0)
    marker = _fill(rows)
    return time_rows(names, seconds, texts, name="time", marker=marker, room=room)


def dimension_bars(costs: pd.DataFrame, name: str) -> Figure:
    """What each value of one bucket dimension cost: columns value, duration_s."""
    texts = [
        [format_duration(row["duration_s"]), int(row["count"])]
        for row in costs.to_dict("records")
    ]
    return time_columns(
        costs["value"], costs["duration_s"], texts, name=name, title=name,
        meaning="warmed", hover="%{x}: %{customdata[0]} in %{customdata[1]} buckets",
    )  # fmt: skip
