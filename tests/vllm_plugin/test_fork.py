"""HabanaAI vllm-fork: the calls of V0 1.20 and 1.22, from reading them."""

from __future__ import annotations

from types import SimpleNamespace

import pytest

from tests.vllm_plugin.listening import of_kind, session_with_list, watch_class
from tests.vllm_plugin.running import executions
from warmup_insights.vllm_plugin import device
from warmup_insights.vllm_plugin.hpu import buckets as hpu_buckets
from warmup_insights.vllm_plugin.hpu import memory as hpu_memory
from warmup_insights.vllm_plugin.hpu import serving as hpu_serving
from warmup_insights.vllm_plugin.hpu import warmup as hpu_warmup

MIB = 2**20
PROMPT, DECODE = SimpleNamespace(is_prompt=True), SimpleNamespace(is_prompt=False)


class Profiler:
    """`HabanaMemoryProfiler` of vllm-hpu-extension."""

    used = 0

    @staticmethod
    def current_device_memory_usage():
        return Profiler.used

    def __enter__(self):
        self.initial_device_memory = Profiler.used
        return self

    def __exit__(self, exc_type, exc_val, exc_tb):
        self.final_device_memory = Profiler.used
        self.consumed_device_memory = Profiler.used - self.initial_device_memory


def watch_profiler(session):
    watch_class(
        session,
        Profiler,
        __enter__=hpu_memory.profiler_enter,
        __exit__=hpu_memory.profiler_exit,
        current_device_memory_usage=hpu_warmup.memory_read,
    )


def restore_profiler(before):
    for name, value in before.items():
        setattr(Profiler, name, value)


class Runner120:
    """`HPUModelRunnerBase` of 1.20: a plain pass, then captures within a budget."""

    prompts = ((1, 128), (1, 256), (2, 256))
    decodes = ((1, 128),)

    def __init__(self):
        self.seen_configs = set()
        self.graphed = set()

    def load_model(self):
        with Profiler(), Profiler():
            Profiler.used += 100 * MIB

    def warmup_model(self, kv_caches):
        Profiler.current_device_memory_usage()
        self.warmup_all_buckets(self.prompts, True, kv_caches)
        self.warmup_all_buckets(self.decodes, False, kv_caches)
        self.warmup_graphs("min_tokens", self.prompts, True, kv_caches, 20 * MIB)
        self.warmup_graphs("max_bs", self.decodes, False, kv_caches, 80 * MIB)
        self.warmup_graphs(
            "min_tokens", self.prompts, True, kv_caches, 60 * MIB, 16 * MIB
        )
        Profiler.current_device_memory_usage()

    def warmup_all_buckets(self, buckets, is_prompt, kv_caches):
        for size, length in reversed(buckets):
            self.warmup_scenario(size, length, is_prompt, kv_caches)

    def warmup_graphs(
        self, strategy, buckets, is_prompt, kv_caches, available_mem, starting_mem=0
    ):
        left, used, is_complete = available_mem, starting_mem, True
        for size, length in buckets:
            if left < 8 * MIB * size:
                is_complete = False
                continue
            if (size, length, is_prompt) in self.graphed:
                continue
            self.graphed.add((size, length, is_prompt))
            with Profiler() as profiler:
                self.warmup_scenario(size, length, is_prompt, kv_caches)
                Profiler.used += 8 * MIB * size
            left -= profiler.consumed_device_memory
            used += profiler.consumed_device_memory
        return used, 0.001, is_complete

    def warmup_scenario(self, batch_size, seq_len, is_prompt, kv_caches):
        self._check_config(batch_size, seq_len, is_prompt, True)

    def _check_config(self, batch_size, seq_len, is_prompt, warmup_mode):
        self.seen_configs.add((batch_size, seq_len, is_prompt))


