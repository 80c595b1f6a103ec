"""Ranks follow from names, pids and stated sizes, never from a repeat mark."""

from __future__ import annotations

import pytest

from tests.helpers import events, of, summary_of
from warmup_insights.model.events import (
    CaptureProgress,
    ConfigRecorded,
    GraphsCaptured,
    MemoryMeasured,
    Note,
)
from warmup_insights.testing import folded, read

LOADED = " INFO 07-16 10:00:0{} [gpu_model_runner.py:1] Model loading took 2.5 GiB and 1.5 seconds"
OTHER = " INFO 07-16 10:00:09 [backends.py:920] collected artifacts: 2 entries"


def num_ranks(text: str) -> int | None:
    numbers = [e.num_ranks for e in of(ConfigRecorded, events(text))]
    return next((number for number in reversed(numbers) if number is not None), None)


def loaded(name: str, second: int = 1) -> str:
    return f"({name})" + LOADED.format(second) + "\n"


def test_a_process_without_events_is_a_rank():
    text = loaded("Worker_TP0 pid=150") + f"(Worker_TP1 pid=165){OTHER}\n"
    assert num_ranks(text) == 2


def test_a_repeat_mark_makes_no_ranks():
    line = loaded("Worker_DP0_TP1_EP1 pid=7").strip()
    text = f"(RayWorkerProc pid=7) {line} [repeated 8x across cluster]\n"
    text += loaded("Worker_DP1_TP1_EP3 pid=9")
    assert {e.rank for e in of(MemoryMeasured, events(text))} == {1, 3}
    assert num_ranks(text) == 4


def test_engines_of_data_parallel_runs_without_workers_are_ranks():
    text = loaded("EngineCore_DP0 pid=1") + loaded("EngineCore_DP3 pid=4")
    text += f"(EngineCore_DP2 pid=3){OTHER}\n"
    assert num_ranks(text) == 4


def test_several_engines_that_print_nothing_yet_are_ranks():
    text = (
        "(MainProcess pid=1) INFO 07-16 10:00:00 [api_utils.py:286] non-default args: "
        "{{'model': 'a/b', 'data_parallel_size': 2{}}}\n"
    )
    assert summary_of(events(text.format("")))["ranks"] == 2
    one = text.format(", 'data_parallel_rank': 1")
    assert summary_of(events(one))["ranks"] == 1
    of_two = ", 'tensor_parallel_size': 2"
    assert num_ranks(text.format(of_two)) == 4
    assert num_ranks(text.format(of_two + ", 'data_parallel_size_local': 1")) == 2


def test_the_only_workers_of_several_engines_are_ranks_as_they_appear():
    text = (
        "(MainProcess pid=1) INFO 07-16 10:00:00 [api_utils.py:286] non-default args: "
        "{'model': 'a/b', 'data_parallel_size': 2}\n"
        "(EngineCore_DP0 pid=2) INFO 07-16 10:00:00 [core.py:1] Initializing a V1 LLM engine "
        "(v0.32.0) with config: model='a/b', data_parallel_size=1\n"
    )
    for pid in (8, 9):
        text += (
            f"(Worker pid={pid}) INFO 07-16 10:00:00 [parallel_state.py:1] rank 0 in world "
            "size 1 is assigned as DP rank 0, PP rank 0, TP rank 0\n"
        )
    text += loaded("Worker pid=8") + loaded("Worker pid=9")
    assert [e.rank for e in of(MemoryMeasured, events(text))] == [0, 1]
    assert num_ranks(text) == 2


TWO_ENGINES = "".join(
    f"(EngineCore_DP{core} pid={2 + core}) INFO 07-16 10:00:00 [core.py:1] Initializing a "
    "V1 LLM engine (v0.33.0) with config: model='a/b', tensor_parallel_size=2, "
    "data_parallel_size=1\n"
    for core in (0, 1)
)


