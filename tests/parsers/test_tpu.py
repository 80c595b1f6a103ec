"""TPU engines pad to buckets and compile a graph for each."""

from __future__ import annotations

import pytest

from tests.helpers import events, folded, of
from warmup_insights.analysis.plan.cache import CachePlanner
from warmup_insights.analysis.plan.planning import PlanSettings
from warmup_insights.analysis.sentences import (
    cause_text,
    devices_of_a_rank,
    ranks_text,
)
from warmup_insights.model.events import (
    BucketsGenerated,
    CompileFinished,
    ConfigRecorded,
    Failure,
    MemoryMeasured,
    WarmupStep,
)
from warmup_insights.units import GIB, gib

HEAD = "INFO 10-21 20:57:{:02d} [compilation_manager.py:58] "


def test_a_compilation_is_named_by_the_line_that_began_it():
    text = HEAD.format(1) + "Precompile backbone --> {'num_tokens': 16}\n"
    text += HEAD.format(40) + "Compilation finished in 39.64 [secs].\n"
    found = events(text)
    (compiled,) = of(CompileFinished, found)
    assert (compiled.what, compiled.detail) == ("backbone", "{'num_tokens': 16}")
    assert compiled.duration_s == 39.64
    # Numbers of tokens are the buckets of a TPU.
    (row,) = folded(found).rows
    assert (row.phase, row.bucket, row.duration_s) == ("tokens", (16,), 39.64)
    assert row.warmed


ARRAYS = "'num_reqs': 64, 'shared_attention_metadata': SharedAttentionMetadata("


def test_a_shape_with_arrays_goes_over_several_lines():
    """Graphs that are compiled by several threads end in any order."""
    rows = (
        "input_positions=Array([1, 1,\n       1, 1], dtype=int32), padded_num_reqs=64)}"
    )
    said = [
        *(f"Precompile worker0 backbone --> {{'num_tokens': {n}, {ARRAYS}{rows}" for n in (16, 32)),
        f"Compilation of worker0 backbone --> {{'num_tokens': 32, {ARRAYS}{rows} finished in 6.50 [secs].",
        f"Compilation of worker0 backbone --> {{'num_tokens': 16, {ARRAYS}{rows} finished in 9.25 [secs].",
    ]  # fmt: skip
    text = "".join(
        HEAD.format(second) + line + "\n"
        for second, message in enumerate(said)
        for line in message.split("\n")
    )
    found = [(c.detail, c.duration_s) for c in of(CompileFinished, events(text))]
    assert found == [
        ("{'num_tokens': 32, 'num_reqs': 64}", 6.5),
        ("{'num_tokens': 16, 'num_reqs': 64}", 9.25),
    ]


def test_arrays_in_one_line_are_no_part_of_a_shape():
    text = HEAD.format(9) + (
        f"Compilation of worker0 backbone --> {{'num_tokens': 16, {ARRAYS}"
        "input_positions=Array(shape=(16,), dtype=int32), padded_num_reqs=64)} finished "
        "in 6.50 [secs].\n"
    )
    (found,) = of(CompileFinished, events(text))
    assert (found.what, found.detail) == (
        "backbone",
        "{'num_tokens': 16, 'num_reqs': 64}",
    )


def test_a_compilation_whose_beginning_was_cut_off_has_no_shape():
    text = HEAD.format(40) + "Compilation finished in 39.64 [secs].\n"
    found = events(text)
    (compiled,) = of(CompileFinished, found)
    assert (compiled.what, compiled.detail) == ("shape", None)
    assert "torch_compile" not in folded(found).summary.start.caches


def test_shapes_that_end_in_one_second_ran_one_after_the_other():
    text = HEAD.format(1) + "Compilation finished in 0.25 [secs].\n"
    text += (HEAD.format(2) + "Compilation finished in 0.30 [secs].\n") * 3
    text += HEAD.format(9) + "Init kv-cache | num_layers=27\n"
    found = folded(events(text)).summary.time.seconds_by_phase()
    assert found["compile"] == pytest.approx(0.9, abs=0.01)


RUNNER = "INFO 04-21 20:{:02d}:{:02d} [tpu_model_runner.py:1365] {}"


