"""The CPU worker of vLLM: device, KV cache, compilation and its cache.

The classes here make the calls of vLLM 0.32 in their order.
"""

from __future__ import annotations

from types import SimpleNamespace

import pytest

from tests.vllm_plugin.listening import fields, of_kind, session_with_list, watch_class
from warmup_insights.testing import folded
from warmup_insights.vllm_plugin import workers

GIB = 2**30
MODE = SimpleNamespace(name="DYNAMO_TRACE_ONCE")


def make_worker(path, *, is_set=True, mode=MODE, loads=False):
    """A worker and its runner, watched, and the events of the session."""
    session, events = session_with_list()

    class Decorated:
        def aot_compile(self):
            return "compiled"

    def _try_load_aot_compiled_fn(model, aot_compilation_path):
        return "loaded" if loads else None

    module = SimpleNamespace(_try_load_aot_compiled_fn=_try_load_aot_compiled_fn)

    class Runner:
        vllm_config = SimpleNamespace(compilation_config=SimpleNamespace(mode=mode))

        def profile_run(self):
            if module._try_load_aot_compiled_fn(self, str(path)) is None:
                Decorated().aot_compile()

        def warming_up_model(self):
            self.profile_run()

    class Worker:
        cache_config = SimpleNamespace(
            kv_cache_memory_bytes=GIB if is_set else None, gpu_memory_utilization=0.5
        )
        requested_cpu_memory = 8 * GIB

        def __init__(self, vllm_config=None, rank=0):
            pass

        def init_device(self):
            pass

        def determine_available_memory(self):
            Runner().warming_up_model()
            return GIB

    watch_class(session, Decorated, aot_compile=workers.compile_aot)
    watch_class(session, module, _try_load_aot_compiled_fn=workers.load_aot)
    watch_class(
        session,
        Runner,
        profile_run=workers.profile_run,
        warming_up_model=workers.cpu_warm_up,
    )
    watch_class(
        session,
        Worker,
        __init__=workers.cpu_init,
        init_device=workers.worker_device,
        determine_available_memory=workers.cpu_memory,
    )
    return Worker(), events


def test_a_first_start_compiles_in_the_warm_up(tmp_path):
    path = tmp_path / "torch_aot_compile" / ("0a" * 32) / "rank_0_0" / "model"
    worker, events = make_worker(path)
    worker.init_device()
    worker.determine_available_memory()
    [budget] = of_kind(events, "memory_budget_set")
    assert fields(budget) == {
        "kv_cache_bytes": GIB,
        "total_bytes": 16 * GIB,
        "gpu_memory_utilization": 0.5,
    }
    summary = folded(events, source_kind="recorder").summary
    assert summary.device.kind == "cpu"
    assert (summary.start.kind, summary.start.caches) == ("cold", {"aot": "missed"})
    assert summary.start.aot_reason is None
    assert summary.compile.aot_hash == "0a" * 32
    assert summary.compile.seconds is not None
    phases = {event.name for event in of_kind(events, "phase_marked")}
    assert phases >= {"init_device", "model_warmup"}
    assert "profile_run" not in phases


def test_a_saved_function_that_does_not_load_is_told(tmp_path):
    (tmp_path / "model").write_bytes(b"x")
    worker, events = make_worker(tmp_path / "model")
    worker.determine_available_memory()
    start = folded(events, source_kind="recorder").summary.start
    assert (start.kind, start.caches) == ("cold", {"aot": "missed"})
    assert start.aot_reason == "the log states why"


def test_a_saved_function_that_loads_makes_a_warm_start(tmp_path):
    worker, events = make_worker(tmp_path / "model", loads=True)
    worker.determine_available_memory()
    start = folded(events, source_kind="recorder").summary.start
    assert (start.kind, start.caches) == ("warm", {"aot": "hit"})


def test_a_share_of_the_memory_is_recorded_where_no_size_was_set(tmp_path):
    worker, events = make_worker(tmp_path / "model", is_set=False)
    worker.determine_available_memory()
    [budget] = of_kind(events, "memory_budget_set")
    assert fields(budget) == {
        "kv_cache_bytes": GIB,
        "usable_bytes": 8 * GIB,
        "total_bytes": 16 * GIB,
        "consumed_bytes": 7 * GIB,
        "gpu_memory_utilization": 0.5,
    }


def test_less_free_memory_than_the_share_is_the_failure_of_the_worker():
    """vLLM's server and engine core raise an error of their own, without the cause."""
    session, events = session_with_list()

    class CPUWorker:
        def __init__(self):
            raise ValueError(
                "Available memory on node 0 (2.0/16.0 GiB) on startup is less than desired "
                "CPU memory utilization (0.5, 8.0 GiB)."
            )

    watch_class(session, CPUWorker, __init__=workers.cpu_init)
    with pytest.raises(ValueError, match="less than desired"):
        CPUWorker()
    summary = folded(events, source_kind="recorder").summary
    assert summary.device.kind == "cpu"
    assert summary.failure.kind == "out_of_memory"
    assert summary.failure.phase == "start_workers"
    assert summary.failure.free_bytes == 2 * GIB


@pytest.mark.parametrize("mode", [None, SimpleNamespace(name="NONE")])
def test_without_compilation_there_is_no_warm_up(tmp_path, mode):
    worker, events = make_worker(tmp_path / "model", mode=mode)
    worker.determine_available_memory()
    names = [event.name for event in of_kind(events, "phase_marked")]
    assert "model_warmup" not in names
