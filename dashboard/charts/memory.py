"""Memory: the budget, graphs against their reserve and use over time, as frames and as figures."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import pandas as pd

from dashboard import shown
from dashboard.charts.base import (
    Figure,
    Picture,
    add_rows,
    bars_height,
    filled,
    known_text,
    name_axes,
    new_figure,
    row_figure,
    size_unit,
    time_unit,
)
from dashboard.charts.buckets import bucket_text
from dashboard.palette import PART_MEANINGS, colour
from warmup_insights.analysis.summary import Folded
from warmup_insights.model.figures import (
    BY_NAME,
    PART_FIGURES,
    format_figure,
    kv_cache_bytes,
    part_text,
    text_of,
)
from warmup_insights.model.summary import (
    BucketRow,
    FailureFacts,
    GraphFacts,
    MemoryFacts,
    RunSummary,
    ServingEnd,
    StepCost,
)
from warmup_insights.units import format_bytes, format_duration

_STATED = (
    "total_bytes", "weights_bytes", "profile_bytes", "free_bytes", "usable_bytes",
    "graph_reserved_bytes", "graph_estimated_bytes", "graph_memory_bytes",
    "kv_cache_bytes",
)  # fmt: skip
BUDGET_COLUMNS = ["step", "kind", "meaning", "bytes", "start_bytes", "text"]

_Step = tuple[str, str, str, int, int, str]


def budget_picture(summary: RunSummary) -> Picture:
    """The memory budget, as far as it is known."""
    hint = "Sizes that the log states; too few to divide the device."
    if summary.memory_or_none.parts:
        hint = "From the whole device down to what is left for the KV cache."
    return Picture("Memory budget", hint, budget_frame(summary), budget_waterfall)


def budget_frame(summary: RunSummary) -> pd.DataFrame:
    """The memory budget as a waterfall: BUDGET_COLUMNS; empty when nothing is stated.

    `kind` is `level` for what is there, `part` for what is taken away from it, `inside`
    for a share of the part above. Where the parts are unknown it is `stated`: sizes
    that need not add up.
    """
    memory = summary.memory_or_none
    steps = list(_parts(summary, memory)) if memory.parts else list(_stated(summary))
    return pd.DataFrame(steps, columns=BUDGET_COLUMNS)


def _level(summary: RunSummary, name: str, words: str) -> Iterator[_Step]:
    size = BY_NAME[name].read(summary)
    if size is not None:
        yield words, "level", "total", int(size), 0, text_of(summary, name)


def _parts(summary: RunSummary, memory: MemoryFacts) -> Iterator[_Step]:
    yield from _level(summary, "total_bytes", "Device total")
    left = memory.total_bytes or 0
    names = [part.name for part in memory.parts]
    # What graphs took of the margin has a bar, and the estimate has the other one.
    is_split = any("out of" in part.label for part in memory.parts)
    used = BY_NAME["graph_memory_bytes"].read(summary)
    for part, following in zip(memory.parts, [*names[1:], ""], strict=True):
        left = 0 if part.name == "kv_cache" else left - part.bytes
        words = part.label[0].upper() + part.label[1:]
        meaning = PART_MEANINGS[part.name]
        size = part_text(summary, part)
        yield words, "part", meaning, part.bytes, left, size
        if part.name == "graphs" and used is not None and not is_split:
            start = max(0, left + part.bytes - int(used))
            text = text_of(summary, "graph_memory_bytes")
            yield "Taken by graphs", "inside", "captured", int(used), start, text
        if part.name == "at_start":
            yield from _level(summary, "free_bytes", "Free at the start")
        elif following == "margin" and part.name != "graphs":
            yield from _level(summary, "free_bytes", "Free after profiling")
        if part.name == "margin":
            yield from _level(summary, "usable_bytes", "Usable")


_MEANINGS = {figure: PART_MEANINGS[part] for part, figure in PART_FIGURES.items()}
_MEANINGS |= {"graph_estimated_bytes": "reserved", "graph_memory_bytes": "captured"}


def _stated(summary: RunSummary) -> Iterator[_Step]:
    for name in _STATED:
        size = BY_NAME[name].read(summary)
        if size is None:
            continue
        title, meaning = shown.label(name), _MEANINGS.get(name, "total")
        yield title, "stated", meaning, int(size), 0, text_of(summary, name)


def failure_frame(summary: RunSummary) -> pd.DataFrame:
    """Memory at the moment of a failure, as far as it is stated: BUDGET_COLUMNS.

    A request begins where free memory begins, so that it ends beyond it by what
    was short.
    """
    cause, memory = failed_with(summary), summary.memory_or_none
    if cause is None:
        return pd.DataFrame([], columns=BUDGET_COLUMNS)
    stated = cause.stated
    total = stated.total_bytes or memory.total_bytes
    cache = memory.kv_cache_allocated_bytes
    if cache is None and isinstance(cause, ServingEnd):
        # A server that was ready had allocated it.
        cache = kv_cache_bytes(summary)
    free, requested = cause.free_bytes, cause.needed_bytes
    start = total - free if total is not None and free is not None else 0
    short = None if free is None or requested is None else requested - free
    if cause.kind == "no_kv_cache":
        start, free = 0, memory.kv_cache_bytes if free is None else free
    if free is not None and free < 0:
        short, free = -free if requested is None else requested - free, 0
    rows = (
        ("Device", "total", total, 0),
        ("Weights", "load", memory.weights_bytes, 0),
        ("Taken by the process", "prepare", stated.process_bytes, 0),
        ("Of it by tensors", "prepare", stated.allocated_bytes, 0),
        ("KV cache", "kv_cache", cache, 0),
        ("Free" if cause.kind != "no_kv_cache" else "Left for the KV cache",
         "margin", free, max(0, start)),
        ("Requested", "missed", requested, max(0, start)),
        ("Short by", "missed", short if short and short > 0 else None,
         max(0, start) + (free or 0)),
    )  # fmt: skip
    steps = [
        (name, "stated", meaning, int(size), int(begin), format_figure(size, "bytes"))
        for name, meaning, size, begin in rows
        if size is not None
    ]
    return pd.DataFrame(steps, columns=BUDGET_COLUMNS)


def failed_with(summary: RunSummary) -> FailureFacts | ServingEnd | None:
    """What ended the start, else what ended serving, unless that was a shutdown."""
    end = summary.serving_or_none.end
    if end is not None and end.kind == "shutdown":
        end = None
    return summary.failure or end


def reserve_picture(summary: RunSummary) -> Picture:
    """The memory of graphs against what was set aside for them."""
    unused = BY_NAME["graph_unused_blocks"].read(summary)
    shares = graph_shares(summary)
    hint = "What was set aside for graphs, and what they took."
    if shares["used_bytes"].isna().all():
        hint = "What was set aside for graphs; what they took is not stated."
    if unused is not None:
        more = "is unused" if unused >= 0 else "graphs took beyond it"
        blocks = text_of(summary, "graph_unused_blocks").removeprefix("-")
        hint += f" What {more} would hold {blocks} KV blocks."
    title = "Graph memory: reserved against used"
    return Picture(title, hint, shares, reserved_used)


def graph_shares(summary: RunSummary) -> pd.DataFrame:
    """What was set aside for graphs and what they took: share, reserved_bytes,
    reserved_text, used_bytes, used_text. On CUDA the estimate is what is set aside, unless
    it is not. Empty where only what all took is known: the budget has that."""
    labels = {part.label for part in summary.memory_or_none.parts}
    graphs = summary.graphs or GraphFacts()
    is_estimate = graphs.is_reserved or "graphs, as estimated" in labels
    reserved = "graph_estimated_bytes" if is_estimate else "graph_reserved_bytes"
    pairs = [("all graphs", reserved, "graph_memory_bytes")]
    pairs += [
        (phase, f"{phase}_graph_budget_bytes", f"{phase}_graph_used_bytes")
        for phase in summary.buckets or {}
    ]
    rows = [
        (share, *(part for name in names
                  for part in (BY_NAME[name].read(summary), text_of(summary, name))))
        for share, *names in pairs
    ]  # fmt: skip
    columns = ["share", "reserved_bytes", "reserved_text", "used_bytes", "used_text"]
    frame = pd.DataFrame(rows, columns=columns)
    known = frame.dropna(how="all", subset=["reserved_bytes", "used_bytes"])
    if known["reserved_bytes"].isna().all() and [*known["share"]] == ["all graphs"]:
        known = known.head(0)
    return known.reset_index(drop=True)


def curve_picture(folded: Folded) -> Picture:
    """Memory in the order of capture, or of the warm-up where no capture states any."""
    points, is_warmup = capture_points(folded.rows)
    title, hint = (
        "Captures",
        "What graphs take together, in the order in which they were captured",
    )
    if is_warmup:
        title = "Memory in the order of warm-up"
        hint = "Free memory that went away during the warm-up, step by step"
    states = (row.warmed if is_warmup else row.captured for row in folded.rows)
    whole = sum(state is True for state in states)
    if len(points) < whole:
        hint += f"; stated for {len(points)} of {whole}, which are drawn side by side"
    skipped = sum(row.skipped is True for row in folded.rows)
    if skipped:
        hint += f"; skipped because they did not fit: {skipped}"
    budget = folded.summary.memory_or_none.graph_budget
    limit = budget.total_bytes if budget else None
    reserved = folded.summary.memory_or_none.graph_reserved_bytes
    if limit and reserved and format_bytes(limit) != format_bytes(reserved):
        hint += (
            ". The budget is what the engine set aside when captures began; before that, "
            f"it had reserved {text_of(folded.summary, 'graph_reserved_bytes')}"
        )
    return Picture(title, f"{hint}.", points, lambda p: capture_curve(p, limit))


def capture_points(rows: Sequence[BucketRow]) -> tuple[pd.DataFrame, bool]:
    """Memory in the order of capture: position, phase, bucket, memory_bytes,
    cumulative_bytes, estimate_bytes; and whether these are eager runs, as no capture
    states anything.

    A recorder states what each capture took. A log states what was free before each
    step, from which cut-out lines cannot take away: cumulative is then a difference.
    """
    captures = [(row.capture, row) for row in rows if row.capture is not None]
    stated = [
        (cost, row)
        for cost, row in captures
        if cost.memory_bytes is not None or cost.free_before_bytes is not None
    ]
    runs = [(row.run, row) for row in rows if row.run is not None]
    chosen = stated or [item for item in runs if item[0].free_before_bytes is not None]
    chosen.sort(key=lambda item: item[0].position)
    first = next((c.free_before_bytes for c, _ in chosen if c.free_before_bytes), None)
    points, taken = [], 0
    for position, (cost, row) in enumerate(chosen, 1):
        free = _free_with(cost)
        taken = taken + (cost.memory_bytes or 0) if first is None else taken
        total = taken if first is None or free is None else first - free
        points.append((position, row.phase, row.bucket, cost.memory_bytes, total,
                       cost.estimate_bytes))  # fmt: skip
    columns = ["position", "phase", "bucket", "memory_bytes", "cumulative_bytes",
               "estimate_bytes"]  # fmt: skip
    return pd.DataFrame(points, columns=columns), not stated


def _free_with(cost: StepCost) -> int | None:
    """Free bytes after a step, else before it: as far as they are stated."""
    after = cost.free_after_bytes
    return cost.free_before_bytes if after is None else after


def memory_points(folded: Folded) -> list[tuple[float, int]]:
    """Seconds since the start and bytes in use, from readings and steps in order."""
    summary = folded.summary
    start, total = summary.time.started, summary.memory_or_none.total_bytes
    found = [
        (r.time, r.used_bytes, r.free_bytes) for r in summary.memory_or_none.readings
    ]
    costs = (cost for row in folded.rows for cost in (row.run, row.capture))
    found += [(cost.time, None, _free_with(cost)) for cost in costs if cost is not None]
    points = []
    for time_s, used, free in found:
        if used is None and total is not None and free is not None:
            used = total - free
        if time_s is not None and start is not None and used is not None:
            points.append((time_s - start, used))
    return sorted(points)


PHASE_SYMBOLS = {"prompt": "circle", "decode": "diamond"}


def budget_waterfall(steps: pd.DataFrame) -> Figure:
    """From total memory to the KV cache, top to bottom; `budget_frame`."""
    figure = row_figure(bars_height(len(steps)))
    ends = [*steps["start_bytes"] + steps["bytes"], 0]
    unit, factor = size_unit(max(ends))
    add_rows(
        figure, steps["step"], steps["bytes"] / factor, steps["text"], name="budget",
        base=steps["start_bytes"] / factor,
        marker=filled(steps["meaning"]),
    )  # fmt: skip
    longest = steps["text"].str.len().max() if len(steps) else 0
    room = 1.65 if longest < 12 else 2.1  # for the text behind a bar
    low, top = min(ends) / factor, max(ends) / factor
    # What is left is negative where the parts take more than there is.
    left = -(room - 1) * max(top, -low) if low < 0 else 0
    figure.update_xaxes(range=[low + left, top * room])
    figure.update_layout(showlegend=False)
    name_axes(figure, f"device memory ({unit})", None)
    return figure


def capture_curve(points: pd.DataFrame, budget_bytes: int | None) -> Figure:
    """Cumulative memory in the order of capture, and the budget."""
    top = max([*points["cumulative_bytes"], budget_bytes or 0], default=0)
    unit, factor = size_unit(top)
    figure = new_figure(340)
    figure.add_scatter(
        x=points["position"], y=points["cumulative_bytes"] / factor, mode="lines",
        line={"shape": "hv", "width": 2, "color": colour("captured")},
        hoverinfo="skip", showlegend=False, name="cumulative",
    )  # fmt: skip
    for phase, rows in points.groupby("phase", sort=False):
        figure.add_scatter(
            x=rows["position"], y=rows["cumulative_bytes"] / factor, mode="markers",
            name=str(phase),
            marker={
                "symbol": PHASE_SYMBOLS.get(str(phase), "square"), "size": 7,
                "line": {"width": 0.5, "color": colour("total")},
                "color": colour("captured"),
            },
            customdata=[
                [bucket_text(row["bucket"]), known_text(row["memory_bytes"], format_bytes),
                 format_bytes(row["cumulative_bytes"]),
                 known_text(row["estimate_bytes"], format_bytes)]
                for row in rows.to_dict("records")
            ],
            hovertemplate="%{customdata[0]}<br>took %{customdata[1]}<br>together "
            "%{customdata[2]}<br>estimated %{customdata[3]}<extra>%{fullData.name}</extra>",
        )  # fmt: skip
    if budget_bytes is not None:
        figure.add_hline(
            y=budget_bytes / factor, line={"dash": "dash", "width": 1.5, "color": colour("total")},
            annotation={"text": f"budget {format_bytes(budget_bytes)}", "font": {"size": 12}},
            annotation_position="top left",
        )  # fmt: skip
    figure.update_yaxes(rangemode="tozero", range=[0, max(top / factor * 1.12, 1e-9)])
    name_axes(figure, "order", f"memory taken ({unit})")
    return figure


def reserved_used(shares: pd.DataFrame) -> Figure:
    """What was set aside (hatched) and what was taken, per phase and together."""
    top = max([0, *shares["reserved_bytes"].dropna(), *shares["used_bytes"].dropna()])
    unit, factor = size_unit(top)
    figure = row_figure(max(200, len(shares) * 64 + 92))
    for name, meaning in (("used", "captured"), ("reserved", "reserved")):
        known = shares[shares[f"{name}_bytes"].notna()]
        add_rows(
            figure, known["share"], known[f"{name}_bytes"] / factor,
            known[f"{name}_text"], name=name, hover=f"%{{y}}, {name}: %{{text}}",
            marker=filled(meaning),
        )  # fmt: skip
    figure.update_layout(barmode="group", legend={"traceorder": "reversed"})
    figure.update_xaxes(range=[0, top / factor * 1.5 or 1])
    name_axes(figure, f"memory ({unit})", None)
    return figure


def memory_line(
    points: Sequence[tuple[float, int]],
    total_bytes: int | None,
    until_s: float,
) -> Figure:
    """Device memory in use over time, to the last event: pairs of seconds and bytes."""
    top = max([total_bytes or 0, *(size for _, size in points)], default=1)
    unit, factor = size_unit(top)
    long_unit, seconds = time_unit(until_s)
    figure = new_figure(280)
    figure.add_scatter(
        x=[time / seconds for time, _ in points],
        y=[size / factor for _, size in points],
        mode="lines+markers", fill="tozeroy", name="in use",
        line={"shape": "hv", "width": 2, "color": colour("captured")},
        customdata=[[format_duration(t), format_bytes(s)] for t, s in points],
        hovertemplate="%{customdata[1]} after %{customdata[0]}<extra></extra>",
    )  # fmt: skip
    if total_bytes is not None:
        figure.add_hline(
            y=total_bytes / factor,
            line={"dash": "dash", "width": 1.5, "color": colour("total")},
            annotation={"text": f"device {format_bytes(total_bytes)}"},
            annotation_position="bottom right",
        )
    figure.update_layout(showlegend=False)
    figure.update_xaxes(range=[0, until_s / seconds])
    figure.update_yaxes(range=[0, top / factor * 1.05])
    name_axes(figure, f"time since the start ({long_unit})", f"in use ({unit})")
    return figure
