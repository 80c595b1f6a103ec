"""`plan`: what other memory settings would give, without running."""

from __future__ import annotations

import itertools
import json
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import click

from warmup_insights.cli.options import Command, db_option, json_option
from warmup_insights.errors import InputError, SettingError

if TYPE_CHECKING:
    from warmup_insights.analysis.plan_recommend import Recommendation
    from warmup_insights.analysis.planning import Plan, Planner, PlanSettings

MAX_PLANS = 1000


def read_shares(
    ctx: click.Context, param: click.Parameter, value: str | None
) -> list[float] | None:
    """One or several shares from 0 to 1, separated by commas."""
    if value is None:
        return None
    numbers = []
    for text in value.split(","):
        try:
            number = float(text)
        except ValueError:
            message = f"{text.strip()[:40]!r} is not a number"
            raise click.BadParameter(message, ctx, param) from None
        if not 0 <= number <= 1:
            message = f"{number:g} is not a share from 0 to 1"
            raise click.BadParameter(message, ctx, param)
        numbers.append(number)
    return numbers


def _shares(name: str, text: str) -> Callable[[Command], Command]:
    return click.option(name, callback=read_shares, metavar="SHARE[,SHARE]", help=text)


@click.command()
@click.argument("run")
@_shares("--gpu-memory-utilization", "Share of the free memory to use.")
@_shares("--graph-reserved-mem", "Share kept for graphs [VLLM_GRAPH_RESERVED_MEM].")
@_shares("--graph-prompt-ratio", "Share of it for prompts [VLLM_GRAPH_PROMPT_RATIO].")
@click.option(
    "--graph-prompt-strategy", type=click.Choice(["min_tokens", "max_bs"]),
    help="Order of prompt graphs.",
)  # fmt: skip
@click.option(
    "--graph-decode-strategy", type=click.Choice(["min_tokens", "max_bs"]),
    help="Order of decode graphs.",
)  # fmt: skip
@click.option(
    "--set", "assignments", multiple=True, metavar="NAME=VALUE",
    help="A bucketing variable to change, such as VLLM_BUCKETING_STRATEGY=lin.",
)  # fmt: skip
@click.option(
    "--margin",
    metavar="SIZE",
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
    margin: str | None,
    wanted: str,
    order: bool,
    db: str,
    as_json: bool,
    **options: Any,
) -> None:
    """Predict what other memory settings would give, from one finished run.

    RUN is a run id, the unique start of one, a label, or `latest`. Without settings
    the reserve and the utilisation are recommended. Several values, separated by
    commas, are all combined.
    """
    planner, used = _planner(db, run)
    settings = list(_grid(options, _environment(assignments)))
    plans = [planner.plan(each) for each in settings]
    asks_nothing = len(settings) == 1 and settings[0] == _nothing()
    recommendation = None
    if asks_nothing or margin is not None:
        recommendation = _recommend(planner, margin, used if wanted == "used" else None)
    if as_json:
        result: dict[str, Any] = {"plans": [each.as_dict() for each in plans]}
        if recommendation is not None:
            result["recommendation"] = recommendation.as_dict()
        click.echo(json.dumps(result, indent=2))
        return
    _print(plans, recommendation, order, asks_nothing)


def _print(
    plans: list[Plan],
    recommendation: Recommendation | None,
    order: bool,
    asks_nothing: bool,
) -> None:
    from warmup_insights.cli.printing import print_notes, print_tables
    from warmup_insights.export import plans as texts

    if len(plans) > 1:
        print_tables([texts.plans_table(plans)])
    elif not asks_nothing:
        print_tables(texts.plan_tables(plans[0]))
    if order:
        print_tables([texts.order_table(each) for each in plans])
    if recommendation is not None:
        print_tables([texts.recommendation_table(recommendation)])
        last = recommendation.both or recommendation.reserve
        if last is not None:
            print_tables(texts.plan_tables(last)[3:4])
    print_notes(dict.fromkeys(note for each in plans for note in each.notes))


def _planner(db: str, run: str) -> tuple[Planner, dict[str, set[tuple[int, ...]]]]:
    """The planner of a run, and the buckets that it used while serving."""
    from warmup_insights.analysis.plan_evidence import collect_evidence
    from warmup_insights.analysis.planning import Planner
    from warmup_insights.model.events import BucketUsed
    from warmup_insights.storage import EventStore

    with EventStore(db, read_only=True) as store:
        record = store.find_run(run)
        is_log = record.source_kind == "log"
        evidence = collect_evidence(store.events(record.run_id), is_log=is_log)
        used: dict[str, set[tuple[int, ...]]] = {}
        for event in store.events(record.run_id, kinds=("bucket_used",)):
            if isinstance(event, BucketUsed):
                used.setdefault(event.phase, set()).add(event.bucket)
    return Planner(evidence), used


def _recommend(
    planner: Planner, margin: str | None, used: dict[str, set[tuple[int, ...]]] | None
) -> Recommendation:
    from warmup_insights.analysis.plan_recommend import recommend
    from warmup_insights.units import parse_bytes

    if used is not None and not used:
        raise InputError(
            "This run used no bucket while serving, so --wanted used means nothing; "
            "leave it out, or plan from a run with `--serve`"
        )
    size = None
    if margin is not None:
        try:
            size = parse_bytes(margin)
        except ValueError as error:
            raise InputError(f"--margin: {error}; write it like 2GiB") from error
    return recommend(planner, margin_bytes=size, wanted=used)


def _nothing() -> PlanSettings:
    from warmup_insights.analysis.planning import PlanSettings

    return PlanSettings()


def _grid(options: dict[str, Any], environment: dict[str, str]) -> Any:
    from warmup_insights.analysis.planning import PlanSettings

    names = ("gpu_memory_utilization", "graph_reserved_mem", "graph_prompt_ratio")
    lists = [options[name] or [None] for name in names]
    count = len(lists[0]) * len(lists[1]) * len(lists[2])
    if count > MAX_PLANS:
        raise SettingError(f"These are {count} combinations; give {MAX_PLANS} at most")
    for values in itertools.product(*lists):
        yield PlanSettings(
            **dict(zip(names, values, strict=True)),
            graph_prompt_strategy=options["graph_prompt_strategy"],
            graph_decode_strategy=options["graph_decode_strategy"],
            environment=environment,
        )


def _environment(assignments: tuple[str, ...]) -> dict[str, str]:
    found = {}
    for assignment in assignments:
        name, separator, value = assignment.partition("=")
        if not separator or not name.startswith(("VLLM_", "PT_HPU_")):
            raise SettingError(
                f"--set {assignment!r} is not NAME=VALUE of an engine variable, such as "
                "VLLM_PROMPT_BS_BUCKET_MAX=4"
            )
        found[name] = value
    return found
