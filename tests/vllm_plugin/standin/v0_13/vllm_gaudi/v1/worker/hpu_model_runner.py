"""Stand-in for `vllm_gaudi/v1/worker/hpu_model_runner.py`, v0.11.2 to v0.16."""

from __future__ import annotations

import os

from standin import DEVICE, maybe_fail, work
from standin.gaudi import Runner, Sampler
from vllm.logger import log

from vllm_gaudi.extension.bucketing.common import HPUBucketingManager
from vllm_gaudi.extension.defragmentation import OnlineDefragmenter
from vllm_gaudi.extension.profiler import HabanaMemoryProfiler
from vllm_gaudi.extension.runtime import finalize_config


class HPUModelRunner(Sampler, Runner):
    profiler_class = HabanaMemoryProfiler
    phase_words = ("Decode", "Prompt")

    def __init__(self, vllm_config, is_driver_worker=False):
        finalize_config()
        super().__init__(vllm_config, is_driver_worker)
        self.unified_attn = os.environ.get("VLLM_UNIFIED_ATTN") == "true"
        self.defragmenter = OnlineDefragmenter()
        self.scheduler_output = None
        self.warmup_mode = False

    def make_bucketing_manager(self):
        config = self.vllm_config
        manager = HPUBucketingManager()
        manager.initialize(
            max_num_seqs=config.scheduler_config.max_num_seqs,
            max_num_prefill_seqs=self.max_prefill_batch_size,
            block_size=config.cache_config.block_size,
            max_num_batched_tokens=config.scheduler_config.max_num_batched_tokens,
            max_model_len=config.model_config.max_model_len,
        )
        return manager

    def _check_config(
        self, batch_size, seq_len, num_blocks, attn_metadata, warmup_mode
    ):
        phase = "prompt" if attn_metadata.is_prompt else "decode"
        config = (phase, batch_size, seq_len, num_blocks)
        if config not in self.seen_configs and not warmup_mode:
            log.warning(
                f"{self.source}:3588", f"Configuration: {config} was not warmed-up!"
            )
        self.seen_configs.add(config)

    def _use_graphs(self):
        return not self.model_config.enforce_eager

    def use_graphs_of(self, attn_metadata, batch_size):
        return self._use_graphs()

    def log_warmup(
        self, phase, i, max_i, first_dim, second_dim, third_dim, causal=False
    ):
        if self.unified_attn:
            words = "causal" if causal else "non causal"
            log.plain(
                f"[Warmup][{phase}][{i + 1}/{max_i}] query_len:{first_dim} "
                f"shared_blocks:{second_dim} unique_blocks:{third_dim} ({words}) "
                "free_mem:90 GiB"
            )
        else:
            log.plain(self.step_line(phase, i, max_i, first_dim, second_dim, third_dim))

    def warmup_graphs(
        self, buckets, is_prompt, kv_caches, starting_mem=0, total_batch_seq=0.001
    ):
        def run(batch_size, seq_len, blocks):
            bucket = (batch_size, seq_len, blocks)
            self._prepare_dummy_scenario(
                bucket if is_prompt else None, None if is_prompt else bucket
            )

        return self.warmup_pass(buckets, is_prompt, starting_mem, run)

    def _prepare_dummy_scenario(self, prompt_cfg, decode_cfg):
        maybe_fail("bucket")
        requests = self.dummy_requests(prompt_cfg, decode_cfg, is_capped=False)
        self.execute_model(requests, warmup_mode=True)
        self.sample_tokens(None)
        self.execute_model([], warmup_mode=True)

    def warmup_unified_graphs(self, buckets, kv_cache):
        for index, bucket in enumerate(reversed(buckets)):
            self.graphed_buckets.add(bucket)
            self.log_warmup("Unified CFG", index, len(buckets), *bucket)
            self._prepare_dummy_unified_scenario(bucket)

    def _prepare_dummy_unified_scenario(self, unified_cfg):
        self._check_unified_config(unified_cfg, None, True)

    def _get_unified_config(self, attn_metadata, logits_indices):
        query, shared, unique, causal = attn_metadata
        flags = ("c" if causal else "-") + ("s" if shared else "-")
        return flags + ("u" if unique else "-"), query, shared, unique, 4

    def _check_unified_config(self, attn_metadata, logits_indices, warmup_mode):
        config = self._get_unified_config(attn_metadata, logits_indices)
        if config not in self.seen_configs:
            DEVICE.compile()
        self.seen_configs.add(config)
        work()

    def warmup_defragmenter(self):
        if not self.defragmenter.enabled:
            return
        thresholds = self.defragmenter.to_swap_pad_thresholds
        log.info(
            f"{self.source}:3428",
            f"Warming up defragmenter with thresholds: {thresholds}",
        )
        blocks = self.defragmenter.cache_utils.kv_caches[0][0].shape[0]
        if blocks // self.block_size < 2:
            log.warning(
                f"{self.source}:3430",
                "Skipping defragmenter warmup, insufficient blocks "
                f"({blocks // self.block_size})",
            )
            return
        for threshold in [*thresholds, thresholds[0]]:
            self.defragmenter.cache_utils.swap([(1, 0)], threshold)
        log.info(f"{self.source}:3440", "Defragmenter warmup completed successfully")

    def warmup_pooler(self):
        work()

    def log_warmup_multimodal(self, phase, i, max_i, batch_size, seq_len, img_args):
        log.info(
            f"{self.source}:12",
            f"[Warmup][{phase}][{i + 1}/{max_i}] batch_size:{batch_size} "
            f"seq_len:{seq_len} num_patches:{img_args} free_mem:90 GiB",
        )

    def warmup_multimodal_graphs(self, buckets):
        for index, patches in enumerate(buckets):
            work()
            self.log_warmup_multimodal(
                "Graph/Multimodal", index, len(buckets), 1, 1024, patches
            )

    def warmup_model(self):
        manager = self.bucketing_manager
        if self.unified_attn:
            manager.generate_unified_buckets()
        else:
            manager.generate_prompt_buckets()
            manager.generate_decode_buckets()
        self.defragmenter.initialize(self.kv_caches, self.block_size)
        self.timed_warmup(self._warm_up_parts)

    def _warm_up_parts(self):
        manager = self.bucketing_manager
        if MULTIMODAL:
            log.info(f"{self.source}:13", f"Multimodal bucket : {MULTIMODAL}")
            self.warmup_multimodal_graphs(MULTIMODAL)
        self.warmup_sampler()
        self.warmup_defragmenter()
        if self.unified_attn:
            self.warmup_unified_graphs(manager.unified_buckets, self.kv_caches)
            return
        prompt, _, _ = self.warmup_graphs(manager.prompt_buckets, True, self.kv_caches)
        decode, _, _ = self.warmup_graphs(manager.decode_buckets, False, self.kv_caches)
        self.log_graph_warmup_summary(manager.prompt_buckets, True, prompt)
        self.log_graph_warmup_summary(manager.decode_buckets, False, decode)

    def execute_model(self, scheduler_output, warmup_mode=False):
        if scheduler_output:
            self.scheduler_output = scheduler_output
            self.warmup_mode = warmup_mode

    def sample_tokens(self, grammar_output):
        scheduled, self.scheduler_output = self.scheduler_output, None
        warmup_mode, self.warmup_mode = self.warmup_mode, False
        self.run_step(scheduled, warmup_mode)
        return [sum(query for query, _ in scheduled)]

    def profile_run(self):
        """Nothing to profile."""


MULTIMODAL = []
"""Patches to warm up, set by a test."""
