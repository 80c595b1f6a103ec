"""`ingest`: read logs into the database."""

from __future__ import annotations

import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING

import click

import warmup_insights.ingest as reading
from warmup_insights import storage
from warmup_insights.cli.ingest_progress import IngestWatcher, sizes_of, watch
from warmup_insights.cli.options import db_option, json_option
from warmup_insights.cli.printing import print_json, print_notes, print_tables
from warmup_insights.errors import InputError, WarmupInsightsError
from warmup_insights.export.tables import make_table, plain
from warmup_insights.ingest.outcome import Options, Outcome
from warmup_insights.model.figures import BY_NAME
from warmup_insights.units import format_count

if TYPE_CHECKING:
    from warmup_insights.storage import EventStore

QUIET_AFTER_S = 3600.0
"""Following stops by itself when a file has not grown for so long."""
MAX_UNKNOWN_SHOWN = 10


@click.command()
@click.argument("paths", nargs=-1, required=True, metavar="PATH...")
@db_option
@click.option("--label", help="Name for the runs that are found.")
@click.option(
    "--year",
    type=click.IntRange(2023, 2100),
    help="Year of the first stamp, where the log holds no full date.",
)
@click.option(
    "--timezone",
    metavar="ZONE",
    help="Time zone of the stamps, such as Europe/Berlin or +02:00. "
    "Without it they are read as UTC and marked as unknown.",
)
@click.option(
    "--jobs",
    type=click.IntRange(1, 1024),
    metavar="N",
    help="Processes that read. Without it as many as pay: one for a few small files, "
    "at most one for each core.",
)
@click.option(
    "--ray",
    metavar="ADDRESS",
    help="Read on a Ray cluster, such as auto or host:6379, into a PostgreSQL database. "
    "PATH may be an address of fsspec then, such as s3://bucket/logs.",
)
@click.option("--follow", is_flag=True, help="Go on reading while the file grows.")
@click.option(
    "--strict", is_flag=True, help="Exit with 1 when a relevant line is unknown."
)
@click.option(
    "--synthetic", is_flag=True, help="Mark the runs as made up, wherever they appear."
)
@json_option
def ingest(
    paths: tuple[str, ...],
    db: str,
    label: str | None,
    year: int | None,
    timezone: str | None,
    jobs: int | None,
    ray: str | None,
    follow: bool,
    strict: bool,
    synthetic: bool,
    as_json: bool,
) -> None:
    """PATH is a log, a folder, a pattern such as 'logs/*.log.gz', or - for stdin.

    Compressed logs (.gz, .zst) are read as they are. The same bytes twice add
    nothing; a file that has grown is continued. A command that was broken off goes on
    where it stopped when it is given again.
    """
    options = Options(
        year=year, timezone=timezone, label=label, synthetic=synthetic,
        is_growing=follow,
    )  # fmt: skip
    options.zone  # noqa: B018 - raises on an unknown zone before anything is read
    if ray is not None:
        if follow or jobs is not None:
            raise click.UsageError("--ray goes with neither --follow nor --jobs")
        outcomes = _ingest_on_ray(db, paths, options, ray)
    else:
        outcomes = _ingest_here(db, list(reading.find_files(paths)), options, jobs)
    if as_json:
        print_json({"files": [outcome.as_dict() for outcome in outcomes]})
    else:
        print_outcomes(outcomes)
    _exit(outcomes, strict)


def _ingest_here(
    db: str, files: list[str], options: Options, jobs: int | None
) -> list[Outcome]:
    with storage.EventStore(db) as store:
        if options.is_growing:
            return [_follow(store, files, options)]
        jobs = reading.choose_jobs(files) if jobs is None else jobs
        with _watched(watch(sizes_of(files))) as watcher:
            return reading.ingest_files(
                store, files, options, jobs=jobs, watcher=watcher
            )


def _ingest_on_ray(
    db: str, paths: tuple[str, ...], options: Options, address: str
) -> list[Outcome]:
    files = reading.find_remote(paths)
    with _watched(watch([file.size_bytes for file in files])) as watcher:
        return reading.ingest_on_ray(
            db, files, options, address=address, watcher=watcher
        )


