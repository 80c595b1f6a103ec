"""Stand-in for `vllm_gaudi/extension/bucketing/common.py` of v0.10."""

from __future__ import annotations

from standin.gaudi import greater_bucket
from vllm.logger import log

from vllm_gaudi.extension.bucketing.linear import LinearBucketingStrategy


class HPUBucketingManager:
    def __init__(self):
        self.prompt_buckets = []
        self.decode_buckets = []
        self.num_hpu_blocks = None

    def initialize(
        self,
        max_num_seqs,
        max_num_prefill_seqs,
        block_size,
        max_num_batched_tokens,
        max_model_len,
    ):
        self.max_num_seqs = max_num_seqs

    def get_bucketing_strategy(self):
        return LinearBucketingStrategy()

    def generate_prompt_buckets(self):
        self.prompt_buckets = self.get_bucketing_strategy().get_prompt_buckets()
        self.log_generate_info(True)

    def generate_decode_buckets(self):
        self.decode_buckets = self.get_bucketing_strategy().get_decode_buckets()
        self.log_generate_info(False)

    def log_generate_info(self, is_prompt):
        phase = "prompt" if is_prompt else "decode"
        buckets = self.prompt_buckets if is_prompt else self.decode_buckets
        log.info(
            "common.py:85",
            f"Generated {len(buckets)} {phase} buckets [bs, query, num_blocks]: "
            f"{buckets}",
        )

    def find_prompt_bucket(self, batch_size, seq_len, ctx=0):
        found = greater_bucket(self.prompt_buckets, (batch_size, seq_len, ctx))
        if found is None:
            found = (batch_size, -(-seq_len // 128) * 128, ctx)
            log.warning(
                "common.py:100",
                f"Prompt bucket for {(batch_size, seq_len, ctx)} was not prepared. "
                f"Adding new bucket: {found}",
            )
            self.prompt_buckets.append(found)
        return found

    def find_decode_bucket(self, batch_size, num_blocks):
        found = greater_bucket(self.decode_buckets, (batch_size, 1, num_blocks))
        if found is None:
            found = (batch_size, 1, -(-num_blocks // 2) * 2)
            log.warning(
                "common.py:110",
                f"Decode bucket for {(batch_size, 1, num_blocks)} was not prepared. "
                f"Adding new bucket: {found}",
            )
            self.decode_buckets.append(found)
        return found
