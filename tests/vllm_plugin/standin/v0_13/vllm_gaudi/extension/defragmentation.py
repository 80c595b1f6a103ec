"""Stand-in for `vllm_gaudi/extension/defragmentation.py`, v0.11.2 to v0.16."""

from __future__ import annotations

import time

from vllm_gaudi.extension.runtime import get_config


class CacheSwapUtils:
    def __init__(self, kv_caches, block_size):
        self.kv_caches = tuple(kv_caches)
        self.block_size = block_size

    def swap(self, to_swap, threshold):
        time.sleep(0.0002)


class OnlineDefragmenter:
    def __init__(self):
        self.to_swap_pad_thresholds = [8, 16, 32, 64, 128, 256, 512]
        self.used_blocks = {}
        self.enabled = get_config().defrag
        self.cache_utils = None

    def initialize(self, kv_caches, block_size):
        self.cache_utils = CacheSwapUtils(kv_caches, block_size)

    def defragment(self):
        if not self.enabled or not self.used_blocks:
            return
        highest = max(self.used_blocks)
        if highest - 32 <= len(self.used_blocks):
            return
        self.cache_utils.swap([(highest, 1)], 8)
        del self.used_blocks[highest]
        self.used_blocks[1] = 1
