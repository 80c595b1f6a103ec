"""Stand-in for `vllm/v1/core/kv_cache_utils.py`."""

from __future__ import annotations

from standin import Bag

from vllm.logger import log


def get_max_concurrency_for_kv_cache_config(vllm_config, kv_cache_config):
    cache, model = vllm_config.cache_config, vllm_config.model_config
    return kv_cache_config.num_blocks * cache.block_size / model.max_model_len


def get_kv_cache_configs(vllm_config, available_memory):
    cache, model = vllm_config.cache_config, vllm_config.model_config
    blocks = cache.num_gpu_blocks_override
    if blocks is None:
        blocks = int(available_memory[0] // 2**20)
    spec = Bag(block_size=cache.block_size)
    config = Bag(num_blocks=blocks, kv_cache_groups=[Bag(kv_cache_spec=spec)])
    tokens = blocks * cache.block_size
    times = get_max_concurrency_for_kv_cache_config(vllm_config, config)
    log.info("kv_cache_utils.py:1", f"GPU KV cache size: {tokens:,} tokens")
    log.info(
        "kv_cache_utils.py:2",
        f"Maximum concurrency for {model.max_model_len:,} tokens per request: "
        f"{times:.2f}x",
    )
    return config
