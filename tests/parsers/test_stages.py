"""Stages begin and end where the engine prints it; what is no start starts nothing."""

from __future__ import annotations

import pytest

from tests.helpers import events, folded, of
from warmup_insights.analysis.oddities import oddities
from warmup_insights.model.events import (
    BucketMiss,
    CompileFinished,
    ConfigRecorded,
    Failure,
    KVCacheAllocated,
    Note,
    PhaseMarked,
    RuntimeCompile,
    WarmupStep,
)
from warmup_insights.model.summary import OtherPhase
from warmup_insights.units import GIB

CORE = "(EngineCore pid=7) {} 07-16 10:00:{:02d} [{}] {}\n"


def info(second: int, file: str, message: str, level: str = "INFO") -> str:
    return CORE.format(level, second, file, message)


def edges(text: str, name: str) -> list[tuple[str, float | None]]:
    marked = [e for e in of(PhaseMarked, events(text)) if e.name == name]
    return [(e.edge, e.time % 60 if e.time is not None else None) for e in marked]


def test_a_full_bar_that_ray_repeats_late_is_not_the_stage():
    text = info(9, "executor_base.py:111", "# cuda blocks: 27, # CPU blocks: 18")
    text += "Loading safetensors checkpoint shards: 100% Completed | 5/5 [00:37<00:00,  7.47s/it]"
    text += " [repeated 2x across cluster]\n"
    assert folded(events(text)).summary.progress.stage == "kv_cache"


def test_a_profiling_run_of_v0_begins_with_its_line():
    line = "Starting profile run for multi-modal models."
    assert edges(info(10, "enc_dec_model_runner.py:297", line), "profile_run") == [
        ("start", 10.0)
    ]


def test_kernel_warmup_ends_where_the_capture_of_graphs_began():
    text = info(10, "kernel_warmup.py:295", "Warming up FlashInfer attention.")
    text += info(
        20, "gpu_model_runner.py:1", "Graph capturing finished in 6 secs, took 0.5 GiB"
    )
    assert edges(text, "kernel_warmup") == [("start", 10.0), ("end", 14.0)]


def test_sizes_without_graphs_are_warmed_before_the_kernels_and_the_capture():
    sizes = "Compile and warming up model for size {}"
    text = info(10, "gpu_worker.py:415", sizes.format(8192))
    text += info(20, "gpu_worker.py:415", sizes.format(4096))
    captured = info(
        39, "gpu_model_runner.py:5", "Graph capturing finished in 5 secs, took 0.6 GiB"
    )
    assert edges(text + captured, "compile_warmup")[-1] == ("end", 34.0)
    kernels = info(30, "kernel_warmup.py:295", "Warming up FlashInfer attention.")
    assert ("end", 34.0) not in edges(text + kernels + captured, "compile_warmup")
    assert edges(text + kernels + captured, "kernel_warmup")[-1] == ("end", 34.0)


def test_a_kernel_warmup_ends_nowhere_where_the_capture_states_no_time():
    text = info(10, "kernel_warmup.py:65", "Warming up ll_bf16 router GEMM kernels.")
    text += info(40, "custom_all_reduce.py:213", "Registering 14 cuda graph addresses")
    text += info(
        43,
        "core.py:340",
        "init engine (profile, create kv cache, warmup model) took 9 s",
    )
    assert edges(text, "kernel_warmup") == [("start", 10.0)]


def test_a_kernel_warmup_that_is_skipped_does_not_begin():
    text = info(
        10, "cutedsl_warmup.py:96", "Skipping CuTeDSL warmup on non-CUDA platform."
    )
    assert edges(text, "kernel_warmup") == []


def test_registered_addresses_end_a_capture():
    text = info(9, "custom_all_reduce.py:196", "Registering 4891 cuda graph addresses")
    assert edges(text, "graph_capture") == [("end", 9.0)]


def test_warmup_of_a_cpu_is_its_own_stage():
    text = info(1, "cpu_model_runner.py:77", "Warming up model for the compilation...")
    text += info(3, "cpu_model_runner.py:87", "Warming up done.")
    assert edges(text, "model_warmup") == [("start", 1.0), ("end", 3.0)]


