"""The buckets that a decode batch goes through while its sequences grow."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from warmup_insights.bucketing.base import Bucket
from warmup_insights.bucketing.lookup import BucketTable, Outcome
from warmup_insights.errors import InputError


class WalkStep(NamedTuple):
    """Consecutive decode steps in one bucket: first and last token made, from 1.

    `num_blocks` are those of the batch at the last of these steps.
    """

    first_token: int
    last_token: int
    num_blocks: int
    bucket: Bucket
    outcome: Outcome


def walk_decode(
    table: BucketTable, seq_lens: Sequence[int], block_size: int, num_tokens: int
) -> list[WalkStep]:
    """The buckets of `num_tokens` decode steps of a batch that starts at `seq_lens`.

    `seq_lens` are the tokens of each sequence after its prompt. A step needs the blocks
    of all tokens and of the one it makes, so a new block starts a step early. Blocks
    are counted as without sharing and without gaps between block ids. Nothing is added
    to the table.

    Raises:
        InputError: there is no sequence, or a number is negative.
    """
    if not seq_lens or min(seq_lens) < 0 or num_tokens < 0:
        raise InputError(
            f"A walk of {num_tokens} tokens from the lengths {list(seq_lens)[:8]} is not "
            "possible; give at least one length, and nothing negative."
        )
    steps: list[WalkStep] = []
    token = 1
    while token <= num_tokens:
        ends = [-(-(length + token) // block_size) for length in seq_lens]
        # Nothing changes before the first sequence fills its last block.
        unchanged = min(
            end * block_size - length
            for end, length in zip(ends, seq_lens, strict=True)
        )
        last = min(unchanged, num_tokens)
        found = table.peek("decode", (len(seq_lens), sum(ends)))
        step = WalkStep(token, last, sum(ends), found.bucket, found.outcome)
        if steps and steps[-1].bucket == step.bucket:
            steps[-1] = step._replace(first_token=steps[-1].first_token)
        else:
            steps.append(step)
        token = last + 1
    return steps
