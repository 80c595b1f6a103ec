"""Which graphs are captured within a memory budget: pure, shared with the planner.

The rule at start-up is that of `HabanaModelRunnerBase.warmup_graphs` and `warmup_model`
(vllm-fork 1.17 to 1.21, `hpu_model_runner.py`). Candidates of a phase are ordered by
a strategy. One is skipped when its estimate, the memory per unit of what the phase
captured so far times its own units, is not below what is left; the unit is a token
for prompts and a sequence for decodes. When one phase got everything and the other
did not, the other goes on with all that is left, but for decodes of some versions.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field

from warmup_insights.errors import SettingError
from warmup_insights.model.events import Bucket

GRAPH_STRATEGIES = ("min_tokens", "max_bs")
PROMPT_STRATEGY, DECODE_STRATEGY, PROMPT_RATIO = "min_tokens", "max_bs", 0.3
"""The order of the graphs of each phase, and the share of prompts, where none is set."""
OLD_PROMPT_RATIO, NEW_RATIO_SINCE = 0.5, (0, 6)
"""The share of vllm-fork before that version: its 0.5.3 has had either (changed 2024-09-23),
and prints it."""
NO_REST_SINCE = (0, 7)
"""The first vllm-fork whose V0 gives no decode what prompts leave: the second pass stands
below a condition that rules it out (`warmup_model`, from 2025-02-19 until graphs had no
budget any more); its V1 does."""
UNSTATED_MARGIN = 0.02
"""Of free memory, what vllm-fork leaves to no graph where it prints no budget
(VLLM_GRAPH_MEM_MARGIN, until 2024-08-05)."""

_FIRST_UNITS = 0.001
"""What the engine divides by before anything was captured: the first estimate is 0."""


@dataclass(frozen=True)
class Candidate:
    """A bucket that could get a graph; `index` from 1 counts all of its phase."""

    phase: str
    bucket: Bucket
    index: int
    total: int
    estimate_bytes: int
    available_bytes: int


@dataclass
class PhaseCaptures:
    """What became of the candidates of one phase.

    `captured` are buckets in the order of their captures; `skipped` holds each candidate
    that never fitted, as it stood in the last pass.
    """

    phase: str
    captured: list[Bucket] = field(default_factory=list)
    skipped: list[Candidate] = field(default_factory=list)
    used_bytes: int = 0
    units: float = _FIRST_UNITS
    is_complete: bool = True

    @property
    def buckets(self) -> list[Bucket]:
        """The captured buckets, sorted."""
        return sorted(self.captured)


@dataclass(frozen=True)
class GraphBudget:
    """Memory for graphs and its division, in bytes.

    Source: `warmup_model`: free memory less the margin, times the prompt ratio.
    """

    free_bytes: int
    total_bytes: float
    prompt_ratio: float

    @property
    def prompt_bytes(self) -> float:
        """The share of the prompt graphs."""
        return self.prompt_ratio * self.total_bytes

    @property
    def decode_bytes(self) -> float:
        """The rest."""
        return self.total_bytes - self.prompt_bytes

    def of(self, phase: str) -> float:
        """The share of a phase."""
        return self.prompt_bytes if phase == "prompt" else self.decode_bytes


GRAPH_LIMIT_SINCE = "0.21.0"
"""The first vllm-gaudi whose long prompts get no graph."""


def is_beyond_graphs(
    phase: str, bucket: Bucket, *, block_size: int, limit: int
) -> bool:
    """Whether a prompt is too long for a graph: query and context above a limit.

    Source: vllm-gaudi `hpu_model_runner.py`, `_use_graphs`, since v0.21.0; the limit is
    `max_cudagraph_capture_size`, else `max_num_batched_tokens`.
    """
    if phase != "prompt" or len(bucket) != 3:
        return False
    return num_tokens(bucket) + bucket[2] * block_size > limit


CaptureCall = Callable[[Candidate], int]
"""Captures a candidate, or predicts it, and returns the bytes that it takes."""


def num_tokens(bucket: Bucket) -> int:
    """Batch size times length, the first two dimensions of every bucket."""
    return bucket[0] * bucket[1]


def num_units(phase: str, bucket: Bucket) -> int:
    """What graph memory grows with: tokens of a prompt, sequences of a decode."""
    return num_tokens(bucket) if phase == "prompt" else bucket[0]


def order_candidates(buckets: Iterable[Bucket], strategy: str) -> list[Bucket]:
    """The buckets in the order in which they are tried.

    `min_tokens` goes from few to many tokens, then by length and batch size;
    `max_bs` from large to small batches, then from short to long. A third dimension
    decides among equals, fewer blocks first.

    Raises:
        SettingError: there is no such strategy.
    """
    if strategy not in GRAPH_STRATEGIES:
        raise SettingError(
            f"Unknown graph strategy {strategy!r}; use one of {', '.join(GRAPH_STRATEGIES)}"
        )
    if strategy == "min_tokens":
        return sorted(buckets, key=lambda b: (num_tokens(b), b[1], b[0], b[2:]))
    return sorted(buckets, key=lambda b: (-b[0], *b[1:]))


def capture_pass(
    captures: PhaseCaptures,
    ordered: list[Bucket],
    available_bytes: float,
    capture: CaptureCall,
) -> None:
    """Try every bucket that has no graph yet, in order; `captures` is updated."""
    done = set(captures.captured)
    captures.skipped, captures.is_complete = [], True
    for index, bucket in enumerate(ordered, start=1):
        size = num_units(captures.phase, bucket)
        estimate = size / captures.units * captures.used_bytes
        candidate = Candidate(
            captures.phase,
            bucket,
            index,
            len(ordered),
            int(estimate),
            int(available_bytes),
        )
        if estimate >= available_bytes:
            captures.is_complete = False
            if bucket not in done:
                captures.skipped.append(candidate)
            continue
        if bucket in done:
            continue
        used = capture(candidate)
        captures.captured.append(bucket)
        captures.used_bytes += used
        available_bytes -= used
        captures.units += size


def capture_graphs(
    prompt_buckets: Iterable[Bucket],
    decode_buckets: Iterable[Bucket],
    budget: GraphBudget,
    capture: CaptureCall,
    *,
    prompt_strategy: str,
    decode_strategy: str,
    decodes_get_rest: bool = True,
) -> tuple[PhaseCaptures, PhaseCaptures]:
    """Prompt graphs, then decode graphs, then second passes with what is left.

    `decodes_get_rest`: whether decodes have a second pass at all, see `NO_REST_SINCE`.
    """
    prompt, decode = PhaseCaptures("prompt"), PhaseCaptures("decode")
    prompt_order = order_candidates(prompt_buckets, prompt_strategy)
    decode_order = order_candidates(decode_buckets, decode_strategy)
    capture_pass(prompt, prompt_order, budget.prompt_bytes, capture)
    capture_pass(decode, decode_order, budget.decode_bytes, capture)
    _second_pass(prompt, prompt_order, decode, budget, capture)
    if decodes_get_rest:
        _second_pass(decode, decode_order, prompt, budget, capture)
    return prompt, decode


def _second_pass(
    captures: PhaseCaptures,
    ordered: list[Bucket],
    other: PhaseCaptures,
    budget: GraphBudget,
    capture: CaptureCall,
) -> None:
    used = captures.used_bytes + other.used_bytes
    if used < budget.total_bytes and not captures.is_complete and other.is_complete:
        capture_pass(captures, ordered, budget.total_bytes - used, capture)


PhaseBucket = tuple[str, Bucket]


@dataclass
class RuntimeCapture:
    """Captures while serving: the missing graphs, and the memory that is left for them.

    The proposal of vLLM pull request 23184: `delayed` starts with the largest graph and
    then records one at each step, the one at hand first, else the largest missing; `lazy`
    records only what is needed. `missing` is sorted: prompts before decodes, the largest
    first.
    """

    strategy: str
    missing: list[PhaseBucket]
    budget_bytes: float
    _used: Counter[str] = field(default_factory=Counter, init=False)
    _units: Counter[str] = field(default_factory=Counter, init=False)

    def __post_init__(self) -> None:
        self.missing = sorted(
            self.missing,
            key=lambda item: (item[0] != "prompt", -num_tokens(item[1]), item[1]),
        )

    @property
    def is_enabled(self) -> bool:
        """Whether anything may still be captured; once it is off it stays off."""
        return bool(self.missing) and self.budget_bytes > 0

    def largest(self) -> PhaseBucket | None:
        """What `delayed` captures where nothing is at hand; None for nothing."""
        is_next = self.strategy == "delayed" and self.is_enabled
        return self.missing[0] if is_next else None

    def choose(self, phase: str, bucket: Bucket) -> PhaseBucket | None:
        """What to capture before a step in this bucket; None for nothing."""
        if self.is_enabled and (phase, bucket) in self.missing:
            return phase, bucket
        return self.largest()

    def estimate_bytes(self, item: PhaseBucket) -> int:
        """What a capture will take, from those of its phase; 0 before the first."""
        units = self._units[item[0]]
        return round(self._used[item[0]] / units * num_units(*item)) if units else 0

    def missing_bytes(self) -> int:
        """What all missing graphs will take by the estimates."""
        return sum(self.estimate_bytes(item) for item in self.missing)

    def captured(self, item: PhaseBucket, used_bytes: int) -> None:
        """Count a capture and what it took."""
        self._used[item[0]] += used_bytes
        self._units[item[0]] += num_units(*item)
        self.budget_bytes -= used_bytes
        self.missing.remove(item)
