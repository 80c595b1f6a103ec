"""Sorted buckets, arranged so that the right one is found without a scan."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterable, Iterator

from warmup_insights.bucketing.base import Bucket


class BucketIndex:
    """Finds the first bucket, in sorted order, that covers a shape.

    Batch sizes, then query lengths, then blocks are searched by bisection; only query
    lengths whose contexts are all too short are stepped over one by one.
    """

    def __init__(self, buckets: Iterable[Bucket] = ()) -> None:
        self._batch_sizes: list[int] = []
        self._groups: list[_BatchGroup] = []
        self._length = 0
        for bucket in sorted(set(buckets)):
            self.add(bucket)

    def __len__(self) -> int:
        return self._length

    def __iter__(self) -> Iterator[Bucket]:
        for group in self._groups:
            for buckets in group.buckets:
                yield from buckets

    def find(self, batch_size: int, query_len: int, num_blocks: int) -> Bucket | None:
        """The first bucket not smaller in any dimension; None if there is none.

        The answer is that of a scan of the sorted list, so the batch size weighs most:
        a smaller batch with a longer query comes before a larger batch.
        Source: `common.py`, `find_equal_or_closest_greater_config`, of vllm-gaudi.
        """
        groups = self._groups
        for position in range(bisect_left(self._batch_sizes, batch_size), len(groups)):
            group = groups[position]
            row = bisect_left(group.query_lens, query_len)
            if row == len(group.query_lens) or group.reach[row] < num_blocks:
                continue
            while group.blocks[row][-1] < num_blocks:
                row += 1
            return group.buckets[row][bisect_left(group.blocks[row], num_blocks)]
        return None

    def add(self, bucket: Bucket) -> bool:
        """Put a bucket in its place; False if it was there already."""
        position = bisect_left(self._batch_sizes, bucket.batch_size)
        if self._batch_sizes[position : position + 1] != [bucket.batch_size]:
            self._batch_sizes.insert(position, bucket.batch_size)
            self._groups.insert(position, _BatchGroup())
        is_new = self._groups[position].add(bucket)
        self._length += is_new
        return is_new


class _BatchGroup:
    """The buckets of one batch size: one row of sorted blocks per query length."""

    __slots__ = ("blocks", "buckets", "query_lens", "reach")

    def __init__(self) -> None:
        self.query_lens: list[int] = []
        self.blocks: list[list[int]] = []
        self.buckets: list[list[Bucket]] = []
        self.reach: list[int] = []  # the most blocks of this row and all after it

    def add(self, bucket: Bucket) -> bool:
        row = bisect_left(self.query_lens, bucket.query_len)
        if self.query_lens[row : row + 1] != [bucket.query_len]:
            self.query_lens.insert(row, bucket.query_len)
            self.blocks.insert(row, [])
            self.buckets.insert(row, [])
            self.reach.insert(row, self.reach[row] if row < len(self.reach) else -1)
        blocks = self.blocks[row]
        column = bisect_left(blocks, bucket.num_blocks)
        if blocks[column : column + 1] == [bucket.num_blocks]:
            return False
        blocks.insert(column, bucket.num_blocks)
        self.buckets[row].insert(column, bucket)
        while row >= 0 and self.reach[row] < bucket.num_blocks:
            self.reach[row] = bucket.num_blocks
            row -= 1
        return True
