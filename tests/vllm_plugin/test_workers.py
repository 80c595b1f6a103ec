"""Upstream vLLM: memory, both model runners' graph capture, compilation, ready.

The classes here make the calls of vLLM 0.13 to 0.33 in their order; no device is used.
"""

from __future__ import annotations

import asyncio
import sys
import time
from types import SimpleNamespace

import pytest
from packaging.version import Version

from tests.vllm_plugin.listening import (
    fields,
    of_kind,
    session_with_list,
    watch_class,
)
from tests.vllm_plugin.standin_config import config_of
from warmup_insights.testing import folded
from warmup_insights.vllm_plugin import device, engine_core, workers
from warmup_insights.vllm_plugin.calls import Call, Outcome

MIB = 2**20


class Memory:
    """A device of which graphs take memory."""

    def __init__(self):
        self.free = 1000 * MIB

    def take(self, num_bytes):
        self.free -= num_bytes


@pytest.fixture
def memory(monkeypatch):
    memory = Memory()
    monkeypatch.setattr(device, "free_and_total", lambda: (memory.free, 2000 * MIB))
    return memory


@pytest.fixture
def listened():
    return session_with_list()


NONE, PIECEWISE, FULL = (SimpleNamespace(name=n) for n in ("NONE", "PIECEWISE", "FULL"))


def make_runner_v1(memory):
    class Runner:
        """`GPUModelRunner` of model runner V1."""

        def __init__(self):
            self.fails_at = None

        def capture_model(self):
            before = memory.free
            for mode, uniform, sizes in (
                (PIECEWISE, False, (8, 4)),
                (FULL, True, (2,)),
            ):
                for size in sizes:
                    self._dummy_run(size, cudagraph_runtime_mode=NONE)
                    self._dummy_run(size, mode, uniform_decode=uniform)
            return before - memory.free

        def _dummy_run(
            self, num_tokens, cudagraph_runtime_mode=None, uniform_decode=False
        ):
            if num_tokens == self.fails_at:
                raise RuntimeError("CUDA out of memory")
            if cudagraph_runtime_mode is not NONE:
                memory.take(num_tokens * MIB)

        def profile_cudagraph_memory(self):
            self._dummy_run(8, FULL)
            self.capture_model()
            return 77 * MIB

        def profile_run(self):
            self._dummy_run(8)

    return Runner


def watch_runner_v1(session, memory):
    runner = make_runner_v1(memory)
    watch_class(
        session,
        runner,
        capture_model=workers.capture_model,
        _dummy_run=workers.dummy_run,
        profile_cudagraph_memory=workers.estimate_graphs,
        profile_run=workers.profile_run,
    )
    return runner()


def test_each_graph_of_runner_v1(listened, memory):
    session, events = listened
    watch_runner_v1(session, memory).capture_model()
    graphs = of_kind(events, "graph_captured")
    assert [(g.mode, g.phase, g.bucket, g.memory_bytes, g.index) for g in graphs] == [
        ("PIECEWISE", "mixed", (8,), 8 * MIB, 1),
        ("PIECEWISE", "mixed", (4,), 4 * MIB, 2),
        ("FULL", "decode", (2,), 2 * MIB, 3),
    ]
    (total,) = of_kind(events, "graphs_captured")
    assert (total.count, total.memory_bytes) == (3, 14 * MIB)
    assert total.duration_s >= sum(graph.duration_s for graph in graphs)


def test_estimates_and_profiling_are_no_captures(listened, memory):
    session, events = listened
    runner = watch_runner_v1(session, memory)
    runner.profile_run()
    runner.profile_cudagraph_memory()
    assert of_kind(events, "graph_captured") == []
    assert of_kind(events, "graphs_captured") == []
    (estimate,) = of_kind(events, "graph_memory_estimated")
    assert estimate.estimated_bytes == 77 * MIB
    names = [mark.name for mark in of_kind(events, "phase_marked")]
    assert names == ["profile_run"] * 2 + ["graph_memory_profile"] * 2


def test_out_of_memory_during_capture(listened, memory):
    session, events = listened
    runner = watch_runner_v1(session, memory)
    runner.fails_at = 2
    with pytest.raises(RuntimeError):
        runner.capture_model()
    assert len(of_kind(events, "graph_captured")) == 2
    (failure,) = of_kind(events, "failure")
    assert (failure.failure, failure.phase) == ("out_of_memory", "graph_capture")
    assert session.state.capturing is None


