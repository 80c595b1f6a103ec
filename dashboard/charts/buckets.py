"""Buckets: what became of each, as frames, and the map of one phase by state, time or memory."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import pandas as pd
import plotly.graph_objects as go

from dashboard.charts.base import Figure, known_text, name_axes, new_figure, size_unit
from dashboard.palette import HEAT, INK, SIGNS, STATES, colour
from dashboard.text import visible
from warmup_insights.analysis.misses import Diagnosis, highest_settings
from warmup_insights.bucketing.base import DIMENSIONS
from warmup_insights.model.events import Bucket
from warmup_insights.model.summary import BucketRow, PhaseBuckets, RunSummary, UsedShape
from warmup_insights.units import MIB, format_bytes, format_duration, isoformat

BUCKET_COLUMNS = (
    "phase", "bucket", "generated", "warmed", "captured", "skipped", "missed",
    "duration_s", "memory_bytes", "executed", "state", "gc_s", "compiled",
    "compile_s", "spike_s",
)  # fmt: skip
_NAMES = {
    "bs": "batch size",
    "batch_size": "batch size",
    "seq": "sequence length (tokens)",
    "seq_len": "sequence length (tokens)",
    "query": "query length (tokens)",
    "query_len": "query length (tokens)",
    "block": "KV blocks",
    "blocks": "KV blocks",
    "num_blocks": "KV blocks",
    "ctx": "KV blocks",
    "shared_blocks": "shared KV blocks",
    "unique_blocks": "unique KV blocks",
}
_DEFAULT_NAMES = {
    1: ("tokens",),
    2: ("batch size", "length (tokens)"),
    3: ("batch size", "query length (tokens)", "KV blocks"),
    4: ("query length (tokens)", "shared KV blocks", "unique KV blocks", "causal"),
}


def buckets_frame(rows: Sequence[BucketRow]) -> pd.DataFrame:
    """One row per bucket: BUCKET_COLUMNS; `bucket` and `executed` are tuples."""
    shaped = [[getattr(row, name) for name in BUCKET_COLUMNS] for row in rows]
    return pd.DataFrame(shaped, columns=list(BUCKET_COLUMNS))


def names_for(
    size: int, section: PhaseBuckets | None = None, phase: str = ""
) -> tuple[str, ...]:
    """Names of the dimensions of a bucket of `size` numbers; that of the only one can be
    the name of its phase."""
    known = section.dimensions if section is not None else []
    if len(known) == size:
        return tuple(_NAMES.get(name, name) for name in known)
    if size == 1 and phase == "requests":
        return (phase,)
    return _DEFAULT_NAMES.get(size, tuple(f"dimension {n + 1}" for n in range(size)))


def phases_in_order(buckets: pd.DataFrame) -> list[str]:
    """The phases that have buckets: prompt and decode first."""
    known = [str(phase) for phase in buckets["phase"].unique()]
    order = {"prompt": 0, "decode": 1}
    return sorted(known, key=lambda phase: (order.get(phase, 2), phase))


def of_phase(buckets: pd.DataFrame, phase: str) -> pd.DataFrame:
    """The buckets of one phase that have its usual number of dimensions.

    A run-time shape may be stated with fewer numbers than the buckets have; it has no
    place on their map.
    """
    rows = buckets[buckets["phase"] == phase]
    if rows.empty:
        return rows
    listed = rows[rows["generated"] > 0]
    size = len((listed if len(listed) else rows)["bucket"].iloc[0])
    return rows[[len(bucket) == size for bucket in rows["bucket"]]]


HISTORY_KINDS = (
    "warmup_step", "graph_captured", "graph_skipped", "bucket_miss", "bucket_used",
)  # fmt: skip


def padding_frame(uses: Iterable[UsedShape]) -> pd.DataFrame:
    """Padding of the steps while serving: phase, bucket, count, needed, executed and
    padding_percent; in tokens for prompts, in sequences for decode steps."""
    found: dict[tuple[str, Bucket], list[int]] = {}
    for use in uses:
        if len(use.bucket) < 2:
            continue
        entry = found.setdefault((use.phase, use.bucket), [0, 0, 0])
        entry[0] += use.count
        entry[1] += use.count * _work(use.phase, use.shape)
        entry[2] += use.count * _work(use.phase, use.bucket)
    rows = [
        (phase, bucket, count, needed, executed, 100 * (1 - needed / executed))
        for (phase, bucket), (count, needed, executed) in found.items()
        if executed
    ]
    columns = ["phase", "bucket", "count", "needed", "executed", "padding_percent"]
    frame = pd.DataFrame(rows, columns=columns)
    return frame.sort_values("count", ascending=False).reset_index(drop=True)


def _work(phase: str, shape: Bucket) -> int:
    return shape[0] if phase == "decode" else shape[0] * shape[1]


def bucket_history(events: pd.DataFrame) -> pd.DataFrame:
    """The events of one bucket: kind, mode, time, duration_s, memory_mib, rank, line."""
    columns = ["kind", "mode", "time", "duration_s", "memory_mib", "rank", "line"]
    if events.empty:
        return pd.DataFrame([], columns=columns)
    return events.assign(
        kind=[str(kind).replace("_", " ") for kind in events["kind"]],
        time=pd.to_datetime(events["time"], unit="s"),
        memory_mib=events["memory_bytes"] / MIB,
    )[columns]


def bucket_columns(bucket: tuple[int, ...]) -> dict[str, int]:
    """The typed columns of the store that hold the numbers of a bucket; empty for four
    numbers, which have none."""
    if len(bucket) == 1:
        return {"query_len": bucket[0]}
    if len(bucket) > 3:
        return {}
    return dict(zip(DIMENSIONS, bucket, strict=False))


CELL_PX = 30
MOST_CELLS = 2_000
"""Beyond these cells have neither gaps between them nor signs."""


@dataclass(frozen=True)
class BucketAxes:
    """Which dimensions of a bucket are drawn where; None is one row or column."""

    names: tuple[str, ...]
    x: int
    y: int | None
    panel: int | None = None

    def title(self, dimension: int | None) -> str | None:
        """The name of a dimension."""
        return None if dimension is None else self.names[dimension]


def choose_axes(buckets: Sequence[Bucket], names: tuple[str, ...]) -> BucketAxes:
    """Lengths to the right, batch sizes up, a third dimension that varies as panels.

    Dimensions with a single value are left out, so that decode buckets of three
    dimensions, whose query length is always 1, are drawn as two.
    """
    size = len(names)
    varying = [d for d in range(size) if len({bucket[d] for bucket in buckets}) > 1]
    if size == 1:
        return BucketAxes(names, 0, None)
    lengths = [d for d in varying if d != 0] or [size - 1 if 0 in varying else 1]
    x = lengths[0]
    rest = [d for d in varying if d != x]
    if not rest:
        return BucketAxes(names, x, 0)
    y = rest[0]
    return BucketAxes(names, x, y, rest[1] if len(rest) > 1 else None)


def map_axes(rows: pd.DataFrame, section: PhaseBuckets, phase: str) -> BucketAxes:
    """Where the dimensions of the buckets of a phase are drawn."""
    names = names_for(len(rows["bucket"].iloc[0]), section, phase)
    return choose_axes(list(rows["bucket"]), names)


def map_title(phase: str) -> str:
    """Prompt and decode buckets; TPU engines pad numbers of tokens and of requests."""
    one = phase.removesuffix("s") if phase in ("tokens", "requests") else phase
    return f"{one.capitalize()} buckets"


def panels_of(rows: pd.DataFrame, axes: BucketAxes) -> dict[int, pd.DataFrame]:
    """The buckets by their value of the third dimension; none where there is none."""
    if axes.panel is None:
        return {}
    values = pd.Series([bucket[axes.panel] for bucket in rows["bucket"]], rows.index)
    return {int(value): rows[values == value] for value in sorted(values.unique())}


def bucket_map(buckets: pd.DataFrame, axes: BucketAxes, *, by: str = "state") -> Figure:
    """One cell per bucket, coloured by `state`, `duration_s` or `memory_bytes`.

    An invisible marker lies on each cell: only markers can be clicked.
    """
    grid = _Grid(buckets, axes)
    figure = new_figure(map_height(len(grid.ys)))
    gap = 2 if len(buckets) <= MOST_CELLS else 0
    if by == "state":
        _add_states(figure, grid, gap)
    else:
        _add_amounts(figure, grid, gap, by=by)
    _add_markers(figure, grid)
    figure.update_xaxes(type="category", showgrid=False, nticks=24)
    figure.update_yaxes(
        type="category", showgrid=False, showticklabels=axes.y is not None
    )
    name_axes(figure, axes.title(axes.x), axes.title(axes.y))
    return figure


def map_height(rows: int) -> int:
    """Pixels of a map with so many rows of cells."""
    return min(620, max(180, rows * CELL_PX + 110))


class _Grid:
    """Buckets placed on their axes."""

    def __init__(self, buckets: pd.DataFrame, axes: BucketAxes) -> None:
        xs, ys = _values(buckets, axes.x), _values(buckets, axes.y)
        self.buckets = buckets
        self.axes = axes
        self.xs = [str(value) for value in xs]
        self.ys = [str(value) for value in ys]
        self._column = {value: n for n, value in enumerate(xs)}
        self._row = {value: n for n, value in enumerate(ys)}

    def place(self, bucket: Bucket) -> tuple[int, int]:
        """Row and column of a bucket."""
        y = 0 if self.axes.y is None else bucket[self.axes.y]
        return self._row[y], self._column[bucket[self.axes.x]]

    def fill(self, values: Sequence[Any], nothing: Any = None) -> list[list[Any]]:
        """A matrix of values, `nothing` where there is no bucket."""
        matrix = [[nothing] * len(self.xs) for _ in self.ys]
        for bucket, value in zip(self.buckets["bucket"], values, strict=True):
            row, column = self.place(bucket)
            matrix[row][column] = value
        return matrix


def _values(buckets: pd.DataFrame, dimension: int | None) -> list[int]:
    if dimension is None:
        return [0]
    return sorted({bucket[dimension] for bucket in buckets["bucket"]})


def _add_states(figure: Figure, grid: _Grid, gap: int) -> None:
    codes = {state: n for n, state in enumerate(STATES)}
    states = [str(state) for state in grid.buckets["state"]]
    last = len(codes) - 1
    scale = []
    for state, n in codes.items():
        shade = colour(state)
        scale += [[n / (last + 1), shade], [(n + 1) / (last + 1), shade]]
    figure.add_trace(
        go.Heatmap(
            z=grid.fill([codes[state] for state in states]),
            x=grid.xs, y=grid.ys, zmin=-0.5, zmax=last + 0.5, colorscale=scale,
            showscale=False, xgap=gap, ygap=gap, hoverinfo="skip", name="state",
            **_signs(grid, states),
        )
    )  # fmt: skip
    counts = pd.Series(states).value_counts()
    for state, words in STATES.items():
        if state in counts:
            figure.add_trace(
                go.Scatter(
                    x=[None], y=[None], mode="markers", hoverinfo="skip",
                    name=f"{words} {counts[state]}",
                    marker={"symbol": "square", "size": 12, "color": colour(state)},
                )
            )  # fmt: skip
    figure.update_layout(showlegend=True)


def _signs(grid: _Grid, states: Sequence[str]) -> dict[str, Any]:
    """Signs in the cells that need a look; their colour contrasts with the cell's."""
    if len(states) > MOST_CELLS or not set(states) & set(SIGNS):
        return {}
    signs = grid.fill([SIGNS.get(state, "") for state in states], "")
    return {"text": signs, "texttemplate": "%{text}", "textfont": {"size": 13}}