def test_workers_of_several_engines_have_equal_names():
    """Each engine of a dense model is configured as the only one."""
    text = TWO_ENGINES
    workers = [(20, 0), (30, 0), (21, 1), (31, 1)]
    for pid, rank in workers:
        text += (
            f"(Worker pid={pid}) INFO 07-16 10:00:01 [parallel_state.py:1] rank {rank} in "
            f"world size 2 is assigned as DP rank 0, PP rank 0, TP rank {rank}\n"
        )
    text += "".join(loaded(f"Worker_TP{rank} pid={pid}", 2) for pid, rank in workers)
    assert [e.rank for e in of(MemoryMeasured, events(text))] == [0, 2, 1, 3]
    assert num_ranks(text) == 4
    named = TWO_ENGINES + "".join(
        loaded(f"Worker_TP{rank} pid={pid}", 2) for pid, rank in workers
    )
    assert [e.rank for e in of(MemoryMeasured, events(named))] == [0, 2, 1, 3]


@pytest.mark.parametrize("stated", [True, False])
def test_equal_workers_are_of_several_engines(stated):
    """Also where the log begins after their configuration."""
    workers, text = [(30, 0), (20, 0), (31, 1), (21, 1)], ""
    for pid, rank in workers if stated else []:
        text += (
            f"(Worker pid={pid}) INFO 07-16 10:00:01 [parallel_state.py:1] rank {rank} in "
            f"world size 2 is assigned as DP rank 0, PP rank 0, TP rank {rank}\n"
        )
    text += "".join(loaded(f"Worker_TP{rank} pid={pid}", 2) for pid, rank in workers)
    found = [e.rank for e in of(MemoryMeasured, events(text))]
    assert len(set(found)) == 4
    assert num_ranks(text) == (4 if stated else 0)


def test_workers_whose_statement_was_cut_off_have_a_rank_of_their_own():
    text = "".join(
        f"(Worker pid={pid}) INFO 07-16 10:00:01 [parallel_state.py:1] rank {rank} in "
        f"world size 2 is assigned as DP rank 0, PP rank 0, TP rank {rank}\n"
        for pid, rank in ((30, 0), (31, 1))
    )
    workers = [(20, 0), (30, 0), (21, 1), (31, 1)]
    text += "".join(loaded(f"Worker_TP{rank} pid={pid}", 2) for pid, rank in workers)
    assert len({e.rank for e in of(MemoryMeasured, events(text))}) == 4
    assert num_ranks(text) == 4


def test_workers_of_several_engines_state_their_devices():
    """vLLM `gpu_worker.py init_device`: whichever prints first."""
    text = TWO_ENGINES
    workers = [(30, 0, 2), (20, 0, 0), (31, 1, 3), (21, 1, 1)]
    for pid, rank, device in workers:
        text += (
            f"(Worker pid={pid}) INFO 07-16 10:00:01 [parallel_state.py:1] world_size=2 "
            f"rank={rank} local_rank={device} distributed_init_method=tcp://x backend=nccl\n"
            f"(Worker pid={pid}) INFO 07-16 10:00:01 [parallel_state.py:1] rank {rank} in "
            f"world size 2 is assigned as DP rank 0, PP rank 0, TP rank {rank}\n"
        )
    text += "".join(loaded(f"Worker_TP{rank} pid={pid}", 2) for pid, rank, _ in workers)
    assert [e.rank for e in of(MemoryMeasured, events(text))] == [2, 0, 3, 1]
    assert num_ranks(text) == 4


def test_a_core_has_the_first_rank_of_its_engine():
    text = TWO_ENGINES + loaded("Worker_TP0 pid=20") + loaded("Worker_TP1 pid=21")
    for core, tokens in ((0, 1024), (1, 2048)):
        text += (
            f"(EngineCore_DP{core} pid={2 + core}) INFO 07-16 10:00:09 "
            f"[kv_cache_utils.py:1] GPU KV cache size: {tokens:,} tokens\n"
        )
    assert summary_of(events(text))["memory"]["kv_cache_tokens"] == 1024