def test_in_the_tree_paddings_and_shapes_have_a_line_each():
    """vLLM 0.8 to 0.10, `v1/worker/tpu_model_runner.py`."""
    lines = [
        (0, 0, "Using exponential token paddings:"), (0, 0, "    16"), (0, 0, "    32"),
        (0, 0, "Preparing request paddings:"), (0, 0, "    8"),
        (1, 0, "Compiling the model with different input shapes."),
        (1, 0, "  -- num_tokens: 16"), (1, 20, "  -- num_tokens: 32"),
        (1, 50, "Compilation finished in 49.75 [secs]."),
        (1, 50, "Compiling compute_logits with different input shapes."),
        (1, 52, "  -- num_seqs: 8"),
        (1, 52, "Compilation finished in 1.50 [secs]."),
    ]  # fmt: skip
    found = events("\n".join(RUNNER.format(*line) for line in lines) + "\n")
    lists = {e.phase: e.buckets for e in of(BucketsGenerated, found)}
    assert lists == {"tokens": [(16,), (32,)], "requests": [(8,)]}
    steps = [(s.bucket, s.duration_s) for s in of(WarmupStep, found)]
    assert steps == [((16,), 20.0), ((32,), 30.0)]
    compiled = [
        (c.what, c.duration_s, c.from_cache) for c in of(CompileFinished, found)
    ]
    assert compiled == [("backbone", 49.75, None), ("compute_logits", 1.5, None)]
    times = folded(found).summary.time.phases
    assert [(time.name, time.duration_s) for time in times][1:] == [("compile", 52.0)]


WORKER = "(EngineCore pid=7) INFO 08-08 21:0{}:00 [tpu_worker.py:377] "


def test_what_a_trainer_holds_is_no_part_of_the_weights():
    """tunix loads its actor into the devices before it makes an engine."""
    text = (
        WORKER.format(1) + "Init worker | rank=0 | hbm=[(11.44, 95.0), (11.44, 95.0)]GiB\n"
        + WORKER.format(3) + "Init model | hbm=[(16.13, 95.0), (16.13, 95.0)]GiB\n"
        + WORKER.format(3) + "Memory statistics | total_hbm_limit_gb=190.0GiB | "
        "total_hbm_limit_cap_gb=38.0GiB | total_hbm_used_gb=32.26GiB | "
        "total_hbm_avail_gb=5.74GiB\n"
    )  # fmt: skip
    memory = folded(events(text)).summary.memory
    assert memory is not None
    assert memory.weights_bytes == pytest.approx(4.69 * GIB, abs=2)
    shares = {part.name: part.bytes / GIB for part in memory.parts}
    assert shares["other"] == pytest.approx(11.44)
    assert sum(shares.values()) == pytest.approx(95)


def test_weights_on_some_devices_are_a_mean_like_what_is_left():
    text = (
        WORKER.format(0) + "Init worker | rank=0 | hbm=[(0.0, 95.0), (0.0, 95.0)]GiB\n"
        + WORKER.format(1) + "Init model | hbm=[(12.0, 95.0), (0.0, 95.0)]GiB\n"
        + WORKER.format(2) + "Memory statistics | total_hbm_limit_gb=190.0GiB | "
        "total_hbm_limit_cap_gb=170.0GiB | total_hbm_used_gb=12.0GiB | "
        "total_hbm_avail_gb=158.0GiB\n"
    )  # fmt: skip
    summary = folded(events(text)).summary
    memory = summary.memory
    assert memory.weights_bytes + memory.kv_cache_bytes == memory.usable_bytes
    assert summary.contradictions == []
    # Without the first line it is unknown what was in use before.
    excerpt = folded(events(text.split("\n", 1)[1])).summary
    assert excerpt.memory.weights_bytes is None
    assert excerpt.memory.kv_cache_bytes == memory.kv_cache_bytes


def test_the_sizes_of_an_allocation_are_in_the_second_line_of_its_error():
    error = "(EngineCore pid=7) ERROR 08-08 21:04:00 [core.py:1349] "
    text = (
        WORKER.format(1) + "Init worker | rank=0 | hbm=[(0.0, 15.75)]GiB\n"
        + error + "EngineCore failed to start.\n"
        + error + "jax.errors.JaxRuntimeError: RESOURCE_EXHAUSTED: E0101: "
        "RuntimeProgramAllocationFailure:\n"
        + error + "Error loading program 'jit_f': Attempting to reserve 384.11M at the "
        "bottom of memory. That was not possible. There are 346.77M free, 0B reserved.\n"
    )  # fmt: skip
    (failure,) = of(Failure, events(text))
    assert failure.failure == "out_of_memory"
    assert failure.needed_bytes == pytest.approx(384.11 * 1024**2, rel=1e-6)
    assert failure.free_bytes == pytest.approx(346.77 * 1024**2, rel=1e-6)
    assert "jit_f" in failure.message


