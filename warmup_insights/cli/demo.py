"""`demo`: sample logs and a real CPU warm-up, then the dashboard."""

from __future__ import annotations

import importlib.util
import sys
from pathlib import Path

import click

from warmup_insights import storage
from warmup_insights.cli.dashboard import dashboard as open_dashboard
from warmup_insights.cli.ingest import print_outcomes
from warmup_insights.cli.printing import print_tables
from warmup_insights.cli.run import run
from warmup_insights.cli.runs import runs_table, table_rows
from warmup_insights.errors import InputError
from warmup_insights.ingest.find import find_files
from warmup_insights.ingest.outcome import Options

DEFAULT_DB = "warmup_insights_demo.db"


@click.command()
@click.option(
    "--db", metavar="FILE", default=DEFAULT_DB, show_default=True,
    help="Demo database; made anew each time.",
)  # fmt: skip
@click.option("--dashboard/--no-dashboard", default=True, help="Open the dashboard.")
@click.option("--run/--no-run", "with_run", default=True, help="Run a CPU warm-up.")
@click.option("--logs", type=click.Path(path_type=Path), help="Folder of sample logs.")
def demo(db: str, dashboard: bool, with_run: bool, logs: Path | None) -> None:
    """What was in the demo database before is removed."""
    from warmup_insights.ingest.single import ingest_path

    folder = logs or sample_folder()
    _remove(Path(db))
    with storage.EventStore(db) as store:
        files = list(find_files([str(folder)]))
        # The figures of samples with that name are invented.
        outcomes = [
            ingest_path(
                store, path, Options(synthetic=Path(path).name.startswith("made_"))
            )
            for path in files
        ]
        print_outcomes([o for o in outcomes if o.report.get("unknown")] or outcomes[:3])
        click.echo(f"Read {len(outcomes)} sample logs into {db}", err=True)
    if with_run:
        _run_reference(db)
    with storage.EventStore(db) as store:
        print_tables([runs_table(table_rows(store, None, 200))])
    click.echo(f"See one of them with: warmup-insights show latest --db {db}")
    if dashboard:
        sys.stdout.flush()
        open_dashboard.main(["--db", db], standalone_mode=False)


def sample_folder() -> Path:
    """The sample logs beside the source tree, or in the current folder.

    Raises InputError when there are none.
    """
    here = Path(__file__).resolve().parents[2] / "sample_logs"
    for folder in (here, Path.cwd() / "sample_logs"):
        if folder.is_dir():
            return folder
    raise InputError(
        "The sample logs come with the source tree, not with the wheel; run this from a "
        "clone, or give a folder of logs with --logs"
    )


def _remove(db: Path) -> None:
    if db.is_dir():
        raise InputError(f"{db} is a folder; give a file name for the demo database")
    for suffix in ("", "-wal", "-shm"):
        Path(f"{db}{suffix}").unlink(missing_ok=True)


def _run_reference(db: str) -> None:
    """A real warm-up of the reference engine on this machine's CPU."""
    if importlib.util.find_spec("torch") is None:
        click.echo(
            "PyTorch is not installed, so no warm-up was run; "
            "pip install 'warmup-insights[runner]' brings it",
            err=True,
        )
        return
    run.main(["--db", db], standalone_mode=False)
