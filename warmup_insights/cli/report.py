"""`report`: runs as one HTML file."""

from __future__ import annotations

import click

from warmup_insights.cli.loading import open_run
from warmup_insights.cli.options import db_option, force_option
from warmup_insights.cli.printing import refuse_existing, write_result
from warmup_insights.errors import InputError
from warmup_insights.export.redact import Redactor
from warmup_insights.export.runs import RunWithLines
from warmup_insights.runs import current, findings, kept_lines

MOST_RUNS = 12


@click.command()
@click.argument("runs", metavar="RUN...", nargs=-1, required=True)
@click.option(
    "-o", "--output", default="report.html", show_default=True, metavar="FILE",
    help="Where to; - is standard output.",
)  # fmt: skip
@click.option(
    "--redact", is_flag=True,
    help="Replace names of hosts and users, paths and addresses, the same one by the "
    "same word.",
)  # fmt: skip
@force_option
@db_option
def report(
    runs: tuple[str, ...], output: str, redact: bool, force: bool, db: str
) -> None:
    """A RUN is a run id, its first 4 characters or more, a label, `latest` (the last to
    start), or a log.

    The file opens without a server and without the network, and can be attached to a mail
    or an issue. Several runs are compared; the first is the baseline.
    """
    if len(runs) > MOST_RUNS:
        raise InputError(f"A report compares at most {MOST_RUNS} runs; name fewer")
    if output != "-":
        refuse_existing(output, force=force)
    try:
        from dashboard.report import report_html
    except ModuleNotFoundError as error:
        raise InputError(
            f"A report needs the package {error.name}; install warmup-insights[dashboard]"
        ) from error
    loaded = []
    for name in runs:
        with open_run(db, name) as (store, record):
            folded = current(store, record)
            lines = kept_lines(store, record)
            advice = findings(store, record, folded)
        loaded.append(RunWithLines(folded, lines, advice))
    shown = Redactor().runs(loaded) if redact else loaded
    write_result(output, report_html(shown), force=force)