def _add_amounts(figure: Figure, grid: _Grid, gap: int, *, by: str) -> None:
    is_time = by == "duration_s"
    values = grid.buckets[by]
    largest = values.dropna().abs().max() if values.notna().any() else 0
    unit, factor = ("s", 1.0) if is_time else size_unit(largest)
    amounts = [None if pd.isna(v) else v / factor for v in values]
    figure.add_trace(
        go.Heatmap(
            z=grid.fill(amounts), x=grid.xs, y=grid.ys, colorscale=HEAT, xgap=gap,
            ygap=gap, hoverinfo="skip", name=by,
            **_signs(grid, [str(state) for state in grid.buckets["state"]]),
            colorbar={
                "title": {"text": f"{'time' if is_time else 'memory'} ({unit})", "side": "right"},
                "thickness": 12, "outlinewidth": 0,
            },
        )
    )  # fmt: skip
    figure.update_layout(showlegend=False)


def _add_markers(figure: Figure, grid: _Grid) -> None:
    places = [grid.place(bucket) for bucket in grid.buckets["bucket"]]
    figure.add_trace(
        go.Scatter(
            x=[grid.xs[column] for _, column in places],
            y=[grid.ys[row] for row, _ in places],
            mode="markers",
            marker={"symbol": "square-open", "size": 20, "opacity": 0,
                    "color": INK, "line": {"width": 2}},
            selected={"marker": {"opacity": 1}},
            unselected={"marker": {"opacity": 0}},
            customdata=[_hover(row) for row in grid.buckets.to_dict("records")],
            hovertemplate="%{customdata[1]}<extra></extra>",
            showlegend=False, name="buckets",
        )
    )  # fmt: skip
    figure.update_layout(clickmode="event+select", hoverdistance=50)