def test_tokens_of_the_kv_cache_are_of_the_engine_whose_blocks_are_stated():
    """On HPU no line shows to which engine a worker belongs; its blocks do."""
    text = TWO_ENGINES + loaded("Worker_TP0 pid=30") + loaded("Worker_TP0 pid=20")
    for core, tokens in ((0, 1024), (1, 2048)):
        text += (
            f"(EngineCore_DP{core} pid={2 + core}) INFO 07-16 10:00:09 "
            f"[kv_cache_utils.py:1] GPU KV cache size: {tokens:,} tokens, Maximum "
            f"concurrency for 1,024 tokens per request: {tokens / 1024:.2f}x\n"
        )
    for pid, blocks in ((30, 16), (20, 8)):
        text += (
            f"(Worker_TP0 pid={pid}) INFO 07-16 10:00:10 [hpu_worker.py:546] Usable "
            f"num_blocks: {blocks}, actual allocated num_blocks: {(blocks + 1) * 128} "
            f"(_PAD_BLOCK_ID={blocks}, _PAD_SLOT_ID={blocks * 128})\n"
        )
    memory = summary_of(events(text))["memory"]
    found = [memory[n] for n in ("num_kv_blocks", "kv_cache_tokens", "max_concurrency")]
    assert found == [16, 2048, 2.0]


def test_a_single_engine_has_no_rank():
    text = (
        "(EngineCore_DP0 pid=1) INFO 07-16 10:00:00 [parallel_state.py:1] rank 0 in world "
        "size 1 is assigned as DP rank 0, PP rank 0, TP rank 0\n"
    )
    found = events(text + loaded("EngineCore_DP0 pid=1"))
    assert [e.rank for e in of(MemoryMeasured, found)] == [None]
    assert num_ranks(text) == 1


def test_a_stated_world_size_counts_the_ranks():
    text = (
        "(EngineCore_DP2 pid=3) INFO 07-16 10:00:00 [parallel_state.py:1] rank 2 in world "
        "size 4 is assigned as DP rank 2, PP rank 0, TP rank 0\n"
    )
    assert num_ranks(text) == 4


def test_workers_of_v0_are_told_apart_by_their_pid_beside_a_driver():
    text = "".join(loaded(f"VllmWorkerProcess pid={pid}") for pid in (7, 8, 9))
    assert num_ranks(text) == 4
    assert num_ranks(LOADED.format(1).strip() + "\n" + text) == 4
    assert {e.rank for e in of(MemoryMeasured, events(text))} == {1, 2, 3}


def test_two_workers_of_v0_beside_a_driver_may_be_some_of_more():
    text = "".join(loaded(f"VllmWorkerProcess pid={pid}") for pid in (7, 8))
    assert num_ranks(text) == 0


def test_the_only_group_in_a_name_has_the_ranks():
    """In whatever order they appear: groups of one rank are in no name."""
    for name in ("Worker_PP{} pid=3{}", "Worker_DP{} pid=3{}"):
        text = "".join(loaded(name.format(n, n)) for n in (2, 3, 0, 1))
        found = [e.rank for e in of(MemoryMeasured, events(text))]
        assert (found, num_ranks(text)) == ([2, 3, 0, 1], 4)


@pytest.mark.parametrize(
    ("order", "known"),
    [
        (("PP1_TP1", "PP0_TP1", "PP1_TP0", "PP0_TP0"), 4),
        (("PP0_TP1", "PP1_TP1", "PP0_TP0", "PP1_TP0"), 4),
        (("PP0_TP0", "PP1_TP1"), 0),
        (("PP1_TP3", "PP0_TP3", "PP1_TP0"), 0),
        (("PP2_TP0", "PP0_TP1", "PP1_TP0", "PP0_TP0"), 0),
    ],
)
def test_workers_of_two_groups_have_a_rank_each_where_no_sizes_are_known(order, known):
    text = "".join(loaded(f"Worker_{name} pid=3{n}") for n, name in enumerate(order))
    found = [e.rank for e in of(MemoryMeasured, events(text))]
    assert len(set(found)) == len(order)
    assert num_ranks(text) == known


def test_groups_behind_a_space_are_part_of_the_name():
    """vLLM 0.10: `VllmWorker PP0_TP0`."""
    order = ("PP0_TP0", "PP0_TP1", "PP1_TP0", "PP1_TP1")
    text = "".join(
        loaded(f"VllmWorker {name} pid=3{n}") for n, name in enumerate(order)
    )
    assert [e.rank for e in of(MemoryMeasured, events(text))] == [0, 1, 2, 3]
    assert num_ranks(text) == 4


