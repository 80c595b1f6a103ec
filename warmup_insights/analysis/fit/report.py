"""A fitted bucket set beside what the engine's own strategies do with the same traffic."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, astuple, dataclass, replace
from itertools import chain
from typing import Any

import numpy as np

from warmup_insights.analysis.fit.cost import (
    Cost,
    Limits,
    Pairs,
    Usage,
    Waste,
    measure_waste,
    refuse_overflow,
    used_buckets,
)
from warmup_insights.analysis.fit.solve import Admits, Fit, fit_buckets
from warmup_insights.analysis.fit.traffic import ShapeCounts, Traffic, count_shapes
from warmup_insights.analysis.plan.costs import Evidence, PhaseCosts, phase_costs
from warmup_insights.bucketing.base import PHASES, STRATEGY_NAMES, Bucket
from warmup_insights.bucketing.filters import (
    Condition,
    phase_conditions,
)
from warmup_insights.bucketing.generate import speculative_buckets
from warmup_insights.bucketing.padding import try_settings
from warmup_insights.bucketing.settings import BucketingSettings
from warmup_insights.errors import InputError
from warmup_insights.model.summary import SCHEMA, BucketRow, RunSummary

AT_MOST = (
    "Warm-up and graphs of the strategies are at most as given: each bucket counts as one "
    "with a graph of its own, and an engine runs some of them as the same shape."
)


@dataclass(frozen=True)
class StrategyResult:
    """What one strategy does: its buckets, those used, and the padding.

    `uncovered` counts steps that none of its buckets covers; the engine makes a new one
    for them while serving. Everything is None when the strategy cannot be used, with
    the `error` with the reason.
    """

    name: str
    num_buckets: int | None = None
    num_used: int | None = None
    executed: int | None = None
    waste_ratio: float | None = None
    uncovered: int | None = None
    usage: Usage | None = None
    keeps_limits: bool | None = None
    error: str | None = None


@dataclass(frozen=True)
class FitReport:
    """The fit, the strategies on the same traffic, and what was assumed."""

    traffic: str
    num_prompt_steps: int
    num_decode_steps: int
    num_shapes: int
    block_weight: int
    fit: Fit
    result: StrategyResult
    """What the engine does with the fit, as with the strategies."""
    strategies: tuple[StrategyResult, ...]
    notes: tuple[str, ...]

    def as_dict(self) -> dict[str, Any]:
        """Plain values; what `--json` prints."""
        fit = {
            **asdict(self.fit),
            "wasted": self.fit.wasted,
            "waste_ratio": self.fit.waste_ratio,
            "gap_percent": self.fit.gap_percent,
        }
        return {"schema": SCHEMA, **asdict(self), "fit": fit}


def fit_for_settings(
    traffic: Traffic,
    settings: BucketingSettings,
    limits: Limits,
    *,
    block_weight: int = 1,
    covers_limits: bool = False,
    query_step: int = 1,
) -> FitReport:
    """Fit buckets to traffic under the engine's settings, and compare strategies.

    With `covers_limits` the largest prompt and the fullest decode batch that the
    settings allow get a bucket as well, whether they occur or not. Query lengths of
    prompts are multiples of `query_step`, but for the largest legal one.

    Raises:
        InputError: no allowed set covers the traffic, or a prompt step of it is larger
            than the settings allow.
    """
    name = traffic.name
    sizes = traffic.prompt.shapes[:, :2].prod(axis=1)
    tokens = int(sizes.max(initial=0))
    if tokens > settings.max_num_batched_tokens:
        raise InputError(
            f"{name} has a prompt step of {tokens} tokens, more than "
            f"max_num_batched_tokens={settings.max_num_batched_tokens}; raise it, or use "
            "the settings that the traffic ran with"
        )
    if covers_limits:
        traffic = with_limits(traffic, settings)
    admits = taken_from_file(settings)
    rounded = with_query_step(traffic, query_step, settings)
    rounded, left_out = as_taken(rounded, settings, query_step, admits)
    trials = [
        try_settings(replace(settings, strategy=strategy, bucket_file=None))
        for strategy in STRATEGY_NAMES
    ]
    made: dict[str, dict[str, Sequence[Bucket]]] = {
        trial.title: {"prompt": found.prompt, "decode": found.decode}
        for trial in trials
        if (found := trial.generated) is not None
    }

    def warms(phase: str, buckets: Iterable[Bucket]) -> Sequence[Bucket]:
        own = tuple(buckets)
        return speculative_buckets(settings, own) if phase == "decode" else own

    for phase in PHASES:
        shapes = traffic.of(phase).shapes
        largest = [Bucket(*shapes.max(axis=0).tolist())] if len(shapes) else []
        offered = [largest, *(own[phase] for own in made.values())]
        warmed = chain.from_iterable(warms(phase, own) for own in offered)
        refuse_overflow(traffic, warmed, phase, block_weight)
    missing = [phase for phase in PHASES if not len(rounded.of(phase))]
    fixed = [(p, own) for p in missing for own in warms(p, [STAND_INS[p]])]
    fit = fit_buckets(
        rounded,
        replace(limits, fixed=tuple(fixed)),
        block_weight=block_weight,
        admits=admits,
        warms=warms,
        others=[
            (title, own)
            for title, own in made.items()
            if keeps_step(own["prompt"], query_step, settings)
        ],
    )
    in_file = file_lists(fit)
    lists = {phase: warms(phase, own) for phase, own in in_file.items()}
    result, waste = _judge("this fit", lists, traffic, limits, block_weight)
    fit = replace(
        fit,
        needed=waste.needed,
        executed=waste.executed,
        bound=min(fit.bound, waste.executed),
        is_exact=fit.is_exact and waste.executed == fit.executed,
        usage=limits.usage(_pairs(lists)),
    )
    added = []
    if more := len(lists["decode"]) - len(in_file["decode"]):
        added.append(
            f"Speculative decoding adds {more} decode buckets to those of the file; the "
            "limits count them."
        )
    return FitReport(
        name,
        traffic.prompt.total,
        traffic.decode.total,
        len(traffic.prompt) + len(traffic.decode),
        block_weight,
        fit,
        result,
        tuple(
            _judge(trial.title, made[trial.title], traffic, limits, block_weight)[0]
            if trial.title in made
            else StrategyResult(trial.title, error=trial.problem)
            for trial in trials
        ),
        (
            *traffic.notes,
            *([AT_MOST] if limits.seconds or limits.bytes else []),
            *left_out,
            *added,
        ),
    )


def taken_from_file(settings: BucketingSettings) -> Admits:
    """Whether an engine with these settings takes a bucket from a file as it is."""
    checks: dict[str, tuple[Condition, ...]] = {
        phase: phase_conditions(settings, phase) for phase in PHASES
    }
    return lambda phase, bucket: all(each.holds(bucket) for each in checks[phase])


def as_taken(
    traffic: Traffic, settings: BucketingSettings, query_step: int, admits: Admits
) -> tuple[Traffic, tuple[str, ...]]:
    """The traffic as the smallest buckets that the engine takes, and what none covers.

    A sequence of a decode batch has a block at least; a prompt of whole slices stands for
    one without context, or one with a block of context where they are too many.
    """
    decode = traffic.decode
    if len(decode) and not settings.use_contiguous_pa:
        shapes = decode.shapes.copy()
        shapes[:, 2] = np.maximum(shapes[:, 2], shapes[:, 0])
        decode = count_shapes(shapes, decode.counts)
    prompt = traffic.prompt
    window = settings.sliding_window
    if len(prompt) and window is not None:
        shapes = prompt.shapes.copy()
        step = math.lcm(window.slice_size, query_step)
        is_sliced = (shapes[:, 2] == 0) & (shapes[:, 1] >= window.threshold)
        whole = -(-shapes[:, 1] // step) * step
        fits = is_sliced & (whole <= _longest_query(settings) // shapes[:, 0])
        shapes[:, 1] = np.where(fits, whole, shapes[:, 1])
        is_whole = shapes[:, 1] % window.slice_size == 0
        shapes[:, 2] = np.where(is_sliced & ~is_whole, 1, shapes[:, 2])
        prompt = count_shapes(shapes, prompt.counts)
    kept = {}
    notes = []
    for phase, part in (("prompt", prompt), ("decode", decode)):
        # A prompt bucket of one token is written with two.
        least = 2 if phase == "prompt" else 1
        mask = np.array(
            [
                admits(phase, Bucket(b, max(q, least), c))
                for b, q, c in part.shapes.tolist()
            ],
            dtype=bool,
        )
        kept[phase] = part.where(mask)
        steps = part.total - kept[phase].total
        if steps:
            notes.append(
                f"{steps} {phase} steps find no bucket: the engine takes none from a file "
                "that is as large, and makes one while requests wait."
            )
    return replace(traffic, prompt=kept["prompt"], decode=kept["decode"]), tuple(notes)


def _judge(
    name: str,
    lists: Mapping[str, Sequence[Bucket]],
    traffic: Traffic,
    limits: Limits,
    block_weight: int,
) -> tuple[StrategyResult, Waste]:
    """What an engine that warms up these buckets does, and the waste of both phases."""
    parts = {phase: traffic.of(phase) for phase in PHASES}
    wastes = [
        measure_waste(part, lists[phase], phase, block_weight)
        for phase, part in parts.items()
    ]
    waste = Waste(*(sum(own) for own in zip(*map(astuple, wastes), strict=True)))
    pairs = _pairs(lists)
    result = StrategyResult(
        name,
        len(pairs),
        sum(len(used_buckets(part, lists[phase])) for phase, part in parts.items()),
        waste.executed,
        waste.wasted / waste.executed if waste.executed else None,
        waste.uncovered,
        limits.usage(pairs),
        limits.load(pairs) <= 1 + 1e-9,
    )
    return result, waste


def _pairs(lists: Mapping[str, Sequence[Bucket]]) -> Pairs:
    return [(phase, bucket) for phase in PHASES for bucket in lists[phase]]


def with_limits(traffic: Traffic, settings: BucketingSettings) -> Traffic:
    """The traffic with the largest legal shapes in it, which count for nothing."""
    query = _longest_query(settings)
    prompts = [(1, query, 0)]
    context = int(traffic.prompt.shapes[:, 2].max()) if len(traffic.prompt) else 0
    if context:
        room = (settings.max_model_len - query) // settings.block_size
        prompts.append((1, query, max(context, room)))
        if settings.rules.sums_context:
            prompts[-1] = (1, query, room)
    blocks = min(
        settings.num_kv_blocks, settings.max_num_seqs * settings.blocks_per_seq
    )
    decodes = [(min(settings.max_num_seqs, blocks), 1, blocks)]
    return replace(
        traffic,
        prompt=_with(traffic.prompt, prompts),
        decode=_with(traffic.decode, decodes),
    )


def with_query_step(
    traffic: Traffic, step: int, settings: BucketingSettings
) -> Traffic:
    """The traffic with query lengths of prompts rounded up to multiples of a step.

    A bucket with such a length covers a shape exactly if it covers the rounded one.
    """
    if step == 1 or not len(traffic.prompt):
        return traffic
    largest = _longest_query(settings)
    shapes = traffic.prompt.shapes.copy()
    rounded = np.minimum(-(-shapes[:, 1] // step) * step, largest)
    shapes[:, 1] = np.maximum(rounded, shapes[:, 1])
    return replace(traffic, prompt=count_shapes(shapes, traffic.prompt.counts))


def keeps_step(
    prompts: Sequence[Bucket], step: int, settings: BucketingSettings
) -> bool:
    """Whether all query lengths are multiples of a step, or the largest legal one."""
    largest = _longest_query(settings)
    return all(b.query_len % step == 0 or b.query_len == largest for b in prompts)


def _longest_query(settings: BucketingSettings) -> int:
    return min(settings.max_num_batched_tokens, settings.max_model_len)


def _with(traffic: ShapeCounts, shapes: Sequence[tuple[int, int, int]]) -> ShapeCounts:
    return count_shapes(
        np.concatenate([traffic.shapes, np.array(shapes)]),
        np.concatenate([traffic.counts, np.zeros(len(shapes), np.int64)]),
    )


STAND_INS = {"prompt": Bucket(1, 2, 0), "decode": Bucket(1, 1, 1)}
"""The smallest bucket of each phase: an engine needs one where no step occurred."""


def file_lists(fit: Fit) -> dict[str, Sequence[Bucket]]:
    """The buckets of the file; a phase without traffic gets its smallest bucket."""
    return {phase: fit.buckets.get(phase) or (STAND_INS[phase],) for phase in PHASES}


def run_costs(
    summary: RunSummary, rows: Sequence[BucketRow]
) -> tuple[Cost | None, Cost | None]:
    """Seconds and graph bytes of any bucket, as a run shows them; None if it does not.

    The fitted costs are used even for measured buckets, so that a larger bucket never
    costs less than a smaller one. Every bucket counts as one that gets a graph.
    """
    evidence = Evidence(summary, rows)
    costs: dict[str, PhaseCosts] = {
        phase: phase_costs(evidence, phase) for phase in PHASES
    }
    known = [cost for phase, cost in costs.items() if summary.phase(phase).buckets]
    timed = [c.capture_s if c.captures_in_runs else c.run_s for c in known]

    def seconds(phase: str, bucket: Bucket) -> float:
        own = costs[phase]
        runs = None if own.captures_in_runs else own.run_s
        return sum(cost.fitted(bucket) for cost in (runs, own.capture_s) if cost)

    def graph_bytes(phase: str, bucket: Bucket) -> float:
        cost = costs[phase].graph_bytes
        return 0.0 if cost is None else cost.fitted(bucket)

    return (
        seconds if known and None not in timed else None,
        graph_bytes if known and all(cost.graph_bytes for cost in known) else None,
    )
