"""The memory of a device under other settings: budgets, KV blocks, what is free when.

The division is that of `determine_num_available_blocks` (vllm-fork) and
`determine_available_memory` (vllm-gaudi); `rules.memory.MemoryBudget` is the same
arithmetic.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import msgspec

from warmup_insights.bucketing.base import context_blocks
from warmup_insights.errors import InputError
from warmup_insights.model.events import Bucket
from warmup_insights.model.figures import (
    bytes_step,
    contradictory,
    first_known,
    leaves_budget,
)
from warmup_insights.model.summary import RunSummary
from warmup_insights.rules.capture import num_tokens
from warmup_insights.rules.memory import MemoryBudget, profile_shape
from warmup_insights.rules.model_shape import PRESETS
from warmup_insights.rules.setting_lives import read_version

if TYPE_CHECKING:  # numpy is not loaded where nothing is fitted
    from warmup_insights.analysis.plan.costs import Evidence


def refuse_contradictions(summary: RunSummary, needed: frozenset[str]) -> None:
    """Raise InputError where the evidence for a needed figure contradicts itself."""
    wrong = contradictory(summary) & needed
    if wrong:
        raise InputError(
            f"The evidence for {', '.join(sorted(wrong))} contradicts itself, so nothing "
            "can be planned from this run; `warmup-insights show` has both sides"
        )


def _block_bytes(summary: RunSummary) -> tuple[int, tuple[float, float]]:
    """Bytes of one KV block, all layers: the likely value and the range it lies in.

    Raises:
        InputError: the run lacks what its KV cache or its blocks took.
    """
    memory = summary.memory_or_none
    if not memory.num_kv_blocks or memory.graph_reserved_bytes is None:
        raise InputError(
            "This run does not state how its memory was divided and how many KV blocks it "
            "got; plan from a run that started on HPU or with `warmup-insights run`"
        )
    if has_no_cache(summary):
        raise InputError(
            "This run states that no memory was left for its KV cache, so what its blocks "
            "take is unknown; plan from another"
        )
    if memory.block_bytes is None or memory.block_bytes_range is None:
        raise InputError(
            "This run does not state how much memory its KV cache got; plan from another"
        )
    return memory.block_bytes, memory.block_bytes_range


@dataclass(frozen=True)
class MemoryPlan:
    """Memory under some settings, in bytes and blocks.

    `num_blocks_range` are the smallest and largest number of blocks that the rounding of
    the source allows, and a profiling run that takes as much as in the run; equal where
    it is exact. `is_short`: they take less than the budget, as where a setting gives them.
    """

    budget: MemoryBudget
    block_bytes_range: tuple[float, float]
    num_blocks: int
    num_blocks_range: tuple[int, int]
    is_short: bool = False

    @property
    def kv_cache_bytes(self) -> int:
        """The budget of the cache, or its blocks where a setting gives them."""
        if self.is_short:
            return self.num_blocks * self.budget.block_bytes
        return max(0, self.budget.kv_cache_bytes)

    @property
    def cache_bytes(self) -> int:
        """What allocating the cache takes, the padding block included."""
        budget = self.budget
        return (self.num_blocks + budget.has_own_padding) * budget.block_bytes


def divide_memory(
    summary: RunSummary, *, utilization: float, reserve: float, profile_growth: int = 0
) -> MemoryPlan:
    """The budget and the blocks at another utilisation and reserve.

    `profile_growth` is what the profiling run takes more than in the run. At the run's
    own settings, and where their number is set, the blocks are those of the run.

    Raises:
        InputError: the run lacks what was free after profiling.
        SettingError: a share is not between 0 and 1.
    """
    (block_bytes, reach), memory = _block_bytes(summary), summary.memory_or_none
    if memory.free_bytes is None:
        raise InputError(
            "This run does not state what was free after its profiling run; plan from "
            "another"
        )
    budget = MemoryBudget(
        total_bytes=memory.total_bytes or memory.free_bytes,
        free_bytes=memory.free_bytes - profile_growth,
        gpu_memory_utilization=utilization,
        graph_reserved_fraction=reserve,
        block_bytes=block_bytes,
        has_own_padding=bool(memory.num_padding_blocks),
    )
    fixed = summary.fixed_blocks
    if fixed is not None:
        return MemoryPlan(budget, reach, fixed, (fixed, fixed), is_short=True)
    count = memory.num_kv_blocks or 0
    own_use, own_reserve = memory.gpu_memory_utilization, memory.graph_reserved_fraction
    if (utilization, reserve, profile_growth) == (own_use, own_reserve, 0):
        is_short = leaves_budget(summary)
        return MemoryPlan(budget, reach, count, (count, count), is_short=is_short)
    # On a simulated device the profiling run is linear in its tokens.
    is_sure = not profile_growth or summary.device.kind == "simulated"
    free = memory.free_bytes if not is_sure else budget.free_bytes
    others = [budget, replace(budget, free_bytes=free)]
    if not summary.is_log:
        counts = [other.num_blocks for other in others]
        return MemoryPlan(budget, reach, counts[0], (min(counts), max(counts)))
    slack = bytes_step(summary.engine.name, memory.free_bytes) / 2
    slack += bytes_step(summary.engine.name, profile_growth) / 2
    caches = [other.kv_cache_bytes for other in others]
    low, high = (min(caches) - slack) / reach[1], (max(caches) + slack) / reach[0]
    if own_use and own_reserve is not None and own_reserve < 1:
        # As many as the run has, of the rank with the least memory, in proportion.
        cache_share = utilization * (1 - reserve)
        more = cache_share / (own_use * (1 - own_reserve))
        least, most = sorted(part * (more - 1) for part in padding_blocks(summary))
        growths = [
            (memory.free_bytes - other.free_bytes) * cache_share for other in others
        ]
        low = count * more + least - max(growths) / reach[0]
        high = (count + 1) * more + most - min(growths) / reach[1]
    bounds = max(0, int(low)), max(0, int(high))
    num_blocks = min(max(budget.num_blocks, bounds[0]), bounds[1])
    return MemoryPlan(budget, reach, num_blocks, bounds)


def padding_blocks(summary: RunSummary) -> tuple[float, float]:
    """Blocks that the padding takes off the budget: the fewest, and the most.

    It is one block where the layers are of one kind. Else groups of layers share a block,
    and the padding is one of each layer: what the budget of the cache lacks, at most
    (vllm-gaudi `hpu_worker.py determine_available_memory`).
    """
    memory = summary.memory_or_none
    own = float(memory.num_padding_blocks or 0)
    usable, reserved = memory.usable_bytes, memory.graph_reserved_bytes
    budget, reach = memory.kv_cache_bytes, memory.block_bytes_range
    is_one = has_one_kind(summary, memory.block_size, longest_request(summary))
    if not own or is_one or reach is None:
        return own, own
    if usable is None or reserved is None or budget is None:
        return own, own
    rounding = sum(
        bytes_step(summary.engine.name, size) / 2 for size in (usable, reserved, budget)
    )
    lacking = usable - reserved - budget + (rounding if summary.is_log else 0.0)
    return own, max(own, lacking / reach[0])


_WHOLE_BLOCKS_SINCE = (0, 9)
_TOKENS_OF_REQUESTS_SINCE = (0, 20, 1)
_ROUNDING = 0.0051
"""By which requests that a log states with two decimals may be off."""
USUAL_BLOCKS = (16, 32, 64, 128, 256)
"""Tokens of a block where a run does not state them, the most usual first."""


def _is_since(summary: RunSummary, version: tuple[int, ...]) -> bool:
    """Whether the engine counts its cache as vLLM does since a version; one that is
    unknown counts as new."""
    if summary.engine.name in ("reference", "vllm-fork"):
        return False
    own = read_version(summary.engine.version)
    return own is None or own >= version


def longest_request(summary: RunSummary) -> int | None:
    """Tokens of the longest request that the engine takes."""
    length = summary.setting("max_model_len", "max_seq_len")
    return None if length is None else int(length)


def taken_tokens(summary: RunSummary, length: int, block_size: int | None) -> int:
    """Tokens of the cache that one request takes: those of whole blocks.

    Source: `kv_cache_utils.py`, `get_max_concurrency_for_kv_cache_config`, of vLLM; before
    it a cache was divided by the tokens of a request.
    """
    is_whole = summary.engine.name == "reference" or _is_since(
        summary, _WHOLE_BLOCKS_SINCE
    )
    if not is_whole:
        return length
    size = block_size or USUAL_BLOCKS[0]
    return -(-length // size) * size


def has_one_kind(
    summary: RunSummary, block_size: int | None, length: int | None
) -> bool:
    """Whether a request takes the blocks of its tokens, as where the layers of a model are
    of one kind; False where the run does not show it.

    Since vLLM 0.20.1 the tokens of a cache are those of its requests of full length
    (`kv_cache_utils.py`, `_report_kv_cache_config`), so blocks alone show it.
    """
    memory = summary.memory_or_none
    blocks, tokens, full = (
        memory.num_kv_blocks,
        memory.kv_cache_tokens,
        memory.max_concurrency,
    )
    if blocks and block_size:
        held = blocks * block_size
        if full is None or not length:
            return tokens is None or tokens == held
        return abs(full - held / taken_tokens(summary, length, block_size)) <= _ROUNDING
    if full is None or not tokens or not length:
        return False
    if _is_since(summary, _TOKENS_OF_REQUESTS_SINCE):
        return False
    sizes = (block_size,) if block_size else USUAL_BLOCKS
    takes = (taken_tokens(summary, length, size) for size in sizes)
    return any(abs(full - tokens / taken) <= _ROUNDING for taken in takes)


def states_tokens_of_requests(summary: RunSummary) -> bool:
    """Whether the tokens of the cache may be others for requests of another length: those of
    its requests, where layers of the model may be of several kinds."""
    is_new = summary.engine.name == "vllm" and _is_since(
        summary, _TOKENS_OF_REQUESTS_SINCE
    )
    size = summary.memory_or_none.block_size or summary.setting("block_size")
    whole = None if size is None else int(size)
    return is_new and not has_one_kind(summary, whole, longest_request(summary))


def has_no_cache(summary: RunSummary) -> bool:
    """Whether the run states that no memory of the device is left for its KV cache."""
    size = summary.memory_or_none.kv_cache_bytes
    return size is not None and size <= 0


def with_cache_of_error(summary: RunSummary) -> RunSummary:
    """The run with the tokens that its cache would have held, where it ended as one request of
    full length takes more than there was; the run as it is where the error does not show them.

    The length that the error estimates is the longest that fits (vLLM `kv_cache_utils.py
    estimate_max_model_len`): all tokens of the cache where a request takes memory in proportion
    to its length, which the sizes of the error show.
    """
    failure, memory = summary.failure, summary.memory_or_none
    if failure is None or failure.kind != "no_kv_cache":
        return summary
    if memory.kv_cache_tokens is not None or memory.num_kv_blocks is not None:
        return summary
    length, fitting = failure.stated.max_model_len, failure.stated.estimated_model_len
    needed, room = failure.needed_bytes, failure.free_bytes
    if not (length and fitting and needed and room) or room < 0:
        return summary
    per_token = needed / length
    rest, step = room - fitting * per_token, bytes_step("vllm", needed)
    is_in_proportion = -step <= rest <= step + USUAL_BLOCKS[-1] * per_token
    if not is_in_proportion or longest_request(summary) not in (None, length):
        return summary
    memory = msgspec.structs.replace(
        memory, kv_cache_bytes=room, kv_cache_tokens=fitting,
        max_concurrency=fitting / length,
    )  # fmt: skip
    config = {"max_model_len": length, **summary.config}
    return msgspec.structs.replace(summary, memory=memory, config=config)


def stated_capacity(
    summary: RunSummary, held: int, length: int, block_size: int | None
) -> tuple[int, float]:
    """Tokens and requests of full length that the engine states of a cache that holds so
    many tokens, where the layers are of one kind."""
    requests = held / taken_tokens(summary, length, block_size)
    if _is_since(summary, _TOKENS_OF_REQUESTS_SINCE):
        return int(requests * length + 1e-6), requests
    return held, requests


class Workspace:
    """How much more memory intermediates need than the profiling run set aside.

    The device keeps the largest need so far. A need is taken to be linear in tokens and
    in gathered context blocks: the first slope follows from the profiling run, the
    second from the buckets that took memory when they ran.
    """

    def __init__(self, evidence: Evidence) -> None:
        summary = self._summary = evidence.summary
        self._profile = float(summary.memory_or_none.profile_bytes or 0)
        tokens = _profile_tokens(summary, {})
        self._per_token = self._profile / tokens if tokens else 0.0
        self._per_block = self._find_slope(evidence)
        own = [
            (row.phase, row.bucket)
            for row in evidence.rows
            if row.run is not None or row.capture is not None
        ]
        self._largest_blocks = max((_rows(*item) for item in own), default=0)

    def _find_slope(self, evidence: Evidence) -> float:
        level, slopes = self._profile, [0.0]
        if evidence.summary.is_log:
            return 0.0
        ran = [(row.run, row) for row in evidence.rows if row.run is not None]
        for cost, row in sorted(ran, key=lambda item: item[0].position):
            grown = cost.memory_bytes or 0
            blocks = _rows(row.phase, row.bucket)
            if grown <= 0:
                continue
            level += grown
            if blocks:
                own = self._per_token * num_tokens(row.bucket)
                slopes.append((level - own) / blocks)
        if slope := max(slopes):
            return slope
        # The reference engine gathers keys and values of a layer.
        shape = PRESETS.get(str(self._summary.model))
        if self._summary.engine.name != "reference" or shape is None:
            return 0.0
        return _block_bytes(self._summary)[0] / shape.num_hidden_layers

    def profile_growth(self, limits: Mapping[str, int]) -> int:
        """What the profiling run takes more with other limits of the engine.

        That of the reference engine runs as many tokens as its buckets' longest query
        allows (`runner.buckets`, `profile_bucket`); of others it is not known.
        """
        tokens = _profile_tokens(self._summary, limits)
        is_known = self._summary.engine.name == "reference" and self._per_token
        if not limits or tokens is None or not is_known:
            return 0
        return round(self._per_token * tokens - self._profile)

    def growth_bytes(
        self, buckets: list[tuple[str, Bucket]], profile_growth: int = 0
    ) -> int:
        """What is taken before the first graph, with these buckets, beyond the run's own
        profiling, by the model."""
        needs = [
            self._per_token * num_tokens(bucket)
            + self._per_block * _rows(phase, bucket)
            for phase, bucket in buckets
        ]
        most = max(needs, default=0.0) - self._profile
        return round(max(float(profile_growth), most))

    def is_beyond(self, buckets: list[tuple[str, Bucket]]) -> bool:
        """Whether a bucket gathers more blocks than any that ran, with unknown need."""
        most = max((_rows(*item) for item in buckets), default=0)
        return self._per_block == 0.0 and most > self._largest_blocks


def _rows(phase: str, bucket: Bucket) -> int:
    """Context blocks that a step gathers; none in buckets of two dimensions."""
    return int(context_blocks(phase, bucket)) if len(bucket) > 2 else 0


def is_profile_kept(summary: RunSummary) -> bool:
    """Whether the profiling run takes nothing, whatever the limits of the engine are.

    That of vllm-gaudi may run nothing (`hpu_worker.py determine_available_memory`:
    `profile_run(initialize_only=True)`); its older ones, like those of every other engine,
    run as many tokens as the limits allow.
    """
    return (
        summary.engine.name == "vllm-gaudi"
        and summary.memory_or_none.profile_bytes == 0
    )


def _profile_tokens(summary: RunSummary, limits: Mapping[str, int]) -> int | None:
    prompts = summary.phase("prompt").buckets
    if prompts and len(prompts[0]) == 2:
        return max(bucket[0] for bucket in prompts) * max(b[1] for b in prompts)
    length, budget = (
        first_known(limits.get(name), summary.setting(name))
        for name in ("max_model_len", "max_num_batched_tokens")
    )
    if budget is None or length is None:
        return None
    return math.prod(profile_shape(int(length), int(budget)))
