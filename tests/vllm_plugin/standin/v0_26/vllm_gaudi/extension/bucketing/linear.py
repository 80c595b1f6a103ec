"""Stand-in for the linear strategy."""

from __future__ import annotations

from vllm.logger import log


class LinearBucketingStrategy:
    def get_prompt_cfgs(
        self, max_num_prefill_seqs, block_size, max_num_batched_tokens, max_model_len
    ):
        cfgs = (
            [1, 1, 1],
            [block_size, 4 * block_size, max_num_batched_tokens],
            [0, 2, 4],
        )
        log.info(
            "linear.py:48",
            "Prompt bucket config (min, step, max_warmup) "
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
        cfgs = [1, 1, max_num_seqs], [1, 1, 1], [8, 8, 32]
        log.info(
            "linear.py:79",
            "Decode bucket config (min, step, max_warmup) "
            f"bs:{cfgs[0]}, blocks:{cfgs[2]}",
        )
        return cfgs

    def get_range(self, cfg):
        return list(range(cfg[0], cfg[2] + 1, cfg[1]))
