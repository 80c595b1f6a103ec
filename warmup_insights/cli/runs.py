"""`runs`: the table of stored runs."""

from __future__ import annotations

import json
import time
from typing import TYPE_CHECKING, Any, Literal

import click

from warmup_insights.cli.options import db_option, json_option

if TYPE_CHECKING:
    from warmup_insights.model.run import RunRecord
    from warmup_insights.storage import EventStore


@click.command(short_help="List the stored runs, newest first.")
@db_option
@click.option(
    "--limit", default=50, show_default=True, type=click.IntRange(1, 100_000),
    help="Most runs to list.",
)  # fmt: skip
@click.option("--search", help="Part of a name, model, label or note.")
@json_option
def runs(db: str, limit: int, search: str | None, as_json: bool) -> None:
    """List the stored runs, newest first."""
    from warmup_insights.storage import EventStore

    with EventStore(db) as store:
        rows = table_rows(store, store.runs(limit=limit, text=search))
    if as_json:
        click.echo(json.dumps({"runs": rows}, indent=2))
        return
    if not rows:
        click.echo(
            "No runs yet. `warmup-insights ingest LOG` reads a log, "
            "`warmup-insights run` makes a warm-up here."
        )
        return
    print_runs(rows)


def table_rows(store: EventStore, records: list[RunRecord]) -> list[dict[str, Any]]:
    """What the table shows of each run, as plain values."""
    summaries = store.summaries([record.run_id for record in records])
    now = time.time()
    return [_row(record, summaries.get(record.run_id), now) for record in records]


def _row(
    record: RunRecord, summary: dict[str, Any] | None, now: float
) -> dict[str, Any]:
    from warmup_insights.analysis.figures import captured_percent

    summary = summary or {}
    times, memory = summary.get("time") or {}, summary.get("memory") or {}
    return {
        "run_id": record.run_id,
        "label": record.label,
        "status": record.status_at(now),
        "synthetic": record.synthetic,
        "engine": record.engine,
        "version": record.version,
        "model": record.model,
        "device": record.device_kind,
        "source": record.source_name,
        "started_at": times.get("started_at"),
        "wall_s": times.get("wall_s"),
        "warmup_s": times.get("warmup_s"),
        "capture_percent": captured_percent(summary),
        "num_kv_blocks": memory.get("num_kv_blocks"),
        "missed": len(summary.get("misses") or []),
    }


def print_runs(rows: list[dict[str, Any]]) -> None:
    """The table for a person."""
    from rich.markup import escape
    from rich.table import Table

    from warmup_insights.cli.console import stdout_console
    from warmup_insights.units import format_count, format_duration, format_percent

    table = Table(box=None, pad_edge=False, header_style="bold")
    names = (
        "run", "status", "engine", "device", "started (UTC)", "start-up", "warm-up",
        "captured", "KV blocks", "misses", "name",
    )  # fmt: skip
    right = {"start-up", "warm-up", "captured", "KV blocks", "misses"}
    for name in names:
        justify: Literal["left", "right"] = "right" if name in right else "left"
        table.add_column(name, justify=justify, no_wrap=name != "name")
    for row in rows:
        status = row["status"] + (" (synthetic)" if row["synthetic"] else "")
        table.add_row(
            row["run_id"], escape(status), escape(row["engine"] or "?"),
            escape(row["device"] or "?"),
            escape((row["started_at"] or "?")[:19].replace("T", " ")),
            format_duration(row["wall_s"]), format_duration(row["warmup_s"]),
            format_percent(row["capture_percent"]), format_count(row["num_kv_blocks"]),
            str(row["missed"]), escape(row["label"] or row["source"] or ""),
        )  # fmt: skip
    stdout_console().print(table)