def test_what_fails_behind_a_bucket_is_not_of_it():
    """vLLM 0.8.2 prints `finished in in`."""
    lines = [
        (1, 0, "Compiling the model with different input shapes."),
        (1, 0, "  -- num_tokens: 16"), (1, 20, "Compilation finished in in 19.75 [secs]."),
        (1, 20, "Compiling sampling with different input shapes."),
    ]  # fmt: skip
    text = "\n".join(RUNNER.format(*line) for line in lines) + "\n"
    text += "ERROR 04-21 20:01:22 [core.py:367] EngineCore failed to start.\n"
    (failure,) = of(Failure, events(text))
    assert failure.bucket is None


def test_a_failure_while_a_graph_is_compiled_has_its_stage():
    line = "INFO 03-31 07:{} [tpu_model_runner.py:769] {}\n"
    text = (
        line.format("47:51", "Compiling the model with different input shapes.")
        + line.format("47:51", "  -- num_tokens: 16")
        + line.format("48:16", "  -- num_tokens: 32")
        + line.format("48:36", "Compilation finished in in 44.09 [secs].")
        + line.format("48:36", "Compiling sampling with different input shapes.")
        + "ERROR 03-31 07:48:38 [core.py:367] EngineCore hit an exception: Traceback (most "
        "recent call last):\n"
    )
    found = events(text)
    (failure,) = of(Failure, found)
    assert failure.phase == "compile"
    assert cause_text(folded(found).summary.failure) == (
        "the log does not hold the cause (EngineCore hit an exception) in compilation"
    )


def test_a_plugin_of_another_name_is_for_its_device():
    text = (
        "INFO 08-13 14:12:00 [__init__.py:237] Platform plugin torchtpu is activated\n"
        "WARNING 08-13 14:12:01 [tpu_platform.py:975] Pin memory is not supported on TPU.\n"
    )
    summary = folded(events(text)).summary
    assert summary.device.kind == "tpu"
    assert not any(note.topic == "contradiction" for note in summary.notes)


def test_what_is_loaded_beyond_the_utilisation_leaves_no_room_for_the_cache():
    """tpu-inference `tpu_worker.py determine_available_memory`."""
    sums = (
        "total_hbm_used_gb=118.0GiB", "total_hbm_limit_cap_gb=112.5GiB",
        "increasing --gpu-memory-utilization from 0.9 to a larger value.",
    )  # fmt: skip
    text = (
        WORKER.format(1) + f"Init worker | rank=0 | hbm={[(0.0, 31.25)] * 4}GiB\n"
        + WORKER.format(2) + f"Init model | hbm={[(29.5, 31.25)] * 4}GiB\n"
        + WORKER.format(2) + "Memory statistics | total_hbm_limit_gb=125.0GiB | "
        f"{sums[1]} | {sums[0]} | total_hbm_avail_gb=-5.5GiB\n"
        "(EngineCore pid=7) ERROR 08-08 21:02:01 [core.py:850] EngineCore failed to start.\n"
        "(EngineCore pid=7) ERROR 08-08 21:02:01 [core.py:850] ValueError: "
        f"{sums[0]} exceeds {sums[1]} by 5.5GiB. Please consider {sums[2]}\n"
    )  # fmt: skip
    summary = folded(events(text)).summary
    assert summary.failure.kind == "no_kv_cache"
    memory = summary.memory
    assert memory.kv_cache_bytes / GIB == pytest.approx(-5.5 / 4, abs=0.01)
    assert memory.usable_bytes / GIB == pytest.approx(112.5 / 4)
    assert summary.contradictions == []


def test_graphs_that_several_threads_compile_have_no_sum():
    """tpu-inference `compilation_manager.py`, `NUM_PRECOMPILE_WORKERS`."""
    ended = "Compilation of worker0 sample --> {{'num_reqs': {}}} finished in {:.2f} [secs].\n"
    for last, expected in ((20, 18.5), (12, None)):
        text = (
            HEAD.format(11)
            + ended.format(8, 9)
            + HEAD.format(last)
            + ended.format(16, 9.5)
        )
        compiled = folded(events(text)).summary.compile
        assert len(compiled.parts) == 2
        assert compiled.seconds == expected