def _hover(row: dict[Any, Any]) -> list[str]:
    bucket = row["bucket"]
    assert isinstance(bucket, tuple)
    lines = [
        f"<b>{bucket_text(bucket)}</b> {STATES.get(str(row['state']), '')}",
        f"time {known_text(row['duration_s'], format_duration)}",
        f"memory {known_text(row['memory_bytes'], format_bytes)}",
        *step_facts(row),
    ]
    executed = row.get("executed")
    if isinstance(executed, tuple) and executed != bucket:
        lines.append(f"ran as {bucket_text(executed)}")
    if row["missed"]:
        lines.append(f"missed {row['missed']} times while serving")
    return [bucket_text(bucket), "<br>".join(lines)]


def step_facts(row: Mapping[Any, Any]) -> list[str]:
    """Garbage collector and compilations in the steps of a bucket, as far as they are known."""
    spike_s = row.get("spike_s")
    is_spike = spike_s is not None and not pd.isna(spike_s)
    facts = []
    if is_spike:
        facts.append(f"{format_duration(spike_s)} more than its neighbours")
    known = {
        name: row[name]
        for name in ("gc_s", "compiled", "compile_s")
        if row.get(name) is not None and not pd.isna(row[name])
    }
    if "gc_s" in known:
        facts.append(f"garbage collection {format_duration(known['gc_s'])}")
    if "compiled" in known:
        facts.append(f"compiled {int(known['compiled'])}")
    if "compile_s" in known:
        facts.append(f"compilation {format_duration(known['compile_s'])}")
    return facts


