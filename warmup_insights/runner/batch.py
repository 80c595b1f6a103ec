"""From sequences to the padded lists of one step: pure Python, no tensors.

The padding rules: a padded token is token 0 at position 0 and is written to the
padding block; a padded row of a prompt attends only to its own tokens; a padded entry of a
decode block list is the padding block with nothing in use.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from warmup_insights.model.events import Bucket
from warmup_insights.rules.memory import CacheLayout


@dataclass(frozen=True)
class Row:
    """The part of one sequence that a step computes.

    `token_ids` are new in this step; `num_computed` tokens before them are in the KV
    cache already. `block_ids` hold all of them, in order.
    """

    token_ids: Sequence[int]
    num_computed: int
    block_ids: Sequence[int]

    @property
    def length(self) -> int:
        """Tokens of the sequence after this step."""
        return self.num_computed + len(self.token_ids)


@dataclass(frozen=True)
class PaddedBatch:
    """The inputs of one forward as nested lists, all padded to the bucket.

    With B rows, S tokens per row and C or N blocks: `token_ids` and `positions` are
    B x S, `slots` B*S indices into the flat cache, `last_index` B indices into B*S.
    A prompt has `context_blocks` B x C and `context_lens` B; a decode step has
    `block_list`, `block_groups` (row of each block) and `block_usage` (tokens in use
    in it), all N.
    """

    token_ids: list[list[int]]
    positions: list[list[int]]
    slots: list[int]
    last_index: list[int]
    context_blocks: list[list[int]]
    context_lens: list[int]
    block_list: list[int]
    block_groups: list[int]
    block_usage: list[int]


def full_bucket(bucket: Bucket, phase: str, block_size: int) -> tuple[int, int, int]:
    """The three dimensions of a bucket, whatever the engine counts.

    In two dimensions a prompt has no context, and a decode bucket (batch size,
    sequence length) has as many blocks as its full rows need.
    """
    if len(bucket) == 3:
        return bucket[0], bucket[1], bucket[2]
    batch_size, seq_len = bucket
    if phase == "prompt":
        return batch_size, seq_len, 0
    return batch_size, 1, batch_size * -(-seq_len // block_size)


def pad_batch(
    rows: Sequence[Row],
    phase: str,
    bucket: Bucket,
    layout: CacheLayout,
    *,
    contiguous: bool = False,
) -> PaddedBatch:
    """The inputs of a step, padded to its bucket.

    With `contiguous` the block list of a decode step is 0, 1, 2, ...: the cache is read
    from its start, and each block belongs to the row that holds it.
    """
    batch_size, query_len, num_blocks = full_bucket(bucket, phase, layout.block_size)
    padding = layout.padding_block * layout.block_size
    batch = PaddedBatch([], [], [], [], [], [], [], [], [])
    for index in range(batch_size):
        row = rows[index] if index < len(rows) else None
        _pad_tokens(batch, row, index, query_len, layout, padding)
        if phase == "prompt":
            _pad_context(batch, row, num_blocks, layout)
    if phase == "decode":
        _fill_blocks(batch, rows, num_blocks, layout, contiguous=contiguous)
    return batch


def _pad_tokens(
    batch: PaddedBatch,
    row: Row | None,
    index: int,
    query_len: int,
    layout: CacheLayout,
    padding: int,
) -> None:
    tokens = list(row.token_ids) if row else []
    missing = query_len - len(tokens)
    positions = list(range(row.num_computed, row.length)) if row else []
    blocks = [divmod(position, layout.block_size) for position in positions]
    ids = row.block_ids if row else ()
    slots = [ids[block] * layout.block_size + offset for block, offset in blocks]
    batch.token_ids.append(tokens + [0] * missing)
    batch.positions.append(positions + [0] * missing)
    batch.slots.extend(slots + [padding] * missing)
    batch.last_index.append(index * query_len + max(0, len(tokens) - 1))


def _pad_context(
    batch: PaddedBatch, row: Row | None, num_blocks: int, layout: CacheLayout
) -> None:
    used = layout.blocks_for(row.num_computed) if row else 0
    blocks = list(row.block_ids[:used]) if row else []
    batch.context_blocks.append(blocks + [layout.padding_block] * (num_blocks - used))
    batch.context_lens.append(row.num_computed if row else 0)


def _fill_blocks(
    batch: PaddedBatch,
    rows: Sequence[Row],
    num_blocks: int,
    layout: CacheLayout,
    *,
    contiguous: bool,
) -> None:
    entries = [
        (block, index, min(layout.block_size, row.length - number * layout.block_size))
        for index, row in enumerate(rows)
        for number, block in enumerate(row.block_ids[: layout.blocks_for(row.length)])
    ]
    if contiguous:
        # Ids beyond the cache do not exist: the rest of the list reads the padding.
        by_block = {block: (block, index, usage) for block, index, usage in entries}
        last = layout.num_allocated
        entries = [
            by_block.get(block, (block if block < last else layout.padding_block, 0, 0))
            for block in range(num_blocks)
        ]
    entries += [(layout.padding_block, 0, 0)] * (num_blocks - len(entries))
    for block, index, usage in entries:
        batch.block_list.append(block)
        batch.block_groups.append(index)
        batch.block_usage.append(usage)


def decode_blocks_needed(
    rows: Sequence[Row], layout: CacheLayout, *, contiguous: bool
) -> int:
    """Length of the block list of a decode step."""
    used = [list(row.block_ids[: layout.blocks_for(row.length)]) for row in rows]
    if contiguous:
        return 1 + max(block for blocks in used for block in blocks)
    return sum(len(blocks) for blocks in used)


def dummy_rows(phase: str, bucket: Bucket, layout: CacheLayout) -> list[Row]:
    """Rows that fill a bucket, all on the padding block.

    A prompt row has full context blocks and as many new tokens as the bucket is long.
    The blocks of a decode bucket are divided evenly between the rows, as
    `_generate_seq_lengths` of vllm-gaudi does it; a row without a block computes its
    first token.
    """
    batch_size, query_len, num_blocks = full_bucket(bucket, phase, layout.block_size)
    padding = layout.padding_block
    if phase == "prompt":
        computed = num_blocks * layout.block_size
        blocks = [padding] * (num_blocks + layout.blocks_for(query_len))
        return [Row([0] * query_len, computed, blocks) for _ in range(batch_size)]
    share, extra = divmod(num_blocks, batch_size)
    counts = [share + (index < extra) for index in range(batch_size)]
    return [
        Row([0], max(0, count * layout.block_size - 1), [padding] * max(1, count))
        for count in counts
    ]