def test_the_tag_of_a_compile_line_names_the_model():
    text = info(1, "monitor.py:91", "[eagle_head] torch.compile took 7.46 s in total")
    text += info(
        2, "backends.py:1187", "[backbone] Dynamo bytecode transform time: 7.06 s"
    )
    text += info(3, "monitor.py:53", "torch.compile took 16.27 s in total")
    found = of(CompileFinished, events(text))
    assert [e.part for e in found] == ["eagle_head", "backbone", None]
    assert [e.duration_s for e in found] == [7.46, 7.06, 16.27]


def test_a_compilation_while_serving_names_its_kernel():
    text = info(
        5,
        "jit_monitor.py:140",
        "Triton kernel JIT compilation during inference: _k (M=3). This causes a latency "
        "spike; consider extending warmup to cover this shape/config.",
        "WARNING",
    )
    (found,) = of(RuntimeCompile, events(text))
    assert (found.kernel, found.detail) == ("_k", "M=3")


def test_blocks_are_read_from_the_line_of_the_metrics_logger():
    text = info(
        5,
        "loggers.py:142",
        "Engine 000: vllm cache_config_info with initialization after num_gpu_blocks is: "
        "17463",
    )
    assert [e.num_blocks for e in of(KVCacheAllocated, events(text))] == [17463]


def test_the_engines_own_override_of_blocks_is_no_setting():
    line = "Overriding num_gpu_blocks={} with num_gpu_blocks_override=16"
    text = info(5, "kv_cache_utils.py:826", line.format(0))
    assert not any("num_gpu_blocks_override" in e.settings for e in settings(text))
    text = info(5, "kv_cache_utils.py:826", line.format(28163))
    assert any("num_gpu_blocks_override" in e.settings for e in settings(text))


def settings(text: str) -> list[ConfigRecorded]:
    start = info(1, "model.py:1", "Using max model len 1024")
    return of(ConfigRecorded, events(start + text))


def test_a_miss_before_there_are_buckets_is_the_profile_run():
    start = info(
        1,
        "core.py:96",
        "Initializing a V1 LLM engine (v0.14.1) with config: model='a/b', device_config=hpu",
    )
    miss = info(
        5, "common.py:245",
        "Prompt bucket for (1, 32768, 0) was not prepared. Adding new bucket: (1, 32768, "
        "0)", "WARNING",
    )  # fmt: skip
    lists = info(6, "common.py:220", "Generated 1 prompt buckets [bs, query, num_blocks]: "
                 "[(1, 128, 0)]")  # fmt: skip
    found = events(start + miss + lists + miss)
    assert [e.line for e in of(BucketMiss, found)] == [4]
    assert [e.line for e in of(Note, found) if e.topic == "profile_run"] == [2]
    assert [e.line for e in of(BucketMiss, events(miss))] == [1]


def test_the_model_is_known_from_the_line_that_loads_it():
    text = info(5, "gpu_model_runner.py:1", "Starting to load model Qwen/Qwen2.5-3B...")
    assert [e.model for e in of(ConfigRecorded, events(text)) if e.model] == [
        "Qwen/Qwen2.5-3B"
    ]


def test_a_path_into_the_hubs_cache_is_the_model_that_it_names():
    path = "/data/huggingface/hub/models--Qwen--Qwen3-VL-32B/snapshots/4bf2c2/"
    text = info(5, "gpu_model_runner.py:1", f"Starting to load model {path}...")
    assert [e.model for e in of(ConfigRecorded, events(text)) if e.model] == [
        "Qwen/Qwen3-VL-32B"
    ]


def test_a_draft_model_is_not_the_model():
    text = info(
        1,
        "core.py:96",
        "Initializing a V1 LLM engine (v0.26.0) with config: model='a/b'",
    )
    text += info(5, "gpu_model_runner.py:1", "Starting to load model a/draft...")
    assert [e.model for e in of(ConfigRecorded, events(text)) if e.model] == ["a/b"]


ITEM = "[Warmup][Graph/Multimodal(image)][{}/2] batch_size:1 seq_len:0 resolution:{} free_mem:{} GiB"
RUNNER = "hpu_model_runner.py:5240"