@contextmanager
def _watched(watcher: IngestWatcher) -> Iterator[IngestWatcher]:
    """Show the progress, then what was skipped, or how far it came before Ctrl-C."""
    try:
        with watcher:
            yield watcher
    except KeyboardInterrupt:
        click.echo(
            f"Stopped: {watcher.num_done:,} of {watcher.num_files:,} files are done and "
            "nothing is half-way; the same command goes on from here",
            err=True,
        )
        sys.exit(1)
    if watcher.num_unchanged and watcher.num_files > 1:
        click.echo(
            f"{watcher.num_unchanged:,} of {watcher.num_files:,} files were stored already",
            err=True,
        )


def _follow(store: EventStore, files: list[str], options: Options) -> Outcome:
    """Read a file again whenever it has grown; unfinished runs show as running."""
    if len(files) != 1 or files[0] == "-":
        raise InputError("--follow takes one file; start one command for each")
    path, pause, quiet_since = files[0], 1.0, time.monotonic()
    outcome = reading.ingest_path(store, path, options)
    click.echo(f"Following {path}; press Ctrl-C to stop", err=True)
    try:
        while time.monotonic() - quiet_since < QUIET_AFTER_S:
            time.sleep(pause)
            before = time.monotonic()
            latest = reading.ingest_path(store, path, options)
            # Reading takes longer as the file grows: never more than a tenth of the time.
            pause = max(1.0, 10 * (time.monotonic() - before))
            if latest.state != "unchanged":
                outcome, quiet_since = latest, time.monotonic()
                _print_state(store, outcome)
    except KeyboardInterrupt:
        click.echo("", err=True)
    from warmup_insights.runs import refresh

    # The file is not followed any more: a run that is not finished is unknown again.
    for run_id in outcome.run_ids:
        refresh(store, run_id)
    return outcome


def _print_state(store: EventStore, outcome: Outcome) -> None:
    """Status, engine, start-up and warm-up of the newest run, in one line."""
    for run_id in outcome.run_ids[-1:]:
        summary = store.summary(run_id)
        if summary is not None:
            who = f"{summary.engine.name or 'unknown engine'} {summary.engine.version or ''}"
            times = (
                f"{title} {BY_NAME[name].text(summary)}"
                for title, name in (("start-up", "wall_s"), ("warm-up", "warmup_s"))
            )
            text = "  ".join((run_id, summary.status, who.strip(), *times))
            click.echo(plain(text), err=True)


def print_outcomes(outcomes: Sequence[Outcome]) -> None:
    """A table of the files, then what was not understood."""
    header = ("file", "state", "runs", "lines", "events", "unknown", "dialects")
    rows = [
        (
            outcome.path, outcome.state, " ".join(outcome.run_ids) or "-",
            *(format_count(outcome.report.get(n)) for n in ("lines", "events", "unknown")),
            ", ".join(outcome.report.get("dialects", [])) or "-",
        )
        for outcome in outcomes
    ]  # fmt: skip
    print_tables([make_table("", header, rows, right=[3, 4, 5])])
    for outcome in outcomes:
        _print_report(outcome)


def _print_report(outcome: Outcome) -> None:
    report = outcome.report
    print_notes(report.get("problems", []))
    unknown = report.get("unknown_lines", [])
    if unknown:
        click.echo(
            f"{plain(outcome.path)}: {report['unknown']} lines look relevant but are "
            "not known; the first of them:"
        )
    for line, text in unknown[:MAX_UNKNOWN_SHOWN]:
        click.echo(f"  {line}: {plain(text[:160])}")
    for line, rule, text in report.get("failed_lines", []):
        click.echo(f"  {line}: not readable ({rule}): {plain(text[:160])}")


def _exit(outcomes: list[Outcome], strict: bool) -> None:
    failed = [o for o in outcomes if o.error is not None]
    if failed and len(failed) == len(outcomes):
        raise WarmupInsightsError(failed[0].error or "Nothing could be read")
    for outcome in failed:
        click.echo(f"Error: {outcome.error}", err=True)
    has_run = any(outcome.run_ids for outcome in outcomes)
    if (
        not has_run
        or failed
        or (strict and any(o.report.get("unknown") for o in outcomes))
    ):
        sys.exit(1)
