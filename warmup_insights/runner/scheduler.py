"""Which requests run in the next step, and on which blocks; moving the KV cache together:
when, what, and the warm-up of it.

Source of the latter: `OnlineDefragmenter` of vllm-gaudi (`extension/defragmentation.py`).
There the cache copies used blocks over free ones and keeps mapping tables; here blocks are
always exchanged and the tables of the requests are rewritten, which comes to the same.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

from warmup_insights.bucketing.base import Phase
from warmup_insights.model.events import DefragStep, DefragWarmup
from warmup_insights.rules.memory import CacheLayout
from warmup_insights.runner.batch import Row
from warmup_insights.runner.engine import Emitter, Engine
from warmup_insights.runner.workload import Request

THRESHOLDS = (8, 16, 32, 64, 128, 256, 512)
"""Numbers of swaps that a request for fewer is padded to."""

DEFAULT_TRIGGER = 32


@dataclass(frozen=True)
class SwapPlan:
    """Blocks to exchange, (used, free), and the padded number of swaps."""

    pairs: list[tuple[int, int]]
    padded: int
    max_id_before: int
    max_id_after: int


def plan_swaps(used: Iterable[int], trigger: int, usable_ids: range) -> SwapPlan | None:
    """What to exchange so that the used ids are low; None when it is not worth it.

    It is when the highest used id, less the trigger, is above the number of used
    blocks. The highest used ids change places with the lowest free ones, as long as
    that lowers them, at most as many as the largest threshold.
    """
    taken = set(used)
    if not taken or max(taken) - trigger <= len(taken):
        return None
    free = (block for block in usable_ids if block not in taken)
    pairs: list[tuple[int, int]] = []
    for source, target in zip(sorted(taken, reverse=True), free, strict=False):
        if len(pairs) == THRESHOLDS[-1] or target > source:
            break
        pairs.append((source, target))
    if not pairs:
        return None
    moved = taken - {pair[0] for pair in pairs} | {pair[1] for pair in pairs}
    padded = next(size for size in THRESHOLDS if size >= len(pairs))
    return SwapPlan(pairs, padded, max(taken), max(moved))


def warm_up_defragmenter(
    engine: Engine, layout: CacheLayout, emitter: Emitter, *, with_graphs: bool
) -> None:
    """Run a minimal swap at every threshold, an even number of times in all.

    Each swap exchanges blocks 1 and 0, so an even number leaves the cache as it was.
    """
    with emitter.phase("defrag_warmup"):
        started = emitter.now()
        sizes = list(THRESHOLDS)
        emitter.emit(DefragWarmup, status="started", thresholds=sizes)
        if layout.num_blocks < 2:
            reason = f"insufficient blocks ({layout.num_blocks})"
            emitter.emit(DefragWarmup, status="skipped", reason=reason)
            return
        for size in sizes + sizes[: len(sizes) % 2]:
            began = emitter.now()
            engine.swap_blocks([(1, 0)], size, with_graph=with_graphs)
            engine.device.synchronize()
            took = emitter.now() - began
            emitter.emit(DefragStep, threshold=size, duration_s=took, time=began)
        took = emitter.now() - started
        emitter.emit(
            DefragWarmup, status="completed", thresholds=sizes, duration_s=took
        )


class BlockPool:
    """Free and used block ids.

    Blocks are handed out in the order in which they became free, as vLLM does it, so
    that the ids in use scatter as requests come and go.
    """

    def __init__(self, layout: CacheLayout) -> None:
        self._untouched = layout.usable_ids
        self._returned: deque[int] = deque()
        self._used: set[int] = set()

    @property
    def num_free(self) -> int:
        """Blocks that can be handed out."""
        return len(self._untouched) + len(self._returned)

    @property
    def used(self) -> frozenset[int]:
        """Ids in use."""
        return frozenset(self._used)

    def allocate(self, count: int) -> list[int]:
        """That many blocks; the caller has checked `num_free`."""
        assert count <= self.num_free, "more blocks than are free"
        blocks = list(self._untouched[:count])
        self._untouched = self._untouched[count:]
        blocks += [self._returned.popleft() for _ in range(count - len(blocks))]
        self._used.update(blocks)
        return blocks

    def free(self, blocks: Iterable[int]) -> None:
        """Take blocks back."""
        for block in blocks:
            self._used.remove(block)
            self._returned.append(block)

    def swap(self, pairs: Sequence[tuple[int, int]]) -> None:
        """Exchange used blocks with lower free ones: the first of each pair gets free.

        Ids are first handed out in rising order, so a free id below a used one was
        handed out before and is among the returned ones.
        """
        places = {block: place for place, block in enumerate(self._returned)}
        for used, free in pairs:
            self._used.remove(used)
            self._used.add(free)
            self._returned[places[free]] = used


@dataclass
class RunningRequest:
    """A request on its way: its tokens so far, and the blocks that hold them."""

    request: Request
    tokens: list[int] = field(default_factory=list)
    num_computed: int = 0
    blocks: list[int] = field(default_factory=list)
    token_times: list[float] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.tokens = list(self.request.prompt)

    @property
    def num_generated(self) -> int:
        """Tokens that were given back so far."""
        return len(self.tokens) - len(self.request.prompt)

    @property
    def is_finished(self) -> bool:
        """Whether all wanted tokens are there."""
        return self.num_generated >= self.request.output_len

    @property
    def num_pending(self) -> int:
        """Tokens whose keys and values are not in the cache."""
        return len(self.tokens) - self.num_computed

    def row(self, count: int) -> Row:
        """The next `count` tokens to compute."""
        end = self.num_computed + count
        return Row(self.tokens[self.num_computed : end], self.num_computed, self.blocks)


@dataclass(frozen=True)
class Step:
    """What to run next: each sequence with the number of tokens to compute."""

    phase: Phase
    parts: list[tuple[RunningRequest, int]]

    @property
    def rows(self) -> list[Row]:
        """The rows of the step."""
        return [sequence.row(count) for sequence, count in self.parts]


class Scheduler:
    """Prompts before decodes, in order of arrival; long prompts in parts.

    `max_prefill_seqs` bounds the rows of a prompt step, `max_num_batched_tokens` its
    padded tokens. A sequence that gets no block for its next token makes the youngest
    running one give its blocks back and start over.
    """

    def __init__(
        self,
        layout: CacheLayout,
        *,
        max_num_seqs: int,
        max_prefill_seqs: int,
        max_num_batched_tokens: int,
        can_split: bool,
    ) -> None:
        self._layout = layout
        self._max_num_seqs = max_num_seqs
        self._max_prefill_seqs = max_prefill_seqs
        self._budget = max_num_batched_tokens
        self._can_split = can_split
        self.pool = BlockPool(layout)
        self.waiting: deque[RunningRequest] = deque()
        self.running: list[RunningRequest] = []
        self.finished: list[RunningRequest] = []

    @property
    def has_work(self) -> bool:
        """Whether anything waits or runs."""
        return bool(self.waiting or self.running)

    def add(self, request: Request) -> None:
        """Take a request."""
        self.waiting.append(RunningRequest(request))

    def next_step(self) -> Step:
        """The next step; there is work."""
        parts = self._prompt_parts()
        if parts:
            return Step("prompt", parts)
        self._make_room()
        return Step("decode", [(sequence, 1) for sequence in self.running])

    def finish_step(self, step: Step, tokens: Sequence[int], now: float) -> None:
        """Take the tokens of a step; finished sequences give their blocks back."""
        for (sequence, count), token in zip(step.parts, tokens, strict=True):
            sequence.num_computed += count
            if sequence.num_pending:
                continue  # a part of a prompt: its token means nothing
            sequence.tokens.append(token)
            sequence.token_times.append(now)
            if sequence.is_finished:
                self.running.remove(sequence)
                self.finished.append(sequence)
                self.pool.free(sequence.blocks)

    def apply_swaps(self, pairs: Sequence[tuple[int, int]]) -> None:
        """Rewrite the block tables after used blocks moved to free places."""
        moved = dict(pairs)
        self.pool.swap(pairs)
        for sequence in self.running:
            sequence.blocks[:] = [moved.get(block, block) for block in sequence.blocks]

    def _prompt_parts(self) -> list[tuple[RunningRequest, int]]:
        """Running sequences with tokens left of their prompt, then waiting ones."""
        parts: list[tuple[RunningRequest, int]] = []
        for sequence in self.running:
            if sequence.num_pending > 1 and self._fits(parts, sequence):
                parts.append((sequence, self._part_len(sequence)))
        while self.waiting and len(self.running) < self._max_num_seqs:
            sequence = self.waiting[0]
            needed = self._layout.blocks_for(len(sequence.tokens))
            if needed > self.pool.num_free or not self._fits(parts, sequence):
                break
            self.waiting.popleft()
            sequence.blocks = self.pool.allocate(needed)
            self.running.append(sequence)
            parts.append((sequence, self._part_len(sequence)))
        return parts

    def _part_len(self, sequence: RunningRequest) -> int:
        """All pending tokens, or as many whole blocks of them as the budget allows."""
        pending = sequence.num_pending
        if pending <= self._budget or not self._can_split:
            return pending
        size = self._layout.block_size
        return max(size, self._budget // size * size)

    def _fits(
        self, parts: list[tuple[RunningRequest, int]], sequence: RunningRequest
    ) -> bool:
        if len(parts) >= self._max_prefill_seqs:
            return False
        longest = max(
            [count for _, count in parts]
            + [min(self._budget, self._part_len(sequence))]
        )
        return not parts or longest * (len(parts) + 1) <= self._budget

    def _make_room(self) -> None:
        """Give every running sequence the block that its next token needs."""
        index = 0
        while index < len(self.running):
            sequence = self.running[index]
            missing = self._layout.blocks_for(len(sequence.tokens)) - len(
                sequence.blocks
            )
            if missing <= self.pool.num_free:
                sequence.blocks += self.pool.allocate(max(0, missing))
                index += 1
            else:
                self._preempt(self.running[-1])

    def _preempt(self, sequence: RunningRequest) -> None:
        self.running.remove(sequence)
        self.pool.free(sequence.blocks)
        sequence.blocks, sequence.num_computed = [], 0
        self.waiting.appendleft(sequence)