def test_prefill_context_ranks_lie_between_pipeline_and_tensor_ranks():
    """And those of decode context groups are among the tensor parallel ones (vLLM
    `distributed/parallel_state.py`)."""
    text = (
        "(EngineCore pid=1) INFO 07-16 10:00:00 [core.py:1] Initializing a V1 LLM engine "
        "(v0.26.0) with config: model='a/b', tensor_parallel_size=2, "
        "pipeline_parallel_size=2, prefill_context_parallel_size=2\n"
    )
    text += loaded("Worker_PP1_PCP0_TP1_DCP1 pid=3")
    text += loaded("Worker_PP0_PCP1_TP0_DCP0 pid=4")
    assert [e.rank for e in of(MemoryMeasured, events(text))] == [5, 2]
    assert num_ranks(text) == 8
    of_one = "".join(loaded(f"Worker_PCP{n} pid=3{n}") for n in (1, 0))
    assert [e.rank for e in of(MemoryMeasured, events(of_one))] == [1, 0]


def test_sizes_of_the_configuration_place_pipeline_and_data_ranks():
    text = (
        "(EngineCore pid=1) INFO 07-16 10:00:00 [core.py:1] Initializing a V1 LLM engine "
        "(v0.26.0) with config: model='a/b', tensor_parallel_size=2, "
        "pipeline_parallel_size=2\n"
    )
    text += loaded("Worker_DP1_PP0_TP1 pid=3") + loaded("Worker_PP1_TP0 pid=4")
    assert [e.rank for e in of(MemoryMeasured, events(text))] == [5, 2]


def test_the_folder_of_the_compile_cache_names_the_rank_of_a_ray_worker():
    text = (
        "(RayWorkerWrapper pid=693) INFO 07-16 10:00:00 [backends.py:416] Using cache "
        "directory: /c/88e0/rank_3_0 for vLLM's torch.compile\n"
    )
    (event,) = of(MemoryMeasured, events(text + loaded("RayWorkerWrapper pid=693")))
    assert event.rank == 3
    assert num_ranks(text) == 0


def test_a_capture_bar_without_a_name_is_the_first_ranks():
    text = "Capturing CUDA graph shapes: 100%|####| 67/67 [00:15<00:00,  4.34it/s]\n"
    for rank in (0, 1):
        text += (
            f"(VllmWorker rank={rank} pid={rank + 5}) INFO 07-18 19:52:37 "
            "[gpu_model_runner.py:2326] Graph capturing finished in 15 secs, took 0.73 GiB\n"
        )
    found = events(text)
    assert [e.rank for e in of(CaptureProgress, found)] == [0]
    assert {e.rank for e in of(GraphsCaptured, found)} == {0, 1}
    assert num_ranks(text) == 2


def test_names_of_processes_that_were_not_renamed_yet_are_read():
    (event,) = of(MemoryMeasured, events(loaded("VllmWorker-1 pid=12")))
    assert event.rank == 1
    (event,) = of(MemoryMeasured, events(loaded("SpawnProcess-1:2 pid=12")))
    assert event.rank is None


def test_the_first_of_several_ranks_is_no_count():
    assert num_ranks(loaded("Worker_TP0 pid=150")) == 0
    assert folded(events(loaded("Worker_TP0 pid=150"))).summary.ranks is None
    assert num_ranks(loaded("VllmWorkerProcess pid=7")) == 0
    assert num_ranks(loaded("VllmWorker rank=0 pid=7")) == 0


def test_ranks_that_are_not_all_there_are_no_count():
    """A worker that failed prints; of those behind it nothing shows how many there are."""
    assert num_ranks(loaded("Worker_TP2 pid=153")) == 0
    text = loaded("Worker_TP0 pid=150") + loaded("Worker_TP2 pid=152")
    assert num_ranks(text) == 0
    assert num_ranks(text + loaded("Worker_TP3 pid=153")) == 4
    config = (
        "(EngineCore pid=1) INFO 07-16 10:00:00 [core.py:1] Initializing a V1 LLM engine "
        "(v0.24.0) with config: model='m', tensor_parallel_size=8\n"
    )
    assert num_ranks(config + text) == 8


def test_a_rank_without_any_phase_is_no_rank_of_the_times():
    text = (
        "(EngineCore_DP1 pid=9) INFO 07-08 11:54:14 [core.py:313] init engine (profile, create "
        "kv cache, warmup model) took 21.40 s\n"
    )
    assert summary_of(events(text))["time"]["ranks"] == []


