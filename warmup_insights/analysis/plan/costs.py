"""What each bucket of a run costs, from everything that is known of the run."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from packaging.version import InvalidVersion, Version

from warmup_insights.analysis.plan.linear_cost import Features, LinearCost, Observation
from warmup_insights.analysis.summary.compilation import SPIKE_FACTOR
from warmup_insights.model.events import Bucket
from warmup_insights.model.figures import bytes_step
from warmup_insights.model.summary import BucketRow, RunSummary, StepCost
from warmup_insights.rules.capture import (
    GRAPH_LIMIT_SINCE,
    is_beyond_graphs,
    order_candidates,
)

LOG_TIME_STEP_S = 1.0
_LIMIT_SINCE = Version(GRAPH_LIMIT_SINCE)


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
class Evidence:
    """A run as plans read it: its summary and its rows, those of each phase apart."""

    summary: RunSummary
    rows: Sequence[BucketRow]

    def of(self, phase: str) -> list[BucketRow]:
        """The rows of one phase."""
        return [row for row in self.rows if row.phase == phase]

    def captures(self) -> list[tuple[BucketRow, StepCost]]:
        """The captures with their rows, in the order in which they happened."""
        known = [(row, row.capture) for row in self.rows if row.capture is not None]
        return sorted(known, key=lambda item: item[1].position)

    def shapes(self) -> dict[tuple[str, Bucket], Bucket]:
        """Phase and bucket to the shape that ran for it."""
        return {(row.phase, row.bucket): row.ran_as for row in self.rows}

    def gets_graph(self, phase: str, shape: Bucket) -> bool:
        """Whether the engine makes a graph of a shape at all; a run that did shows it."""
        summary = self.summary
        if shape in (summary.phase(phase).captured_buckets or ()):
            return True
        limit = summary.setting(
            "max_cudagraph_capture_size",
            "compilation_config.max_cudagraph_capture_size",
            "max_num_batched_tokens",
        )
        size = summary.memory_or_none.block_size
        if summary.engine.name != "vllm-gaudi" or limit is None or size is None:
            return True
        try:
            is_older = Version(summary.engine.version or "0") < _LIMIT_SINCE
        except InvalidVersion:
            is_older = False
        return is_older or not is_beyond_graphs(
            phase, shape, block_size=size, limit=int(limit)
        )

    def graph_shapes(self, phase: str) -> list[Bucket]:
        """The shapes of the run's own buckets that get a graph, each once."""
        shapes = self.shapes()
        listed = self.summary.phase(phase).buckets
        ran = dict.fromkeys(shapes.get((phase, bucket), bucket) for bucket in listed)
        return [shape for shape in ran if self.gets_graph(phase, shape)]


@dataclass(frozen=True)
class PhaseCosts:
    """Costs of one phase: bytes of a graph, seconds of a capture and of another run.

    A cost that nothing is known of is None. `captures_in_runs` is true where each bucket
    has one step, which captures if its shape is new (vllm-gaudi), and false where all
    buckets run first and graphs are captured after that (vllm-fork, reference).
    """

    graph_bytes: LinearCost | None
    capture_s: LinearCost | None
    run_s: LinearCost | None
    captures_in_runs: bool

    def step_s(self, bucket: Bucket, *, has_graph: bool) -> float | None:
        """Seconds that the steps of a bucket take in all; None where not known."""
        run = _seconds(self.run_s, bucket)
        capture = _seconds(self.capture_s, bucket) if has_graph else 0.0
        if not self.captures_in_runs:
            return None if run is None or capture is None else run + capture
        if has_graph:
            return capture
        return run if run is not None else _seconds(self.capture_s, bucket)


def _seconds(cost: LinearCost | None, bucket: Bucket) -> float | None:
    return None if cost is None else cost.estimate(bucket).value


def phase_costs(evidence: Evidence, phase: str) -> PhaseCosts:
    """The costs of the buckets of one phase."""
    features = FEATURES[phase]
    timed = (_constant, *features)
    rows = evidence.of(phase)
    return PhaseCosts(
        _cost(graph_memory(evidence, phase), features),
        _cost(_capture_seconds(evidence, phase), timed, keeps_sum=True),
        _cost(_run_seconds(evidence, rows), timed, keeps_sum=True),
        captures_in_runs=any(row.capture is not None for row in rows)
        and not any(row.capture is not None and row.run is not None for row in rows),
    )


def _cost(
    observations: Sequence[Observation],
    features: Sequence[Features],
    *,
    keeps_sum: bool = False,
) -> LinearCost | None:
    cost = LinearCost(observations, features, keeps_sum=keeps_sum)
    return None if cost.is_empty else cost


