"""Stand-in for the linear strategy of v0.10: it has no method for the ranges."""

from __future__ import annotations

from vllm.logger import log


class LinearBucketingStrategy:
    def get_prompt_buckets(self):
        log.info(
            "linear.py:42",
            "Prompt bucket config (min, step, max_warmup) bs:[1, 1, 1], "
            "query:[128, 256, 640], blocks:[0, 1, 1]",
        )
        return [(1, query, blocks) for query in (128, 384, 640) for blocks in (0, 1)]

    def get_decode_buckets(self):
        log.info(
            "linear.py:71",
            "Decode bucket config (min, step, max_warmup) bs:[1, 1, 4], "
            "blocks:[8, 8, 16]",
        )
        return [(size, 1, blocks) for size in (1, 2, 4) for blocks in (8, 16)]