def make_manager_v2(
    memory, *, breakable=False, surprise=False, calls_per_full=2, splits=False
):
    functions = SimpleNamespace()

    def prepare_inputs_to_capture(num_reqs, num_tokens, model_state):
        return num_reqs

    functions.prepare_inputs_to_capture = prepare_inputs_to_capture

    class Manager:
        """`CudaGraphManager` of model runner V2."""

        def __init__(self):
            self.use_breakable_cg = breakable
            self.vllm_config = SimpleNamespace(
                parallel_config=SimpleNamespace(use_ubatching=splits)
            )
            self._capture_descs = {
                FULL_KEY: [describe(4, 1), describe(2, 1)],
                PIECEWISE_KEY: [describe(8, None), describe(4, None)],
            }

        def capture(self, create_forward_fn=None):
            for key in (PIECEWISE_KEY, FULL_KEY):
                for descriptor in self._capture_descs[key]:
                    tokens = descriptor.num_tokens + (100 if surprise else 0)
                    twice = key is FULL_KEY or self.use_breakable_cg
                    calls = 0 if splits else calls_per_full if twice else 1
                    for _ in range(calls):
                        functions.prepare_inputs_to_capture(1, tokens, None)
                    memory.take(descriptor.num_tokens * MIB)

    class Runner:
        def __init__(self):
            self.manager = Manager()

        def capture_model(self, *, profile_only=False):
            before = memory.free
            self.manager.capture()
            return before - memory.free

    return functions, Manager, Runner


class Mode:
    """A member of an enumeration: can be a key, has a name."""

    def __init__(self, name):
        self.name = name


FULL_KEY, PIECEWISE_KEY = Mode("FULL"), Mode("PIECEWISE")


def describe(num_tokens, uniform):
    return SimpleNamespace(num_tokens=num_tokens, uniform_token_count=uniform)


def capture_v2(session, memory, **options):
    functions, manager, runner = make_manager_v2(memory, **options)
    watch_class(session, manager, capture=workers.capture_all)
    watch_class(session, runner, capture_model=workers.capture_model)
    watch_class(session, functions, prepare_inputs_to_capture=workers.prepare_inputs)
    runner().capture_model()


@pytest.mark.parametrize("breakable", [False, True])
def test_each_graph_of_runner_v2(listened, memory, breakable):
    session, events = listened
    capture_v2(session, memory, breakable=breakable)
    graphs = of_kind(events, "graph_captured")
    assert [(g.mode, g.phase, g.bucket, g.memory_bytes) for g in graphs] == [
        ("PIECEWISE", "mixed", (8,), 8 * MIB),
        ("PIECEWISE", "mixed", (4,), 4 * MIB),
        ("FULL", "decode", (4,), 4 * MIB),
        ("FULL", "decode", (2,), 2 * MIB),
    ]
    (total,) = of_kind(events, "graphs_captured")
    assert (total.count, total.memory_bytes) == (4, 18 * MIB)


@pytest.mark.parametrize(
    "options",
    [{"surprise": True}, {"calls_per_full": 1}, {"splits": True}],
    ids=["other sizes", "inputs prepared once", "batches split in two"],
)
def test_a_count_of_graphs_that_is_not_certain_is_unknown(listened, memory, options):
    session, events = listened
    capture_v2(session, memory, **options)
    graphs = of_kind(events, "graph_captured")
    assert {graph.mode for graph in graphs} <= {"PIECEWISE"}
    (total,) = of_kind(events, "graphs_captured")
    assert (total.count, total.memory_bytes) == (None, 18 * MIB)


def test_before_0_21_single_graphs_of_runner_v2_are_not_told(
    listened, memory, monkeypatch
):
    """Graphs of equal size would look like the two calls for one."""
    session, events = listened
    monkeypatch.setattr(workers, "installed_version", lambda _: Version("0.19.0"))
    capture_v2(session, memory, calls_per_full=1)
    assert of_kind(events, "graph_captured") == []
    (total,) = of_kind(events, "graphs_captured")
    assert (total.count, total.memory_bytes) == (None, 18 * MIB)