def test_engine_cores_of_older_releases_have_their_number_without_letters():
    text = loaded("EngineCore_1 pid=2") + loaded("EngineCore_3 pid=4")
    assert num_ranks(text) == 4
    assert num_ranks(loaded("EngineCore_0 pid=1")) is None


def ray_worker(pid, text, second):
    return f"(RayWorkerWrapper pid={pid}) INFO 07-16 10:00:0{second} [x.py:1] {text}\n"


def test_workers_of_ray_are_as_many_as_ranks():
    """Under the engine core of V1 rank 0 is a worker as well; ranks are stated late."""
    config = (
        "INFO 07-16 10:00:00 [core.py:1] Initializing a V1 LLM engine (v0.10.1) with "
        "config: model='a/b', tensor_parallel_size=4, pipeline_parallel_size=1\n"
    )
    seen = [ray_worker(pid, "Starting to load model a/b...", 1) for pid in (5, 6, 7, 8)]
    stated = ray_worker(
        7, "rank 0 in world size 4 is assigned as DP rank 0, PP rank 0", 2
    )
    ends = [loaded(f"RayWorkerWrapper pid={pid}", 3) for pid in (5, 6, 7, 8)]
    found = of(MemoryMeasured, events("".join([config, *seen, stated, *ends])))
    assert [event.rank for event in found] == [1, 2, 0, 3]


BAR = "Capturing CUDA graphs (decode, FULL): 100%|#| 4/4 [00:01<00:00,  4.00it/s]\n"


def test_the_ranks_of_a_part_of_a_log_are_a_guess():
    """It shows who printed lines, and may lack others; an engine that is its own worker
    has one."""

    def facts(text):
        summary = summary_of(read(text)[0][0])
        return summary["ranks"], "ranks" in summary["guessed"]

    def weights(process):
        return (
            f"({process}) INFO 06-03 07:09:24 [gpu_model_runner.py:5360] Model loading "
            "took 7.12 GiB memory and 7.406471 seconds\n"
        )

    several = weights("Worker_TP0 pid=1") + weights("Worker_TP1 pid=2")
    stated = (
        "(EngineCore pid=2) INFO 06-03 07:09:20 [core.py:96] Initializing a V1 LLM engine "
        "(v0.25.1) with config: model='a/b', tensor_parallel_size=2\n"
    )
    ray = weights("RayWorkerWrapper pid=1") + weights("RayWorkerWrapper pid=2")
    others = (
        "(RayWorkerWrapper pid=2) INFO 06-03 07:09:25 [pynccl.py:70] vLLM is using "
        "nccl==2.26.2 [repeated 7x across cluster]\n"
    )
    assert facts(ray) == (2, True)
    assert facts(ray + others) == (None, False)  # Ray prints one of equal lines
    assert facts(BAR) == (1, True)
    assert facts(several) == (2, True)
    assert facts(stated + several) == (2, False)
    assert facts(weights("EngineCore pid=2")) == (1, False)


def test_the_number_of_ranks_is_a_guess_until_a_line_shows_it():
    head = "INFO 07-16 10:00:00 [api_server.py:1044] vLLM API server version 0.9.2\n"
    summary = summary_of(events(head))
    assert (summary["ranks"], summary["guessed"]) == (1, ["ranks"])


def test_a_stage_behind_the_first_is_not_rank_0():
    """The sizes of the groups are not in the lines."""
    text = loaded("Worker_PP1 pid=9") + loaded("Worker_PP0 pid=7")
    assert [e.rank for e in of(MemoryMeasured, events(text))] == [1, 0]


HEAD_OF_TPU = (
    "(APIServer pid=1) INFO 08-20 10:00:00 [utils.py:239] non-default args: {{'model': "
    "'a/b', 'tensor_parallel_size': 4{}}}\n"
    "(EngineCore pid=2) INFO 08-20 10:00:05 [core.py:94] Initializing a V1 LLM engine "
    "(v0.27.1) with config: model='a/b', tensor_parallel_size=4, "
    "pipeline_parallel_size={}, data_parallel_size=1\n"
)
ALONE = (
    "INFO 08-20 10:00:09 [parallel_state.py:1700] world_size=1 rank=0 local_rank=0 "
    "distributed_init_method=file:///tmp/a backend=gloo"
)
ON_TPU = (
    "INFO 08-20 10:01:{:02d} [tpu_runner.py:1264] Init model | hbm=[({}, 31.25)]GiB"
)


