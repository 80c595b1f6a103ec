"""The paged KV cache: tensors, and which block belongs to whom."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Sequence

from warmup_insights.runner.batch import CacheLayout


class BlockPool:
    """Free and used block ids.

    Blocks are handed out in the order in which they became free, as vLLM does it, so
    that the ids in use scatter as requests come and go.
    """

    def __init__(self, layout: CacheLayout) -> None:
        self._free = deque(layout.usable_ids)
        self._used: set[int] = set()

    @property
    def num_free(self) -> int:
        """Blocks that can be handed out."""
        return len(self._free)

    @property
    def used(self) -> frozenset[int]:
        """Ids in use."""
        return frozenset(self._used)

    def allocate(self, count: int) -> list[int]:
        """That many blocks; the caller has checked `num_free`."""
        assert count <= len(self._free), "more blocks than are free"
        blocks = [self._free.popleft() for _ in range(count)]
        self._used.update(blocks)
        return blocks

    def free(self, blocks: Iterable[int]) -> None:
        """Take blocks back."""
        for block in blocks:
            self._used.remove(block)
            self._free.append(block)

    def swap(self, pairs: Sequence[tuple[int, int]]) -> None:
        """Exchange used blocks with free ones: the first of each pair becomes free."""
        places = {block: place for place, block in enumerate(self._free)}
        for used, free in pairs:
            self._used.remove(used)
            self._used.add(free)
            self._free[places[free]] = used