def test_engines_that_one_process_makes_are_ranks_of_one_start():
    """tpu-inference `core_tpu.py DisaggEngineCoreProc`: for prompts, then for decoding."""
    who = "(EngineCore pid=7) INFO 08-08 21:0{}:00 "
    config = (
        "[core.py:94] Initializing a V1 LLM engine (v0.27.1) with config: model='a/b'\n"
    )
    text = (
        who.format(0)
        + "[core_tpu.py:647] Creating DisaggEngineCoreProc with slice_sizes [4, 4]...\n"
    )
    for minute, used in ((1, 7.5), (4, 8.25)):
        text += who.format(minute) + config
        text += (
            WORKER.format(minute)
            + f"Init worker | rank=0 | hbm={[(0.0, 31.25)] * 4}GiB\n"
        )
        text += (
            WORKER.format(minute + 1) + f"Init model | hbm={[(used, 31.25)] * 4}GiB\n"
        )
        text += (
            who.format(minute + 2)
            + "[core.py:312] init engine (profile, create kv cache, "
        )
        text += "warmup model) took 60.50 s\n"
    found = events(text)
    assert folded(found).summary.ranks == 2
    loaded = [e for e in of(MemoryMeasured, found) if e.stage == "weights"]
    assert [(e.rank, e.delta_bytes) for e in loaded] == [(0, gib(7.5)), (1, gib(8.25))]


@pytest.mark.parametrize(
    ("axes", "available", "fit", "shown", "blocks", "size"),
    [
        ("'data': 2, 'model': 4", "280.0", 17920, 17920, 17920, 4 * 2**20),
        # Until 2025-11 each of eight shards got 943, now 942.
        ("'data': 8, 'attn_dp': 1, 'model': 1", "117.8", 7539, 7544, 7539, 16 * 2**20),
        ("'data': 8, 'attn_dp': 1, 'model': 1", "117.8", 7539, 7536, 7536, 16 * 2**20),
        ("'data': 8, 'attn_dp': 1, 'model': 1", "117.8", None, 7544, 7544, 16 * 2**20),
        ("'data': 8, 'attn_dp': 1, 'model': 1", "117.8", None, 7536, 7536, 16 * 2**20),
    ],
)
def test_a_device_holds_the_blocks_of_one_data_parallel_shard(
    axes, available, fit, shown, blocks, size
):
    """tpu-inference `kv_cache_manager.py`: KV blocks are divided over the shards, and those
    above what fits into the budget are never given to a request."""
    text = (
        WORKER.format(1) + f"Init mesh | mesh=Mesh({axes}, axis_types=(Auto, Auto))\n"
        + WORKER.format(1) + f"Init worker | rank=0 | hbm={[(0.0, 95.0)] * 8}GiB\n"
        + WORKER.format(2) + f"Init model | hbm={[(15.0, 95.0)] * 8}GiB\n"
        + WORKER.format(2) + "Memory statistics | total_hbm_limit_gb=760.0GiB | "
        "total_hbm_limit_cap_gb=720.0GiB | total_hbm_used_gb=120.0GiB | "
        f"total_hbm_avail_gb={available}GiB\n"
        + WORKER.format(3) + "Using KV cache block size: 128\n"
        + (WORKER.format(3) + f"GPU KV cache size: {fit * 128:,} tokens\n" if fit else "")
        + WORKER.format(3) + f"Init kv-cache | num_layers=36 | num_blocks=[{shown}]\n"
    )  # fmt: skip
    memory = folded(events(text)).summary.memory
    assert (memory.num_kv_blocks, memory.block_bytes) == (blocks, size)
    low, high = memory.block_bytes_range
    assert low <= size <= high


@pytest.mark.parametrize(("shown", "each"), [(768, 95.0), (700, None)])
def test_a_device_of_a_pod_has_its_part_of_the_sums(shown, each):
    """Pathways drives all devices of a pod from one process; a line may be cut."""
    devices = str([(0.0, 95.0)] * 768)
    listed = devices if shown == 768 else devices[: shown * 13]
    text = (
        WORKER.format(1) + f"Init worker | rank=0 | hbm={listed}GiB |self.devices=[]\n"
        + WORKER.format(2) + "Memory statistics | total_hbm_limit_gb=72960.0GiB | "
        "total_hbm_limit_cap_gb=65664.0GiB | total_hbm_used_gb=7680.0GiB | "
        "total_hbm_avail_gb=57984.0GiB\n"
    )  # fmt: skip
    memory = folded(events(text)).summary.memory_or_none
    assert memory.total_bytes == (None if each is None else each * GIB)


