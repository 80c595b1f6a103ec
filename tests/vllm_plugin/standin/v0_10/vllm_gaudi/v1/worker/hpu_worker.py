"""Stand-in for `vllm_gaudi/v1/worker/hpu_worker.py` of v0.10."""

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

    def execute_model(self, scheduler_output):
        self.tokens = self.model_runner.execute_model(scheduler_output)

    def sample_tokens(self, grammar_output):
        """The executor of the stand-in asks for it; this version has no such call."""
        return self.tokens
