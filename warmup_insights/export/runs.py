"""One run as CSV or Markdown."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from warmup_insights.analysis.compare import phase_seconds
from warmup_insights.analysis.figures import FIGURES, format_figure
from warmup_insights.analysis.serving import serving_figures
from warmup_insights.analysis.waterfall import memory_parts
from warmup_insights.export.tables import (
    TextTable,
    csv_text,
    escape_markdown,
    make_table,
    markdown_table,
)
from warmup_insights.units import format_bytes, format_duration

Summary = Mapping[str, Any]
Rows = Sequence[Mapping[str, Any]]

_BUCKET_COLUMNS = (
    "generated", "warmed", "captured", "skipped", "missed", "duration_s",
    "memory_bytes", "state",
)  # fmt: skip


def figures_csv(summary: Summary) -> str:
    """A row per figure: run, name, value, unit. Sizes are bytes, times seconds."""
    figures = [*FIGURES, *serving_figures([summary])]
    run_id = summary.get("run_id")
    rows = [[run_id, f.name, f.read(summary), f.unit] for f in figures]
    rows += [
        [run_id, f"phase:{name}", seconds, "s"]
        for name, seconds in phase_seconds(summary).items()
    ]
    return csv_text(("run_id", "figure", "value", "unit"), rows)


def buckets_csv(summary: Summary, rows: Rows) -> str:
    """A row per bucket; the dimensions are columns, empty where there are fewer."""
    header = ("run_id", "phase", "d0", "d1", "d2", "d3", *_BUCKET_COLUMNS)
    cells = []
    for row in rows:
        bucket = list(row["bucket"]) + [None] * (4 - len(row["bucket"]))
        values = [_plain(row.get(name)) for name in _BUCKET_COLUMNS]
        cells.append([summary.get("run_id"), row["phase"], *bucket, *values])
    return csv_text(header, cells)


def _plain(value: Any) -> Any:
    return int(value) if isinstance(value, bool) else value


def run_markdown(summary: Summary, rows: Rows) -> str:
    """What a person wants to know about a run, in Markdown."""
    name = summary.get("label") or (summary.get("source") or {}).get("name") or "run"
    head = f"## {escape_markdown(str(name))} ({summary.get('run_id')})\n"
    tables = [_facts(summary), _phases(summary), _memory(summary), _figures(summary)]
    tables.append(_costliest(rows))
    return "\n".join([head, *(markdown_table(t) for t in tables if t.rows)])


def _facts(summary: Summary) -> TextTable:
    engine, device = summary.get("engine") or {}, summary.get("device") or {}
    rows = [
        ("status", str(summary.get("status"))),
        ("engine", " ".join(filter(None, (engine.get("name"), engine.get("version"))))),
        ("model", summary.get("model") or ""),
        ("device", device.get("name") or device.get("kind") or ""),
    ]
    if summary.get("synthetic"):
        rows.append(("synthetic", "the figures come from a simulation"))
    return make_table("", ("what", "value"), [row for row in rows if row[1]])


def _phases(summary: Summary) -> TextTable:
    rows = [(n, format_duration(s)) for n, s in phase_seconds(summary).items()]
    return make_table("Time by phase", ("phase", "time"), rows, right=(1,))


def _memory(summary: Summary) -> TextTable:
    memory = summary.get("memory")
    parts = memory_parts(dict(memory)) if memory else []
    rows = [(part["label"], format_bytes(part["bytes"])) for part in parts]
    return make_table("Memory budget", ("part", "size"), rows, right=(1,))


def _figures(summary: Summary) -> TextTable:
    rows = [
        (figure.title, format_figure(value, figure.unit))
        for figure in (*FIGURES, *serving_figures([summary]))
        if (value := figure.read(summary)) is not None
    ]
    return make_table("Figures", ("figure", "value"), rows, right=(1,))


def _costliest(rows: Rows) -> TextTable:
    timed = [row for row in rows if row.get("duration_s") is not None]
    timed.sort(key=lambda row: -row["duration_s"])
    cells = [
        (
            row["phase"],
            str(tuple(row["bucket"])),
            format_duration(row["duration_s"]),
            format_bytes(row.get("memory_bytes")),
        )
        for row in timed[:10]
    ]
    header = ("phase", "bucket", "time", "memory")
    return make_table("Costliest buckets", header, cells, right=(2, 3))
