"""`sweep`: one experiment over many settings, each point in a process of its own."""

from __future__ import annotations

import math
import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from tempfile import TemporaryFile
from typing import IO, TYPE_CHECKING, Any

import click

from warmup_insights import storage
from warmup_insights.analysis.pareto import configuration_rows, differing, pick
from warmup_insights.analysis.sweep import (
    ALIASES,
    Experiment,
    Point,
    is_variable,
    make_experiment,
    time_left_s,
)
from warmup_insights.cli import endings_as_interrupts
from warmup_insights.cli.options import (
    FiniteRange,
    all_of,
    db_option,
    json_option,
    meaning,
    read_assignments,
)
from warmup_insights.cli.plan import goal_options
from warmup_insights.cli.printing import print_json, print_tables
from warmup_insights.drainer import open_store
from warmup_insights.errors import InputError, SettingError, WarmupInsightsError
from warmup_insights.export.plans import pick_json, pick_table, sweep_table
from warmup_insights.model.events import Failure
from warmup_insights.rules import VARIABLES
from warmup_insights.runner.settings import RunSettings
from warmup_insights.runs import current, refresh
from warmup_insights.secrets import mask_text
from warmup_insights.units import format_duration

if TYPE_CHECKING:
    from warmup_insights.storage import EventStore

_GRIDS = {
    name: meaning(RunSettings, name, ALIASES)
    for name in (
        "gpu_memory_utilization", "graph_reserved_mem", "graph_prompt_ratio",
        "max_num_seqs", "max_num_batched_tokens", "max_model_len",
    )
} | {"bucketing_strategy": "exp, lin, pad [VLLM_BUCKETING_STRATEGY]."}  # fmt: skip
_FLAGS = {"graph_prompt_ratio": "prompt-ratio"}
grid_options = all_of(
    *(
        click.option(
            f"--{_FLAGS.get(name, name.replace('_', '-'))}",
            metavar="VALUE[,VALUE]",
            help=text,
        )
        for name, text in _GRIDS.items()
    )
)
"""One option for each setting that is often swept."""


@click.command(context_settings={"ignore_unknown_options": False})
@click.argument("fixed", metavar="[-- OPTIONS...]", nargs=-1, type=click.UNPROCESSED)
@click.option("--name", help="Of the experiment; its runs are labelled with it.")
@click.option(
    "--engine", type=click.Choice(["reference", "vllm"]), default="reference",
    show_default=True, help="What runs the points.",
)  # fmt: skip
@grid_options
@click.option(
    "--grid", "grids", multiple=True, metavar="NAME=VALUE[,VALUE]",
    help="Values of any other engine option or VLLM_ variable; may be repeated.",
)  # fmt: skip
@click.option(
    "--point", "points", multiple=True, metavar="NAME=VALUE,NAME=VALUE",
    help="A single point instead of, or beside, the grid; may be repeated.",
)  # fmt: skip
@click.option("--timeout", type=FiniteRange(min=1), help="Seconds per point.")
@click.option("--retry-failed", is_flag=True, help="Run failed points again.")
@click.option("--dry-run", is_flag=True, help="Only list the points.")
@goal_options
@db_option
@json_option
def sweep(
    fixed: tuple[str, ...],
    name: str | None,
    engine: str,
    grids: tuple[str, ...],
    points: tuple[str, ...],
    timeout: float | None,
    retry_failed: bool,
    dry_run: bool,
    goal: str,
    tolerance: float,
    db: str,
    as_json: bool,
    **options: str | None,
) -> None:
    """Everything after `--` is fixed for all points.

    That is options of `warmup-insights run`, such as `-- --device cpu --memory 1GiB`, or with --engine vllm what follows
    `vllm serve`, such as `-- MODEL --tensor-parallel-size 8`. The same command
    continues where it was stopped.
    """
    experiment = make_experiment(
        name,
        read_grid(options, grids),
        [read_point(text) for text in points],
        engine=engine,
        base=fixed,
    )
    if engine == "vllm" and not fixed:
        raise SettingError("No model is named; put it after --, such as `-- MODEL`")
    if dry_run:
        for point in experiment.points:
            click.echo(point.text)
        return
    outcomes = run_experiment(db, experiment, timeout, retry_failed)
    _report(db, experiment, outcomes, (goal, tolerance / 100), as_json)
    if outcomes and all(item.status == "failed" for item in outcomes):
        sys.exit(1)


