"""`export`: a run as a file."""

from __future__ import annotations

import click

from warmup_insights.analysis.summary import Folded
from warmup_insights.cli.loading import open_run
from warmup_insights.cli.options import db_option, force_option
from warmup_insights.cli.printing import write_result
from warmup_insights.export import runs
from warmup_insights.export.prometheus import prometheus_text
from warmup_insights.export.runs import run_json
from warmup_insights.export.trace import trace_json
from warmup_insights.runs import current

FORMATS = ("json", "csv", "buckets-csv", "markdown", "trace", "prometheus")


@click.command()
@click.argument("run")
@click.option(
    "--format", "form", type=click.Choice(FORMATS), default="json", show_default=True,
    help="json can be a baseline of `check`; csv has one row per figure, buckets-csv "
    "one per bucket; trace is for ui.perfetto.dev, prometheus for a textfile collector.",
)  # fmt: skip
@click.option(
    "-o", "--output", default="-", show_default=True, metavar="FILE",
    help="Where to; - is standard output.",
)  # fmt: skip
@force_option
@db_option
def export(run: str, form: str, output: str, force: bool, db: str) -> None:
    """RUN is a run id, the unique start of one, a label, `latest`, or a log."""
    with open_run(db, run) as (store, record):
        loaded = current(store, record)
        if form == "trace":
            text = trace_json(loaded, store.events(record.run_id))
        else:
            text = _text(form, loaded)
    write_result(output, text, force=force)


def _text(form: str, run: Folded) -> str:
    if form == "json":
        return run_json(run.summary, run.rows)
    if form == "csv":
        return runs.figures_csv(run.summary)
    if form == "prometheus":
        return prometheus_text([run.summary])
    if form == "buckets-csv":
        return runs.buckets_csv(run.summary, run.rows)
    return runs.run_markdown(run.summary, run.rows)
