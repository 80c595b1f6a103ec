"""Stand-in for `vllm_gaudi/v1/worker/hpu_model_runner.py` of v0.10."""

from __future__ import annotations

from standin import maybe_fail
from standin.gaudi import Runner
from vllm.logger import log

from vllm_gaudi.extension.bucketing.common import HPUBucketingManager
from vllm_gaudi.extension.profiler import HabanaMemoryProfiler


class HPUModelRunner(Runner):
    profiler_class = HabanaMemoryProfiler
    phase_words = ("Graph/decode", "Graph/prompt")

    def make_bucketing_manager(self):
        manager = HPUBucketingManager()
        manager.initialize(4, 1, 128, 1024, self.max_model_len)
        return manager

    def _check_config(
        self, batch_size, seq_len, num_blocks, attn_metadata, warmup_mode
    ):
        phase = "prompt" if attn_metadata.is_prompt else "decode"
        config = (batch_size, seq_len, num_blocks, phase)
        if config not in self.seen_configs and not warmup_mode:
            log.warning(
                f"{self.source}:1372",
                f"Configuration: ({phase}, {batch_size}, {seq_len}, {num_blocks}) was "
                "not warmed-up!",
            )
        self.seen_configs.add(config)

    def _use_graphs(self):
        return not self.model_config.enforce_eager

    def use_graphs_of(self, attn_metadata, batch_size):
        return self._use_graphs()

    def log_warmup(self, phase, i, max_i, batch_size, seq_len, num_blocks):
        line = self.step_line(phase, i, max_i, batch_size, seq_len, num_blocks)
        log.info(f"{self.source}:1985", line)

    def warmup_scenario(
        self,
        batch_size,
        seq_or_block,
        num_blocks,
        is_prompt,
        kv_caches,
        is_pt_profiler_run=True,
    ):
        maybe_fail("bucket")
        phase = "prompt" if is_prompt else "decode"
        for _ in range(3):
            self._forward(phase, batch_size, seq_or_block, num_blocks, True)

    def warmup_graphs(
        self, buckets, is_prompt, kv_caches, starting_mem=0, total_batch_seq=0.001
    ):
        def run(batch_size, seq_len, blocks):
            self.warmup_scenario(batch_size, seq_len, blocks, is_prompt, kv_caches)

        return self.warmup_pass(buckets, is_prompt, starting_mem, run)

    def warmup_model(self):
        self.bucketing_manager.generate_prompt_buckets()
        self.bucketing_manager.generate_decode_buckets()
        self.timed_warmup(self._warm_up_parts)

    def _warm_up_parts(self):
        manager = self.bucketing_manager
        prompt, _, _ = self.warmup_graphs(manager.prompt_buckets, True, self.kv_caches)
        decode, _, _ = self.warmup_graphs(manager.decode_buckets, False, self.kv_caches)
        self.log_graph_warmup_summary(manager.prompt_buckets, True, prompt)
        self.log_graph_warmup_summary(manager.decode_buckets, False, decode)

    def execute_model(self, scheduler_output, warmup_mode=False):
        self.run_step(scheduler_output, warmup_mode)
        return [sum(query for query, _ in scheduler_output)]

    def profile_run(self):
        """Nothing to profile."""
