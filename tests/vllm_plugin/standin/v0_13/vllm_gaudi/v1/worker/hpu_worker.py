"""Stand-in for `vllm_gaudi/v1/worker/hpu_worker.py`, v0.11.2 to v0.16."""

from __future__ import annotations

from standin.gaudi import Worker

from vllm_gaudi.extension.profiler import HabanaMemoryProfiler
from vllm_gaudi.v1.worker.hpu_model_runner import HPUModelRunner


class HPUWorker(Worker):
    runner_class = HPUModelRunner
    profiler_class = HabanaMemoryProfiler

    def determine_available_memory(self):
        self.model_runner.profile_run()
        return self.measured()

    def initialize_from_config(self, kv_cache_config):
        self.allocated(kv_cache_config)
        self.compile_or_warm_up_model()

    def compile_or_warm_up_model(self):
        runner = self.model_runner
        if not self.model_config.enforce_eager and not runner.graphed_buckets:
            runner.warmup_model()

    def execute_model(self, scheduler_output):
        return self.model_runner.execute_model(scheduler_output)

    def sample_tokens(self, grammar_output):
        return self.model_runner.sample_tokens(grammar_output)
