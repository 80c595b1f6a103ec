"""Stand-in for `vllm/v1/engine/llm_engine.py`: the engine here, or in a process."""

from __future__ import annotations

import multiprocessing
import os

from vllm.v1.engine.core import EngineCore, run_in_process
from vllm.v1.engine.utils import launch_core_engines


class LLMEngine:
    def __init__(self, vllm_config, executor_class=None, log_stats=False):
        self._core = self._process = None
        if os.environ.get("VLLM_ENABLE_V1_MULTIPROCESSING", "1") == "0":
            self._core = EngineCore(vllm_config)
            return
        method = os.environ.get("VLLM_WORKER_MULTIPROC_METHOD", "spawn")
        context = multiprocessing.get_context(method)
        self._pipe, theirs = context.Pipe()
        self._process = context.Process(
            target=run_in_process, args=(vllm_config, theirs)
        )
        self._process.start()
        theirs.close()
        launch_core_engines(self._pipe, self._process)

    def step(self, requests):
        if self._core is not None:
            return self._core.step(requests)
        self._pipe.send(requests)
        return self._pipe.recv()

    def shutdown(self):
        if self._core is not None:
            self._core.shutdown()
        else:
            self._pipe.send(None)
            self._process.join(10)
