"""Stand-in for the padding-aware strategy."""

from __future__ import annotations

from vllm.logger import log

from vllm_gaudi.extension.bucketing.linear import LinearBucketingStrategy


class PaddingAwareBucketingStrategy:
    def get_prompt_cfgs(
        self, max_num_prefill_seqs, block_size, max_num_batched_tokens, max_model_len
    ):
        cfgs = [1, 1, 1, 1, 25], [block_size, 4 * block_size, 1024, 512, 25], [
            0, 2, 4, 8, 25,
        ]  # fmt: skip
        log.info(
            "padding_aware.py:59",
            "Prompt bucket config (min, step, max_warmup, pad_max, pad_percent) "
            f"bs:{cfgs[0]}, query:{cfgs[1]}, blocks:{cfgs[2]}",
        )
        return cfgs

    def get_decode_cfgs(
        self,
        max_num_seqs,
        block_size,
        max_num_batched_tokens,
        max_model_len,
        max_blocks,
    ):
        cfgs = [1, 2, max_num_seqs, 1, 25], [1, 1, 1, 1, 0], [8, 8, 32, 8, 25]
        log.info(
            "padding_aware.py:102",
            "Decode bucket config (min, step, max_warmup, pad_max, pad_percent) "
            f"bs:{cfgs[0]}, blocks:{cfgs[2]}",
        )
        return cfgs

    get_range = LinearBucketingStrategy.get_range
