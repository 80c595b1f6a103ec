"""Runs as rows of a list, and as series of one model on one kind of device."""

from __future__ import annotations

import itertools
import time
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import pandas as pd

from dashboard import shown
from dashboard.charts.base import OUTLINE, Figure, name_axes, new_figure, time_unit
from dashboard.palette import MUTED, colour
from dashboard.text import figure_text, short_name, visible
from warmup_insights.analysis.change_points import change_points
from warmup_insights.analysis.compare import NOTICEABLE
from warmup_insights.analysis.sentences import (
    cause_text,
    largest_phase,
    largest_phase_words,
    made_up_word,
    not_a_start,
    progress_text,
    serving_cause,
    serving_words,
)
from warmup_insights.model.figures import BY_NAME
from warmup_insights.model.summary import RunSummary
from warmup_insights.runs import record_of
from warmup_insights.storage.queries import RUN_COLUMNS
from warmup_insights.units import format_duration


def runs_frame(rows: Sequence[Mapping[str, Any]]) -> pd.DataFrame:
    """The runs page: RUN_COLUMNS with `status` as it is now, and `name`, with the
    beginning of the id where another run of the list is called the same.

    `doubtful` names the figures among them whose evidence contradicts itself.
    """
    now = time.time()
    frame = pd.DataFrame(list(rows), columns=list(RUN_COLUMNS))
    if frame.empty:
        return frame.assign(name=pd.Series(dtype="str"))
    # Columns that are empty throughout would become numbers.
    texts = [
        "label", "notes", "engine", "version", "model", "device_kind", "device_name",
        "start", "source_name",
    ]  # fmt: skip
    frame[texts] = frame[texts].astype("object").where(frame[texts].notna(), None)
    records = [record_of(row) for row in rows]
    frame["status"] = [record.status_at(now) for record in records]
    counts = Counter(record.name for record in records)
    frame["name"] = [
        record.name
        if counts[record.name] == 1
        else f"{record.name} \u00b7 {record.run_id[:6]}"
        for record in records
    ]
    frame["doubtful"] = [doubtful((row["doubtful"] or "").split()) for row in rows]
    return frame


def doubtful(names: Iterable[str]) -> str | None:
    """Labels of figures whose evidence contradicts itself; None when there are none."""
    return ", ".join(shown.label(name) for name in names) or None


MAX_CAUSE = 56
"""Characters of a cause in the list; the page of the run has all of it."""


def runs_table(rows: pd.DataFrame, summaries: Mapping[str, RunSummary]) -> pd.DataFrame:
    """The list of runs, first those that failed in start or serving, those whose log has
    no time last: one column per thing a person looks for.

    Columns in which no run has anything are left out; `rows` are `runs_frame`.
    """
    broken = [n for n, each in summaries.items() if serving_cause(each) is not None]
    is_first = rows["status"].eq("failed") | rows["run_id"].isin(broken)
    order = rows["started_at"].isna().map({False: 1, True: 2}).mask(is_first, 0)
    rows = rows.assign(order=order, change=_changes(rows))
    rows = rows.sort_values("order", kind="stable")
    table = pd.DataFrame([_row(row, summaries) for row in rows.to_dict("records")])
    for name in ("num_kv_blocks", "kv_cache_tokens", "missed"):
        table[name] = table[name].astype("Int64")
    table["started"] = pd.to_datetime(
        rows["started_at"].astype("float64").array, unit="s"
    )
    empty = [name for name in table if table[name].isna().all()]
    return table.drop(columns=empty)


