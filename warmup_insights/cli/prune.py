"""The `prune` command."""

from __future__ import annotations

import time

import click

from warmup_insights import storage
from warmup_insights.cli.options import (
    FiniteRange,
    IntegerRange,
    db_option,
    json_option,
)
from warmup_insights.cli.printing import print_json, print_notes, printable
from warmup_insights.drainer import open_store
from warmup_insights.model.run import RunRecord
from warmup_insights.runs import delete_runs, runs_to_prune
from warmup_insights.units import format_bytes

_DAY_S = 86_400.0


@click.command()
@click.argument("run", nargs=-1)
@click.option(
    "--keep", type=IntegerRange(0), metavar="N", help="Keep the newest N runs."
)
@click.option(
    "--older-than",
    type=FiniteRange(0),
    metavar="DAYS",
    help="Remove only runs that started longer ago.",
)
@click.option("--labelled", is_flag=True, help="Remove runs with a label too.")
@click.option("--dry-run", is_flag=True, help="Only print what would be removed.")
@click.option("--no-vacuum", is_flag=True, help="Leave the freed space in the file.")
@click.option("--yes", is_flag=True, help="Remove without asking.")
@db_option
@json_option
def prune(
    run: tuple[str, ...],
    keep: int | None,
    older_than: float | None,
    labelled: bool,
    dry_run: bool,
    no_vacuum: bool,
    yes: bool,
    db: str,
    as_json: bool,
) -> None:
    """With both --keep and --older-than a run goes only when neither keeps it.

    Runs with a label and runs that are being recorded stay. A log whose runs are all removed can
    be ingested again.
    """
    if not run and keep is None and older_than is None:
        raise click.UsageError("Name what to remove: RUN, --keep or --older-than")
    if run and (keep is not None or older_than is not None):
        raise click.UsageError("Name runs, or give --keep or --older-than, not both")
    doomed, total = _select(db, run, keep, older_than, labelled)
    if doomed and not dry_run:
        if not yes:
            click.echo(f"{len(doomed)} of {total} runs:", err=True)
            _list(doomed, err=True)
            click.confirm("Remove them?", abort=True, err=True)
        freed: int | None = _remove(db, doomed, no_vacuum)
    else:
        freed = None if dry_run and doomed else 0
    if as_json:
        print_json(
            {
                "runs": [run.run_id for run in doomed],
                "kept": total - len(doomed),
                "freed_bytes": freed,
                "dry_run": dry_run,
            }
        )
    else:
        verb = "Would remove" if dry_run else "Removed"
        space = "" if freed is None else f", {format_bytes(freed)} freed"
        click.echo(f"{verb} {len(doomed)} of {total} runs{space}")
        if not doomed and total and not labelled:
            print_notes(
                ["Runs with a label stay; --labelled removes them too"], err=True
            )
        if dry_run:
            _list(doomed)


LISTED = 20
"""Runs that are named before the rest is counted."""


def _list(runs: list[RunRecord], *, err: bool = False) -> None:
    for run in runs[:LISTED]:
        click.echo(f"  {run.run_id}  {printable(run.name)}", err=err)
    if len(runs) > LISTED:
        click.echo(f"  and {len(runs) - LISTED} more", err=err)


def _select(
    db: str,
    names: tuple[str, ...],
    keep: int | None,
    older_than: float | None,
    labelled: bool,
) -> tuple[list[RunRecord], int]:
    with open_store(db) as store:
        runs = store.runs()
        if names:
            found = {run.run_id: run for run in map(store.find_run, names)}
            return list(found.values()), len(runs)
    doomed = runs_to_prune(
        runs,
        now=time.time(),
        keep=keep,
        older_than_s=None if older_than is None else older_than * _DAY_S,
        with_labelled=labelled,
    )
    return doomed, len(runs)


def _remove(db: str, doomed: list[RunRecord], no_vacuum: bool) -> int:
    """Remove the runs; how many bytes the database became smaller."""
    with storage.EventStore(db) as store:
        before = store.size_bytes()
        delete_runs(store, [run.run_id for run in doomed])
        if not no_vacuum:
            store.vacuum()
        return before - store.size_bytes()