def test_blocks_that_the_engine_itself_overrides_are_no_setting():
    """tpu-inference `kv_cache_manager.py`: layers with a state get a slot for each request,
    and the number of blocks is set to fill what they leave of the share of memory."""
    text = (
        "(APIServer pid=1) INFO 08-08 21:00:00 [utils.py:253] non-default args: {'model': "
        "'a/b', 'gpu_memory_utilization': 0.9}\n"
        + WORKER.format(1) + f"Init worker | rank=0 | hbm={[(0.0, 32.0)] * 8}GiB\n"
        + WORKER.format(2) + f"Init model | hbm={[(8.0, 32.0)] * 8}GiB\n"
        + WORKER.format(2) + "Memory statistics | total_hbm_limit_gb=256.0GiB | "
        "total_hbm_limit_cap_gb=230.4GiB | total_hbm_used_gb=64.0GiB | "
        "total_hbm_avail_gb=166.4GiB\n"
        + WORKER.format(3) + "Compact-mamba KV cache: num_gpu_blocks_override=39429 "
        "(attn), _mamba_num_blocks=264. HBM split: attn=16 layers × 39429 blocks × 262144 "
        "B = 154.02 GiB; mamba=48 layers × 264 slots × 1048576 B = 12.38 GiB; "
        "total=166.39 GiB / avail=166.40 GiB.\n"
        "(EngineCore pid=7) INFO 08-08 21:03:00 [kv_cache_utils.py:2115] Overriding "
        "num_gpu_blocks=8519 with num_gpu_blocks_override=39429\n"
        + WORKER.format(4) + "Init kv-cache | num_total_layers=4 | "
        "num_blocks=[264, 264, 264, 39429] | regular_attn_layers=1\n"
    )  # fmt: skip
    summary = folded(events(text)).summary
    assert summary.setting("num_gpu_blocks_override") is None
    assert summary.memory.num_kv_blocks == 39429
    assert summary.memory.block_bytes is None  # layers have blocks of two sizes
    parts = {part.name: part.bytes for part in summary.memory.parts}
    assert parts["kv_cache"] == gib(20.8)
    plans = [
        CachePlanner(summary).plan(each)
        for each in (
            PlanSettings(gpu_memory_utilization=0.9),
            PlanSettings(gpu_memory_utilization=0.8),
            PlanSettings(max_num_seqs=16),
        )
    ]
    # The slots take as much of any other cache.
    assert [plan.num_kv_blocks for plan in plans] == [39429, None, None]
    assert [plan.kv_cache_bytes for plan in plans[:2]] == [gib(20.8), gib(17.6)]


def test_memory_is_divided_without_a_profiling_run():
    """tpu-inference `tpu_worker.py determine_available_memory` reads what is in use."""
    text = (
        WORKER.format(1) + f"Init worker | rank=0 | hbm={[(0.0, 31.25)] * 4}GiB\n"
        + WORKER.format(2) + f"Init model | hbm={[(29.5, 31.25)] * 4}GiB\n"
        + WORKER.format(3) + "Memory statistics | total_hbm_limit_gb=125.0GiB | "
        "total_hbm_limit_cap_gb=112.5GiB | total_hbm_used_gb=118.0GiB | "
        "total_hbm_avail_gb=-5.5GiB\n"
        "(EngineCore pid=7) ERROR 08-08 21:03:01 [core.py:850] ValueError: "
        "total_hbm_used_gb=118.0GiB exceeds total_hbm_limit_cap_gb=112.5GiB by 5.5GiB.\n"
    )  # fmt: skip
    phases = {phase.name for phase in folded(events(text)).summary.time.phases}
    assert "load_model" in phases
    assert "profile_run" not in phases


