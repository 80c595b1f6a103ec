"""Databases for the tests of the deciding commands."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from click.testing import CliRunner, Result

from tests.analysis.builders import simulate
from warmup_insights.cli import cli
from warmup_insights.model.events import Event
from warmup_insights.model.run import RunRecord
from warmup_insights.runs import refresh
from warmup_insights.storage import EventStore


def store_run(
    db: Path, run_id: str, events: list[Event], *, label: str | None = None, **more: Any
) -> None:
    """Store events as a recorded run with its summary."""
    with EventStore(db) as store:
        with store.begin() as transaction:
            transaction.ensure_run(RunRecord(run_id=run_id, label=label, **more))
            transaction.append(run_id, events)
        refresh(store, run_id)


def simulated_run(db: Path, run_id: str, label: str, **settings: Any) -> None:
    """Store a run of the seed's settings on the simulated device."""
    _, events = simulate(**settings)
    store_run(db, run_id, list(events), label=label, synthetic=True)


def invoke(*arguments: object) -> Result:
    """Run the command line in this process."""
    return CliRunner().invoke(cli, [str(argument) for argument in arguments])
