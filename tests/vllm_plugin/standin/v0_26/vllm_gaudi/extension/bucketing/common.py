"""Stand-in for `vllm_gaudi/extension/bucketing/common.py`."""

from __future__ import annotations

from standin.gaudi import greater_bucket
from vllm.logger import log

from vllm_gaudi.extension.bucketing.exponential import ExponentialBucketingStrategy
from vllm_gaudi.extension.bucketing.linear import LinearBucketingStrategy
from vllm_gaudi.extension.bucketing.padding_aware import PaddingAwareBucketingStrategy
from vllm_gaudi.extension.runtime import get_config


class HPUBucketingManager:
    def __init__(self):
        self.prompt_buckets = []
        self.decode_buckets = []
        self.initialized = False

    def initialize(
        self,
        max_num_seqs,
        max_num_prefill_seqs,
        block_size,
        max_num_batched_tokens,
        max_model_len,
        num_speculative_tokens=0,
    ):
        self.max_num_seqs = max_num_seqs
        self.max_num_prefill_seqs = max_num_prefill_seqs
        self.block_size = block_size
        self.max_num_batched_tokens = max_num_batched_tokens
        self.max_model_len = max_model_len
        self.num_hpu_blocks = None
        self._fallback_max_ctx = 0
        self.initialized = True

    def read_from_file(self, is_prompt):
        raise FileNotFoundError

    def get_bucketing_strategy(self):
        strategies = {
            "exp": ExponentialBucketingStrategy,
            "lin": LinearBucketingStrategy,
            "pad": PaddingAwareBucketingStrategy,
        }
        return strategies[get_config().bucketing_strategy]()

    def generate_prompt_buckets(self):
        strategy = self.get_bucketing_strategy()
        cfgs = strategy.get_prompt_cfgs(
            max_num_prefill_seqs=self.max_num_prefill_seqs,
            block_size=self.block_size,
            max_num_batched_tokens=self.max_num_batched_tokens,
            max_model_len=self.max_model_len,
        )
        ranges = [strategy.get_range(cfg) for cfg in cfgs]
        self.prompt_buckets = sorted(
            (size, query, blocks)
            for size in ranges[0]
            for query in ranges[1]
            for blocks in ranges[2]
        )
        self.log_generate_info(True)

    def generate_decode_buckets(self):
        strategy = self.get_bucketing_strategy()
        cfgs = strategy.get_decode_cfgs(
            max_num_seqs=self.max_num_seqs,
            block_size=self.block_size,
            max_num_batched_tokens=self.max_num_batched_tokens,
            max_model_len=self.max_model_len,
            max_blocks=self.num_hpu_blocks,
        )
        ranges = [strategy.get_range(cfg) for cfg in cfgs]
        self.decode_buckets = sorted(
            (size, 1, blocks)
            for size in ranges[0]
            for blocks in ranges[2]
            if size <= blocks
        )
        if SPECULATIVE:
            self.decode_buckets = self.generate_spec_decode_buckets(self.decode_buckets)
        self._fallback_max_ctx = max(bucket[2] for bucket in self.decode_buckets)
        self.log_generate_info(False)

    def generate_spec_decode_buckets(self, seed_decode_buckets):
        more = {
            (2 * size, query, blocks) for size, query, blocks in seed_decode_buckets
        }
        new = sorted(more - set(seed_decode_buckets))
        log.info(
            "common.py:240",
            f"Generated {len(new)} spec decode buckets [bs, query, num_blocks]: {new}",
        )
        return sorted(more | set(seed_decode_buckets))

    def log_generate_info(self, is_prompt=False):
        phase = "prompt" if is_prompt else "decode"
        buckets = self.prompt_buckets if is_prompt else self.decode_buckets
        log.info(
            "common.py:245",
            f"Generated {len(buckets)} {phase} buckets [bs, query, num_blocks]: "
            f"{buckets}",
        )

    def generate_fallback_bucket(self, batch_size, seq_len, ctx, is_prompt=False):
        step = 128
        return batch_size, -(-seq_len // step) * step if is_prompt else 1, ctx

    def find_prompt_bucket(self, batch_size, seq_len, ctx=0):
        found = greater_bucket(self.prompt_buckets, (batch_size, seq_len, ctx))
        if found is not None:
            return found
        bucket = self.generate_fallback_bucket(batch_size, seq_len, ctx, is_prompt=True)
        log.warning(
            "common.py:300",
            f"Prompt bucket for {(batch_size, seq_len, ctx)} was not prepared. "
            f"Adding new bucket: {bucket}",
        )
        self.prompt_buckets.append(bucket)
        self.prompt_buckets.sort()
        return bucket

    def find_decode_bucket(self, batch_size, num_blocks, seed_buckets=False):
        if self._fallback_max_ctx > 0:
            num_blocks = min(num_blocks, self._fallback_max_ctx)
        found = greater_bucket(self.decode_buckets, (batch_size, 1, num_blocks))
        if found is not None:
            return found
        bucket = self.generate_fallback_bucket(batch_size, 1, num_blocks)
        if bucket not in self.decode_buckets:
            log.warning(
                "common.py:310",
                f"Decode bucket for {(batch_size, 1, num_blocks)} was not prepared. "
                f"Adding new bucket: {bucket}",
            )
            self.decode_buckets.append(bucket)
            self.decode_buckets.sort()
        return bucket


SPECULATIVE = False
"""Add the buckets of speculative decoding, set by a test."""
