"""`export`: runs as files, and as spans for an OpenTelemetry collector."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from pathlib import Path

import click

from warmup_insights.analysis.sentences import count_text
from warmup_insights.analysis.summary import Folded
from warmup_insights.cli.loading import open_run
from warmup_insights.cli.options import db_option, force_option
from warmup_insights.cli.printing import write_result
from warmup_insights.drainer import open_store
from warmup_insights.export import runs
from warmup_insights.export.issue import issue_markdown
from warmup_insights.export.llm_d import llm_d_report
from warmup_insights.export.otlp import send
from warmup_insights.export.parquet import NAMES, write_parquet
from warmup_insights.export.prometheus import prometheus_text
from warmup_insights.export.redact import Redactor
from warmup_insights.export.runs import RunWithLines
from warmup_insights.export.trace import trace_json
from warmup_insights.model.events import Event
from warmup_insights.model.summary import RunSummary
from warmup_insights.runs import current, kept_lines

Write = Callable[[Folded, Iterable[Event]], str]
"""From a run, and its events where the format has them, to the text of the file."""
FORMATS: dict[str, Write] = {
    "json": lambda run, _: runs.run_json(run.summary, run.rows),
    "csv": lambda run, _: runs.figures_csv(run.summary),
    "buckets-csv": lambda run, _: runs.buckets_csv(run.summary, run.rows),
    "markdown": lambda run, _: runs.run_markdown(run.summary, run.rows),
    "trace": trace_json,
}
OF_SEVERAL: dict[str, Callable[[list[RunSummary]], str]] = {
    "prometheus": prometheus_text,
    "llm-d": llm_d_report,
}
"""Texts of one run or of many."""
EVENTS = ("trace", "otlp", "parquet")
"""Formats with the events of a run, whose texts are not replaced."""
Opened = tuple[Folded, Iterable[Event]]


@click.command()
@click.argument("named", nargs=-1, metavar="[RUN]...")
@click.option(
    "--format", "form", type=click.Choice([*FORMATS, *OF_SEVERAL, "parquet", "otlp", "issue"]),
    default="json", show_default=True,
    help="json can be a baseline of `check`; csv has one row per figure, buckets-csv "
    "one per bucket; trace is for ui.perfetto.dev, prometheus for a textfile collector, "
    "llm-d for a report of llm-d-benchmark, parquet for DuckDB and pandas, otlp for a "
    "collector of OpenTelemetry; issue is Markdown for a tracker.",
)  # fmt: skip
@click.option(
    "-o", "--output", default="-", show_default=True, metavar="FILE",
    help="Where to; - is standard output. The folder of parquet.",
)  # fmt: skip
@click.option(
    "--otlp-endpoint", default="http://localhost:4318", show_default=True, metavar="URL",
    envvar="OTEL_EXPORTER_OTLP_ENDPOINT",
    help="Collector that takes OTLP over HTTP; for otlp.",
)  # fmt: skip
@click.option(
    "--redact", is_flag=True,
    help="Replace names of hosts and users, paths and addresses, as `report` does; not "
    "for formats with events.",
)  # fmt: skip
@force_option
@db_option
def export(
    named: tuple[str, ...], form: str, output: str, otlp_endpoint: str, redact: bool,
    force: bool, db: str,
) -> None:  # fmt: skip
    """RUN is a run id, its first 4 characters or more, a label, `latest` (the last to
    start), or a log.

    prometheus, llm-d and parquet take several runs, or all of the database when none is
    named; issue takes one, or two as before and after.
    """
    if redact and form in EVENTS:
        raise click.UsageError(f"{form} holds events, which --redact does not change")
    if form == "otlp" and output != "-":
        raise click.UsageError(
            "otlp is sent to --otlp-endpoint, not written; leave -o out"
        )
    redactor = Redactor() if redact else None
    if form == "parquet":
        _write_parquet(_opened(db, named), output, force=force)
        return
    if form in OF_SEVERAL:
        found = [_redacted(run, redactor).summary for run, _ in _opened(db, named)]
        write_result(output, OF_SEVERAL[form](found), force=force)
        return
    if form == "issue":
        write_result(output, _issue(db, named, redactor), force=force)
        return
    if len(named) != 1:
        raise click.UsageError(f"{form} takes one RUN")
    with open_run(db, named[0]) as (store, record):
        run, events = current(store, record), store.events(record.run_id)
        if form == "otlp":
            count = send(run, events, otlp_endpoint)
            click.echo(f"Sent {count:,} spans to {otlp_endpoint}", err=True)
            return
        text = FORMATS[form](_redacted(run, redactor), events)
    write_result(output, text, force=force)


def _issue(db: str, named: tuple[str, ...], redactor: Redactor | None) -> str:
    """The text of an issue about one run, or about two as before and after."""
    if not 1 <= len(named) <= 2:
        raise click.UsageError("issue takes one RUN, or two as before and after")
    runs = []
    for name in named:
        with open_run(db, name) as (store, record):
            lines = kept_lines(store, record)
            runs.append(RunWithLines(current(store, record), lines))
    return issue_markdown(runs if redactor is None else redactor.runs(runs))


def _redacted(run: Folded, redactor: Redactor | None) -> Folded:
    return run if redactor is None else redactor.folded(run)


def _opened(db: str, names: tuple[str, ...]) -> Iterator[Opened]:
    """The runs that were named, else all of the database, one at a time."""
    for name in names:
        with open_run(db, name) as (store, record):
            yield current(store, record), store.events(record.run_id)
    if names:
        return
    with open_store(db) as store:
        for record in store.runs(limit=None):
            yield current(store, record), store.events(record.run_id)


def _write_parquet(opened: Iterator[Opened], output: str, *, force: bool) -> None:
    if output == "-":
        raise click.UsageError("parquet needs a folder; name one with -o")
    count = write_parquet(Path(output), opened, force=force)
    click.echo(
        f"Wrote {', '.join(NAMES)} of {count_text(count, 'run')} to {output}", err=True
    )
