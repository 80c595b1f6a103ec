"""`plan`: what other memory settings would give, without running."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable
from typing import Any

import click

from warmup_insights.analysis.pareto import (
    GOALS,
    TOLERANCE,
    differing,
    pick,
    planned_rows,
)
from warmup_insights.analysis.plan.cache import (
    KV_CACHE_DTYPES,
    OF_HPU,
    CachePlanner,
)
from warmup_insights.analysis.plan.planning import (
    Plan,
    Planner,
    PlanSettings,
    Recommendation,
    recommend,
)
from warmup_insights.analysis.plan.regenerate import LIMITS
from warmup_insights.analysis.summary import Folded
from warmup_insights.bucketing.base import GPUS
from warmup_insights.bucketing.settings import (
    FIRST_NAMES,
    BucketingSettings,
    read_overrides,
    strategy_name,
)
from warmup_insights.bucketing.versions import MAIN, RELEASES, version_name
from warmup_insights.cli.loading import load_runs
from warmup_insights.cli.options import (
    FiniteRange,
    IntegerRange,
    all_of,
    db_option,
    json_option,
    meaning,
    parsed_by,
    read_assignments,
)
from warmup_insights.cli.printing import print_json, print_notes, print_tables
from warmup_insights.errors import InputError, SettingError
from warmup_insights.export import plans as texts
from warmup_insights.export.plans import pick_json, pick_table
from warmup_insights.model.events import Bucket
from warmup_insights.model.summary import RunSummary
from warmup_insights.rules import VARIABLES
from warmup_insights.rules.capture import GRAPH_STRATEGIES
from warmup_insights.runner.settings import RunSettings
from warmup_insights.units import parse_size

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
_SINGLE = (*_ORDERS, *LIMITS, "kv_cache_dtype", "engine_version")
"""What has one value in all plans of a command."""
_OF_GRAPHS = ("graph_prompt_ratio", *_ORDERS)
_NEED_GRAPHS = (*_OF_GRAPHS, "max_num_seqs", "engine_version")
"""What can be planned only where the run states what graphs took."""


def _changed(name: str, of: type = RunSettings, **option: Any) -> Callable[..., Any]:
    """The option for a setting that can be planned, with the meaning it has in `run`."""
    text = meaning(of, name, VARIABLES if of is RunSettings else {})
    return click.option(f"--{name.replace('_', '-')}", help=text, **option)


goal_options = all_of(
    click.option(
        "--goal", type=click.Choice(list(GOALS)), default="balanced", show_default=True,
        help="What to choose a configuration for.",
    ),
    click.option(
        "--tolerance", type=FiniteRange(0, 100), default=100 * TOLERANCE,
        show_default=True, metavar="PERCENT",
        help="Differences of up to this much do not count.",
    ),
)  # fmt: skip
"""What a configuration is chosen for, and which differences count."""


@click.command()
@click.argument("run")
@all_of(
    *(
        _changed(n, BucketingSettings, type=IntegerRange(1), metavar="N")
        for n in LIMITS
    ),
    *(_changed(n, callback=read_shares, metavar="SHARE[,SHARE]") for n in _SHARES),
    *(_changed(n, type=click.Choice(GRAPH_STRATEGIES)) for n in _ORDERS),
)
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
    callback=parsed_by(parse_size),
    help="Memory to leave free, such as 2GiB. [default: 5 % of the device, or what profiling took]",
)
@click.option(
    "--wanted", type=click.Choice(["all", "used"]), default="all", show_default=True,
    help="Graphs to recommend for: of all buckets, or of those used while serving.",
)  # fmt: skip
@click.option(
    "--kv-cache-dtype", type=click.Choice(KV_CACHE_DTYPES), metavar="TYPE",
    help="Type of a value in the KV cache, such as fp8; plans the KV cache alone.",
)  # fmt: skip
@click.option(
    "--device-memory", metavar="SIZE", callback=parsed_by(parse_size),
    help="Memory of the device, where the run does not state it.",
)  # fmt: skip
@click.option("--order", is_flag=True, help="List every graph in order of capture.")
@goal_options
@db_option
@json_option
def plan(
    run: str,
    assignments: tuple[str, ...],
    margin: int | None,
    wanted: str,
    order: bool,
    goal: str,
    tolerance: float,
    db: str,
    as_json: bool,
    **options: Any,
) -> None:
    """RUN is a run id, its first 4 characters or more, a label, `latest` (the last to
    start), or a log.

    Without settings the reserve and the utilisation are recommended. Several values, separated by
    commas, are all combined. Of a run that does not state what its graphs took, of every
    device but HPU, and with --block-size, the KV cache and the number of buckets are planned.
    """
    settings = list(_grid(options, _environment(assignments)))
    loaded = load_runs(db, [run])[0]
    device_bytes = options.pop("device_memory")
    planner = _planner(loaded, options, assignments)
    if planner is None:
        plan_cache(loaded.summary, settings, device_bytes, as_json)
        return
    used = _used(loaded.summary)
    plans = [planner.plan(each) for each in settings]
    has_settings = settings != [PlanSettings()]
    recommendation = None
    if not has_settings or margin is not None:
        recommendation = _recommend(planner, margin, used if wanted == "used" else None)
    share = tolerance / 100
    rows = planned_rows(plans, share) if len(plans) > 1 else []
    if as_json:
        result: dict[str, Any] = {"plans": [each.as_dict() for each in plans]}
        if recommendation is not None:
            result["recommendation"] = recommendation.as_dict()
        if rows:
            result["pick"] = pick_json(pick(rows, goal, share), differing(rows))
        print_json(result)
        return
    _print(plans, recommendation, order, has_settings)
    if rows:
        print_tables([pick_table(rows, goal, share)])


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


def _planner(
    loaded: Folded, options: dict[str, Any], assignments: tuple[str, ...]
) -> Planner | None:
    """The planner of a run; None where only its KV cache can be planned.

    Raises InputError where what was requested needs more than the run states.
    """
    needs_graphs = assignments or any(options[name] for name in _NEED_GRAPHS)
    if options["kv_cache_dtype"] is not None or options["block_size"] is not None:
        if any(options[name] for name in _OF_GRAPHS):
            raise click.UsageError(
                "With --kv-cache-dtype and --block-size what graphs take is unknown; leave "
                "out what changes graphs"
            )
        return None
    try:
        return Planner(loaded.summary, loaded.rows)
    except InputError:
        kind, engine = loaded.summary.device.kind, loaded.summary.engine.name
        if engine == "vllm" and kind in (*GPUS, "cpu"):
            if assignments or any(options[name] for name in OF_HPU):
                raise InputError(
                    f"This run is of vLLM on {kind}, which warms up no buckets; leave out "
                    "what changes buckets or the order of graphs"
                ) from None
            return None
        if needs_graphs:
            raise
        return None


def _used(summary: RunSummary) -> dict[str, set[Bucket]]:
    """The buckets that a run used while serving."""
    used: dict[str, set[Bucket]] = {}
    for use in summary.serving_or_none.uses:
        used.setdefault(use.phase, set()).add(use.bucket)
    return used


def plan_cache(
    summary: RunSummary,
    settings: list[PlanSettings],
    device_bytes: int | None,
    as_json: bool,
) -> None:
    """Plan the KV cache alone, and print it."""
    plans = CachePlanner(summary, device_bytes).beside_own(settings)
    if as_json:
        print_json({"plans": [each.as_dict() for each in plans]})
        return
    print_tables(texts.cache_tables(plans))
    print_notes(dict.fromkeys(note for each in plans for note in each.notes))


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
    count = math.prod(map(len, lists))
    if count > MAX_PLANS:
        raise SettingError(f"These are {count} combinations; give {MAX_PLANS} at most")
    for values in itertools.product(*lists):
        yield PlanSettings(
            **dict(zip(_SHARES, values, strict=True)),
            **{name: options[name] for name in _SINGLE},
            environment=environment,
        )


def _environment(assignments: tuple[str, ...]) -> dict[str, str]:
    like = "NAME=VALUE of an engine variable, such as VLLM_PROMPT_BS_BUCKET_MAX=4"
    found = dict(read_assignments("--set", assignments, like))
    for name in found:
        if not name.startswith(("VLLM_", "PT_HPU_")):
            raise SettingError(f"--set {name[:60]!r} cannot be used; write {like}")
    read_overrides(found)  # raises what no version takes
    strategy = found.get("VLLM_BUCKETING_STRATEGY", "exp")
    if strategy not in FIRST_NAMES:
        strategy_name(strategy)  # raises, too
    return found
