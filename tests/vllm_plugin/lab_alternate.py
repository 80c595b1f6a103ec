"""Warm-ups of a real engine with the hooks off and on, in turns, in one process.

One process, because two differ by more than the plugin costs. Runs in the environment of
the engine; its argument is JSON: `engine` (arguments of `LLM`), `rounds`, `result` (the
file for seconds of the clock and of the thread's processor time, by turn).
"""

from __future__ import annotations

import gc
import json
import sys
import time
from pathlib import Path


def warm_up(runner):
    """Warm up as if for the first time: seconds, and those of the processor."""
    runner.graphed_buckets.clear()
    gc.collect()
    started, started_cpu = time.perf_counter(), time.thread_time()
    runner.warmup_model()
    return time.perf_counter() - started, time.thread_time() - started_cpu


def main():
    asked = json.loads(sys.argv[1])
    # Before vLLM: this is what adds the device to torch.
    import habana_frameworks.torch  # noqa: F401
    from vllm import LLM

    from warmup_insights.vllm_plugin import start as starting

    llm = LLM(
        load_format="dummy",
        skip_tokenizer_init=True,
        dtype="bfloat16",
        seed=0,
        **asked["engine"],
    )
    runner = llm.llm_engine.model_executor.driver_worker.worker.model_runner
    running = starting._running
    found = {"off": [], "on": []}
    for _ in range(asked["rounds"]):
        running.instrumentation.detach()
        found["off"].append(warm_up(runner))
        running.instrumentation.attach()
        running.session.state.warmed.clear()
        found["on"].append(warm_up(runner))
    Path(asked["result"]).write_text(json.dumps(found), encoding="utf-8")


if __name__ == "__main__":
    main()