class RunnerV1:
    """`HPUModelRunner` of vllm-gaudi: it quantises, wraps and loads a draft model."""

    def __init__(self, took, *, quantised, drafter):
        self.took, self.quantised = took, quantised
        if drafter:
            self.drafter = object()

    def _is_quant_with_inc(self):
        return self.quantised

    def load_model(self):
        for size in self.took:
            with Profiler():
                Profiler.used += size * MIB


@pytest.mark.parametrize(
    ("took", "quantised", "drafter", "measured"),
    [
        ((100, 1, 2), False, False, {"weights": 100}),
        ((0, 60, 1, 2), True, False, {"weights": 0, "quantization": 60}),
        ((100, 1, 20, 1, 2), False, True, {"weights": 100, "drafter_weights": 20}),
        (
            (0, 60, 1, 20, 1, 2), True, True,
            {"weights": 0, "quantization": 60, "drafter_weights": 20},
        ),
    ],
)  # fmt: skip
def test_what_v1_measures_while_it_loads(
    monkeypatch, took, quantised, drafter, measured
):
    monkeypatch.setattr(device, "free_and_total", lambda: (None, 1000 * MIB))
    before = dict(vars(Profiler))
    session, events = session_with_list()
    watch_profiler(session)
    watch_class(session, RunnerV1, load_model=hpu_memory.load_model)
    try:
        RunnerV1(took, quantised=quantised, drafter=drafter).load_model()
    finally:
        names = ("__enter__", "__exit__", "current_device_memory_usage")
        restore_profiler({name: before[name] for name in names})
    found = of_kind(events, "memory_measured")
    assert {e.stage: e.delta_bytes // MIB for e in found} == measured


PROBES = {
    "warmup_model": hpu_warmup.warmup_model,
    "warmup_graphs": hpu_warmup.warmup_pass,
    "warmup_scenario": hpu_warmup.scenario,
    "_check_config": hpu_serving.check_config,
}


def test_two_passes_with_a_budget(monkeypatch):
    monkeypatch.setattr(device, "free_and_total", lambda: (None, 1000 * MIB))
    before = dict(vars(Profiler))
    session, events = session_with_list()
    watch_profiler(session)
    watch_class(
        session,
        Runner120,
        load_model=hpu_memory.load_model_fork,
        warmup_all_buckets=hpu_warmup.plain_pass,
        **PROBES,
    )
    try:
        runner = Runner120()
        runner.load_model()
        runner.warmup_model([])
    finally:
        restore_profiler(
            {
                k: before[k]
                for k in ("__enter__", "__exit__", "current_device_memory_usage")
            }
        )
    stages = [e.stage for e in of_kind(events, "memory_measured")]
    assert stages == ["preload_weights", "weights"]
    steps = [(s.mode, s.phase, s.bucket, s.executed) for s in executions(events)]
    assert steps == [
        ("eager", "prompt", (2, 256), (2, 256)),
        ("eager", "prompt", (1, 256), (1, 256)),
        ("eager", "prompt", (1, 128), (1, 128)),
        ("eager", "decode", (1, 128), (1, 128)),
        ("graph", "prompt", (1, 128), (1, 128)),
        ("graph", "prompt", (1, 256), (1, 256)),
        ("graph", "decode", (1, 128), (1, 128)),
        ("graph", "prompt", (2, 256), (2, 256)),
    ]
    budgets = of_kind(events, "graph_budget_set")
    assert [(b.prompt_bytes, b.decode_bytes) for b in budgets] == [
        (20 * MIB, None), (None, 80 * MIB), (60 * MIB, None),
    ]  # fmt: skip
    skipped = of_kind(events, "graph_skipped")
    assert [(e.phase, e.bucket) for e in skipped] == [("prompt", (2, 256))]
    used = [(e.phase, e.used_bytes) for e in of_kind(events, "capture_summary")]
    assert used[-1] == ("prompt", 32 * MIB)
    (finished,) = of_kind(events, "warmup_finished")
    assert finished.allocated_bytes == 40 * MIB


class Runner122:
    """`HPUModelRunnerBase` of 1.22: three dimensions, everything is captured."""

    def __init__(self):
        self.seen_configs = set()

    def warmup_model(self, kv_caches):
        self.warmup_graphs([(1, 128, 0), (1, 128, 1)], True, kv_caches)

    def warmup_graphs(
        self, buckets, is_prompt, kv_caches, starting_mem=0, total_batch_seq=0.001
    ):
        for size, length, context in reversed(buckets):
            self.warmup_scenario(size, length, context, is_prompt, kv_caches)
        return 5 * MIB, 0.001, True

    def warmup_scenario(
        self, batch_size, seq_len, ctx, is_prompt, kv_caches, temperature=0
    ):
        self._check_config(batch_size, seq_len, ctx, PROMPT, True)

    def _check_config(self, batch_size, seq_len, ctx, attn_metadata, warmup_mode):
        self.seen_configs.add((batch_size, seq_len, ctx))


def test_three_dimensions_without_the_memory_profiler():
    session, events = session_with_list()
    watch_class(session, Runner122, **PROBES)
    runner = Runner122()
    runner.warmup_model([])
    steps = executions(events)
    assert [(s.bucket, s.index, s.executed) for s in steps] == [
        ((1, 128, 1), 1, (1, 128, 1)),
        ((1, 128, 0), 2, (1, 128, 0)),
    ]
    assert all(step.duration_s is not None for step in steps)
    (summary,) = of_kind(events, "capture_summary")
    assert (summary.captured_reported, summary.used_bytes) == (2, 5 * MIB)
    runner._check_config(4, 1, 9, DECODE, False)
    (miss,) = of_kind(events, "bucket_miss")
    assert (miss.phase, miss.shape) == ("decode", (4, 1, 9))


def test_buckets_of_the_extension_and_those_it_omits():
    session, events = session_with_list()
    module = SimpleNamespace(
        generate_prompt_buckets=lambda *config: ([(1, 128)], [(8, 640), (4, 640)])
    )

    class Context:
        """`HPUBucketingContext`: its lists are in a global state."""

        prompt_buckets = property(lambda self: self.state.prompt_buckets)

        def __init__(self):
            self.state = SimpleNamespace(prompt_buckets=[])

        def generate_prompt_buckets(self):
            self.state.prompt_buckets, _ = module.generate_prompt_buckets(1, 2)

    watch_class(session, module, generate_prompt_buckets=hpu_buckets.omitted_buckets)
    watch_class(session, Context, generate_prompt_buckets=hpu_buckets.prompt_buckets)
    Context().generate_prompt_buckets()
    (generated,) = of_kind(events, "buckets_generated")
    assert (generated.phase, generated.buckets) == ("prompt", [(1, 128)])
    (omitted,) = of_kind(events, "buckets_omitted")
    assert (omitted.count, omitted.buckets) == (2, [(4, 640), (8, 640)])


def test_memory_of_v0_is_what_is_left_of_the_usable():
    session, events = session_with_list()

    class Worker:
        cache_config = SimpleNamespace(gpu_memory_utilization=0.5, block_size=128)
        model_config = SimpleNamespace(enforce_eager=False)

        def __init__(self):
            self.model_runner = SimpleNamespace(mem_margin=500 * MIB)

        def determine_num_available_blocks(self):
            session.state.profile_free = 1000 * MIB
            return 1519, 0

        def initialize_cache(self, num_gpu_blocks, num_cpu_blocks):
            return None

    watch_class(
        session,
        Worker,
        determine_num_available_blocks=hpu_memory.determine_memory,
        initialize_cache=hpu_memory.kv_cache_fork,
    )
    worker = Worker()
    worker.initialize_cache(*worker.determine_num_available_blocks())
    (budget,) = of_kind(events, "memory_budget_set")
    assert (budget.usable_bytes, budget.kv_cache_bytes) == (500 * MIB, 450 * MIB)
    (blocks,) = of_kind(events, "kv_cache_allocated")
    assert (blocks.num_blocks, blocks.num_tokens) == (1519, 1519 * 128)
