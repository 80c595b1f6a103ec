"""The paged KV cache: tensors, and which block belongs to whom."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Sequence

from warmup_insights.rules.memory import CacheLayout


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
