"""The CPU worker of vLLM V1: its device, its KV cache, the run that compiles the model.

Source: vLLM `v1/worker/cpu_worker.py`, `v1/worker/cpu_model_runner.py`.
"""

from __future__ import annotations

from warmup_insights.model.events import ConfigRecorded, MemoryBudgetSet
from warmup_insights.vllm_plugin.calls import Call, Watch, bytes_of
from warmup_insights.vllm_plugin.session import Session


def worker_device(session: Session, call: Call) -> Watch:
    """`CPUWorker.init_device`."""
    yield from session.watch_phase("init_device")
    session.emit(ConfigRecorded, device_kind="cpu")


def determine_memory(session: Session, call: Call) -> Watch:
    """`CPUWorker.determine_available_memory`: the size that was set, else what is left of
    a share of the host's memory."""
    outcome = yield
    session.note_failure(outcome, phase="profile_run")
    if outcome.error is not None or not isinstance(outcome.result, int | float):
        return
    worker = call.owner
    config = getattr(worker, "cache_config", None)
    is_set = getattr(config, "kv_cache_memory_bytes", None) is not None
    session.emit(
        MemoryBudgetSet,
        usable_bytes=None if is_set else bytes_of(worker, "requested_cpu_memory"),
        kv_cache_bytes=int(outcome.result),
    )


def warm_up(session: Session, call: Call) -> Watch:
    """`CPUModelRunner.warming_up_model`: a profiling run, for the compilation that it
    starts; without compilation it does nothing."""
    config = getattr(call.owner, "vllm_config", None)
    mode = getattr(getattr(config, "compilation_config", None), "mode", None)
    if getattr(mode, "name", "NONE") == "NONE":
        return
    session.state.is_compiling_run = True
    yield from session.watch_phase("model_warmup")
    session.state.is_compiling_run = False
