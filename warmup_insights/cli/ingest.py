"""`ingest`: read logs into the database."""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

import click

from warmup_insights.cli.options import db_option, json_option
from warmup_insights.errors import InputError, WarmupInsightsError

if TYPE_CHECKING:
    from warmup_insights.cli.ingest_progress import IngestWatcher
    from warmup_insights.ingest import Options, Outcome
    from warmup_insights.storage import EventStore

QUIET_AFTER_S = 3600.0
"""Following stops by itself when a file has not grown for so long."""


@click.command(short_help="Read logs into the database.")
@click.argument("paths", nargs=-1, required=True, metavar="PATH...")
@db_option
@click.option("--label", help="Name for the runs that are found.")
@click.option(
    "--year", type=click.IntRange(2023, 2100), help="Year of the first stamp."
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
    """Read logs into the database.

    PATH is a log, a folder, a pattern such as 'logs/*.log.gz', or - for standard
    input. Compressed logs (.gz, .zst) are read as they are. The same bytes twice add
    nothing; a file that has grown is continued. A command that was broken off goes on
    where it stopped when it is given again.
    """
    from warmup_insights.ingest import Options, find_files

    options = Options(
        year=year, timezone=timezone, label=label, synthetic=synthetic,
        is_growing=follow,
    )  # fmt: skip
    options.zone  # noqa: B018 - raises on an unknown zone before anything is read
    if ray is not None:
        if follow or jobs is not None:
            raise click.UsageError("--ray goes with neither --follow nor --jobs.")
        outcomes = _ingest_on_ray(db, paths, options, ray)
    else:
        outcomes = _ingest_here(db, list(find_files(paths)), options, jobs)
    _print(outcomes, as_json)
    _exit(outcomes, strict)


def _ingest_here(
    db: str, files: list[str], options: Options, jobs: int | None
) -> list[Outcome]:
    from warmup_insights.cli.ingest_progress import sizes_of, watch
    from warmup_insights.ingest import choose_jobs, ingest_files
    from warmup_insights.storage import EventStore

    with EventStore(db) as store:
        if options.is_growing:
            return [_follow(store, files, options)]
        jobs = choose_jobs(files) if jobs is None else jobs
        with _watched(watch(sizes_of(files))) as watcher:
            return ingest_files(store, files, options, jobs=jobs, watcher=watcher)


def _ingest_on_ray(
    db: str, paths: tuple[str, ...], options: Options, address: str
) -> list[Outcome]:
    from warmup_insights.cli.ingest_progress import watch
    from warmup_insights.ingest import find_remote, ingest_on_ray

    files = find_remote(paths)
    with _watched(watch([file.size_bytes for file in files])) as watcher:
        return ingest_on_ray(db, files, options, address=address, watcher=watcher)


@contextmanager
def _watched(watcher: IngestWatcher) -> Iterator[IngestWatcher]:
    """Show the progress; say what was skipped, or how far it came before Ctrl-C."""
    try:
        with watcher:
            yield watcher
    except KeyboardInterrupt:
        click.echo(
            f"stopped: {watcher.num_done:,} of {watcher.num_files:,} files are done and "
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
    from dataclasses import replace

    from warmup_insights.ingest import ingest_path

    if len(files) != 1 or files[0] == "-":
        raise InputError("--follow takes one file; start one command for each")
    path, pause, quiet_since = files[0], 1.0, time.monotonic()
    outcome = ingest_path(store, path, options)
    click.echo(f"following {path}; press Ctrl-C to stop", err=True)
    try:
        while time.monotonic() - quiet_since < QUIET_AFTER_S:
            time.sleep(pause)
            before = time.monotonic()
            latest = ingest_path(store, path, options)
            # Reading takes longer as the file grows: never more than a tenth of the time.
            pause = max(1.0, 10 * (time.monotonic() - before))
            if latest.state != "unchanged":
                outcome, quiet_since = latest, time.monotonic()
                _say_state(store, outcome)
    except KeyboardInterrupt:
        click.echo("", err=True)
    _settle(store, outcome, replace(options, is_growing=False))
    return outcome


def _settle(store: EventStore, outcome: Outcome, options: Options) -> None:
    """Nobody follows any more: a run that is not finished is unknown again."""
    from warmup_insights.analysis.refresh import refresh_summary

    for run_id in outcome.run_ids:
        refresh_summary(store, run_id)


def _say_state(store: EventStore, outcome: Outcome) -> None:
    from warmup_insights.cli.show_text import one_line

    for run_id in outcome.run_ids[-1:]:
        summary = store.summary(run_id)
        if summary is not None:
            click.echo(one_line(summary), err=True)


def _print(outcomes: list[Outcome], as_json: bool) -> None:
    if as_json:
        click.echo(json.dumps({"files": [o.as_dict() for o in outcomes]}, indent=2))
        return
    from warmup_insights.cli.ingest_text import print_outcomes

    print_outcomes(outcomes)


def _exit(outcomes: list[Outcome], strict: bool) -> None:
    failed = [o for o in outcomes if o.error is not None]
    if failed and len(failed) == len(outcomes):
        raise WarmupInsightsError(failed[0].error or "nothing could be read")
    for outcome in failed:
        click.echo(f"Error: {outcome.error}", err=True)
    if failed or (strict and any(o.report.get("unknown") for o in outcomes)):
        sys.exit(1)