def weights_by_rank(text: str) -> dict[int | None, float]:
    loaded = [e for e in of(MemoryMeasured, events(text)) if e.stage == "weights"]
    return {e.rank: round((e.used_bytes or 0) / 2**30, 2) for e in loaded}


def test_workers_on_tpu_that_each_drive_a_host_are_ranks_as_they_appear():
    """They state a world of one process, and rank 0 unless they are pipeline stages."""
    for name, ip in (
        ("Worker", ""),
        ("EngineCore pid=2) (RayWorkerWrapper", ", ip=10.0.0.{}"),
    ):
        text = HEAD_OF_TPU.format("", 2)
        for pid, used in ((7, 3.5), (8, 3.75)):
            who = f"({name} pid={pid}{ip.format(pid)}) "
            text += (
                who + "INFO 08-20 10:00:07 [__init__.py:224] Automatically detected "
            )
            text += f"platform tpu.\n{who}{ALONE}\n"
            text += who + ON_TPU.format(pid, used) + "\n"
        assert num_ranks(text) == 2
        ranked = {rank or 0: used for rank, used in weights_by_rank(text).items()}
        assert ranked == {0: 3.5, 1: 3.75}


def test_engines_on_tpu_have_no_workers_whatever_their_groups_are():
    """tpu-inference `tpu_platform.py check_and_update_config`: UniProcExecutor."""
    text = HEAD_OF_TPU.format(", 'data_parallel_size': 2", 1)
    for core, used in ((0, 3.5), (1, 3.75)):
        who = f"(EngineCore_DP{core} pid={core + 7}) "
        text += who + "INFO 08-20 10:00:09 [tpu_worker.py:489] Init worker | rank=0 | "
        text += f"hbm=[(0.0, 31.25)]GiB\n{who}" + ON_TPU.format(core, used) + "\n"
    assert num_ranks(text) == 2
    ranked = {rank or 0: used for rank, used in weights_by_rank(text).items()}
    assert ranked == {0: 3.5, 1: 3.75}


ENGINES = "'data_parallel_size': 2"


def test_an_engine_that_is_alone_on_its_host_has_the_ranks_that_are_there():
    core = TWO_ENGINES.splitlines(keepends=True)[1]
    for setting, others in (
        (f"{ENGINES}, 'data_parallel_size_local': 1", ""),
        ("", core),
    ):
        text = (
            "(MainProcess pid=1) INFO 07-16 10:00:00 [api_utils.py:286] non-default args: "
            f"{{'model': 'a/b', {setting}}}\n" + core
        )
        text += loaded("Worker_TP0 pid=20") + loaded("Worker_TP1 pid=21") + others
        text += (
            "(EngineCore_DP1 pid=3) INFO 07-16 10:00:09 [kv_cache_utils.py:1] GPU KV cache "
            "size: 2,048 tokens\n"
        )
        summary = summary_of(events(text))
        assert (summary["ranks"], summary["memory"]["kv_cache_tokens"]) == (2, 2048)


def test_engines_of_a_second_host_count_from_0_where_they_share_nothing():
    text = (
        "(MainProcess pid=1) INFO 07-16 10:00:00 [api_utils.py:286] non-default args: "
        "{'model': 'a/b', 'data_parallel_size': 8, 'data_parallel_size_local': 2}\n"
    )
    for core in (4, 5):
        text += (
            f"(EngineCore_DP{core} pid={core}) INFO 07-16 10:00:00 [core.py:1] Initializing "
            "a V1 LLM engine (v0.33.0) with config: model='a/b', data_parallel_size=1\n"
        )
    text += loaded("EngineCore_DP4 pid=4", 2) + loaded("EngineCore_DP5 pid=5", 2)
    assert [e.rank for e in of(MemoryMeasured, events(text))] == [0, 1]
    assert num_ranks(text) == 2


def test_an_engine_with_a_server_of_its_own_has_no_rank():
    text = (
        "(MainProcess pid=1) INFO 07-16 10:00:00 [api_utils.py:286] non-default args: "
        "{'model': 'a/b', 'data_parallel_size': 8, 'data_parallel_rank': 3}\n"
    ) + loaded("EngineCore_DP3 pid=4")
    assert [e.rank for e in of(MemoryMeasured, events(text))] == [None]
    assert num_ranks(text) in (None, 1)


