"""Stand-in for `vllm/v1/engine/core.py`."""

from __future__ import annotations

import time

import vllm
from vllm.logger import log
from vllm.v1.core.kv_cache_utils import get_kv_cache_configs
from vllm.v1.executor.abstract import MultiprocExecutor, UniProcExecutor


class EngineCore:
    """Loads the plugins first, like the real one."""

    def __init__(self, vllm_config):
        from vllm.plugins import load_general_plugins

        load_general_plugins()
        self.vllm_config = vllm_config
        model = vllm_config.model_config
        log.info("model.py:623", f"Resolved architecture: {model.architecture}")
        log.info(
            "core.py:116",
            f"Initializing a V1 LLM engine (v{vllm.__version__}) with config: "
            f"model='{model.model}', max_seq_len={model.max_model_len}, "
            f"tokenizer_mode={model.tokenizer_mode}, "
            f"tensor_parallel_size={vllm_config.parallel_config.world_size}, "
            f"observability_config={vllm_config.observability_config!r}, "
            f"compilation_config={vllm_config.compilation_config!r}",
        )
        many = vllm_config.parallel_config.world_size > 1
        executor_class = MultiprocExecutor if many else UniProcExecutor
        self.executor = executor_class(vllm_config)
        self._initialize_kv_caches(vllm_config)

    def _initialize_kv_caches(self, vllm_config):
        start = time.time()
        available = self.executor.call("determine_available_memory")
        config = get_kv_cache_configs(vllm_config, available)
        self.executor.call("initialize_from_config", config)
        # The executor asks for the warm-up too, after the worker did it already.
        self.executor.call("compile_or_warm_up_model")
        log.info(
            "core.py:347",
            "init engine (profile, create kv cache, warmup model) took "
            f"{time.time() - start:.2f} s",
        )

    def step(self, requests):
        """One step: `requests` are (query length, context blocks) of this step."""
        self.executor.call("execute_model", requests)
        return self.executor.call("sample_tokens", None)[0]

    def shutdown(self):
        self.executor.shutdown()


class EngineCoreProc(EngineCore):
    """One in a process of its own."""

    def _send_engine_dead(self):
        """The end of the pipe is the sign of it."""


def run_in_process(vllm_config, pipe):
    """The engine in a process of its own."""
    from vllm.logger import name_process

    name_process("EngineCore")
    try:
        engine = EngineCoreProc(vllm_config)
    except Exception as error:
        pipe.send(error)
        raise
    pipe.send(None)
    while (requests := pipe.recv()) is not None:
        pipe.send(engine.step(requests))
    engine.shutdown()
