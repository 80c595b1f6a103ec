"""What each bucket of a run costs, from everything that the run says about it."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from warmup_insights.analysis.linear_cost import Features, LinearCost, Observation
from warmup_insights.analysis.plan_evidence import Evidence, Step
from warmup_insights.model.events import Bucket
from warmup_insights.rules.capture import order_candidates
from warmup_insights.units import GIB

PHASES = ("prompt", "decode")
LOG_TIME_STEP_S = 1.0


def _blocks(bucket: Bucket) -> int:
    return bucket[2] if len(bucket) > 2 else 0


def _constant(bucket: Bucket) -> tuple[float, ...]:
    return (1.0,)


def _prompt_units(bucket: Bucket) -> tuple[float, ...]:
    return 1.0, float(bucket[0] * bucket[1])


def _prompt_context(bucket: Bucket) -> tuple[float, ...]:
    return (*_prompt_units(bucket), float(bucket[0] * _blocks(bucket)))


def _prompt_attention(bucket: Bucket) -> tuple[float, ...]:
    tokens = bucket[0] * bucket[1]
    return (
        *_prompt_context(bucket),
        float(tokens * bucket[1]),
        float(tokens * _blocks(bucket)),
    )


def _decode_units(bucket: Bucket) -> tuple[float, ...]:
    return 1.0, float(bucket[0])


def _decode_context(bucket: Bucket) -> tuple[float, ...]:
    # A two-dimensional decode bucket is (batch_size, seq_len) or (batch_size, blocks).
    length = _blocks(bucket) if len(bucket) > 2 else bucket[0] * bucket[1]
    return (*_decode_units(bucket), float(length))


FEATURES: dict[str, tuple[Features, ...]] = {
    "prompt": (_prompt_units, _prompt_context, _prompt_attention),
    "decode": (_decode_units, _decode_context),
}
"""Ways in which costs may grow, the simplest first; each begins with a constant."""


@dataclass(frozen=True)
class PhaseCosts:
    """Costs of one phase: bytes of a graph, seconds of a capture and of an eager run.

    A cost that the run says nothing about is None.
    """

    graph_bytes: LinearCost | None
    capture_s: LinearCost | None
    eager_s: LinearCost | None


def phase_costs(evidence: Evidence, phase: str) -> PhaseCosts:
    """The costs of the buckets of one phase."""
    features = FEATURES[phase]
    timed = (_constant, *features)
    return PhaseCosts(
        _cost(graph_memory(evidence, phase), features),
        _cost(_seconds(evidence, evidence.captures, phase), timed),
        _cost(_seconds(evidence, evidence.eager, phase), timed),
    )


def _cost(
    observations: Sequence[Observation], features: Sequence[Features]
) -> LinearCost | None:
    cost = LinearCost(observations, features)
    return None if cost.is_empty else cost


def graph_memory(evidence: Evidence, phase: str) -> list[Observation]:
    """What captures of the phase took: alone, between two lines of a log, and in all."""
    found = [
        Observation(frozenset({step.bucket}), float(step.memory_bytes), _step(evidence))
        for step in evidence.captures
        if step.phase == phase and step.memory_bytes is not None
    ]
    if evidence.is_log:
        found += _between(
            evidence, phase, lambda step: step.free_bytes, -1.0, _step(evidence)
        )
    captured = evidence.captured.get(phase)
    total = evidence.used_bytes.get(phase)
    if captured and total is not None and total > 0:
        step = _rounding(total) if evidence.is_log else 0.0
        if evidence.is_log or not found:
            found.append(Observation(frozenset(captured), float(total), step))
    elif not found and total and evidence.buckets.get(phase):
        # vllm-gaudi: every bucket has a graph, and only the sum is told.
        everything = frozenset(evidence.buckets[phase])
        found.append(Observation(everything, float(total), _rounding(total)))
    return found


def _seconds(evidence: Evidence, steps: list[Step], phase: str) -> list[Observation]:
    """Durations of single steps, and where a log is cut, of stretches of them."""
    step_s = LOG_TIME_STEP_S if evidence.is_log else 0.0
    found = [
        Observation(frozenset({step.bucket}), step.duration_s, step_s)
        for step in steps
        if step.phase == phase and step.duration_s is not None
    ]
    if evidence.is_log and steps is evidence.captures:
        found += _between(evidence, phase, lambda step: step.time, 1.0, step_s)
    return found


def _between(
    evidence: Evidence,
    phase: str,
    read: Callable[[Step], float | None],
    sign: float,
    rounding: float,
) -> list[Observation]:
    """Sums over the candidates that ran from one printed line to the next.

    Lines are printed before their bucket runs, so a stretch begins with the bucket of
    its first line. Which buckets lie between follows from the capture order, if the
    printed numbers agree with it.
    """
    place = _places(evidence, phase)
    if place is None:
        return []
    own = [step for step in evidence.captures if step.phase == phase]
    printed = {step.index for step in own}
    found = []
    for first, second in itertools.pairwise(evidence.captures):
        start, end = read(first), read(second)
        if first.phase != phase or start is None or end is None or first.index is None:
            continue
        last = first.index
        if second.phase == phase and second.index is not None:
            last = second.index - 1
        indices = [
            index
            for index in range(first.index, last + 1)
            if index == first.index or index not in printed
        ]
        buckets = frozenset(place[i] for i in indices if i in place)
        total = sign * (end - start)
        if buckets and total >= 0:
            found.append(Observation(buckets, total, 2 * rounding))
    return found


def _places(evidence: Evidence, phase: str) -> dict[int, Bucket] | None:
    """Number in the capture order to captured bucket; None if the log orders otherwise."""
    buckets = evidence.buckets.get(phase)
    captured = evidence.captured.get(phase)
    if not buckets or captured is None:
        return None
    own = [s for s in evidence.captures if s.phase == phase and s.index is not None]
    for strategy in ("min_tokens", "max_bs"):
        ordered = order_candidates(buckets, strategy)
        numbered = dict(enumerate(ordered, start=1))
        if all(numbered.get(step.index or 0) == step.bucket for step in own):
            return {i: bucket for i, bucket in numbered.items() if bucket in captured}
    return None


def capture_strategies(evidence: Evidence) -> tuple[str, str]:
    """The order of prompt and decode graphs: as set, else as seen, else as by default."""
    prompt = str(evidence.config.get("VLLM_GRAPH_PROMPT_STRATEGY") or "min_tokens")
    decode = str(evidence.config.get("VLLM_GRAPH_DECODE_STRATEGY") or "max_bs")
    return prompt, decode


def _step(evidence: Evidence) -> float:
    """The rounding of `free_mem` in logs: four digits of tens of GiB."""
    return 0.01 * GIB if evidence.is_log else 0.0


def _rounding(value: float) -> float:
    """Half a step of the fourth significant digit, as `format_bytes` prints it."""
    scale = 1.0
    while abs(value) / scale > 1024:
        scale *= 1024
    digits = len(str(int(abs(value) / scale)))
    return 0.5 * scale * 10.0 ** (digits - 4)