def test_graphs_that_are_captured_unseen_are_not_none(listened, memory):
    session, events = listened

    class Runner:
        def __init__(self, num_bytes):
            self.num_bytes = num_bytes

        def capture_model(self):
            return self.num_bytes

    watch_class(session, Runner, capture_model=workers.capture_model)
    Runner(5 * MIB).capture_model()
    Runner(0).capture_model()
    counts = [total.count for total in of_kind(events, "graphs_captured")]
    assert counts == [None, 0]


class Worker:
    """`Worker` of `gpu_worker.py`."""

    def __init__(self, vllm_config, local_rank, rank, method, is_driver_worker=False):
        self.vllm_config = vllm_config
        self.cache_config = SimpleNamespace(gpu_memory_utilization=0.9, block_size=16)
        self.model_runner = SimpleNamespace(model_memory_usage=5.5 * MIB)

    def init_device(self):
        self.init_snapshot = SimpleNamespace(
            total_memory=2000 * MIB, free_memory=1900 * MIB
        )
        self.requested_memory = 1800.0 * MIB

    def load_model(self, *, load_dummy_weights=False):
        return None

    def determine_available_memory(self):
        self.peak_activation_memory, self.non_torch_memory = 100 * MIB, 20 * MIB
        return 1000 * MIB

    def initialize_from_config(self, kv_cache_config):
        return None

    def compile_or_warm_up_model(self):
        return SimpleNamespace(language_model=12.5, encoder=0.5)


def test_a_model_without_a_kv_cache_has_no_blocks(listened, memory):
    """One block stands for none (`get_kv_cache_config_from_groups`)."""
    session, events = listened
    watch_class(session, Worker, initialize_from_config=workers.initialize_cache)
    gpu = Worker(config_of(), 0, 0, "tcp://x")
    gpu.initialize_from_config(SimpleNamespace(num_blocks=1, kv_cache_groups=[]))
    assert of_kind(events, "kv_cache_allocated") == []


def test_the_worker_from_start_to_warm(listened, memory):
    session, events = listened
    watch_class(
        session,
        Worker,
        __init__=workers.worker_init,
        init_device=workers.worker_device,
        load_model=workers.load_model,
        determine_available_memory=workers.determine_memory,
        initialize_from_config=workers.initialize_cache,
        compile_or_warm_up_model=workers.warm_up,
    )
    config = config_of(world_size=4, data_parallel_rank=1)
    gpu = Worker(config, 2, 2, "tcp://x")
    gpu.init_device()
    gpu.load_model()
    gpu.determine_available_memory()
    spec = SimpleNamespace(block_size=16)
    groups = [SimpleNamespace(kv_cache_spec=spec)]
    gpu.initialize_from_config(SimpleNamespace(num_blocks=100, kv_cache_groups=groups))
    gpu.compile_or_warm_up_model()
    assert {event.rank for event in events} == {6}
    (budget,) = of_kind(events, "memory_budget_set")
    assert fields(budget) == {
        "rank": 6,
        "total_bytes": 2000 * MIB,
        "free_bytes": 1900 * MIB,
        "usable_bytes": 1800 * MIB,
        "gpu_memory_utilization": 0.9,
        "weights_bytes": int(5.5 * MIB),
        "activation_bytes": 100 * MIB,
        "non_torch_bytes": 20 * MIB,
        "kv_cache_bytes": 1000 * MIB,
    }
    (blocks,) = of_kind(events, "kv_cache_allocated")
    assert (blocks.num_blocks, blocks.num_tokens) == (100, 1600)
    compiled = of_kind(events, "compile_finished")
    assert [(e.what, e.duration_s) for e in compiled] == [
        ("total", 12.5),
        ("encoder", 0.5),
    ]
    (finished,) = of_kind(events, "warmup_finished")
    assert finished.allocated_bytes == 0
    marks = [(m.name, m.edge) for m in of_kind(events, "phase_marked")]
    assert marks == [
        (name, edge)
        for name in ("init_device", "load_model", "kv_cache", "warmup")
        for edge in ("start", "end")
    ]


