"""Starts the stand-in engine and serves a few steps; what to do is in variables.

`STANDIN_STEPS` (JSON list of steps, each a list of [query, context]), `STANDIN_SET`
(JSON, `module:NAME` to value), `STANDIN_BREAK` (`module:name` that raises from now on),
`STANDIN_TWICE` (start a second engine), `STANDIN_EAGER`, `STANDIN_TP`,
`STANDIN_UNDRAINED` (the process that drains ends at once: events wait in their files).
"""

from __future__ import annotations

import gc
import importlib
import json
import os

STEPS = "[[[100, 0]], [[1, 1], [1, 9]], [[900, 3]], [[5000, 3]], [[1, 50]]]"


def fail(*args, **kwargs):
    raise LookupError("broken on purpose")


def prepare():
    """What a test changes in the stand-in, or in the plugin, of this process."""
    if os.environ.get("STANDIN_UNDRAINED"):
        from warmup_insights.vllm_plugin import session

        session._START = "raise SystemExit"
    for target, value in json.loads(os.environ.get("STANDIN_SET", "{}")).items():
        module, name = target.split(":")
        value = (
            [tuple(v) if isinstance(v, list) else v for v in value]
            if isinstance(value, list)
            else value
        )
        setattr(importlib.import_module(module), name, value)
    if target := os.environ.get("STANDIN_BREAK"):
        module, name = target.split(":")
        setattr(importlib.import_module(module), name, fail)


def run_engine():
    from vllm.config import VllmConfig
    from vllm.entrypoints.llm import LLM

    config = VllmConfig()
    config.parallel_config.tensor_parallel_size = int(os.environ.get("STANDIN_TP", "1"))
    config.model_config.enforce_eager = bool(os.environ.get("STANDIN_EAGER"))
    blocks = os.environ.get("STANDIN_BLOCKS")
    if blocks:
        config.cache_config.num_gpu_blocks_override = int(blocks)
    llm = LLM(config)
    steps = json.loads(os.environ.get("STANDIN_STEPS", STEPS))
    tokens = llm.generate([[tuple(request) for request in step] for step in steps])
    llm.shutdown()
    return tokens


def main():
    prepare()
    tokens = run_engine()
    if os.environ.get("STANDIN_TWICE"):
        tokens = [tokens, run_engine()]
    from standin import DEVICE

    print("TOKENS", json.dumps(tokens))
    print("WAITS", DEVICE.waits)
    print("FROZEN", gc.get_freeze_count())


if __name__ == "__main__":
    main()
