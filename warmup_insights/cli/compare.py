"""`compare`: runs side by side."""

from __future__ import annotations

import click

from warmup_insights.analysis.compare import Comparability
from warmup_insights.analysis.compare import compare as compare_runs
from warmup_insights.analysis.pareto import GOALS, configuration_rows, differing, pick
from warmup_insights.cli.loading import load_runs
from warmup_insights.cli.options import db_option, json_option
from warmup_insights.cli.printing import print_json, print_notes, print_tables
from warmup_insights.errors import InputError
from warmup_insights.export.comparison import comparison_markdown, comparison_tables
from warmup_insights.export.plans import pick_json, pick_table
from warmup_insights.export.tables import plain


@click.command()
@click.argument("runs", metavar="RUN RUN...", nargs=-1, required=True)
@click.option("--markdown", is_flag=True, help="Print Markdown, for a pull request.")
@click.option("--full", is_flag=True, help="Show figures that did not change, too.")
@click.option(
    "--goal", type=click.Choice(list(GOALS)),
    help="Name the run to choose for this as well, of one model on one kind of device.",
)  # fmt: skip
@db_option
@json_option
def compare(
    runs: tuple[str, ...],
    markdown: bool,
    full: bool,
    goal: str | None,
    db: str,
    as_json: bool,
) -> None:
    """The first RUN is the baseline.

    A RUN is a run id, its first 4 characters or more, a label, `latest` (the last to
    start), or a log.
    """
    if markdown and as_json:
        raise click.UsageError("Choose one of --json and --markdown")
    loaded = load_runs(db, runs)
    summaries = [run.summary for run in loaded]
    result = compare_runs(summaries, [run.rows for run in loaded])
    for other in summaries[1:] if goal is not None else []:
        reason = Comparability(summaries[0], other).subject_reason
        if reason is not None:
            raise InputError(
                f"--goal needs runs of one model on one kind of device; {reason}"
            )
    rows = [] if goal is None else configuration_rows(summaries)
    if as_json:
        answer = result.as_dict()
        if goal is not None:
            answer["pick"] = pick_json(pick(rows, goal), differing(rows))
        print_json(answer)
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
    if goal is not None:
        print_tables([pick_table(rows, goal)])