@pytest.mark.parametrize(
    ("version", "tokens"), [("0.20.1", None), ("0.20.2", 1725), ("0.26.0", 1725)]
)
def test_tokens_of_the_cache_are_those_of_whole_requests(
    listened, monkeypatch, version, tokens
):
    """A request of 986 tokens takes 8 of 14 blocks of 128 tokens, which have 1792."""
    session, events = listened
    monkeypatch.setattr(
        engine_core.facts, "installed_version", lambda _: Version(version)
    )
    model = SimpleNamespace(max_model_len=986)
    call = Call(["vllm_config"], (SimpleNamespace(model_config=model),), {})
    watch = engine_core.concurrency(session, call)
    next(watch)
    with pytest.raises(StopIteration):
        watch.send(Outcome(14 / 8))
    (cache,) = of_kind(events, "kv_cache_allocated")
    assert (cache.num_tokens, cache.max_concurrency) == (tokens, 1.75)


def test_compilation_from_scratch_and_from_the_cache(listened):
    session, events = listened

    class Manager:
        """`CompilerManager`."""

        def __init__(self):
            self.cache = {1}

        def load(self, graph, inputs, graph_index, compile_range):
            return "graph" if graph_index in self.cache else None

        def compile(
            self, graph, inputs, inductor, config, compile_range, graph_index=0,
            num_graphs=1,
        ):  # fmt: skip
            return self.load(graph, inputs, graph_index, compile_range) or "compiled"

    watch_class(
        session, Manager, compile=workers.compile_graph, load=workers.load_graph
    )
    manager = Manager()
    sizes = SimpleNamespace(start=1, end=8192)
    assert manager.compile(None, [], {}, None, sizes, 0, 2) == "compiled"
    assert manager.compile(None, [], {}, None, sizes, 1, 2) == "graph"
    assert manager.compile(None, [], {}, None, 512) == "compiled"
    found = of_kind(events, "compile_finished")
    assert [(e.from_cache, e.detail) for e in found] == [
        (False, "sizes 1 to 8192, graph 1 of 2"),
        (True, "sizes 1 to 8192, graph 2 of 2"),
        (False, "size 512, graph 1 of 1"),
    ]


def test_a_graph_equal_to_an_earlier_one_is_neither_a_hit_nor_a_miss(listened):
    """vLLM takes the artifact that it has, and stores none (`StopCompiling`)."""
    session, events = listened

    class Manager:
        """`CompilerManager`: layers are equal, the first and the last graph are not."""

        def __init__(self, stored):
            self.stored, self.loaded_artifacts = stored, {}

        def load(self, graph, inputs, graph_index, compile_range):
            if graph_index not in self.stored:
                return None
            self.loaded_artifacts[graph] = "loaded"
            return "loaded"

        def compile(
            self, graph, inputs, inductor, config, compile_range, graph_index=0,
            num_graphs=1,
        ):  # fmt: skip
            found = self.load(graph, inputs, graph_index, compile_range)
            return found or self.loaded_artifacts.setdefault(graph, "compiled")

    watch_class(
        session, Manager, compile=workers.compile_graph, load=workers.load_graph
    )
    for stored, kind in ((set(), "missed"), ({0, 1, 4}, "hit"), ({0}, "partial")):
        events.clear()
        manager = Manager(stored)
        for index, graph in enumerate(["first", "layer", "layer", "layer", "last"]):
            manager.compile(graph, [], {}, None, 512, index, 5)
        found = of_kind(events, "compile_finished")
        assert [event.from_cache for event in found[2:4]] == [None, None]
        summary = folded(events, source_kind="recorder").summary
        assert summary.start.caches["torch_compile"] == kind


def test_kernels_compiled_while_serving_are_those_of_the_log(listened):
    """`_handle_jit_event` prints the line that the parser reads."""
    session, events = listened
    monitor = SimpleNamespace(
        _handle_jit_event=lambda *, backend, event, fn_name, detail=None: None
    )
    watch_class(session, monitor, _handle_jit_event=workers.compiled_late)
    monitor._handle_jit_event(
        backend="Triton", event="kernel JIT compilation", fn_name="_fwd_kernel",
        detail="BLOCK=64",
    )  # fmt: skip
    [event] = of_kind(events, "runtime_compile")
    assert (event.what, event.kernel, event.detail) == (
        "Triton kernel JIT compilation", "_fwd_kernel", "BLOCK=64",
    )  # fmt: skip


