"""`plan`: what other memory settings would give, without running."""

from __future__ import annotations

import itertools
from typing import Any

import click

from warmup_insights.analysis.plan_recommend import Recommendation, recommend
from warmup_insights.analysis.planning import Plan, Planner, PlanSettings
from warmup_insights.bucketing.versions import MAIN, RELEASES, version_name
from warmup_insights.cli.loading import load_runs
from warmup_insights.cli.options import (
    Command,
    db_option,
    json_option,
    meaning,
    parsed_by,
    read_assignments,
)
from warmup_insights.cli.printing import print_json, print_notes, print_tables
from warmup_insights.errors import InputError, SettingError
from warmup_insights.export import plans as texts
from warmup_insights.model.events import Bucket
from warmup_insights.runner.settings import VARIABLES, RunSettings
from warmup_insights.units import parse_bytes

MAX_PLANS = 1000


def read_shares(
    ctx: click.Context, param: click.Parameter, value: str | None
) -> list[float] | None:
    """One or several shares from 0 to 1, separated by commas."""
    if value is None:
        return None
    shares = [float(click.FLOAT(text, param, ctx)) for text in value.split(",")]
    for share in shares:
        if not 0 <= share <= 1:
            raise click.BadParameter(f"{share:g} is not from 0 to 1", ctx, param)
    return shares


_SHARES = ("gpu_memory_utilization", "graph_reserved_mem", "graph_prompt_ratio")
_ORDERS = ("graph_prompt_strategy", "graph_decode_strategy")


def _settings_to_plan(command: Command) -> Command:
    """Add the options for what can be planned, with the meaning it has in `run`."""
    for name in reversed(_SHARES + _ORDERS):
        is_share = name in _SHARES
        command = click.option(
            f"--{name.replace('_', '-')}",
            callback=read_shares if is_share else None,
            metavar="SHARE[,SHARE]" if is_share else None,
            type=None if is_share else click.Choice(["min_tokens", "max_bs"]),
            help=meaning(RunSettings, name, VARIABLES),
        )(command)
    return command


@click.command()
@click.argument("run")
@_settings_to_plan
@click.option(
    "--set", "assignments", multiple=True, metavar="NAME=VALUE",
    help="A bucketing variable to change, such as VLLM_BUCKETING_STRATEGY=lin.",
)  # fmt: skip
@click.option(
    "--engine-version",
    metavar="VERSION",
    callback=parsed_by(version_name),
    help=f"vllm-gaudi whose rules make the buckets, as {RELEASES[-2]} or {MAIN}.  "
    "[default: that of the run]",
)
@click.option(
    "--margin",
    metavar="SIZE",
    callback=parsed_by(parse_bytes),
    help="Memory to leave free, such as 2GiB. [default: 2 %]",
)
@click.option(
    "--wanted", type=click.Choice(["all", "used"]), default="all", show_default=True,
    help="Graphs to recommend for: of all buckets, or of those used while serving.",
)  # fmt: skip
@click.option("--order", is_flag=True, help="List every graph in order of capture.")
@db_option
@json_option
def plan(
    run: str,
    assignments: tuple[str, ...],
    margin: int | None,
    wanted: str,
    order: bool,
    db: str,
    as_json: bool,
    **options: Any,
) -> None:
    """RUN is a run id, the unique start of one, a label, or `latest`.

    Without settings the reserve and the utilisation are recommended. Several values, separated by
    commas, are all combined.
    """
    planner, used = _planner(db, run)
    settings = list(_grid(options, _environment(assignments)))
    plans = [planner.plan(each) for each in settings]
    has_settings = settings != [PlanSettings()]
    recommendation = None
    if not has_settings or margin is not None:
        recommendation = _recommend(planner, margin, used if wanted == "used" else None)
    if as_json:
        result: dict[str, Any] = {"plans": [each.as_dict() for each in plans]}
        if recommendation is not None:
            result["recommendation"] = recommendation.as_dict()
        print_json(result)
        return
    _print(plans, recommendation, order, has_settings)


def _print(
    plans: list[Plan],
    recommendation: Recommendation | None,
    order: bool,
    has_settings: bool,
) -> None:
    if len(plans) > 1:
        print_tables([texts.plans_table(plans)])
    elif has_settings:
        print_tables(texts.plan_tables(plans[0]))
    if order:
        print_tables([texts.order_table(each) for each in plans])
    if recommendation is not None:
        print_tables([texts.recommendation_table(recommendation)])
        last = recommendation.both or recommendation.reserve
        if last is not None:
            print_tables(texts.plan_tables(last)[3:4])
    print_notes(dict.fromkeys(note for each in plans for note in each.notes))


def _planner(db: str, run: str) -> tuple[Planner, dict[str, set[Bucket]]]:
    """The planner of a run, and the buckets that it used while serving."""
    loaded = load_runs(db, [run])[0]
    used: dict[str, set[Bucket]] = {}
    serving = loaded.summary.serving
    for use in serving.uses if serving is not None else ():
        used.setdefault(use.phase, set()).add(use.bucket)
    return Planner(loaded.summary, loaded.rows), used


def _recommend(
    planner: Planner, margin: int | None, used: dict[str, set[Bucket]] | None
) -> Recommendation:
    if used is not None and not used:
        raise InputError(
            "This run used no bucket while serving, so --wanted used means nothing; "
            "leave it out, or plan from a run with `--serve`"
        )
    return recommend(planner, margin_bytes=margin, wanted=used)


def _grid(options: dict[str, Any], environment: dict[str, str]) -> Any:
    lists = [options[name] or [None] for name in _SHARES]
    count = len(lists[0]) * len(lists[1]) * len(lists[2])
    if count > MAX_PLANS:
        raise SettingError(f"These are {count} combinations; give {MAX_PLANS} at most")
    for values in itertools.product(*lists):
        yield PlanSettings(
            **dict(zip(_SHARES, values, strict=True)),
            **{name: options[name] for name in (*_ORDERS, "engine_version")},
            environment=environment,
        )


def _environment(assignments: tuple[str, ...]) -> dict[str, str]:
    like = "NAME=VALUE of an engine variable, such as VLLM_PROMPT_BS_BUCKET_MAX=4"
    found = dict(read_assignments("--set", assignments, like))
    for name in found:
        if not name.startswith(("VLLM_", "PT_HPU_")):
            raise SettingError(f"--set {name[:60]!r} is not {like}")
    return found
