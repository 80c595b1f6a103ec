"""The time of a start-up: its phases and costliest steps, as frames and as figures."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
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
from dashboard.palette import phase_meaning
from dashboard.text import figure_text, short_name
from warmup_insights.analysis.sentences import extent_text
from warmup_insights.export.tables import excerpt
from warmup_insights.model.figures import contradiction_mark
from warmup_insights.model.phases import phase_words
from warmup_insights.model.summary import (
    OF_OTHER_RANK,
    CompileFacts,
    Gap,
    RunSummary,
)
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


COSTLY_KINDS = (
    "warmup_step", "graph_captured", "lazy_capture", "sampler_step", "defrag_step",
)  # fmt: skip
_WORDS = {
    "warmup_step": ("warm-up", "warmed"),
    "graph_captured": ("capture", "captured"),
    "compile_finished": ("compile", "compile"),
    "lazy_capture": ("capture while serving", "missed"),
    "sampler_step": ("sampler", "sampler"),
    "defrag_step": ("defragmenter", "defrag"),
}


def costly_steps(
    events: pd.DataFrame, compiled: CompileFacts | None, limit: int
) -> pd.DataFrame:
    """The steps that took longest: name, meaning, duration_s, line, rank, kind.

    Of a compilation its parts, or its totals where no part has a time: a total stands for
    the same seconds.
    """
    columns = ["name", "meaning", "duration_s", "memory_bytes", "line", "rank", "kind"]
    events = pd.DataFrame(
        [*events.to_dict("records"), *_compilations(compiled)], columns=_STEP_COLUMNS
    )
    if events.empty:
        return pd.DataFrame([], columns=columns)
    known = events[events["duration_s"].notna() & (events["duration_s"] > 0)]
    # A recorder states a capture as a step and as a capture; one of them is enough.
    if (known["kind"] == "graph_captured").any():
        known = known[~((known["kind"] == "warmup_step") & (known["mode"] == "graph"))]
    top = known.sort_values("duration_s", ascending=False, kind="stable").head(limit)
    names = _distinct([_step_name(row) for row in top.to_dict("records")], top["line"])
    meanings = [_meaning(row) for row in top.to_dict("records")]
    return top.assign(name=names, meaning=meanings)[columns].reset_index(drop=True)


_STEP_COLUMNS = [
    "kind", "what", "phase", "mode", "batch_size", "query_len", "num_blocks", "duration_s",
    "memory_bytes", "line", "rank",
]  # fmt: skip


def _compilations(compiled: CompileFacts | None) -> list[dict[str, Any]]:
    timed = [part for part in compiled.parts if part.duration_s] if compiled else []
    single = [part for part in timed if not part.what.startswith("total")]
    return [
        {
            "kind": "compile_finished", "duration_s": part.duration_s,
            "what": part.what.replace("_", " ") + (", from cache" * bool(part.from_cache)),
        }
        for part in single or timed
    ]  # fmt: skip


def _distinct(names: list[str], lines: pd.Series) -> list[str]:
    """Names that differ: those that repeat get their line, else a number."""
    seen: dict[str, int] = {}
    result = []
    for name, line in zip(names, lines, strict=True):
        seen[name] = seen.get(name, 0) + 1
        if names.count(name) > 1:
            name += f", line {int(line)}" if _is_known(line) else f" {seen[name]}"
        result.append(name)
    return result


def _step_name(row: Mapping[Any, Any]) -> str:
    words = _WORDS[row["kind"]][0]
    parts = [row["batch_size"], row["query_len"], row["num_blocks"]]
    shape = ", ".join(str(int(part)) for part in parts if _is_known(part))
    phase = row["phase"] if isinstance(row["phase"], str) else ""
    what = row["what"] if isinstance(row["what"], str) else ""
    shape = f"({shape})" if shape else ""
    return " ".join(part for part in (phase, words, what, shape) if part)


def _meaning(row: Mapping[Any, Any]) -> str:
    is_graph = row["kind"] == "warmup_step" and row["mode"] == "graph"
    return "captured" if is_graph else _WORDS[row["kind"]][1]


def _is_known(value: object) -> bool:
    return isinstance(value, int | float) and not pd.isna(value)


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