@pytest.mark.parametrize(
    ("shape", "is_known"),
    [("128, 8, 2, 128", True), ("64, 2, 640", False), ("640, 128", False)],
)
def test_a_block_of_latents_may_be_on_any_number_of_devices(shape: str, is_known: bool):
    """One of heads is divided between all of them."""
    line = "(EngineCore pid=7) INFO 08-08 21:0{}:01 [{}:157] {}\n"
    text = (
        line.format(1, "tpu_worker.py", "Init worker | rank=0 | hbm=[(0.0, 31.25), (0.0, 31.25)]GiB")
        + line.format(2, "tpu_runner.py", "Init model | hbm=[(9.5, 31.25), (9.5, 31.25)]GiB")
        + line.format(
            3, "tpu_worker.py",
            "Memory statistics | total_hbm_limit_gb=62.5GiB | total_hbm_limit_cap_gb=56.25GiB | "
            "total_hbm_used_gb=19.0GiB | total_hbm_avail_gb=37.25GiB",
        )
        + line.format(
            4, "kv_cache_manager.py",
            f"Init kv-cache | num_total_layers=2 | num_blocks=[4768, 4768] | "
            f"regular_attn_layers=2 | regular_attn_shape=(num_blocks, ({shape}))",
        )
    )  # fmt: skip
    memory = folded(events(text)).summary.memory
    assert memory.num_kv_blocks == 4768
    assert (memory.block_bytes_range is not None) == is_known


def test_the_workers_of_tpu_inference_have_no_profiling_run():
    line = "(EngineCore pid=7) INFO 02-14 02:31:{} [{}:81] {}\n"
    text = (
        line.format(20, "compilation_manager.py", "Compilation finished in 0.59 [secs].")
        + line.format(24, "kv_cache_manager.py", "Init kv-cache | num_layers=2 | num_blocks=[9, 9]")
    )  # fmt: skip
    assert "profile_run" not in folded(events(text)).summary.time.seconds_by_phase()


def test_sums_are_rounded_to_hundredths():
    """2,108 blocks of 4 MiB are 8.2344 GiB, and printed as 8.23."""
    line = "(EngineCore pid=7) INFO 05-12 02:10:5{} [{}:157] {}\n"
    text = (
        line.format(1, "tpu_worker.py", "Init worker | rank=0 | hbm=[(0.0, 15.75)]GiB")
        + line.format(2, "tpu_runner.py", "Init model | hbm=[(5.94, 15.75)]GiB")
        + line.format(
            3, "tpu_worker.py",
            "Memory statistics | total_hbm_limit_gb=15.75GiB | total_hbm_limit_cap_gb=14.18GiB | "
            "total_hbm_used_gb=5.94GiB | total_hbm_avail_gb=8.23GiB",
        )
        + line.format(4, "kv_cache_manager.py", "Init kv-cache | num_layers=2 | num_blocks=[2108, 2108]")
    )  # fmt: skip
    low, high = folded(events(text)).summary.memory.block_bytes_range
    assert low <= 4 << 20 <= high


SHARDING = (
    "INFO 06-26 20:22:54 [tpu_platform.py:267] Initialized sharding configuration: "
    "ShardingConfigManager(total_devices={}, sharding_strategy=ShardingStrategy("
    "tensor_parallelism=2, expert_parallelism=2), device_indexes=None)\n"
)
ENGINE = (
    "(EngineCore pid=7) INFO 06-26 20:22:55 [core.py:114] Initializing a V1 LLM engine "
    "(v0.23.1) with config: model='a/b', tensor_parallel_size=2, {}device_config=tpu\n"
)


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        (SHARDING.format(4) + ENGINE.format(""), "1 rank with 4 devices"),
        (
            SHARDING.format(4) + ENGINE.format("") + SHARDING.format(2),
            "1 rank with 4 devices",
        ),
        (
            ENGINE.format("")
            + "(EngineCore pid=7) INFO 06-26 20:22:56 [tpu_runner.py:885] Init mesh | "
            "mesh=Mesh('data': 1, 'expert': 4, 'model': 2, axis_types=(Auto, Auto))\n",
            "1 rank with 8 devices",
        ),
    ],
)
def test_the_sharding_states_of_how_many_devices_an_engine_is(text, shown):
    """Experts, context and attention are divided over more than tensors are."""
    assert ranks_text(folded(events(text)).summary) == shown


@pytest.mark.parametrize(
    ("ranks", "settings", "devices"),
    [
        (2, {"total_devices": 8}, 4),
        (2, {"total_devices": 4, "pipeline_parallel_size": 2}, 4),
        (2, {"total_devices": 4, "data_parallel_size": 2}, 4),
        (4, {"total_devices": 8, "data_parallel_size": 2}, 4),
        (1, {"total_devices": 4, "data_parallel_size": 2}, 4),
        (2, {"tensor_parallel_size": 8}, 4),
    ],
)
def test_devices_of_an_engine_are_those_of_its_hosts(ranks, settings, devices):
    recorded = ConfigRecorded(device_kind="tpu", num_ranks=ranks, settings=settings)
    assert devices_of_a_rank(folded([recorded]).summary) == devices
