"""Warm-ups of a real engine with the hooks off and on, in turns, in one process.

One process, because two differ by more than the plugin costs. Runs in the environment of
the engine; its argument is JSON: `engine` (arguments of `LLM`), `rounds`, `result`. That
file gets a row for each warm-up: whether the hooks were on, seconds of the clock, and of
processor time of the engine's thread, of the plugin's code in it, of the plugin's thread.
"""

from __future__ import annotations

import gc
import json
import sys
import threading
import time
from pathlib import Path


class Meter:
    """Processor time of the plugin's code around the engine's calls."""

    def __init__(self, attachment_class):
        self.spent_s = 0.0
        for name in ("_enter", "_leave"):
            method = getattr(attachment_class, name)
            setattr(attachment_class, name, self._timed(method))

    def _timed(self, method):
        def timed(*arguments):
            started = time.thread_time()
            try:
                return method(*arguments)
            finally:
                self.spent_s += time.thread_time() - started

        return timed


def recorder_s():
    """Processor time of the thread that hands events over."""
    threads = [t for t in threading.enumerate() if "warmup-insights" in t.name]
    clocks = [time.pthread_getcpuclockid(thread.ident) for thread in threads]
    return sum(map(time.clock_gettime, clocks))


def warm_up(runner, meter):
    """Warm up as if for the first time; a row of the result."""
    runner.graphed_buckets.clear()
    gc.unfreeze()  # vLLM has frozen everything when it was ready
    gc.collect()
    before = time.perf_counter(), time.thread_time(), meter.spent_s, recorder_s()
    runner.warmup_model()
    after = time.perf_counter(), time.thread_time(), meter.spent_s, recorder_s()
    return [end - begin for begin, end in zip(before, after, strict=True)]


def main():
    asked = json.loads(sys.argv[1])
    # Before vLLM: this is what adds the device to torch.
    import habana_frameworks.torch  # noqa: F401
    from vllm import LLM

    from warmup_insights.vllm_plugin import attach as starting
    from warmup_insights.vllm_plugin.hooks import Attachment

    meter = Meter(Attachment)
    llm = LLM(
        load_format="dummy",
        skip_tokenizer_init=True,
        dtype="bfloat16",
        seed=0,
        **asked["engine"],
    )
    runner = llm.llm_engine.model_executor.driver_worker.worker.model_runner
    running = starting._running
    rows = []
    for _ in range(asked["rounds"]):
        running.detach()
        rows.append((False, *warm_up(runner, meter)))
        running.attach()
        running.session.state.warmed.clear()
        rows.append((True, *warm_up(runner, meter)))
    Path(asked["result"]).write_text(json.dumps(rows), encoding="utf-8")


if __name__ == "__main__":
    main()
