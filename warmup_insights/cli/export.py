"""`export`: a run as a file."""

from __future__ import annotations

import click

from warmup_insights.analysis.summary import Folded
from warmup_insights.cli.loading import load_runs
from warmup_insights.cli.options import db_option, force_option
from warmup_insights.cli.printing import write_result
from warmup_insights.export import runs
from warmup_insights.export.runs import run_json

FORMATS = ("json", "csv", "buckets-csv", "markdown")


@click.command()
@click.argument("run")
@click.option(
    "--format", "form", type=click.Choice(FORMATS), default="json", show_default=True,
    help="json can be a baseline of `check`; csv has one row per figure, buckets-csv "
    "one per bucket.",
)  # fmt: skip
@click.option(
    "-o", "--output", default="-", show_default=True, metavar="FILE",
    help="Where to; - is standard output.",
)  # fmt: skip
@force_option
@db_option
def export(run: str, form: str, output: str, force: bool, db: str) -> None:
    """RUN is a run id, the unique start of one, a label, or `latest`."""
    loaded = load_runs(db, [run])[0]
    write_result(output, _text(form, loaded), force=force)


def _text(form: str, run: Folded) -> str:
    if form == "json":
        return run_json(run.summary, run.rows)
    if form == "csv":
        return runs.figures_csv(run.summary)
    if form == "buckets-csv":
        return runs.buckets_csv(run.summary, run.rows)
    return runs.run_markdown(run.summary, run.rows)