def misses_frame(summary: RunSummary, found: Iterable[Diagnosis]) -> pd.DataFrame:
    """The diagnoses of shapes without a bucket as a table of text."""
    return pd.DataFrame(
        [
            {
                "phase": item.phase,
                "shape": bucket_text(item.shape),
                "times": item.count,
                "why": item.reason(
                    names_for(len(item.shape), summary.phase(item.phase))
                ),
                "nearest bucket": bucket_text(item.nearest) if item.nearest else "",
                "ran in": bucket_text(item.fallback) if item.fallback else "",
                "setting": " ".join(highest_settings([item])),
            }
            for item in found
        ]
    )


def late_frame(summary: RunSummary) -> pd.DataFrame:
    """Kernels and recipes that were compiled while a request waited."""
    rows = [
        (visible(late.kernel), late.count, late.after_ready_s, late.duration_s, late.what,
         visible(late.detail or ""))
        for late in summary.serving_or_none.jit
    ]  # fmt: skip
    columns = [
        "kernel", "times", "after ready (s)", "time (s)", "compiled by", "configuration",
    ]  # fmt: skip
    return pd.DataFrame(rows, columns=columns)


def sleeps_frame(summary: RunSummary) -> pd.DataFrame:
    """Sleeps and wake-ups of the engine while serving: when, how long, and the memory that
    each freed, left in use and kept on the host."""
    rows = [
        (row.action.replace("_", " "), (isoformat(row.time) or "?")[:19], row.duration_s,
         *("" if size is None else format_bytes(size)
           for size in (row.freed_bytes, row.used_bytes, row.host_bytes)),
         ", ".join(map(visible, row.tags)))
        for row in summary.serving_or_none.sleeps
    ]  # fmt: skip
    columns = [
        "", "at (UTC)", "time (s)", "freed", "still in use", "kept on the host", "what",
    ]  # fmt: skip
    return pd.DataFrame(rows, columns=columns)


def bucket_text(bucket: Bucket) -> str:
    """A bucket as logs write it."""
    return "(" + ", ".join(str(number) for number in bucket) + ")"