def graph_memory(evidence: Evidence, phase: str) -> list[Observation]:
    """What captures of the phase took: alone, between two lines of a log, and in all."""
    summary = evidence.summary
    part, engine = summary.phase(phase), summary.engine.name
    step = _memory_step(summary)
    taken: dict[Bucket, int] = {}
    for row in evidence.of(phase):
        if row.capture is not None and row.capture.memory_bytes is not None:
            taken[row.ran_as] = taken.get(row.ran_as, 0) + row.capture.memory_bytes
    found = [
        Observation(frozenset({shape}), float(size), step)
        for shape, size in taken.items()
    ]
    if summary.is_log:
        found += _between(
            evidence, phase, lambda cost: cost.free_before_bytes, -1.0, step
        )
    total = part.graph_used_bytes
    if not total or total < 0:
        return found
    rounding = bytes_step(engine, total) / 2 if summary.is_log else 0.0
    everything = _summed_shapes(evidence, phase)
    if everything and (summary.is_log or not found):
        found.append(Observation(everything, float(total), rounding))
    return found


def _summed_shapes(evidence: Evidence, phase: str) -> frozenset[Bucket]:
    """The shapes whose graphs the stated sum is of; empty where they are not known."""
    part = evidence.summary.phase(phase)
    if part.captured_buckets is not None:
        return frozenset(part.captured_buckets)
    captures = [row.ran_as for row in evidence.of(phase) if row.capture is not None]
    if captures:
        is_whole = len(captures) == part.captured_reported
        return frozenset(captures) if is_whole else frozenset()
    # vllm-gaudi: every shape that runs has a graph, and only the sum is stated.
    return frozenset(evidence.graph_shapes(phase))


def _run_seconds(evidence: Evidence, rows: Sequence[BucketRow]) -> list[Observation]:
    """Durations of runs without a capture."""
    step_s = LOG_TIME_STEP_S if evidence.summary.is_log else 0.0
    return [
        Observation(
            frozenset({row.bucket}),
            row.run.duration_s,
            step_s,
            _is_typical(row.run, step_s),
        )
        for row in rows
        if row.run is not None and row.run.duration_s is not None
    ]


def _is_typical(cost: StepCost, step_s: float) -> bool:
    """Whether a step took neither a multiple nor a fraction of its neighbours' time.

    It takes a fraction where nothing had to be compiled, as of the shape of the profiling run.
    """
    took, usual = cost.duration_s, cost.neighbours_s
    is_dip = (
        took is not None
        and usual is not None
        and SPIKE_FACTOR * (took + step_s) < usual
    )
    return not cost.is_spike and not is_dip


def _capture_seconds(evidence: Evidence, phase: str) -> list[Observation]:
    """Durations of single captures, and where a log is cut, of stretches of them."""
    step_s = LOG_TIME_STEP_S if evidence.summary.is_log else 0.0
    found = [
        Observation(
            frozenset({row.bucket}), cost.duration_s, step_s, _is_typical(cost, step_s)
        )
        for row, cost in evidence.captures()
        if row.phase == phase and cost.duration_s is not None
    ]
    if evidence.summary.is_log:
        found += _between(evidence, phase, lambda cost: cost.time, 1.0, step_s)
    return found


def _between(
    evidence: Evidence,
    phase: str,
    read: Callable[[StepCost], float | None],
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
    captures = evidence.captures()
    printed = {cost.index for row, cost in captures if row.phase == phase}
    found = []
    for (row, first), (following, second) in itertools.pairwise(captures):
        start, end = read(first), read(second)
        if row.phase != phase or start is None or end is None or first.index is None:
            continue
        last = first.index
        if following.phase == phase and second.index is not None:
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
    part = evidence.summary.phase(phase)
    captured = part.captured_buckets
    if not part.buckets or captured is None:
        return None
    own = [
        (row.bucket, cost.index)
        for row, cost in evidence.captures()
        if row.phase == phase and cost.index is not None
    ]
    for strategy in ("min_tokens", "max_bs"):
        ordered = order_candidates(part.buckets, strategy)
        numbered = dict(enumerate(ordered, start=1))
        if all(numbered.get(index) == bucket for bucket, index in own):
            known = set(captured)
            return {i: bucket for i, bucket in numbered.items() if bucket in known}
    return None


def capture_strategies(summary: RunSummary) -> tuple[str, str]:
    """The order of prompt and decode graphs: as set, else as by default."""
    prompt = str(summary.config.get("VLLM_GRAPH_PROMPT_STRATEGY") or "min_tokens")
    decode = str(summary.config.get("VLLM_GRAPH_DECODE_STRATEGY") or "max_bs")
    return prompt, decode


def _memory_step(summary: RunSummary) -> float:
    """The rounding of what was free before a step, in the log of an HPU engine."""
    total = summary.memory_or_none.total_bytes or summary.memory_or_none.free_bytes
    if not summary.is_log or not total:
        return 0.0
    return bytes_step(summary.engine.name, total)
