"""Stand-in for `vllm/entrypoints/llm.py`: plugins are loaded inside of the constructor."""

from __future__ import annotations

from vllm.v1.engine.llm_engine import LLMEngine


class LLM:
    def __init__(self, vllm_config):
        from vllm.plugins import load_general_plugins

        load_general_plugins()
        self.llm_engine = LLMEngine(vllm_config)

    def generate(self, steps):
        """Serve steps, each a list of (query length, context blocks)."""
        return [self.llm_engine.step(requests) for requests in steps]

    def shutdown(self):
        self.llm_engine.shutdown()
