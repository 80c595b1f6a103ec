"""Stand-in for `vllm_gaudi/extension/defragmentation.py`, since v0.17.1."""

from __future__ import annotations

import os
import time

from standin import maybe_fail
from vllm.logger import log

from vllm_gaudi.extension.runtime import get_config


class OnlineDefragmenter:
    def __init__(self, kv_caches, block_size):
        self.threshold = int(os.environ.get("VLLM_DEFRAG_THRESHOLD", "32"))
        self.to_swap_pad_thresholds = [8, 16, 32, 64, 128, 256, 512]
        self.used_blocks = {}
        self.enabled = get_config().defrag
        self.kv_caches = tuple(kv_caches)
        self.block_size = block_size

    def update_state(self, new_blocks, finished_reqs):
        for blocks in new_blocks.values():
            for block in blocks:
                self.used_blocks[block] = 1

    def defragment(self):
        if not self.enabled or not self.used_blocks:
            return
        highest, count = max(self.used_blocks), len(self.used_blocks)
        if highest - self.threshold <= count:
            return
        free = (block for block in range(1, highest) if block not in self.used_blocks)
        used = sorted(self.used_blocks, reverse=True)
        to_swap = []
        for block, target in zip(used, free, strict=False):
            if target > block:
                break
            to_swap.append((block, target))
        for block, target in to_swap:
            del self.used_blocks[block]
            self.used_blocks[target] = 1
        pad = next(n for n in self.to_swap_pad_thresholds if n >= len(to_swap))
        self._swap(to_swap, pad)
        log.warning(
            "debug.py:18",
            f"[defrag] defragmentation done max_id_used={highest}->"
            f"{max(self.used_blocks)} num_used={len(self.used_blocks)} "
            f"swapped={len(to_swap)}/{pad}",
        )

    def _swap(self, to_swap, threshold):
        time.sleep(0.0002)

    def warmup(self):
        if not self.enabled:
            return
        blocks = self.kv_caches[0][0].shape[0] // self.block_size
        if blocks < 2:
            log.warning(
                "defragmentation.py:230",
                f"Skipping defragmenter warmup, insufficient blocks ({blocks})",
            )
            return
        thresholds = self.to_swap_pad_thresholds
        log.info(
            "defragmentation.py:238",
            f"Warming up defragmenter with thresholds: {thresholds}",
        )
        for threshold in [*thresholds, thresholds[0]]:
            self._swap([(1, 0)], threshold)
        maybe_fail("defragmenter")
        log.info("defragmentation.py:249", "Defragmenter warmup completed successfully")
