"""`sweep`: one experiment over many settings."""

from __future__ import annotations

import json
import sys
from typing import TYPE_CHECKING, Any

import click

from warmup_insights.cli.options import Command, db_option, json_option
from warmup_insights.errors import SettingError

if TYPE_CHECKING:
    from warmup_insights.analysis.sweep import Experiment
    from warmup_insights.cli.sweep_runs import PointOutcome

_GRIDS = (
    ("--gpu-memory-utilization", "Shares of the memory that is free after profiling."),
    ("--graph-reserved-mem", "Shares kept for graphs [VLLM_GRAPH_RESERVED_MEM]."),
    ("--prompt-ratio", "Shares of it for prompts [VLLM_GRAPH_PROMPT_RATIO]."),
    ("--bucketing-strategy", "exp, lin, pad [VLLM_BUCKETING_STRATEGY]."),
    ("--max-num-seqs", "Requests per step at most."),
    ("--max-num-batched-tokens", "Prompt tokens per step at most."),
    ("--max-model-len", "Tokens per request at most."),
)


def grid_options(command: Command) -> Command:
    """Add one option per setting that is often swept."""
    for name, text in reversed(_GRIDS):
        command = click.option(name, metavar="VALUE[,VALUE]", help=text)(command)
    return command


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
@click.option("--timeout", type=click.FloatRange(min=1), help="Seconds per point.")
@click.option("--retry-failed", is_flag=True, help="Run failed points again.")
@click.option("--dry-run", is_flag=True, help="Only list the points.")
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
    db: str,
    as_json: bool,
    **options: str | None,
) -> None:
    """Run a grid of memory settings, and mark the ones that no other beats.

    Everything after `--` is fixed for all points: options of `warmup-insights run`
    such as `-- --device cpu --memory 1GiB`, or with --engine vllm what follows
    `vllm serve`, such as `-- MODEL --tensor-parallel-size 8`. The same command
    continues where it was stopped.
    """
    from warmup_insights.analysis.sweep import make_experiment

    experiment = make_experiment(
        name,
        read_grid(options, grids),
        [read_point(text) for text in points],
        engine=engine,
        base=fixed,
    )
    if engine == "vllm" and not fixed:
        raise SettingError("Name the model to serve after --, such as `-- MODEL`")
    if dry_run:
        for point in experiment.points:
            click.echo(point.text)
        return
    outcomes = run_experiment(db, experiment, timeout, retry_failed)
    _report(db, experiment, outcomes, as_json)
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
    for assignment in grids:
        name, separator, values = assignment.partition("=")
        if not separator:
            raise SettingError(
                f"--grid {assignment[:60]!r} is not NAME=VALUE[,VALUE], such as "
                "block_size=16,32"
            )
        texts[name] = values
    return {
        name: [value.strip() for value in text.split(",") if value.strip()]
        for name, text in texts.items()
    }


def read_point(text: str) -> dict[str, str]:
    """The settings of one point. Raises SettingError when it is not NAME=VALUE,..."""
    settings = {}
    for part in text.split(","):
        name, separator, value = part.partition("=")
        if not separator:
            raise SettingError(
                f"--point {text[:60]!r} is not NAME=VALUE,NAME=VALUE, such as "
                "gpu_memory_utilization=0.9,max_num_seqs=64"
            )
        settings[name] = value
    return settings


def run_experiment(
    db: str, experiment: Experiment, timeout_s: float | None, retry_failed: bool
) -> list[PointOutcome]:
    """Run what is not done yet, one point after the other, and say how far it is."""
    from warmup_insights.analysis.sweep import time_left_s
    from warmup_insights.cli.sweep_runs import (
        check_base,
        endings_as_interrupts,
        find_done,
        run_point,
    )
    from warmup_insights.storage import EventStore
    from warmup_insights.units import format_duration

    with EventStore(db) as store:
        check_base(store, experiment)
        done = {
            point: find_done(store, experiment, point, retry_failed=retry_failed)
            for point in experiment.points
        }
    left = [point for point in experiment.points if done[point] is None]
    total, took = len(experiment.points), []
    click.echo(
        f"Sweep {experiment.name}: {total} points, {total - len(left)} done before",
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
    db: str, experiment: Experiment, outcomes: list[PointOutcome], as_json: bool
) -> None:
    from warmup_insights.analysis.pareto import ConfigurationRow, configuration_rows
    from warmup_insights.storage import EventStore

    ids = [item.run_id for item in outcomes if item.run_id is not None]
    with EventStore(db, read_only=True) as store:
        summaries = store.summaries(ids)
    rows: dict[str, ConfigurationRow] = {
        row.run_id: row for row in configuration_rows([summaries[i] for i in ids])
    }
    if as_json:
        answer = {
            "experiment": experiment.name,
            "engine": experiment.engine,
            "base": list(experiment.base),
            "points": [_point_json(item, rows) for item in outcomes],
        }
        click.echo(json.dumps(answer, indent=2))
        return
    from warmup_insights.cli.printing import print_tables
    from warmup_insights.export.sweeps import sweep_table

    triples = [
        (item.point, rows.get(item.run_id or ""), item.status) for item in outcomes
    ]
    print_tables([sweep_table(experiment, triples)])


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
