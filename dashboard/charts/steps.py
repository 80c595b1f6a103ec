"""Captures, the sampler, the defragmenter and CUDA graphs, as frames and as figures."""

from __future__ import annotations

from typing import Any

import msgspec
import pandas as pd
import plotly.graph_objects as go

from dashboard.charts.base import (
    OUTLINE,
    Figure,
    Picture,
    add_rows,
    filled,
    known_text,
    name_axes,
    new_figure,
    row_figure,
    size_unit,
    time_columns,
    time_rows,
    time_unit,
)
from dashboard.palette import HEAT, colour
from warmup_insights.model.figures import text_of
from warmup_insights.model.summary import (
    GraphFacts,
    RunSummary,
    SamplerConfigFacts,
    SamplerFacts,
    SamplerStepFacts,
)
from warmup_insights.units import format_bytes, format_duration, parse_isoformat


def capture_frame(summary: RunSummary) -> pd.DataFrame:
    """One row per phase and count of its buckets: phase, what, count, generated, text.

    `what` is `warmed`, `captured_reported` or `captured`; unknown counts are left out, and
    what the engine reports where its lines support the same count.
    """
    rows = []
    for phase, part in (summary.buckets or {}).items():
        for what in ("warmed", "captured_reported", "captured"):
            count, name = getattr(part, what), f"{phase}_{what}"
            if count is None or not part.generated:
                continue
            if what == "captured_reported" and count == part.captured:
                continue
            words = f"{text_of(summary, name)} of {part.generated}"
            if what == "captured":
                words += f", {text_of(summary, f'{phase}_capture_percent')}"
            rows.append((phase, what, count, part.generated, words))
    return pd.DataFrame(rows, columns=["phase", "what", "count", "generated", "text"])


def captures_picture(summary: RunSummary) -> Picture:
    """How many buckets were warmed, and captured."""
    captures = capture_frame(summary)
    hint = "Shares of the generated buckets."
    if (captures["what"] == "captured_reported").any():
        hint += " What the engine reports as captured can be more than the evidence supports."
    return Picture("Warmed and captured", hint, captures, capture_bars)


def sampler_picture(section: SamplerFacts) -> Picture:
    """What the sampler was warmed up with."""
    cells = sampler_cells(section)
    hint = "Batch size by configuration (temperature T, top-p, top-k). "
    is_timed = bool(cells["duration_s"].notna().any())
    hint += "Colour is time." if is_timed else "The log states no time per cell."
    return Picture("Sampler grid", hint, cells, sampler_grid)


def sampler_cells(section: SamplerFacts) -> pd.DataFrame:
    """The sampler grid: batch_size, config, duration_s.

    Logs name sizes and configurations apart; each was run with each then
    (vllm-gaudi `warmup_sampler`).
    """
    columns = ["batch_size", "config", "duration_s"]
    rows = [(s.batch_size, config_name(s), s.duration_s) for s in section.steps]
    if rows:
        frame = pd.DataFrame(rows, columns=columns)
        return frame.groupby(["batch_size", "config"], sort=False, as_index=False).agg(
            duration_s=("duration_s", lambda values: values.sum(min_count=1))
        )
    crossed = [
        (size, config_name(config), None)
        for config in section.configurations
        for size in section.batch_sizes or ()
    ]
    return pd.DataFrame(crossed, columns=columns)


def config_name(config: SamplerConfigFacts | SamplerStepFacts) -> str:
    """One sampling configuration in a few characters."""
    changed = ", batch changed" if config.batch_changed else ""
    return f"T {config.temperature:g}, p {config.top_p:g}, k {config.top_k:g}{changed}"


def defrag_picture(summary: RunSummary) -> Picture:
    """What the defragmenter did while serving."""
    runs = defrag_frame(summary)
    hint = f"Each of the {len(runs)} lines goes from the highest block before to that after."
    return Picture("Defragmentations while serving", hint, runs, defrag_runs)


def defrag_frame(summary: RunSummary) -> pd.DataFrame:
    """Live defragmentations with what to draw them over.

    `x` is seconds since ready (or since the first one) where all have a time, else
    their order.
    """
    found = summary.defrag.runs if summary.defrag is not None else []
    runs = pd.DataFrame([msgspec.to_builtins(run) for run in found])
    if runs.empty:
        return runs
    if runs["time"].isna().any():
        return runs.assign(x=range(1, len(runs) + 1), x_name="in order")
    return _since(runs, summary, "x", "x_name")


def sizes_picture(captures: pd.DataFrame, by: str) -> Picture:
    """CUDA graphs by size; `by` is duration_s or memory_bytes."""
    title, hint = "Time by graph size", "One bar per captured graph."
    if by == "memory_bytes":
        title = "Memory by graph size"
        hint += " Memory is a difference of free memory and can be negative."
    known = captures[captures[by].notna()]
    return Picture(title, hint, known, lambda frame: graphs_by_size(frame, by=by))