def test_engines_without_names_that_print_beside_each_other_are_mixed():
    """The ranks of one engine meet at one address; weights of two are not added."""
    line = "INFO 05-01 10:00:{:02d} [{}] {}\n"
    meets = "world_size={} rank={} local_rank=0 distributed_init_method={} backend=nccl"
    takes = "Model loading took {:.4f} GiB and 4.170000 seconds"

    def facts(*places):
        ranks = [
            line.format(
                n, "parallel_state.py:1402", meets.format(len(places), n, place)
            )
            for n, place in enumerate(places)
        ]
        weights = [
            line.format(20 + n, "gpu_model_runner.py:1347", takes.format(size))
            for n, size in enumerate((2.25, 7.5))
        ]
        summary = summary_of(events("".join(ranks + weights)))
        topics = [note["topic"] for note in summary["notes"]]
        return topics, summary["memory"]["weights_bytes"] / 2**30

    assert facts("tcp://10.0.0.1:3895") == ([], 9.75)  # a draft model
    assert facts("tcp://10.0.0.1:3895", "tcp://10.0.0.1:3895") == ([], 9.75)
    assert facts("tcp://10.0.0.1:3895", "tcp://10.0.0.1:4112") == (["mixed"], 2.25)


@pytest.mark.parametrize(
    "settings", ["", ", 'data_parallel_size': 4, 'data_parallel_rank': 2"]
)
def test_an_engine_that_is_alone_in_its_log_has_any_devices(settings):
    text = (
        "(APIServer pid=1) INFO 07-16 10:00:00 [api_utils.py:286] non-default args: "
        f"{{'model': 'a/b', 'tensor_parallel_size': 2{settings}}}\n"
    )
    for rank in range(2):
        text += (
            f"(Worker pid=3{rank}) INFO 07-16 10:00:01 [parallel_state.py:1] world_size=2 "
            f"rank={rank} local_rank={rank + 4} distributed_init_method=tcp://x backend=nccl\n"
        ) + loaded(f"Worker_TP{rank} pid=3{rank}", 2)
    assert [e.rank for e in of(MemoryMeasured, events(text))] == [0, 1]
    assert summary_of(events(text))["ranks"] == 2


@pytest.mark.parametrize(
    ("engines", "expected"), [((2,), [0, 1]), ((0, 1), [0, 1, 2, 3])]
)
def test_an_engine_that_is_alone_in_its_log_has_the_first_ranks(engines, expected):
    """As with a server for each engine of a model of experts, whose workers name theirs."""
    text = (
        "(APIServer pid=1) INFO 07-16 10:00:00 [api_utils.py:286] non-default args: "
        "{'model': 'a/b', 'tensor_parallel_size': 2, 'data_parallel_size': 4, "
        f"'data_parallel_rank': {engines[0]}}}\n"
    )
    for engine in engines:
        for rank in range(2):
            number = 2 * engine + rank
            text += loaded(f"Worker_DP{engine}_TP{rank}_EP{number} pid=3{number}", 2)
    assert sorted(e.rank for e in of(MemoryMeasured, events(text))) == expected
    assert summary_of(events(text))["ranks"] == len(expected)


def test_bars_alone_show_no_number_of_ranks():
    bar = (
        "Decode warmup processing:  16%|x| 37/227 [01:06<08:45,  2.77s/item, 36/227]\n"
    )
    summary = folded(events(bar)).summary
    assert summary.ranks is None or "ranks" in summary.guessed


def test_engines_of_v0_with_caches_of_two_sizes_are_mixed():
    line = "INFO 05-12 09:00:0{} executor_base.py:110] # HPU blocks: {}, # CPU blocks: 256\n"
    topics = [note.topic for note in of(Note, events(line.format(1, 900) * 2))]
    assert "mixed" not in topics
    found = folded(events(line.format(1, 900) + line.format(2, 700))).summary
    assert [note.topic for note in found.notes] == ["mixed"]


