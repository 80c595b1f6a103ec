"""`export`: a run as a file."""

from __future__ import annotations

from typing import Any

import click

from warmup_insights.cli.options import db_option

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
@click.option("--force", is_flag=True, help="Overwrite the file.")
@db_option
def export(run: str, form: str, output: str, force: bool, db: str) -> None:
    """Write one run as JSON, CSV or Markdown.

    RUN is a run id, the unique start of one, a label, or `latest`.
    """
    from warmup_insights.cli.loading import load_runs
    from warmup_insights.cli.writing import write_result

    loaded = load_runs(db, [run])[0]
    text = _text(form, loaded.summary, loaded.bucket_rows)
    write_result(output, text, force=force)


def _text(form: str, summary: dict[str, Any], rows: list[dict[str, Any]]) -> str:
    from warmup_insights.export import runs
    from warmup_insights.export.baseline import run_json

    if form == "json":
        return run_json(summary, rows)
    if form == "csv":
        return runs.figures_csv(summary)
    if form == "buckets-csv":
        return runs.buckets_csv(summary, rows)
    return runs.run_markdown(summary, rows)
