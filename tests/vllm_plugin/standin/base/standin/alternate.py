"""Warm-ups with the hooks off and on, in turns, in one process; prints their seconds.

For `benchmarks/plugin.py`. One process, because two differ by more than the plugin
costs. The number of rounds is the argument.
"""

from __future__ import annotations

import contextlib
import gc
import importlib
import json
import os
import sys
import time

LOADED = ("asyncio", "msgspec", "subprocess", "importlib.metadata", "shlex")
"""Modules that every real engine has loaded."""
OBJECTS = 700_000
"""What the collector finds in a process with vLLM and torch, counted there."""
WRITER_S = 4.0
"""In which the writer starts, as it does while a real engine loads its model."""


def warm_up():
    """One warm-up of a new model runner: seconds, and seconds of the processor."""
    from vllm.config import VllmConfig
    from vllm_gaudi.v1.worker.hpu_model_runner import HPUModelRunner

    from standin import Bag

    runner = HPUModelRunner(VllmConfig())
    runner.initialize_kv_cache(Bag(num_blocks=64, kv_cache_groups=[]))
    gc.collect()
    started, started_cpu = time.perf_counter(), time.thread_time()
    runner.warmup_model()
    return time.perf_counter() - started, time.thread_time() - started_cpu


def main():
    for name in LOADED:
        importlib.import_module(name)
    ballast = [[[]] for _ in range(OBJECTS // 2)]
    importlib.import_module("habana_frameworks.torch.hpu.metrics")
    from warmup_insights.vllm_plugin import attach as starting
    from warmup_insights.vllm_plugin import register

    register()
    running = starting._running
    running.session.begin_run()
    time.sleep(WRITER_S)
    found = {"off": [], "on": []}
    with open(os.devnull, "w") as nowhere, contextlib.redirect_stdout(nowhere):
        for _ in range(int(sys.argv[1])):
            running.detach()
            found["off"].append(warm_up())
            running.attach()
            found["on"].append(warm_up())
    ballast.clear()
    print(json.dumps(found))


if __name__ == "__main__":
    main()
