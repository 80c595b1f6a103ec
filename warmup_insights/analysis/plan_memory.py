"""The memory of a device under other settings: budgets, KV blocks, what is free when.

The division is that of `determine_num_available_blocks` (vllm-fork) and
`determine_available_memory` (vllm-gaudi); `runner.memory.MemoryBudget` is the same
arithmetic, and is used here.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

from warmup_insights.analysis.plan_evidence import Evidence
from warmup_insights.errors import InputError
from warmup_insights.model.events import Bucket
from warmup_insights.rules.memory import MemoryBudget
from warmup_insights.rules.model_shape import PRESETS
from warmup_insights.units import GIB


@dataclass(frozen=True)
class BlockSize:
    """Bytes of one KV block, all layers: the likely value and the range it lies in."""

    bytes: int
    lowest: float
    highest: float
    has_own_padding: bool

    @property
    def is_exact(self) -> bool:
        """Whether the range is a point."""
        return self.lowest == self.highest


def block_bytes(evidence: Evidence) -> BlockSize:
    """The size of a KV block, from the budget and the number of blocks that it paid for.

    A recorded budget gives it exactly. A log gives a range; the number in it that is
    divisible by the largest power of two is taken, because a block is a product of
    powers of two and a small number of layers.

    Raises:
        InputError: the run says too little about its KV cache.
    """
    budget, cache = evidence.budget, evidence.cache
    if budget is None or cache is None or not cache.num_blocks:
        raise InputError(
            "This run does not say how its memory was divided and how many KV blocks it "
            "got; plan from a run that started on HPU or with `warmup-insights run`"
        )
    if not evidence.is_log:
        exact = _exact_block(evidence)
        if exact is not None:
            return exact
    kv_bytes, count = budget.kv_cache_bytes, cache.num_blocks
    if kv_bytes is None or kv_bytes <= 0:
        raise InputError("This run does not say how much memory its KV cache got")
    slack = _half_step(kv_bytes) if evidence.is_log else 0.0
    lowest, highest = (kv_bytes - slack) / (count + 1), (kv_bytes + slack) / count
    return BlockSize(_roundest(lowest, highest), lowest, highest, False)


def _exact_block(evidence: Evidence) -> BlockSize | None:
    budget, cache = evidence.budget, evidence.cache
    assert budget is not None, "checked by the caller"
    assert cache is not None, "checked by the caller"
    figures = (budget.usable_bytes, budget.graph_reserved_bytes, budget.kv_cache_bytes)
    if None in figures:
        return None
    padding = figures[0] - figures[1] - figures[2]  # type: ignore[operator]
    if padding > 0:
        return BlockSize(padding, padding, padding, True)
    taken = evidence.cache_delta_bytes or cache.allocated_bytes
    if taken and cache.num_blocks and taken % cache.num_blocks == 0:
        size = taken // cache.num_blocks
        return BlockSize(size, size, size, False)
    return None


def _half_step(value: float) -> float:
    return 0.005 * GIB if value >= 10 * GIB else 0.0005 * GIB


def _roundest(lowest: float, highest: float) -> int:
    """The integer between the two that the largest power of two divides."""
    power = 1 << max(0, int(highest).bit_length())
    while power > 1:
        multiple = math.ceil(lowest / power) * power
        if 0 < multiple <= highest:
            return multiple
        power //= 2
    return max(1, round((lowest + highest) / 2))


@dataclass(frozen=True)
class MemoryPlan:
    """Memory under some settings, in bytes and blocks.

    `num_blocks_range` are the smallest and largest number of blocks that the rounding of
    the source allows; equal where it is exact.
    """

    budget: MemoryBudget
    block: BlockSize
    num_blocks: int
    num_blocks_range: tuple[int, int]

    @property
    def cache_bytes(self) -> int:
        """What allocating the cache takes, the padding block included."""
        return (self.num_blocks + self.block.has_own_padding) * self.block.bytes


def divide_memory(
    evidence: Evidence, *, utilization: float, reserve: float
) -> MemoryPlan:
    """The budget and the blocks at another utilisation and reserve.

    Raises:
        InputError: the run does not say what was free after profiling.
        SettingError: a share is not between 0 and 1.
    """
    block = block_bytes(evidence)
    free = evidence.budget.free_bytes if evidence.budget else None
    if free is None:
        raise InputError("This run does not say what was free after its profiling run")
    budget = MemoryBudget(
        total_bytes=(evidence.budget.total_bytes if evidence.budget else None) or free,
        free_bytes=free,
        gpu_memory_utilization=utilization,
        graph_reserved_fraction=reserve,
        block_bytes=block.bytes,
        has_own_padding=block.has_own_padding,
    )
    kv = budget.kv_cache_bytes
    slack = _half_step(kv) if evidence.is_log else 0.0
    most = max(0, int((kv + slack) // block.lowest))
    least = max(0, int((kv - slack) // block.highest))
    return MemoryPlan(budget, block, budget.num_blocks, (least, most))


class Workspace:
    """How much more memory intermediates need than the profiling run set aside.

    The device keeps the largest need so far. A need is taken to be linear in tokens and
    in gathered context blocks: the first slope follows from the profiling run, the
    second from the buckets that took memory when they ran.
    """

    def __init__(self, evidence: Evidence) -> None:
        self._profile = float(evidence.profile_bytes or 0)
        tokens = _profile_tokens(evidence)
        self._per_token = self._profile / tokens if tokens else 0.0
        self._per_block = self._find_slope(evidence)
        own = [(s.phase, s.bucket) for s in evidence.eager]
        self._largest_blocks = max((_rows(*item) for item in own), default=0)
        self._own_growth = self.growth_bytes(own)
        self.observed_bytes = observed_growth(evidence)

    def _find_slope(self, evidence: Evidence) -> float:
        level, slopes = self._profile, [0.0]
        if evidence.is_log:
            return 0.0
        for step in evidence.eager:
            grown = step.memory_bytes or 0
            blocks = _rows(step.phase, step.bucket)
            if grown <= 0:
                continue
            level += grown
            if blocks:
                own = self._per_token * _tokens(step.bucket)
                slopes.append((level - own) / blocks)
        return max(slopes) or _gather_bytes(evidence)

    def growth_bytes(self, buckets: list[tuple[str, Bucket]]) -> int:
        """Above the profiling run, by the model."""
        needs = [
            self._per_token * _tokens(bucket) + self._per_block * _rows(phase, bucket)
            for phase, bucket in buckets
        ]
        return round(max(0.0, max(needs, default=0.0) - self._profile))

    def taken_bytes(self, buckets: list[tuple[str, Bucket]]) -> int:
        """What the warm-up takes before the first graph, with these buckets."""
        rest = (self.observed_bytes or 0) - self._own_growth
        return self.growth_bytes(buckets) + rest

    def is_beyond(self, buckets: list[tuple[str, Bucket]]) -> bool:
        """Whether a bucket gathers more blocks than any that ran, with unknown need."""
        most = max((_rows(*item) for item in buckets), default=0)
        return self._per_block == 0.0 and most > self._largest_blocks


def _gather_bytes(evidence: Evidence) -> float:
    """What gathering one block takes in the reference engine: keys and values of a layer.

    0 for every other engine, and for models whose number of layers is not known here.
    """
    shape = PRESETS.get(str(evidence.config.get("model")))
    if evidence.engine != "reference" or shape is None:
        return 0.0
    return block_bytes(evidence).bytes / shape.num_hidden_layers


def observed_growth(evidence: Evidence) -> int | None:
    """Free memory that went between the KV cache and the first graph."""
    if evidence.graph_budget is None or evidence.graph_budget.free_bytes is None:
        return None
    if evidence.free_after_cache_bytes is None:
        return None
    return evidence.free_after_cache_bytes - evidence.graph_budget.free_bytes


def _tokens(bucket: Bucket) -> int:
    return bucket[0] * bucket[1]


def _rows(phase: str, bucket: Bucket) -> int:
    """Context blocks that a step gathers: of every row of a prompt, or of the batch."""
    if len(bucket) < 3:
        return 0
    return bucket[2] * (bucket[0] if phase == "prompt" else 1)


def _profile_tokens(evidence: Evidence) -> int | None:
    budget = evidence.number("max_num_batched_tokens")
    prompts = evidence.buckets.get("prompt") or []
    if prompts and len(prompts[0]) == 2:
        return max(bucket[0] for bucket in prompts) * max(b[1] for b in prompts)
    length = evidence.number("max_model_len")
    if budget is None or length is None:
        return None
    query = min(int(length), int(budget))
    return max(1, int(budget) // query) * query