def test_a_part_of_a_log_shows_no_number_of_ranks_for_certain():
    """Neither without a known engine, nor where a core has a number, nor where workers of
    one of several engines are missing."""
    world = (
        " INFO 07-16 10:00:00 [parallel_state.py:1946] rank {} in world size 2 is assigned as "
        "DP rank 0, PP rank 0, TP rank {}, EP rank 0\n"
    )
    core = "(EngineCore_DP0 pid=7)"
    parts = (
        LOADED.format(1).strip() + "\n",
        f"{core}{LOADED.format(1)}\n{core} INFO 07-16 10:00:02 [gpu_worker.py:1] Available KV "
        "cache memory: 8.5 GiB\n",
        "".join(
            f"(Worker pid={pid}){world.format(rank, rank)}"
            + loaded(f"Worker_TP{rank} pid={pid}")
            for pid, rank in ((7, 0), (8, 1), (9, 0))
        ),
    )
    for text in parts:
        assert "ranks" in summary_of(events(text))["guessed"], text


def test_an_actor_that_stands_in_for_the_driver_is_no_rank():
    head = "INFO 04-28 20:49:{} "
    text = (
        f"{head.format(43)}llm_engine.py:74] Initializing an LLM engine (v0.4.0.post1) with "
        "config: model='a/b', tensor_parallel_size=2\n"
        f"(RayWorkerVllm pid=62031) {head.format(45)}x.py:1] text\n"
        f"(RayWorkerVllm pid=62111) {head.format(52)}model_runner.py:1] text\n"
        f"{head.format(52)}model_runner.py:104] Loading model weights took 14.8672 GB\n"
    )
    assert folded(events(text)).summary.ranks == 2


def test_the_only_worker_of_an_engine_on_cpu_has_no_peer():
    """vLLM 0.6.2 to 0.6.6 `executor/cpu_executor.py`."""
    head = "INFO 11-20 06:32:{} "
    text = (
        f"{head.format(37)}llm_engine.py:249] Initializing an LLM engine (v0.6.4) with "
        "config: model='a/b', tensor_parallel_size=1, device_config=cpu\n"
        f"(VllmWorkerProcess pid=29) {head.format(43)}selector.py:156] Using Torch SDPA "
        "backend.\n(VllmWorkerProcess pid=29) DEBUG 11-20 06:32:43 parallel_state.py:983] "
        "world_size=1 rank=0 local_rank=-1 distributed_init_method=tcp://x backend=gloo\n"
        f"{head.format(45)}cpu_executor.py:195] # CPU blocks: 7281\n"
    )
    summary = folded(events(text)).summary
    assert (summary.ranks, summary.time.ranks) == (1, [])


def test_an_engine_that_is_an_actor_of_ray_has_a_rank_it_does_not_state():
    """Ray prints one of equal lines, so the second one's `rank 1 in world size 2` is not
    there; its host has another clock, so what it did is at no known time."""
    api = "(APIServer pid=5) "
    first, second = (
        f"{api}(DPEngineCoreActor pid={pid}) INFO 01-12 06:" for pid in (8, 9)
    )
    engine = (
        "[core.py:77] Initializing a V1 LLM engine (v0.11.0) with config: model='a/b', "
        "tensor_parallel_size=1, data_parallel_size=2\n"
    )
    download = (
        "[weight_utils.py:413] Time spent downloading weights for a/b: {} seconds\n"
    )
    text = (
        f"{api}INFO 01-12 06:14:12 [api_server.py:1839] vLLM API server version 0.11.0\n"
        f"{first}14:36 {engine}{second}15:19 {engine}"
        f"{second}15:27 {download.format(4.5)}"
        f"{first}14:40 [parallel_state.py:1208] rank 0 in world size 2 is assigned as DP "
        "rank 0, PP rank 0, TP rank 0, EP rank 0\n"
        f"{first}14:41 [gpu_model_runner.py:2602] Starting to load model a/b...\n"
        f"{first}14:48 {download.format(6.25)}"
        f"{second}16:05 [core.py:210] init engine (profile, create kv cache, warmup model) "
        "took 36.44 seconds\n"
        f"{api}INFO 01-12 06:15:27 [api_server.py:1912] Starting vLLM API server 0 on "
        "http://0.0.0.0:8000\n"
        f"{api}INFO:     Application startup complete.\n"
    )
    time = folded(events(text)).summary.time
    assert (time.wall_s, time.seconds_by_phase()["download"]) == (75.0, 6.25)
