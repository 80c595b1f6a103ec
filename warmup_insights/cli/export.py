"""`export`: runs as files, and as spans for an OpenTelemetry collector."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from pathlib import Path

import click

from warmup_insights.analysis.summary import Folded
from warmup_insights.cli.loading import open_run
from warmup_insights.cli.options import db_option, force_option
from warmup_insights.cli.printing import write_result
from warmup_insights.drainer import open_store
from warmup_insights.export import runs
from warmup_insights.export.otlp import send
from warmup_insights.export.parquet import NAMES, write_parquet
from warmup_insights.export.prometheus import prometheus_text
from warmup_insights.export.trace import trace_json
from warmup_insights.model.events import Event
from warmup_insights.runs import current

Write = Callable[[Folded, Iterable[Event]], str]
"""From a run, and its events where the format has them, to the text of the file."""
FORMATS: dict[str, Write] = {
    "json": lambda run, _: runs.run_json(run.summary, run.rows),
    "csv": lambda run, _: runs.figures_csv(run.summary),
    "buckets-csv": lambda run, _: runs.buckets_csv(run.summary, run.rows),
    "markdown": lambda run, _: runs.run_markdown(run.summary, run.rows),
    "trace": trace_json,
}
OF_SEVERAL = ("prometheus", "parquet")
"""Formats of one run or of many, beside those of one."""
Opened = tuple[Folded, Iterable[Event]]


@click.command()
@click.argument("named", nargs=-1, metavar="[RUN]...")
@click.option(
    "--format", "form", type=click.Choice([*FORMATS, *OF_SEVERAL, "otlp"]),
    default="json", show_default=True,
    help="json can be a baseline of `check`; csv has one row per figure, buckets-csv "
    "one per bucket; trace is for ui.perfetto.dev, prometheus for a textfile collector, "
    "parquet for DuckDB and pandas, otlp for a collector of OpenTelemetry.",
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
@force_option
@db_option
def export(
    named: tuple[str, ...], form: str, output: str, otlp_endpoint: str, force: bool,
    db: str,
) -> None:  # fmt: skip
    """RUN is a run id, the unique start of one, a label, `latest`, or a log.

    prometheus and parquet take several runs, or all of the database when none is named.
    """
    if form in OF_SEVERAL:
        _write_several(form, _opened(db, named), output, force=force)
        return
    if len(named) != 1:
        raise click.UsageError(f"{form} takes one RUN")
    with open_run(db, named[0]) as (store, record):
        run, events = current(store, record), store.events(record.run_id)
        if form == "otlp":
            count = send(run, events, otlp_endpoint)
            click.echo(f"Sent {count:,} spans to {otlp_endpoint}", err=True)
            return
        text = FORMATS[form](run, events)
    write_result(output, text, force=force)


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


def _write_several(
    form: str, opened: Iterator[Opened], output: str, *, force: bool
) -> None:
    if form == "prometheus":
        text = prometheus_text([run.summary for run, _ in opened])
        write_result(output, text, force=force)
        return
    if output == "-":
        raise click.UsageError("parquet needs a folder; name one with -o")
    count = write_parquet(Path(output), opened, force=force)
    click.echo(f"Wrote {', '.join(NAMES)} of {count:,} runs to {output}", err=True)
