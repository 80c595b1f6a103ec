"""Stand-in for `vllm_gaudi/v1/worker/hpu_model_runner.py` of v0.26."""

from __future__ import annotations

import os

from standin import maybe_fail, work
from standin.gaudi import Runner, Sampler
from vllm.logger import log

from vllm_gaudi.extension.bucketing.common import HPUBucketingManager
from vllm_gaudi.extension.defragmentation import OnlineDefragmenter
from vllm_gaudi.extension.profiler import HabanaMemoryProfiler
from vllm_gaudi.extension.runtime import finalize_config, get_config


class HPUModelRunner(Sampler, Runner):
    profiler_class = HabanaMemoryProfiler
    phase_words = ("Decode", "Prompt")
    keeps_history_apart = True

    def __init__(self, vllm_config, is_driver_worker=False):
        finalize_config()
        super().__init__(vllm_config, is_driver_worker)
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
        log.warning("debug.py:18", f"[fwd] {config}")
        if config not in self.seen_configs and not warmup_mode:
            log.warning(
                f"{self.source}:3588", f"Configuration: {config} was not warmed-up!"
            )
        self.seen_configs.add(config)

    def _use_graphs(self, attn_metadata, batch_size):
        return not (self.model_config.enforce_eager or os.environ.get("STANDIN_BYPASS"))

    def use_graphs_of(self, attn_metadata, batch_size):
        return self._use_graphs(attn_metadata, batch_size)

    def log_warmup(
        self, phase, i, max_i, first_dim, second_dim, third_dim, causal=False
    ):
        log.plain(self.step_line(phase, i, max_i, first_dim, second_dim, third_dim))

    def warmup_graphs(
        self, buckets, is_prompt, kv_caches, starting_mem=0, total_batch_seq=0.001
    ):
        def run(batch_size, seq_len, blocks):
            prompt = (batch_size, seq_len, blocks) if is_prompt else None
            decode = None if is_prompt else (batch_size, 1, blocks)
            self._prepare_dummy_scenario(prompt, decode)

        return self.warmup_pass(buckets, is_prompt, starting_mem, run)

    def _prepare_dummy_scenario(self, prompt_cfg, decode_cfg):
        requests = self.dummy_requests(prompt_cfg, decode_cfg, is_capped=True)
        self._execute_dummy_scenario(requests)

    def _execute_dummy_scenario(self, requests):
        maybe_fail("bucket")
        self.execute_model(requests, warmup_mode=True)
        self.sample_tokens(None)
        self.execute_model([], warmup_mode=True)

    def execute_model(self, scheduler_output, warmup_mode=False):
        if not warmup_mode:
            self.run_defragmenter(scheduler_output)
        if scheduler_output:
            self.scheduler_output = scheduler_output
            self.warmup_mode = warmup_mode

    def run_defragmenter(self, scheduler_output):
        self.defragmenter.update_state(
            {str(index): blocks for index, blocks in enumerate(BLOCKS.pop(0))}
            if BLOCKS
            else {},
            [],
        )
        self.defragmenter.defragment()

    def sample_tokens(self, grammar_output):
        scheduled, self.scheduler_output = self.scheduler_output, None
        warmup_mode, self.warmup_mode = self.warmup_mode, False
        if not warmup_mode:
            maybe_fail("serving")
        self.run_step(scheduled, warmup_mode)
        return [sum(query for query, _ in scheduled)]

    def log_warmup_multimodal(self, phase, i, max_i, batch_size, seq_len, w, h):
        free = 95
        log.info(
            f"{self.source}:12",
            f"[Warmup][{phase}][{i + 1}/{max_i}] batch_size:{batch_size} "
            f"seq_len:{seq_len} resolution:{w}X{h} free_mem:{free} GiB",
        )

    def warmup_multimodal_graphs(self, buckets):
        for index, (width, height) in enumerate(buckets):
            work()
            self.log_warmup_multimodal(
                "Graph/Multimodal(image)", index, len(buckets), 1, 0, width, height
            )

    def warmup_pooler(self):
        work()

    def warmup_model(self):
        manager = self.bucketing_manager
        manager.generate_prompt_buckets()
        manager.generate_decode_buckets()
        self.defragmenter = OnlineDefragmenter(self.kv_caches, self.block_size)
        self.timed_warmup(self._warm_up_parts)
        self.defragmenter = OnlineDefragmenter(self.kv_caches, self.block_size)

    def _warm_up_parts(self):
        manager = self.bucketing_manager
        if MULTIMODAL:
            log.info(
                f"{self.source}:13",
                f"Using explicit multimodal warmup resolutions (WxH): {MULTIMODAL}",
            )
            self.warmup_multimodal_graphs(MULTIMODAL)
        if self.model_config.enforce_eager:
            return
        self.warmup_sampler()
        self.defragmenter.warmup()
        memory, _, _ = self.warmup_graphs(manager.prompt_buckets, True, self.kv_caches)
        self.log_graph_warmup_summary(manager.prompt_buckets, True, memory)
        memory, _, _ = self.warmup_graphs(manager.decode_buckets, False, self.kv_caches)
        self.log_graph_warmup_summary(manager.decode_buckets, False, memory)
        if VALIDATION:
            log.info(
                f"{self.source}:14",
                "Running validation warmup to trigger guard specializations...",
            )
            self.graphed_buckets.clear()
            self.warmup_graphs(manager.prompt_buckets[-2:], True, self.kv_caches)
            log.info(f"{self.source}:15", "Validation warmup complete.")

    def profile_run(self, initialize_only=False):
        assert get_config() is not None


MULTIMODAL = []
"""Resolutions to warm up, set by a test."""
VALIDATION = False
"""Repeat the largest buckets at the end, like with heterogeneous layers."""
BLOCKS = []
"""Per served step, the blocks that are in use from then on."""
