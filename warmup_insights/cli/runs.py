"""`runs`: the table of stored runs."""

from __future__ import annotations

import time
from contextlib import suppress
from typing import TYPE_CHECKING, Any

import click

from warmup_insights import storage
from warmup_insights.analysis.sentences import made_up_word, serving_words
from warmup_insights.cli.options import IntegerRange, db_option, json_option
from warmup_insights.cli.printing import print_json, print_tables, printable
from warmup_insights.drainer import open_store
from warmup_insights.errors import StoreError
from warmup_insights.export.tables import TextTable, make_table
from warmup_insights.model.summary import RunSummary
from warmup_insights.runs import record_of, refresh_stale
from warmup_insights.units import (
    format_count,
    format_duration,
    format_percent,
    isoformat,
)

if TYPE_CHECKING:
    from warmup_insights.storage import EventStore

BLOCK = 500
"""Summaries that are read at once."""


@click.command()
@db_option
@click.option(
    "--limit", default=50, show_default=True, type=IntegerRange(1, 100_000),
    help="Most runs to list.",
)  # fmt: skip
@click.option("--search", help="Part of a name, model, label or note.")
@json_option
def runs(db: str, limit: int, search: str | None, as_json: bool) -> None:
    """A start whose recording process is gone shows as failed."""
    with open_store(db) as store:
        if store.stale_runs():
            # A database that may not be written is listed as it is.
            with suppress(StoreError), storage.EventStore(db) as writable:
                refresh_stale(writable)
        rows = table_rows(store, search, limit)
    if as_json:
        print_json({"runs": rows})
    elif not rows and search:
        click.echo(f"No run has {printable(search)!r} in its name, model or notes")
    elif not rows:
        click.echo("No runs; add some with `warmup-insights ingest LOG`")
    else:
        print_tables([runs_table(rows)])


def table_rows(store: EventStore, text: str | None, limit: int) -> list[dict[str, Any]]:
    """What the table shows of each run, as plain values."""
    now = time.time()
    rows = store.run_table(limit=limit, text=text)
    found: dict[str, RunSummary] = {}
    for start in range(0, len(rows), BLOCK):
        ids = [row["run_id"] for row in rows[start : start + BLOCK]]
        found |= store.summaries(ids, with_lists=False)
    return [_row(row, now, found.get(row["run_id"])) for row in rows]


def _row(row: dict[str, Any], now: float, summary: RunSummary | None) -> dict[str, Any]:
    record = record_of(row)
    return {
        "run_id": row["run_id"],
        "name": record.name,
        "label": row["label"],
        "status": record.status_at(now),
        "serving_end": None if summary is None else serving_words(summary),
        "synthetic": row["synthetic"],
        "engine": row["engine"],
        "version": row["version"],
        "model": row["model"],
        "device": row["device_kind"],
        "source": row["source_name"],
        "started_at": isoformat(row["started_at"]),
        "guessed": [] if summary is None else summary.guessed,
        "start": row["start"],
        "ready_s": row["ready_s"],
        "wall_s": row["wall_s"],
        "warmup_s": row["warmup_s"],
        "capture_percent": row["captured_percent"],
        "num_kv_blocks": row["num_kv_blocks"],
        "missed": row["missed"],
    }


def _status_text(row: dict[str, Any]) -> str:
    word = made_up_word(row["device"], row["synthetic"])
    return row["status"] if word is None else f"{row['status']} ({word})"


def runs_table(rows: list[dict[str, Any]]) -> TextTable:
    """The table for a person, without columns in which no run has anything."""
    cells = {
        "run": [row["run_id"] for row in rows],
        "name": [row["name"] for row in rows],
        "status": [_status_text(row) for row in rows],
        "serving ended": [row["serving_end"] or "" for row in rows],
        "engine": [row["engine"] or "?" for row in rows],
        "device": [row["device"] or "?" for row in rows],
        "started (UTC)": [
            (row["started_at"] or "?")[:16].replace("T", " ")
            + (" ?" if "time.started_at" in row["guessed"] else "")
            for row in rows
        ],
        "start": [row["start"] or "?" for row in rows],
        "ready after": [format_duration(row["ready_s"]) for row in rows],
        "warm-up": [format_duration(row["warmup_s"]) for row in rows],
        "captured": [format_percent(row["capture_percent"]) for row in rows],
        "KV blocks": [format_count(row["num_kv_blocks"]) for row in rows],
        "misses": [format_count(row["missed"]) for row in rows],
    }
    header = [name for name, column in cells.items() if {*column} - {"", "?"}]
    numbers = ("ready after", "warm-up", "captured", "KV blocks", "misses")
    right = [index for index, name in enumerate(header) if name in numbers]
    columns = [cells[name] for name in header]
    is_guessed = any("time.started_at" in row["guessed"] for row in rows)
    note = "? after a time: the year is guessed, as the log states none" * is_guessed
    return make_table(
        "", header, list(zip(*columns, strict=True)), right=right, note=note
    )