def graph_captures(summary: RunSummary) -> pd.DataFrame:
    """CUDA graphs: num_tokens, mode, when, duration_s, memory_bytes, line, time and,
    of those captured while serving, since_s (relative to ready or the first of them)."""
    graphs = summary.graphs or GraphFacts()
    rows: list[tuple[Any, ...]] = [
        (c.bucket[0], c.mode, "at start", c.duration_s, c.memory_bytes, c.line, None)
        for c in graphs.captures
        if c.bucket
    ]
    rows += [
        (c.num_tokens, None, "while serving", c.duration_s, c.memory_bytes, None, c.time)
        for c in graphs.lazy
    ]  # fmt: skip
    columns = [
        "num_tokens", "mode", "when", "duration_s", "memory_bytes", "line", "time",
    ]  # fmt: skip
    frame = pd.DataFrame(rows, columns=columns)
    return _since(frame, summary, "since_s", "since_name")


def _since(
    frame: pd.DataFrame, summary: RunSummary, column: str, name: str
) -> pd.DataFrame:
    """With seconds since ready, else since the first row that has a time."""
    times = frame["time"].astype("float64")
    zero, words = parse_isoformat(summary.time.ready_at), "time since ready (s)"
    if zero is None:
        zero, words = times.min(), "time since the first one (s)"
    frame[column], frame[name] = times - zero, words
    return frame


_COUNTS = (
    ("captured", "captured, supported by evidence", "captured"),
    ("captured_reported", "captured, as the engine reports it", "reserved"),
    ("warmed", "warmed", "warmed"),
)


def capture_bars(captures: pd.DataFrame) -> Figure:
    """Shares of the generated buckets, per phase, in percent; `capture_frame`."""
    present = [count for count in _COUNTS if (captures["what"] == count[0]).any()]
    height = captures["phase"].nunique() * (len(present) * 24 + 14) + 100
    figure = row_figure(max(180, height))
    for what, words, meaning in present:
        known = captures[captures["what"] == what]
        add_rows(
            figure, known["phase"], 100 * known["count"] / known["generated"],
            known["text"], name=words, hover=f"%{{y}}, {words}: %{{text}}",
            marker=filled(meaning),
        )  # fmt: skip
    figure.update_layout(
        barmode="group", legend={"traceorder": "reversed"}, bargap=0.22, showlegend=True
    )
    figure.update_xaxes(range=[0, 165], tickvals=[0, 25, 50, 75, 100])
    name_axes(figure, "share of the generated buckets (%)", None)
    return figure


def stages_picture(summary: RunSummary) -> Picture:
    """The warm-up of what is no bucket."""
    stages = stages_frame(summary)
    words = [
        f"{row['stage']} {row['status']}"
        + ("" if row["duration_s"] is None else f" in {row['text']}")
        for row in stages.to_dict("records")
    ]
    hint = f"{'; '.join(words).capitalize()}."
    return Picture("Sampler and defragmenter warm-up", hint, stages, stage_bars)


def stages_frame(summary: RunSummary) -> pd.DataFrame:
    """Sampler and defragmenter warm-up: stage, meaning, status, duration_s, text."""
    sections = (("sampler", "sampler", summary.sampler),
                ("defragmenter", "defrag", summary.defrag))  # fmt: skip
    rows = [
        (name, key, part.status, part.duration_s, text_of(summary, f"{key}_s"))
        for name, key, part in sections
        if part is not None
    ]
    columns = ["stage", "meaning", "status", "duration_s", "text"]
    return pd.DataFrame(rows, columns=columns)


def stage_bars(stages: pd.DataFrame) -> Figure:
    """How long the sampler and the defragmenter warm-up took."""
    known = stages[stages["duration_s"].notna()]
    return time_rows(
        known["stage"], known["duration_s"], known["text"], name="stages",
        marker=filled(known["meaning"]), room=1.5,
    )  # fmt: skip


def sampler_grid(cells: pd.DataFrame) -> Figure:
    """Batch size by configuration; colour is time, or only that it was covered.

    Columns: batch_size, config, duration_s (None where the log states no times).
    """
    configs = list(dict.fromkeys(cells["config"]))
    sizes = sorted(set(cells["batch_size"]))
    is_timed = bool(cells["duration_s"].notna().any())
    longest = float(cells["duration_s"].max()) if is_timed else 1.0
    unit, factor = time_unit(longest)
    found = {
        (row["config"], row["batch_size"]): row["duration_s"] / factor
        if is_timed
        else 1.0
        for row in cells.to_dict("records")
        if not (is_timed and pd.isna(row["duration_s"]))
    }
    values = [[found.get((config, size)) for size in sizes] for config in configs]
    shade = colour("sampler")
    figure = new_figure(max(190, len(configs) * 26 + 96))
    figure.add_trace(
        go.Heatmap(
            x=[str(size) for size in sizes], y=configs, z=values, xgap=2, ygap=2,
            colorscale=HEAT if is_timed else [[0, shade], [1, shade]],
            showscale=is_timed,
            colorbar={"title": {"text": f"time ({unit})", "side": "right"},
                      "thickness": 12, "outlinewidth": 0},
            hovertemplate="%{y}<br>batch size %{x}"
            + (f": %{{z:.3g}} {unit}" if is_timed else ": covered")
            + "<extra></extra>",
            name="sampler",
        )
    )  # fmt: skip
    figure.update_xaxes(type="category", showgrid=False)
    figure.update_yaxes(autorange="reversed", showgrid=False)
    name_axes(figure, "batch size", None)
    return figure


