"""`demo`: warm-ups explained in five steps, then the dashboard."""

from __future__ import annotations

import importlib.util
import sys
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple
from urllib.parse import quote_plus

import click

from warmup_insights import storage
from warmup_insights.analysis.sentences import start_sentences
from warmup_insights.cli.dashboard import dashboard as open_dashboard
from warmup_insights.cli.run import record_run, run
from warmup_insights.errors import InputError
from warmup_insights.export.tables import plain
from warmup_insights.ingest.find import find_files
from warmup_insights.ingest.outcome import Options
from warmup_insights.ingest.single import ingest_path
from warmup_insights.model.run import new_run_id
from warmup_insights.storage.engine import check_path
from warmup_insights.storage.location import shown_location

DEFAULT_DB = "warmup_insights_demo.db"
LOGS = Path(__file__).resolve().parents[1] / "demo_logs"
ADDRESS = "http://127.0.0.1:8501"
DOCUMENTED = (
    "--device", "simulated:gaudi2", "--model", "llama-3-8b", "--dtype", "bfloat16",
    "--block-size", "128", "--max-model-len", "2048", "--max-num-seqs", "4",
    "--max-num-batched-tokens", "8192", "--graph-prompt-ratio", "0.3",
    "--bucket-dimensions", "2",
)  # fmt: skip
"""The settings of the documented start, on a simulated device."""
RESERVES = ("0.2", "0.3", "0.4", "0.6")


class Step(NamedTuple):
    """A step of the story: what makes its runs, and the page that shows it."""

    title: str
    shows: str
    label: str
    make: Callable[[str, str], None]
    path: str = "/run?run={}"


def _read(name: str) -> Callable[[str, str], None]:
    """Reads one of the logs that come with the package."""

    def make(db: str, label: str) -> None:
        with storage.EventStore(db) as store:
            is_made = name.startswith("made_")  # its figures are invented
            options = Options(label=label, synthetic=is_made)
            ingest_path(store, str(LOGS / name), options)

    return make


def _record(db: str, label: str, *arguments: str) -> None:
    """A run of the reference engine; one that fails is stored as any other."""
    options = run.make_context("run", [*arguments, "--db", db]).params
    record_run(options, db, new_run_id(), label)


def _sweep(db: str, label: str) -> None:
    for reserve in RESERVES:
        arguments = ("--gpu-memory-utilization", "0.5", "--graph-reserved-mem", reserve)
        _record(db, f"{label} {reserve}", *DOCUMENTED, *arguments)


def _fail(db: str, label: str) -> None:
    arguments = ("--gpu-memory-utilization", "1", "--graph-reserved-mem", "0")
    _record(db, label, *DOCUMENTED, *arguments)


def _run_here(db: str, label: str) -> None:
    """A real warm-up on this machine's CPU; without PyTorch the log of another one."""
    if importlib.util.find_spec("torch") is not None:
        _record(db, label)
        return
    click.echo(
        "PyTorch is not installed, so the log of a recorded run is read instead; "
        "pip install 'warmup-insights[runner]' brings it",
        err=True,
    )
    _read("cpu_run_gaudi.log")(db, label)


STORY = (
    Step(
        "The documented Gaudi warm-up",
        "which buckets got no graph, and why: the memory of graphs was used up",
        "documented", _read("warmup_doc_capture.log"),
    ),
    Step(
        "The same start with other reserves, simulated",
        "what each share for graphs captures, what it costs, and the one to choose",
        "reserve", _sweep, "/memory?q={}",
    ),
    Step(
        "A start that failed, simulated",
        "the cause, the memory at that moment, the change that helps",
        "no reserve left", _fail,
    ),
    Step(
        "A start on two CUDA devices, synthetic",
        "where the time to ready went, what graphs and KV cache took",
        "cuda start", _read("made_v1_2026_tp2.log"),
    ),
    Step(
        "A small run on this machine",
        "a real warm-up of the reference engine, recorded from inside",
        "this machine", _run_here,
    ),
)  # fmt: skip


@click.command()
@click.option(
    "--db", metavar="FILE", default=DEFAULT_DB, show_default=True,
    help="Demo database; made anew each time.",
)  # fmt: skip
@click.option("--dashboard/--no-dashboard", default=True, help="Open the dashboard.")
@click.option("--run/--no-run", "with_run", default=True, help="Run a CPU warm-up.")
@click.option(
    "--logs", type=click.Path(path_type=Path), help="Folder of logs to read as well."
)
def demo(db: str, dashboard: bool, with_run: bool, logs: Path | None) -> None:
    """What was in the demo database before is removed."""
    _remove(Path(db))
    steps = [step for step in STORY if with_run or step.make is not _run_here]
    for number, step in enumerate(steps, 1):
        click.secho(f"{number}. {step.title}", bold=True)
        step.make(db, step.label)
        _explain(db, step.label)
    if logs is not None:
        _read_folder(db, logs)
    click.echo(f"\nStored in {shown_location(db)}. What each page shows:")
    for number, step in enumerate(steps, 1):
        path = step.path.format(quote_plus(step.label))
        click.echo(f"{number}. {ADDRESS}{path}\n   {step.shows}")
    if not dashboard:
        click.echo(f"The pages open with: warmup-insights dashboard --db {db}")
        return
    sys.stdout.flush()
    open_dashboard.main(["--db", db], standalone_mode=False)


def _explain(db: str, label: str) -> None:
    """The first sentences about the runs of a step."""
    with storage.EventStore(db, read_only=True) as store:
        found = [r for r in store.runs() if (r.label or "").startswith(label)]
        summaries = store.summaries([record.run_id for record in found])
        for record in sorted(found, key=lambda record: record.label or ""):
            text = " ".join(start_sentences(summaries[record.run_id]))
            name = "" if record.label == label else f"{record.label}: "
            click.echo(f"   {plain(name + text)}")


def _read_folder(db: str, folder: Path) -> None:
    """Logs of the visitor beside the story."""
    with storage.EventStore(db) as store:
        files = list(find_files([str(folder)]))
        for path in files:
            # The figures of samples with that name are invented.
            is_made = Path(path).name.startswith("made_")
            ingest_path(store, path, Options(synthetic=is_made))
    click.echo(f"Read {len(files)} logs of {folder}", err=True)


def _remove(db: Path) -> None:
    """Remove a demo database; InputError for a file that is anything else."""
    check_path(db, read_only=False)
    if db.is_file() and db.stat().st_size:
        with storage.EventStore(db, read_only=True) as store:
            labels = {run.label for run in store.runs()}
        if labels and STORY[0].label not in labels:
            raise InputError(
                f"{db} holds runs that are not of a demo; give another file name"
            )
    for suffix in ("", "-wal", "-shm"):
        Path(f"{db}{suffix}").unlink(missing_ok=True)