def test_the_two_warm_ups_of_a_worker_are_phases(listened):
    """`kernel_warmup` before the capture, `warmup_kernels` of model runner V2 after it."""
    session, events = listened
    module = SimpleNamespace(
        kernel_warmup=lambda worker: 1, warmup_kernels=lambda *_: 2
    )
    watch_class(
        session, module, kernel_warmup=workers.warm_kernels,
        warmup_kernels=workers.warm_model,
    )  # fmt: skip
    assert (module.kernel_warmup(None), module.warmup_kernels(1, 2, 3)) == (1, 2)
    marks = [(e.name, e.edge) for e in of_kind(events, "phase_marked")]
    assert marks == [
        (name, edge)
        for name in ("kernel_warmup", "model_warmup")
        for edge in ("start", "end")
    ]


@pytest.mark.parametrize("clock", [time.perf_counter, time.time])
def test_tracing_and_the_directory_of_the_cache(listened, monkeypatch, clock):
    """`monitor.py` has the time of another clock since vLLM 0.17."""
    session, events = listened
    monitor = SimpleNamespace(torch_compile_start_time=clock() - 5.0)
    monkeypatch.setitem(sys.modules, "vllm.compilation.monitor", monitor)

    class Manager:
        """`CompilerManager`."""

        def initialize_cache(self, cache_dir, disable_cache=False, prefix=""):
            pass

    watch_class(session, Manager, initialize_cache=workers.open_cache)
    Manager().initialize_cache("/c/torch_compile_cache/0a1b2c3d4e/rank_0_0/backbone")
    summary = folded(events, source_kind="recorder").summary
    assert summary.compile.directory == (
        "/c/torch_compile_cache/0a1b2c3d4e/rank_0_0/backbone"
    )
    [part] = summary.compile.parts
    assert (part.what, part.from_cache) == ("dynamo", False)
    assert part.duration_s == pytest.approx(5, abs=1)


def test_a_cache_that_is_off_has_no_directory(listened):
    session, events = listened

    class Manager:
        """`CompilerManager`, of a version whose monitor has no time."""

        def initialize_cache(self, cache_dir, disable_cache=False, prefix=""):
            pass

    watch_class(session, Manager, initialize_cache=workers.open_cache)
    Manager().initialize_cache("/c", disable_cache=True)
    assert [(e.name, e.edge, e.path) for e in events] == [("compile", "start", None)]


def test_a_server_is_ready_when_it_has_started(listened):
    session, events = listened

    class Server:
        """`uvicorn.Server`."""

        async def startup(self, sockets=None):
            if sockets == "taken":
                raise OSError("address in use")

    watch_class(session, Server, startup=engine_core.server_started)
    with pytest.raises(OSError, match="in use"):
        asyncio.run(Server().startup("taken"))
    assert of_kind(events, "server_ready") == []
    asyncio.run(Server().startup())
    assert len(of_kind(events, "server_ready")) == 1


def test_no_cache_is_its_own_kind_of_failure(listened):
    session, events = listened

    class Core:
        """`EngineCore`."""

        vllm_config = None

        def _initialize_kv_caches(self, vllm_config):
            raise ValueError("No available memory for the cache blocks. Try ...")

    watch_class(session, Core, _initialize_kv_caches=engine_core.initialize)
    with pytest.raises(ValueError, match="No available memory"):
        Core()._initialize_kv_caches(config_of())
    (failure,) = of_kind(events, "failure")
    assert (failure.failure, failure.phase) == ("no_kv_cache", "init_engine")


class FakeBackend:
    """`torch.cuda` or `torch.xpu`, in use or not."""

    def __init__(self, *, is_used):
        self.is_initialized = lambda: is_used

    def get_device_name(self):
        return "a device"

    def mem_get_info(self):
        return 3, 4


@pytest.mark.parametrize(
    ("used", "hip", "kind"),
    [
        ("cuda", None, "cuda"),
        ("cuda", "7.0.1", "rocm"),
        ("xpu", None, "xpu"),
        (None, None, None),
    ],
)
def test_the_kind_of_the_device_is_that_in_use(monkeypatch, used, hip, kind):
    torch = SimpleNamespace(
        cuda=FakeBackend(is_used=used == "cuda"),
        xpu=FakeBackend(is_used=used == "xpu"),
        version=SimpleNamespace(hip=hip),
    )
    monkeypatch.setitem(sys.modules, "torch", torch)
    assert device.kind() == kind
    assert device.free_and_total() == ((3, 4) if used else (None, None))
