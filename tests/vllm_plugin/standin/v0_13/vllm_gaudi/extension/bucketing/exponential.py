"""Stand-in for the exponential strategy: fixed ranges, doubled in between."""

from __future__ import annotations

from vllm.logger import log


class ExponentialBucketingStrategy:
    def get_prompt_cfgs(
        self, max_num_prefill_seqs, block_size, max_num_batched_tokens, max_model_len
    ):
        blocks = (max_model_len - block_size) // block_size
        cfgs = [1, 2, max_num_prefill_seqs, 1], [block_size, block_size, max_num_batched_tokens, 10], [
            0, 1, blocks, 4,
        ]  # fmt: skip
        log.info(
            "exponential.py:80",
            "Prompt bucket config (min, step, max_warmup, limit) "
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
        cfgs = [1, 2, max_num_seqs, 3], [1, 1, 1, 1], [1, 4, 32, 6]
        log.info(
            "exponential.py:105",
            "Decode bucket config (min, step, max_warmup, limit) "
            f"bs:{cfgs[0]}, block:{cfgs[2]}",
        )
        return cfgs

    def get_range(self, cfg):
        values, value = [cfg[0]], max(1, cfg[0])
        while value < cfg[2]:
            value = min(cfg[2], value * 2)
            values.append(value)
        return sorted(set(values))
