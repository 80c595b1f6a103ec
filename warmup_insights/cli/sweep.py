"""`sweep`: one experiment over many settings."""

from __future__ import annotations

import sys
from typing import Any

import click

from warmup_insights import storage
from warmup_insights.analysis.pareto import configuration_rows, differing, pick
from warmup_insights.analysis.sweep import (
    ALIASES,
    Experiment,
    make_experiment,
    time_left_s,
)
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
from warmup_insights.cli.run import endings_as_interrupts
from warmup_insights.cli.sweep_runs import (
    PointOutcome,
    check_base,
    find_done,
    run_point,
)
from warmup_insights.drainer import open_store
from warmup_insights.errors import SettingError
from warmup_insights.export.plans import pick_json, pick_table, sweep_table
from warmup_insights.runner.settings import RunSettings
from warmup_insights.units import format_duration

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