def read_grid(
    options: dict[str, str | None], grids: tuple[str, ...]
) -> dict[str, list[str]]:
    """Setting to values, in the order in which they are varied, the last one fastest.

    Raises:
        SettingError: a `--grid` is not NAME=VALUES, or a list is empty.
    """
    texts = {name: text for name, text in options.items() if text is not None}
    like = "NAME=VALUE[,VALUE], such as block_size=16,32"
    texts.update(read_assignments("--grid", grids, like))
    return {
        name: [value.strip() for value in text.split(",") if value.strip()]
        for name, text in texts.items()
    }


def read_point(text: str) -> dict[str, str]:
    """The settings of one point. Raises SettingError when it is not NAME=VALUE,..."""
    like = "NAME=VALUE,NAME=VALUE, such as gpu_memory_utilization=0.9,max_num_seqs=64"
    return dict(read_assignments("--point", text.split(","), like))


def run_experiment(
    db: str, experiment: Experiment, timeout_s: float | None, retry_failed: bool
) -> list[PointOutcome]:
    """Run what is not done yet, one point after the other, and print how far it is."""
    with open_store(db, read_only=False) as store:
        check_base(store, experiment)
        done = {
            point: find_done(store, experiment, point, retry_failed=retry_failed)
            for point in experiment.points
        }
    left = [point for point in experiment.points if done[point] is None]
    total, took = len(experiment.points), []
    click.echo(
        f"Sweep {experiment.name}: {total - len(left)} of {total} done before",
        err=True,
    )
    for number, point in enumerate(left, start=1):
        place = f"[{total - len(left) + number}/{total}]"
        with endings_as_interrupts():
            outcome = run_point(db, experiment, point, timeout_s)
        done[point] = outcome
        took.append(outcome.seconds or 0.0)
        rest = time_left_s(took, len(left) - number)
        text = f"{place} {point.text}: {outcome.status} in {format_duration(took[-1])}"
        if outcome.reason:
            text += f" ({' '.join(outcome.reason.split())[:500]})"
        if len(left) > number:
            text += f", about {format_duration(rest)} left"
        click.echo(text, err=True)
    return [outcome for outcome in done.values() if outcome is not None]


def _report(
    db: str,
    experiment: Experiment,
    outcomes: list[PointOutcome],
    wanted: tuple[str, float],
    as_json: bool,
) -> None:
    """Print all points and the one that serves the goal best."""
    ids = [item.run_id for item in outcomes if item.run_id is not None]
    with storage.EventStore(db, read_only=True) as store:
        summaries = store.summaries(ids)
    goal, tolerance = wanted
    found = configuration_rows([summaries[i] for i in ids], tolerance=tolerance)
    rows = {row.run_id: row for row in found}
    if as_json:
        answer = {
            "experiment": experiment.name,
            "engine": experiment.engine,
            "base": list(experiment.base),
            "points": [_point_json(item, rows) for item in outcomes],
            "pick": pick_json(pick(found, goal, tolerance), differing(found)),
        }
        print_json(answer)
        return
    triples = [
        (item.point, rows.get(item.run_id or ""), item.status) for item in outcomes
    ]
    print_tables([sweep_table(experiment, triples), pick_table(found, goal, tolerance)])


def _point_json(item: PointOutcome, rows: dict[str, Any]) -> dict[str, Any]:
    row = rows.get(item.run_id or "")
    return {
        "settings": dict(item.point.settings),
        "run_id": item.run_id,
        "status": item.status,
        "reason": item.reason,
        "figures": row.figures if row else None,
        "is_non_dominated": row.is_non_dominated if row else None,
        "synthetic": row.is_synthetic if row else None,
    }


