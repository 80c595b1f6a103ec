"""Stand-in for `vllm_gaudi/extension/bucketing/common.py`, v0.11.2 to v0.16."""

from __future__ import annotations

import os

from standin.gaudi import greater_bucket
from vllm.logger import log

from vllm_gaudi.extension.bucketing.exponential import ExponentialBucketingStrategy
from vllm_gaudi.extension.bucketing.linear import LinearBucketingStrategy
from vllm_gaudi.extension.runtime import get_config


class HPUBucketingManager:
    def __init__(self):
        self.prompt_buckets = []
        self.decode_buckets = []
        self.unified_buckets = []
        self.num_hpu_blocks = None

    def initialize(
        self,
        max_num_seqs,
        max_num_prefill_seqs,
        block_size,
        max_num_batched_tokens,
        max_model_len,
    ):
        self._limits = (max_num_prefill_seqs, block_size, max_num_batched_tokens)
        self._max_num_seqs = max_num_seqs
        self._max_model_len = max_model_len

    def read_from_file(self, is_prompt):
        """Every line is a bucket here; those of decodes have a query length of 1."""
        buckets = []
        with open(os.environ["VLLM_BUCKETING_FROM_FILE"], encoding="utf-8") as lines:
            for line in lines:
                bucket = tuple(int(number) for number in line.strip("()\n").split(","))
                if (bucket[1] == 1) != is_prompt:
                    buckets.append(bucket)
        return sorted(buckets)

    def get_bucketing_strategy(self):
        is_linear = get_config().bucketing_strategy == "lin"
        return (
            LinearBucketingStrategy() if is_linear else ExponentialBucketingStrategy()
        )

    def generate_unified_buckets(self):
        self.unified_buckets = [(8, 0, 0, 1), (8, 0, 8, 0), (64, 8, 8, 1)]
        log.info(
            "common.py:100",
            "Generated 3 unified buckets [query, shared_blocks, unique_blocks]: "
            f"{self.unified_buckets}",
        )

    def generate_prompt_buckets(self):
        if os.environ.get("VLLM_BUCKETING_FROM_FILE"):
            self.prompt_buckets = self.read_from_file(is_prompt=True)
        else:
            strategy = self.get_bucketing_strategy()
            cfgs = strategy.get_prompt_cfgs(*self._limits, self._max_model_len)
            sizes, queries, contexts = map(strategy.get_range, cfgs)
            self.prompt_buckets = sorted(
                (size, query, blocks)
                for size in sizes
                for query in queries
                for blocks in contexts
            )
        self.log_generate_info(True)

    def generate_decode_buckets(self):
        if os.environ.get("VLLM_BUCKETING_FROM_FILE"):
            self.decode_buckets = self.read_from_file(is_prompt=False)
        else:
            strategy = self.get_bucketing_strategy()
            cfgs = strategy.get_decode_cfgs(
                self._max_num_seqs, self._limits[1], 1024, self._max_model_len, 64
            )
            sizes, _, contexts = map(strategy.get_range, cfgs)
            self.decode_buckets = sorted(
                (size, 1, blocks)
                for size in sizes
                for blocks in contexts
                if size <= blocks
            )
        if SPECULATIVE:
            self.decode_buckets = self.generate_spec_decode_buckets(self.decode_buckets)
        self.log_generate_info(False)

    def generate_spec_decode_buckets(self, seed_decode_buckets):
        more = {
            (2 * size, query, blocks) for size, query, blocks in seed_decode_buckets
        }
        new = sorted(more - set(seed_decode_buckets))
        log.info(
            "common.py:190",
            f"Generated {len(new)} spec decode buckets [bs, query, num_blocks]: {new}",
        )
        return sorted(more | set(seed_decode_buckets))

    def log_generate_info(self, is_prompt=False):
        phase = "prompt" if is_prompt else "decode"
        buckets = self.prompt_buckets if is_prompt else self.decode_buckets
        log.info(
            "common.py:200",
            f"Generated {len(buckets)} {phase} buckets [bs, query, num_blocks]: "
            f"{buckets}",
        )

    def generate_fallback_bucket(self, batch_size, seq_len, ctx):
        return batch_size, -(-seq_len // 128) * 128, ctx

    def find_prompt_bucket(self, batch_size, seq_len, ctx=0):
        found = greater_bucket(self.prompt_buckets, (batch_size, seq_len, ctx))
        if found is None:
            found = self.generate_fallback_bucket(batch_size, seq_len, ctx)
            log.warning(
                "common.py:230",
                f"Prompt bucket for {(batch_size, seq_len, ctx)} was not prepared. "
                f"Adding new bucket: {found}",
            )
            self.prompt_buckets.append(found)
        return found

    def find_decode_bucket(self, batch_size, num_blocks, seed_buckets=False):
        found = greater_bucket(self.decode_buckets, (batch_size, 1, num_blocks))
        if found is None:
            found = (batch_size, 1, self.generate_fallback_bucket(1, 1, num_blocks)[2])
            log.warning(
                "common.py:240",
                f"Decode bucket for {(batch_size, 1, num_blocks)} was not prepared. "
                f"Adding new bucket: {found}",
            )
            self.decode_buckets.append(found)
        return found


SPECULATIVE = False
"""Add the buckets of speculative decoding, set by a test."""