def test_a_multimodal_item_of_vllm_gaudi_ran_before_its_line():
    """`warmup_multimodal_graphs` embeds, then logs; text buckets are logged first."""
    text = (
        info(2, RUNNER, "Multimodal bucket : [1600, 3136]")
        + info(9, RUNNER, ITEM.format(1, "448X448", 22.5))
        + info(20, RUNNER, ITEM.format(2, "896X896", 22.25))
        + info(21, RUNNER, "Starting sampler warmup...")
    )
    steps = of(WarmupStep, events(text))
    assert [(s.bucket, s.duration_s) for s in steps] == [
        ((448, 448, 1), 7.0),
        ((896, 896, 1), 11.0),
    ]
    assert [s.mode for s in steps] == [None, None]
    assert [s.memory_bytes for s in steps] == [None, GIB // 4]


COUNTED = "[Warmup][Graph/Multimodal(image)][{}/{}] batch_size:{} seq_len:0 resolution:{} free_mem:9 GiB"
PATCHES = "[Warmup]{}[{}/2] batch_size:1 seq_len:1024 {}:{} free_mem:9 GiB"
EXPLICIT = (
    "Using explicit multimodal warmup resolutions (width, height, "
    "count[None=max|N=pin|(lo,hi)=range]): [(1024, 768, (1, 9)), (864, 480, None)]"
)


@pytest.mark.parametrize(
    ("lines", "generated", "warmed"),
    [
        # Batches of images of one size: the list has the batches alone.
        (["Multimodal bucket : [1, 2, 4]",
          *(COUNTED.format(i, 3, n, "896X896") for i, n in ((1, 1), (2, 2), (3, 4)))],
         None, [(896, 896, 1), (896, 896, 2), (896, 896, 4)]),
        # Sizes of images that are made of the patches in the list, some twice.
        (["Multimodal bucket : [196, 256]",
          *(COUNTED.format(i, 3, 1, size)
            for i, size in ((1, "224X448"), (2, "448X224"), (3, "224X448")))],
         None, [(224, 448, 1), (448, 224, 1)]),
        # Counts of images up to the limit of a prompt, which the list does not heed.
        ([EXPLICIT, COUNTED.format(1, 2, 1, "1024X768"), COUNTED.format(1, 2, 2, "1024X768"),
          COUNTED.format(2, 2, 2, "864X480")],
         None, [(864, 480, 2), (1024, 768, 1), (1024, 768, 2)]),
        (["Using explicit multimodal warmup resolutions (WxH): [(864, 480), (768, 1024)]",
          COUNTED.format(1, 2, 1, "864X480")], None, [(864, 480, 1)]),
        # Patches as they are in the list.
        (["Multimodal bucket : [1600, 3136]",
          PATCHES.format("[Graph/Multimodal(image)]", 1, "img_args", 1600),
          PATCHES.format("[Graph/Multimodal(image)]", 1, "img_args", 1600)],
         2, [(1600,)]),
        (["Multimodal bucket : [1600, 3136]",
          *(PATCHES.format("[Multimodal]", i, "num_patches", n) for i, n in ((1, 1600), (2, 3136))),
          *(PATCHES.format("[Graph/Multimodal]", i, "num_patches", n)
            for i, n in ((1, 1600), (2, 3136)))],
         2, [(1600,), (3136,)]),
    ],
    ids=["batches", "sizes", "counts", "explicit sizes", "patches", "fork"],
)  # fmt: skip
def test_multimodal_buckets_are_those_that_ran(lines, generated, warmed):
    """What ran has the dimensions of its lines; a list of others is none of it."""
    text = "".join(info(n, RUNNER, line) for n, line in enumerate(lines))
    found = folded(events(text + info(20, RUNNER, "Warmup finished in 9 secs, "
                                      "allocated 1 GiB of device memory")))  # fmt: skip
    assert found.summary.multimodal == OtherPhase(generated, len(warmed))
    rows = [row for row in found.rows if row.phase == "multimodal"]
    assert [row.bucket for row in rows if row.warmed] == warmed
    listed = {(1600,), (3136,)} if "[1600" in lines[0] else set()
    assert {row.bucket for row in rows if not row.warmed} == listed - set(warmed)


def test_a_multimodal_item_beside_a_missing_line_has_no_time():
    lines = [(1, "448X448"), (3, "896X896"), (4, "864X480"), (1, "448X448")]
    text = info(2, RUNNER, "Multimodal bucket : []") + "".join(
        info(5 + 2 * n, RUNNER, COUNTED.format(index, 4, 1, size))
        for n, (index, size) in enumerate(lines)
    )
    steps = of(WarmupStep, events(text))
    assert [step.duration_s for step in steps] == [3.0, None, 2.0, 2.0]
    assert folded(events(text)).summary.multimodal.generated is None


def test_images_and_videos_of_one_size_are_buckets_each():
    """`warmup_multimodal_graphs` runs the sizes of its list for each kind of input."""
    sizes = ("864X480", "768X1024")
    lines = [
        "Using explicit multimodal warmup resolutions (WxH): [(864, 480, 1), (768, 1024, 1)]",
        *(COUNTED.format(n, 2, 1, size) for n, size in enumerate(sizes, start=1)),
        *(COUNTED.format(n, 2, 1, size).replace("(image)", "(video)")
          for n, size in enumerate(sizes, start=1)),
        "Warmup finished in 9 secs, allocated 1 GiB of device memory",
    ]  # fmt: skip
    found = folded(
        events("".join(info(2 * n, RUNNER, line) for n, line in enumerate(lines)))
    )
    assert found.summary.multimodal == OtherPhase(4, 4)
    assert found.summary.other_phases == {}
    rows = [(row.phase, row.bucket, row.duration_s) for row in found.rows]
    assert rows == [
        (phase, bucket, 2.0)
        for phase in ("multimodal", "multimodal_video")
        for bucket in ((768, 1024, 1), (864, 480, 1))
    ]


@pytest.mark.parametrize(
    "heading", ["", "EngineCore failed to start."], ids=["cause first", "heading first"]
)
def test_a_failure_is_of_the_bucket_that_ran_and_not_of_the_sampler_before_it(heading):
    text = (
        info(2, RUNNER, "Starting sampler warmup...")
        + info(4, RUNNER, "Sampler warmup completed successfully")
        + info(5, RUNNER, "[Warmup][Prompt][1/2] batch_size:1 query_len:512 num_blocks:8 "
               "free_mem:20 GiB")
        + (info(9, "core.py:1180", heading, "ERROR") if heading else "")
        + info(9, "core.py:1180", "RuntimeError: [Rank:0] FATAL ERROR :: MODULE:PT_DEVMEM "
               "Allocation failed for size::268435456 (256)MB", "ERROR")
    )  # fmt: skip
    (failure,) = of(Failure, events(text))
    assert failure.phase == "prompt"


VALIDATED = "INFO 05-01 23:22:{:02d} [hpu_model_runner.py:5845] {}\n"


@pytest.mark.parametrize(("is_cut", "warmed"), [(False, 3), (True, None)])
def test_a_validation_whose_head_was_cut_off_is_not_the_warm_up(is_cut, warmed):
    """vllm-gaudi `warmup_model` runs the longest prompts once more."""
    step = "[Warmup][Graph/prompt][{}/{}] batch_size:1 query_len:{} num_blocks:0 free_mem:9 GiB"
    first = [step.format(index, 3, 128 * (4 - index)) for index in (1, 2, 3)]
    again = [step.format(index, 2, 384) for index in (1, 2)]
    start = "Running validation warmup to trigger guard specializations..."
    lines = [
        *([] if is_cut else [*first, start]), *again, "Validation warmup complete.",
        "Warmup finished in 90 secs, allocated 2 GiB of device memory",
    ]  # fmt: skip
    text = "".join(VALIDATED.format(place, line) for place, line in enumerate(lines))
    assert folded(events(text)).summary.phase("prompt").warmed == warmed


def test_what_was_not_warmed_is_so_in_the_lines_of_an_excerpt():
    step = (
        "INFO 08-26 07:31:{} habana_model_runner.py:1192] [Warmup][Prompt][{}/56] "
        "batch_size:64 seq_len:{} free_mem:13.93 GiB\n"
    )
    text = step.format(40, 1, 1024) + step.format(47, 2, 896) + step.format(51, 3, 768)
    (found,) = (
        line for line in oddities(folded(events(text)).summary) if "not warmed" in line
    )
    assert found == "54 of 56 prompt buckets were not warmed in the lines of this log."
