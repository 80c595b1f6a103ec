"""`compare`: runs side by side."""

from __future__ import annotations

import click

from warmup_insights.analysis.compare import compare as compare_runs
from warmup_insights.cli.loading import load_runs
from warmup_insights.cli.options import db_option, json_option
from warmup_insights.cli.printing import print_json, print_notes, print_tables
from warmup_insights.export.comparison import comparison_markdown, comparison_tables
from warmup_insights.export.tables import plain


@click.command()
@click.argument("runs", metavar="RUN RUN...", nargs=-1, required=True)
@click.option("--markdown", is_flag=True, help="Print Markdown, for a pull request.")
@click.option("--full", is_flag=True, help="Show figures that did not change, too.")
@db_option
@json_option
def compare(
    runs: tuple[str, ...], markdown: bool, full: bool, db: str, as_json: bool
) -> None:
    """The first RUN is the baseline.

    A RUN is a run id, the unique start of one, a label, `latest`, or a log.
    """
    if markdown and as_json:
        raise click.UsageError("Choose one of --json and --markdown")
    loaded = load_runs(db, runs)
    result = compare_runs([run.summary for run in loaded], [run.rows for run in loaded])
    if as_json:
        print_json(result.as_dict())
        return
    if markdown:
        click.echo(comparison_markdown(result), nl=False)
        return
    print_tables(comparison_tables(result, full=full))
    for text in result.reasons:
        click.echo(plain(text))
    print_notes(result.notes)
    if result.partly_stated:
        names = ", ".join(row.name for row in result.partly_stated[:8])
        more = len(result.partly_stated) - 8
        text = f"Only some of the runs state: {names}"
        click.echo(text + (f" and {more} more" if more > 0 else ""))