POLL_S = 1.0
STOP_S = 60.0
"""How long a server has to stop after an interrupt before it is killed."""

_DONE = ("finished", "failed", "skipped")
TAIL_BYTES = 256 << 10
"""Of what a server printed on standard error; the reason why it ended is in there."""
MAX_LINE = 10_000
_ERROR = re.compile(r"(?:\b[\w.]{0,200}(?:Error|Exception)|\b[\w.-]{1,100}: error): \S")
_NOT_A_REASON = ("Recorded as run ", "Engine core initialization failed")
"""Last lines of a server that do not state why it ended."""
_REFERENCE_OPTIONS = {
    variable: f"--{name.replace('_', '-')}"
    for name, variable in VARIABLES.items()
    if name.startswith("graph_")
}


@dataclass(frozen=True)
class PointOutcome:
    """What came of a point: its run, or why there is none."""

    point: Point
    run_id: str | None
    status: str
    seconds: float | None
    reason: str | None = None


def check_base(store: EventStore, experiment: Experiment) -> None:
    """Raise InputError when the name belongs to a sweep with other fixed options."""
    for record in store.runs(text=f"sweep {experiment.name}, base "):
        notes = record.notes or ""
        is_same_name = notes.startswith(f"sweep {experiment.name}, base ")
        if is_same_name and notes != experiment.note:
            raise InputError(
                f"The sweep {experiment.name!r} has runs with other fixed options "
                f"({record.run_id}); choose another --name"
            )


def find_done(
    store: EventStore, experiment: Experiment, point: Point, *, retry_failed: bool
) -> PointOutcome | None:
    """The run of a point from an earlier start of the sweep; None if it is to run."""
    wanted = ("finished", "skipped") if retry_failed else _DONE
    for record in store.runs(label=experiment.label(point)):
        is_over = record.status in wanted  # not of one whose process was killed
        if record.notes == experiment.note and is_over:
            failure = current(store, record).summary.failure
            reason = failure.message if failure is not None else None
            return PointOutcome(point, record.run_id, record.status, None, reason)
    return None


def run_point(
    db: str, experiment: Experiment, point: Point, timeout_s: float | None
) -> PointOutcome:
    """Run one point, and wait until its start-up is over.

    Raises:
        WarmupInsightsError: the command line itself was refused.
    """
    began = time.monotonic()
    command, environment = point_command(db, experiment, point)
    reason = run_until_ready(
        command,
        environment,
        lambda: _is_ready(db, experiment.label(point)),
        stays=experiment.engine == "vllm",
        timeout_s=timeout_s,
    )
    return _outcome(db, experiment, point, time.monotonic() - began, reason)


def point_command(
    db: str, experiment: Experiment, point: Point
) -> tuple[list[str], dict[str, str]]:
    """The command line of a point, and the environment variables that it adds."""
    label = experiment.label(point)
    command = [sys.executable, "-m", "warmup_insights"]
    if experiment.engine == "vllm":
        command += ["vllm", "--db", db, "--label", label, "serve", *experiment.base]
    else:
        command += ["run", "--quiet", "--db", db, "--label", label, *experiment.base]
    environment: dict[str, str] = {}
    for name, value in point.settings:
        if not is_variable(name):
            command += [f"--{name.replace('_', '-')}", value]
        elif experiment.engine == "vllm":
            environment[name] = value
        elif name in _REFERENCE_OPTIONS:
            command += [_REFERENCE_OPTIONS[name], value]
        else:
            command += ["--set", f"{name}={value}"]
    return command, environment