def threshold_bars(steps: pd.DataFrame) -> Figure:
    """Defragmenter warm-up: time per padded swap size. Columns threshold, duration_s."""
    texts = [format_duration(value) for value in steps["duration_s"]]
    return time_columns(
        steps["threshold"], steps["duration_s"], texts, name="thresholds",
        title="padded swap size (KV blocks)", meaning="defrag",
        hover="%{x} blocks: %{customdata}",
    )  # fmt: skip


def defrag_runs(runs: pd.DataFrame) -> Figure:
    """Live defragmentations: highest block before and after, over time or in order.

    Columns: x, x_name, swapped, padded, max_id_before, max_id_after, duration_s.
    """
    figure = new_figure(320)
    lines: dict[str, list[Any]] = {"x": [], "y": []}
    for row in runs.itertuples():
        lines["x"] += [row.x, row.x, None]
        lines["y"] += [row.max_id_before, row.max_id_after, None]
    figure.add_scatter(
        **lines, mode="lines", hoverinfo="skip", showlegend=False, name="moves",
        line={"color": colour("defrag"), "width": 1.5},
    )  # fmt: skip
    for column, words, meaning in (
        ("max_id_before", "highest block before", "total"),
        ("max_id_after", "highest block after", "defrag"),
    ):
        figure.add_scatter(
            x=runs["x"], y=runs[column], mode="markers", name=words,
            marker={"color": colour(meaning), "size": 8},
            customdata=[_defrag_hover(row) for row in runs.to_dict("records")],
            hovertemplate=f"{words} %{{y}}<br>%{{customdata}}<extra></extra>",
        )  # fmt: skip
    figure.update_yaxes(rangemode="tozero")
    name_axes(
        figure, runs["x_name"].iloc[0] if len(runs) else None, "highest block in use"
    )
    return figure


def _defrag_hover(row: dict[Any, Any]) -> str:
    parts = [f"swapped {row['swapped']}", f"padded to {row['padded']}"]
    if row["duration_s"] is not None and not pd.isna(row["duration_s"]):
        parts.append(format_duration(row["duration_s"]))
    return ", ".join(parts)


def graphs_by_size(captures: pd.DataFrame, *, by: str) -> Figure:
    """CUDA graphs by number of tokens: `by` is duration_s or memory_bytes.

    Columns: num_tokens, when (`at start` or `while serving`), and `by`.
    """
    known = captures[captures[by].notna()]
    largest = float(known[by].abs().max()) if len(known) else 1.0
    unit, factor = time_unit(largest) if by == "duration_s" else size_unit(largest)
    write = format_duration if by == "duration_s" else format_bytes
    figure = new_figure(300)
    for when, meaning in (("at start", "captured"), ("while serving", "missed")):
        rows = known[known["when"] == when].sort_values("num_tokens")
        if rows.empty:
            continue
        figure.add_bar(
            x=[str(value) for value in rows["num_tokens"]], y=rows[by] / factor, name=when,
            marker=filled(meaning),
            customdata=[write(value) for value in rows[by]],
            hovertemplate="%{x} tokens: %{customdata}<extra></extra>",
        )  # fmt: skip
    order = [str(value) for value in sorted(set(known["num_tokens"]))]
    figure.update_xaxes(
        type="category", showgrid=False, categoryorder="array", categoryarray=order
    )
    figure.update_layout(showlegend=True)
    words = "time" if by == "duration_s" else "memory"
    name_axes(figure, "graph size (tokens)", f"{words} ({unit})")
    return figure


def lazy_timeline(captures: pd.DataFrame) -> Figure:
    """Captures while serving on a time axis; the size of a mark is its time.

    Columns: since_s, since_name, num_tokens, duration_s, memory_bytes.
    """
    figure = new_figure(300)
    longest = captures["duration_s"].max() if len(captures) else None
    figure.add_scatter(
        x=captures["since_s"], y=captures["num_tokens"], mode="markers", name="captures",
        marker={
            "color": colour("missed"), "opacity": 0.75,
            "size": [
                8 if not longest or pd.isna(value) else 6 + 14 * value / longest
                for value in captures["duration_s"]
            ],
            "line": OUTLINE,
        },
        customdata=[
            [known_text(row["duration_s"], format_duration),
             known_text(row["memory_bytes"], format_bytes)]
            for row in captures.to_dict("records")
        ],
        hovertemplate="%{y} tokens<br>%{customdata[0]}, %{customdata[1]}<extra></extra>",
    )  # fmt: skip
    figure.update_layout(showlegend=False)
    name = captures["since_name"].iloc[0] if len(captures) else None
    name_axes(figure, name, "graph size (tokens)")
    return figure
