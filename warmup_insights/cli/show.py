"""`show`: everything about one run."""

from __future__ import annotations

import json

import click

from warmup_insights.cli.options import db_option, json_option


@click.command(short_help="Show one run: time, memory, buckets, misses.")
@click.argument("run")
@db_option
@json_option
@click.option(
    "--events", is_flag=True, help="Print the events themselves, as JSON lines."
)
@click.option(
    "--buckets", is_flag=True, help="List every bucket and what became of it."
)
def show(run: str, db: str, as_json: bool, events: bool, buckets: bool) -> None:
    """Show one run: time, memory, buckets, misses.

    RUN is a run id, the unique start of one, a label, or `latest`.
    """
    from warmup_insights.analysis.refresh import current_summary
    from warmup_insights.storage import EventStore

    with EventStore(db) as store:
        record = store.find_run(run)
        if events:
            from warmup_insights.model.events import encode

            for event in store.events(record.run_id):
                click.echo(encode(event).decode())
            return
        summary = current_summary(store, record)
        rows = store.bucket_summaries(record.run_id)
    if as_json:
        extra = {"bucket_rows": rows} if buckets else {}
        click.echo(json.dumps({**summary, **extra}, indent=2))
        return
    from warmup_insights.cli.show_text import print_buckets, print_summary

    print_summary(summary)
    if buckets:
        print_buckets(rows)
