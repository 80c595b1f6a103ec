"""Moving the KV cache together: when, what, and the warm-up of it.

Source: `OnlineDefragmenter` of vllm-gaudi (`extension/defragmentation.py`). There the
cache copies used blocks over free ones and keeps mapping tables; here blocks are always
exchanged and the tables of the requests are rewritten, which comes to the same.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from warmup_insights.model.events import DefragStep, DefragWarmup
from warmup_insights.rules.memory import CacheLayout
from warmup_insights.runner.engine import Emitter, Engine

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