def _row(row: Mapping[Any, Any], summaries: Mapping[str, RunSummary]) -> dict[str, Any]:
    summary = summaries.get(row["run_id"])
    full, name = visible(row["name"]), short_name(row["name"])
    model = _cell(row["model"])
    end = None if summary is None else serving_words(summary)
    engine = shown.engine_words(row["engine"], row["version"])
    return {
        "open": "Open",
        "status": [row["status"], *([] if end is None else [f"serving: {end}"])],
        "name": name,
        "figures": made_up_word(row["device_kind"], row["synthetic"]),
        "happened": None if summary is None else _happened(summary, row["status"]),
        "ready_s": row["ready_s"],
        "start": row["start"],
        "largest": None if summary is None else _largest(summary),
        "change": row["change"],
        "captured_percent": row["captured_percent"],
        "kv_cache_tokens": _figure(summary, "kv_cache_tokens"),
        "max_concurrency": _figure(summary, "max_concurrency"),
        "num_kv_blocks": row["num_kv_blocks"],
        "warmup_s": row["warmup_s"],
        "missed": row["missed"],
        "started": None,
        "year": "guessed"
        if summary is not None and "time.started_at" in summary.guessed
        else None,
        "engine": visible(engine) or None,
        "device": visible(shown.device_words(row["device_kind"], row["device_name"]))
        or None,
        "model": model if model is None or not model.endswith(full) else None,
        "doubtful": row["doubtful"],
        "notes": _cell(row["notes"]),
        "run_id": row["run_id"],
        "full_name": full if full != name else None,
    }  # fmt: skip


def _figure(summary: RunSummary | None, name: str) -> float | None:
    return None if summary is None else BY_NAME[name].read(summary)


def _happened(summary: RunSummary, status: str) -> str | None:
    """The cause of a failure, of the start or of serving; where a log ends, or what a
    file without a start holds; of a long text the beginning."""
    cause = serving_cause(summary)
    text: str | None
    if summary.failure is not None:
        text = cause_text(summary.failure)
    elif status == "failed":  # its recorder was cut off
        text = f"the process was killed in {progress_text(summary.progress)}"
    elif summary.stop is not None:
        text = f"stopped during {progress_text(summary.progress)}"
    elif cause is not None:
        text = f"{cause} while serving"
    else:
        text = not_a_start(summary)
        if summary.status == "unknown" and summary.progress.stage != "starting":
            text = text or f"ends with {progress_text(summary.progress)}"
    if not text:
        return None
    return visible(f"{text[0].upper()}{text[1:]}", MAX_CAUSE)


def _largest(summary: RunSummary) -> str | None:
    found = largest_phase(summary)
    if found is None:
        return None
    return f"{format_duration(found[1])}, {largest_phase_words(summary, found[0])}"


def _changes(rows: pd.DataFrame) -> pd.Series[Any]:
    """Time to ready, or the warm-up, against the last finished run before it of the same
    model, device and kind of start, as text."""
    found: dict[str, str | None] = {}
    known = rows[(rows["status"] == "finished") & rows["model"].notna()]
    for _, series in with_series(known, by_start=True).groupby("series"):
        ordered = series.sort_values("started_at").to_dict("records")
        for before, row in itertools.pairwise(ordered):
            found[row["run_id"]] = _change_text(row, before)
    return rows["run_id"].map(found.get).astype("object")


def _change_text(row: Mapping[Any, Any], before: Mapping[Any, Any]) -> str | None:
    for name in ("ready_s", "warmup_s"):
        now, then = row[name], before[name]
        if pd.notna(now) and pd.notna(then) and then > 0:
            share = now / then - 1
            if abs(share) <= NOTICEABLE:
                return "same"
            return f"{100 * abs(share):.0f} % {'slower' if share > 0 else 'faster'}"
    return None


def _cell(text: object) -> str | None:
    return visible(text) if isinstance(text, str) and text else None


def trend_frame(rows: pd.DataFrame, by: str) -> pd.DataFrame:
    """Runs of the series with two or more of them, the largest series first.

    A series is a model on a kind of device and a kind of start; simulated and made-up runs are series of
    their own. Columns: series, figures, started_at, name, status, run_id and `by`.
    """
    known = rows[rows[by].notna() & rows["started_at"].notna()]
    if known.empty:
        return known.assign(series=[])
    named = with_series(known, by_start=True)
    counts = named["series"].value_counts()
    kept = named[named["series"].map(counts) > 1]
    order = kept["series"].map(counts)
    kept = kept.assign(order=order).sort_values("order", ascending=False, kind="stable")
    kept["figures"] = [
        made_up_word(kind, made_up)
        for kind, made_up in zip(kept["device_kind"], kept["synthetic"], strict=True)
    ]
    return kept[["series", "figures", "started_at", "name", "status", "run_id", by]]