def run_until_ready(
    command: list[str],
    environment: dict[str, str],
    is_ready: Callable[[], bool],
    *,
    stays: bool,
    timeout_s: float | None,
) -> str | None:
    """Run a command to its end, or a server until it is ready; why it failed, if it did.

    A server gets an interrupt when it is ready, and is killed when that does not end it.

    Raises:
        WarmupInsightsError: the command refused its options.
    """
    with TemporaryFile() as errors:
        process = subprocess.Popen(
            command,
            env={**os.environ, **environment},
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=errors,
            start_new_session=True,
        )
        deadline = math.inf if timeout_s is None else time.monotonic() + timeout_s
        try:
            while process.poll() is None and time.monotonic() < deadline:
                if stays and is_ready():
                    return None
                with suppress(subprocess.TimeoutExpired):
                    process.wait(min(POLL_S, max(0.0, deadline - time.monotonic())))
            if process.returncode is None:
                return f"not ready within {timeout_s:g} s"
        finally:
            _stop(process)
        if process.returncode == 0:
            return None
        reason = last_error(errors) or f"exit code {process.returncode}"
    if process.returncode == 2:
        raise WarmupInsightsError(
            f"The run was refused: {reason.rstrip('.')}; change the options of the sweep"
        )
    return reason


def last_error(stream: IO[bytes]) -> str:
    """The last line that holds an error among the last bytes, else the last line."""
    size = stream.seek(0, os.SEEK_END)
    stream.seek(max(0, size - TAIL_BYTES))
    lines = [
        line.strip() for line in stream.read().decode(errors="replace").split("\n")
    ]
    lines = [
        line for line in lines if line and not any(w in line for w in _NOT_A_REASON)
    ]
    found = [(line, _ERROR.search(line[:MAX_LINE])) for line in reversed(lines)]
    text = next(
        (line[at.start() :] for line, at in found if at), lines[-1] if lines else ""
    )
    return text[:500].removeprefix("Error: ")


def _stop(process: subprocess.Popen[bytes]) -> None:
    """Interrupt a process if it still runs, and kill what then is left of its group.

    Another Ctrl-C meanwhile does not wait any longer, and counts afterwards.
    """
    try:
        if process.poll() is None:
            # The interrupt is for the server alone, which would not clean up if it got
            # it twice: its launcher passes it on.
            process.send_signal(signal.SIGINT)
            with suppress(subprocess.TimeoutExpired):
                process.wait(STOP_S)
    finally:
        _end_group(process)


def _end_group(process: subprocess.Popen[bytes]) -> None:
    """Kill what is left, such as a worker that began after the interrupt."""
    deadline = time.monotonic() + min(5.0, STOP_S)
    with suppress(ProcessLookupError):
        while process.poll() is not None and time.monotonic() < deadline:
            os.killpg(process.pid, 0)
            time.sleep(0.05)
        os.killpg(process.pid, signal.SIGKILL)
    process.wait()


def _is_ready(db: str, label: str) -> bool:
    """Whether the newest run of a label is ready, or failed for a known reason."""
    with storage.EventStore(db) as store:
        found = store.runs(label=label, limit=1)
        if not found:
            return False
        summary = current(store, found[0]).summary
    return bool(summary.time.ready_at or summary.failure)


def _outcome(
    db: str, experiment: Experiment, point: Point, seconds: float, reason: str | None
) -> PointOutcome:
    """The stored run of a point that has just ended, with the sweep's note on it.

    Why it failed is added to the run where that died before it could record it.
    """
    with storage.EventStore(db) as store:
        found = store.runs(label=experiment.label(point), limit=1)
        if not found:
            return PointOutcome(point, None, "failed", seconds, reason)
        run_id = found[0].run_id
        summary = refresh(store, run_id).summary
        has_no_cause = summary.status in ("failed", "stopped") and not summary.failure
        if reason and has_no_cause:
            text = mask_text(reason)
            failure = Failure(failure="error", message=text, time=time.time())
            with store.begin() as transaction:
                transaction.append(run_id, [failure])
            summary = refresh(store, run_id).summary
        if summary.status in _DONE:
            store.update_run(run_id, notes=experiment.note)
        if summary.failure is not None:
            reason = summary.failure.message or reason
        return PointOutcome(point, run_id, summary.status, seconds, reason)
