"""`show`: everything about one run."""

from __future__ import annotations

import click
from msgspec import to_builtins

from warmup_insights.cli.loading import load_runs
from warmup_insights.cli.options import db_option, json_option
from warmup_insights.cli.printing import print_json, print_tables
from warmup_insights.cli.show_text import buckets_table, print_summary
from warmup_insights.drainer import open_store
from warmup_insights.model.events import encode


@click.command()
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
    """RUN is a run id, the unique start of one, a label, or `latest`."""
    if events:
        with open_store(db) as store:
            for event in store.events(store.find_run(run).run_id):
                click.echo(encode(event).decode())
        return
    (folded,) = load_runs(db, [run])
    if as_json:
        extra = {"bucket_rows": to_builtins(folded.rows)} if buckets else {}
        print_json({**to_builtins(folded.summary), **extra})
        return
    print_summary(folded.summary)
    if buckets:
        print_tables([buckets_table(folded.rows)])