def level_words(series: pd.DataFrame, by: str) -> str:
    """The last change of the level in a series, with the first run that had it."""
    rows = series.sort_values("started_at").reset_index(drop=True)
    changes = change_points(list(rows[by]))
    if not changes:
        return ""
    last = changes[-1]
    first = short_name(rows["name"][last.index])
    return (
        f" Since {first} {format_duration(last.since)}, before "
        f"{format_duration(last.before)}."
    )


def with_series(rows: pd.DataFrame, *, by_start: bool = False) -> pd.DataFrame:
    """Runs with the name of their series: a model on a kind of device, for times also a
    kind of start where it is known."""
    records = rows.to_dict("records")
    return rows.assign(series=[_series(row, by_start) for row in records])


NO_MODEL = "unknown model"


def _series(row: Mapping[Any, Any], by_start: bool) -> str:
    model = row["model"].rstrip("/").rsplit("/", 1)[-1] if row["model"] else NO_MODEL
    device = (
        shown.device_words(row["device_kind"], row["device_name"])
        or "an unknown device"
    )
    figures = made_up_word(row["device_kind"], row["synthetic"])
    marked = figures == "synthetic" or (figures and "simulated" not in device)
    name = f"{model} on {device}" + (f" ({figures})" if marked else "")
    if by_start and isinstance(row["start"], str):
        name += f", {row['start']} start"
    return name


LEAST_REACH = pd.Timedelta(minutes=2)
"""Of the axis on each side of its middle."""
TICKS = [
    {"dtickrange": [None, 86_400_000], "value": "%H:%M\n%b %-d, %Y"},
    {"dtickrange": [86_400_000, "M1"], "value": "%b %-d\n%Y"},
    {"dtickrange": ["M1", None], "value": "%b\n%Y"},
]
"""Times without seconds below a day, else dates."""
_STATUS_SYMBOLS = {"finished": "circle", "failed": "x", "running": "circle-open"}


def trend(runs: pd.DataFrame, *, by: str, words: str) -> Figure:
    """A figure over the start of the runs of one series; the dashed line is the median,
    a dotted one stands at the first run of a new level.

    Columns: started_at (seconds since the epoch), name, status, and `by` in seconds.
    """
    rows = runs.sort_values("started_at")
    unit, factor = time_unit(float(rows[by].max()) if len(rows) else 1.0)
    figure = new_figure(230)
    figure.add_scatter(
        x=pd.to_datetime(rows["started_at"], unit="s"), y=rows[by] / factor,
        mode="lines+markers", line={"color": colour("total"), "width": 1},
        marker={
            "size": 8, "color": colour("warmed"), "line": OUTLINE,
            "symbol": [_STATUS_SYMBOLS.get(s, "diamond") for s in rows["status"]],
        },
        customdata=[
            [figure_text(short_name(row["name"])), format_duration(row[by]), row["status"]]
            for row in rows.to_dict("records")
        ],
        hovertemplate="%{customdata[0]}<br>%{customdata[1]}, %{customdata[2]}"
        "<br>%{x}<extra></extra>",
        name=words,
    )  # fmt: skip
    starts = list(pd.to_datetime(rows["started_at"], unit="s"))
    for change in change_points(list(rows[by])):
        figure.add_vline(
            x=starts[change.index],
            line={"dash": "dot", "width": 2, "color": colour("missed")},
        )
    if len(rows):
        figure.add_hline(
            y=float(rows[by].median()) / factor,
            line={"dash": "dash", "width": 1, "color": MUTED},
        )
        # Of runs that began together an axis of their own would have parts of seconds.
        middle, reach = starts[0] + (starts[-1] - starts[0]) / 2, starts[-1] - starts[0]
        half = max(0.55 * reach, LEAST_REACH)
        figure.update_xaxes(range=[middle - half, middle + half])
    figure.update_layout(showlegend=False)
    figure.update_xaxes(nticks=4, tickformatstops=TICKS)
    figure.update_yaxes(rangemode="tozero")
    name_axes(figure, "start of the run (UTC)", f"{words} ({unit})")
    return figure
