"""The KV cache under other settings, from runs that do not state what graphs took."""

from __future__ import annotations

import io

import msgspec
import pytest

from tests.analysis.builders import planner_of, simulate
from tests.helpers import REAL_LOGS, events, folded
from warmup_insights.analysis.plan.cache import CachePlanner
from warmup_insights.analysis.plan.planning import PlanSettings
from warmup_insights.analysis.summary import summarize
from warmup_insights.errors import InputError
from warmup_insights.export.plans import cache_table, cache_tables
from warmup_insights.ingest.log import LogEnd, read_log
from warmup_insights.ingest.outcome import Options
from warmup_insights.model.events import (
    BucketsGenerated,
    ConfigRecorded,
    Failure,
    KVCacheAllocated,
    MemoryBudgetSet,
    RunStarted,
)
from warmup_insights.model.failure_text import figures_of
from warmup_insights.model.figures import contradictory
from warmup_insights.model.run import RunRecord
from warmup_insights.model.summary import (
    EngineName,
    FailureFacts,
    FailureFigures,
    GraphFacts,
    RunSummary,
)
from warmup_insights.units import GIB


def cuda(
    *, total=80 * GIB, concurrency=10.0, version="0.20.0", num_blocks=10_000, **settings
) -> RunSummary:
    """A run on CUDA with 20 GiB of KV cache for 160,000 tokens at a utilisation of 0.5."""
    events = [
        RunStarted(engine="vllm", version=version, device_kind="cuda"),
        ConfigRecorded(
            settings={
                "max_model_len": 16_000, "kv_cache_dtype": "auto",
                "dtype": "torch.bfloat16", **settings,
            }
        ),
        MemoryBudgetSet(
            total_bytes=total, gpu_memory_utilization=0.5, kv_cache_bytes=20 * GIB
        ),
        KVCacheAllocated(
            num_blocks=num_blocks, num_tokens=160_000, max_concurrency=concurrency
        ),
    ]  # fmt: skip
    return summarize(RunRecord(run_id="r", source_kind="log"), events).summary


def test_a_failed_start_without_a_cache_is_one_for_advice():
    failed = msgspec.structs.replace(
        cuda(), memory=None, failure=FailureFacts(kind="error", message="x")
    )
    with pytest.raises(InputError, match="warmup-insights advise"):
        CachePlanner(failed)


TOO_SMALL = (
    "ValueError: To serve at least one request with the model's max seq len (131072), 16.00 GiB "
    "KV cache is needed, which is larger than the available KV cache memory (7.52 GiB). Based on "
    "the available memory, the estimated maximum model length is {}. Try increasing "
    "`gpu_memory_utilization` or decreasing `max_model_len` when initializing the engine."
)


def too_small(fitting, version="0.20.0", **settings) -> RunSummary:
    """A start on CUDA that ended as its cache holds no request of full length."""
    message = TOO_SMALL.format(fitting)
    events = [
        RunStarted(engine="vllm", version=version, device_kind="cuda"),
        ConfigRecorded(settings={"dtype": "torch.bfloat16", **settings}),
        MemoryBudgetSet(
            total_bytes=80 * GIB, gpu_memory_utilization=0.5, kv_cache_bytes=round(7.52 * GIB)
        ),
        Failure(failure="no_kv_cache", message=message, **figures_of(message)),
    ]  # fmt: skip
    return summarize(RunRecord(run_id="r", source_kind="log"), events).summary


@pytest.mark.parametrize("version", ["0.20.0", "0.26.0"])
def test_a_cache_that_is_too_small_is_planned_from_the_figures_of_its_error(version):
    planner = CachePlanner(too_small(61568, version, max_model_len=131072))
    own = planner.plan(PlanSettings())
    assert (own.kv_cache_tokens, own.outcome) == (61568, "no_kv_cache")
    short = planner.plan(PlanSettings(max_model_len=32768))
    assert (short.outcome, short.max_concurrency) == (
        "fits",
        pytest.approx(1.879, 1e-3),
    )
    more = planner.plan(PlanSettings(gpu_memory_utilization=0.65))
    assert more.kv_cache_bytes == pytest.approx(19.52 * GIB)
    assert more.kv_cache_tokens == pytest.approx(61568 * 19.52 / 7.52, rel=1e-3)
    assert more.outcome == "fits"
    assert any("error" in note for note in own.notes)
    none = CachePlanner(too_small(61568, version)).plan(PlanSettings())
    assert none.outcome == "no_kv_cache"


def test_where_the_figures_of_an_error_are_not_in_proportion_it_is_quoted():
    """Layers with a window take less of a long request."""
    with pytest.raises(InputError, match=r"131,072 tokens does not fit.* 40,000 does"):
        CachePlanner(too_small(40_000))


@pytest.mark.parametrize("size", [0, -2 * GIB])
@pytest.mark.parametrize("status", ["finished", "incomplete"])
def test_nothing_fits_in_no_cache(size, status):
    summary = msgspec.structs.replace(
        with_memory(cuda(), kv_cache_bytes=size), status=status
    )
    planner = CachePlanner(summary)
    for settings in (PlanSettings(), PlanSettings(max_model_len=8000)):
        assert planner.plan(settings).outcome is None
    assert any("no memory was left" in n for n in planner.plan(PlanSettings()).notes)


def with_memory(summary: RunSummary, **figures) -> RunSummary:
    """A run whose memory states other figures."""
    memory = msgspec.structs.replace(summary.memory, **figures)
    return msgspec.structs.replace(summary, memory=memory)


def test_the_cache_of_cuda_grows_by_a_share_of_the_device():
    plan = CachePlanner(cuda()).plan(PlanSettings(gpu_memory_utilization=0.75))
    assert plan.kv_cache_bytes == 40 * GIB
    assert (plan.num_kv_blocks, plan.kv_cache_tokens) == (20_000, 320_000)
    assert (plan.max_concurrency, plan.outcome) == (20.0, "fits")
    small = CachePlanner(cuda()).plan(PlanSettings(gpu_memory_utilization=0.26))
    assert small.kv_cache_bytes == pytest.approx(0.8 * GIB)
    assert small.outcome == "no_kv_cache"


def test_a_cache_is_as_sure_as_equal_starts_are_alike():
    """0.01 of 20 GiB, of which a quarter of 80 GiB is as much again, are 100 tokens; what the
    profiling run takes is measured anew, and a hundredth of 80 GiB are 6,400."""
    log = msgspec.structs.replace(cuda(), engine=EngineName(name="vllm"))
    planner = CachePlanner(log)
    near, own = (
        planner.plan(PlanSettings(gpu_memory_utilization=use)) for use in (0.75, 0.5)
    )
    assert (near.kv_cache_tokens_step, own.kv_cache_tokens_step) == (100.0, 0.0)
    assert (near.kv_cache_tokens_off, own.kv_cache_tokens_off) == (6500.0, 0.0)
    assert near.kv_cache_bytes_off == pytest.approx(0.8125 * GIB)
    assert near.num_kv_blocks_range == (19_593, 20_407)
    assert own.num_kv_blocks_range == (own.num_kv_blocks,) * 2
    row = cache_table([near]).rows[0]
    assert ("320,000" in row, "20,000" in row) == (True, True)
    _, ranges = cache_tables([own, near])
    (row,) = ranges.rows
    assert row[0] == "gpu_memory_utilization 0.75"
    assert row[1:] == ("40 GiB ± 0.81 GiB", "20,000 ± 410", "320,000 ± 6,500")
    assert len(cache_tables([own])) == 1
    assert any("by which equal starts differ" in note for note in near.notes)
    assert own.notes == ()


def test_the_range_of_blocks_needs_no_tokens():
    """vLLM 0.9 on ROCm: 142.19 GiB are 72,801 blocks of 16 at 0.9, and 122.99 GiB 62,971."""
    run = with_memory(
        cuda(total=int(191.98 * GIB)), kv_cache_bytes=int(142.19 * GIB),
        num_kv_blocks=72_801, kv_cache_tokens=None, gpu_memory_utilization=0.9,
    )  # fmt: skip
    plan = CachePlanner(run).plan(PlanSettings(gpu_memory_utilization=0.8))
    low, high = plan.num_kv_blocks_range
    assert low <= 62_971 <= high


def test_a_start_that_compiled_counts_what_that_took():
    """Starts of the same settings: 13.5 GiB where code was compiled, 14.4 GiB where not."""
    run = with_memory(cuda(total=95 * GIB), profile_bytes=3 * GIB)
    start = msgspec.structs.replace(run.start, caches={"torch_compile": "missed"})
    compiled = msgspec.structs.replace(run, start=start)
    settings = PlanSettings(gpu_memory_utilization=0.52)
    plans = [CachePlanner(each).plan(settings) for each in (run, compiled)]
    steps = [plan.kv_cache_bytes_off for plan in plans]
    assert steps[1] - steps[0] == 3 * GIB
    told = ["compiled its code" in str(plan.notes) for plan in plans]
    assert told == [False, True]


def test_what_is_within_the_range_of_its_cache_is_too_close_to_tell():
    """0.25 of 80 GiB leave nothing, and 0.3 of it 4 GiB: 32,000 tokens."""
    planner = CachePlanner(cuda())
    lengths = (20_000, 31_000, 33_000, 40_000)
    plans = [
        planner.plan(PlanSettings(gpu_memory_utilization=0.3, max_model_len=length))
        for length in lengths
    ]
    assert [plan.outcome for plan in plans] == ["fits", None, None, "no_kv_cache"]
    # 20 GiB less 20.4 are nothing, or 0.4 within 0.8; less 22.4 they are nothing.
    plans = [
        planner.plan(PlanSettings(gpu_memory_utilization=use, max_model_len=16))
        for use in (0.245, 0.22)
    ]
    assert [plan.outcome for plan in plans] == [None, "no_kv_cache"]


@pytest.mark.parametrize(
    ("settings", "version", "is_known"),
    [
        ({"enable_chunked_prefill": True}, "0.20.0", True),
        ({}, "0.20.0", True),
        ({"enable_chunked_prefill": False}, "0.20.0", False),
        ({"chunked_prefill_enabled": False}, "0.6.6", False),
        ({"chunked_prefill_enabled": True}, "0.6.6", False),
        ({"max_num_seqs": 1, "max_num_batched_tokens": 8192}, "0.20.0", False),
        ({"architecture": "Qwen2_5_VLForConditionalGeneration"}, "0.20.0", False),
        (
            {"architecture": "Gemma4ForConditionalGeneration", "language_model_only": True},
            "0.20.0", True,
        ),
        ({"architecture": "GlmMoeDsaForCausalLM"}, "0.23.0", False),
    ],
)  # fmt: skip
def test_the_profiling_run_may_follow_the_longest_request(settings, version, is_known):
    """vLLM 0.6.4 without chunks: 3.81 GiB for 20,000 tokens, 2.89 GiB for 29,000."""
    run = cuda(version=version, **settings)
    plan = CachePlanner(run).plan(PlanSettings(max_model_len=4_000))
    assert (plan.kv_cache_bytes is not None) == is_known
    assert (plan.num_kv_blocks, plan.outcome) == (
        (10_000, "fits") if is_known else (None, None)
    )
    assert ("another max_model_len only a start shows" in str(plan.notes)) != is_known
    given = msgspec.structs.replace(run, arguments=["max_num_batched_tokens"])
    plan = CachePlanner(given).plan(PlanSettings(max_model_len=4_000))
    is_text = "architecture" not in settings or is_known
    assert (plan.kv_cache_bytes is not None) == is_text


def test_a_smaller_cache_may_have_too_few_states_for_recurrent_layers():
    """vLLM 0.20: max_num_seqs exceeds available Mamba cache blocks."""
    run = cuda(concurrency=14.0, architecture="Qwen3_5ForConditionalGeneration")
    plans = [
        CachePlanner(each).plan(PlanSettings(gpu_memory_utilization=use))
        for each in (run, cuda(concurrency=14.0))
        for use in (0.45, 0.6)
    ]
    assert [plan.outcome for plan in plans] == [None, "fits", "fits", "fits"]
    assert ["recurrent layers" in str(p.notes) for p in plans] == [True, *[False] * 3]


def test_sparse_attention_packs_values_of_8_bits_otherwise():
    run = cuda(architecture="DeepseekV32ForCausalLM", max_num_batched_tokens=8192)
    plan = CachePlanner(run).plan(PlanSettings(kv_cache_dtype="fp8"))
    assert (plan.kv_cache_tokens, plan.outcome) == (None, None)
    assert any("Sparse attention packs" in note for note in plan.notes)


def test_of_a_device_without_a_known_rule_nothing_but_the_run_is_known():
    """vLLM on Neuron: a block is as long as a request, whatever block_size is printed."""
    run = msgspec.structs.replace(
        cuda(), device=msgspec.structs.replace(cuda().device, kind="neuron")
    )
    planner = CachePlanner(run)
    assert planner.plan(PlanSettings()).kv_cache_tokens == 160_000
    for settings in (
        PlanSettings(block_size=64),
        PlanSettings(gpu_memory_utilization=0.9),
    ):
        plan = planner.plan(settings)
        assert (plan.kv_cache_bytes, plan.kv_cache_tokens, plan.outcome) == (None,) * 3
        assert any("on neuron is not known" in note for note in plan.notes)


def test_the_settings_of_the_run_give_its_own_figures():
    planner = CachePlanner(cuda())
    plan = next(plan for plan in map(planner.plan, planner.grid()) if plan.is_own)
    assert (plan.kv_cache_tokens, plan.max_concurrency) == (160_000, 10.0)


def test_without_the_memory_of_the_device_another_utilisation_is_unknown():
    planner = CachePlanner(cuda(total=None))
    plan = planner.plan(PlanSettings(gpu_memory_utilization=0.75))
    assert (plan.kv_cache_tokens, plan.outcome) == (None, None)
    assert any("--device-memory" in note for note in plan.notes)
    assert not any("equal starts" in note for note in plan.notes)
    given = CachePlanner(cuda(total=None), device_bytes=80 * GIB)
    plan = given.plan(PlanSettings(gpu_memory_utilization=0.75))
    assert plan.kv_cache_tokens == 320_000


def test_the_memory_of_the_device_follows_from_what_graphs_take_off_the_utilisation():
    """vLLM 0.29: 0.52 GiB of 15.8 are what 0.9 has more than 0.8671."""
    run = msgspec.structs.replace(
        with_memory(cuda(total=None), gpu_memory_utilization=0.9, kv_cache_bytes=2 * GIB),
        graphs=GraphFacts(estimated_bytes=int(0.52 * GIB), utilization_without=0.8671),
    )  # fmt: skip
    plan = CachePlanner(run).plan(PlanSettings(gpu_memory_utilization=0.95))
    assert plan.kv_cache_bytes == pytest.approx(2.79 * GIB, rel=0.002)
    off = 0.01 * 15.8 + 0.05 * 15.8 * (0.005 / 0.52 + 0.00005 / 0.0329)
    rounding = 0.05 * (0.01 * 15.8 / 2 + 0.01)
    assert plan.kv_cache_bytes_off == pytest.approx((off + rounding) * GIB, rel=0.05)
    assert any("15.81 GiB, which may be off by 1.1 %" in note for note in plan.notes)
    coarse = msgspec.structs.replace(
        run, graphs=GraphFacts(estimated_bytes=GIB // 25, utilization_without=0.8995)
    )
    plan = CachePlanner(coarse).plan(PlanSettings(gpu_memory_utilization=0.95))
    assert plan.kv_cache_bytes is None


def test_smaller_values_and_shorter_requests():
    planner = CachePlanner(cuda())
    plan = planner.plan(PlanSettings(kv_cache_dtype="fp8", max_model_len=8_000))
    assert (plan.kv_cache_tokens, plan.max_concurrency) == (320_000, 40.0)
    # Layers with a window: the run's own figure is not tokens by length.
    windowed = CachePlanner(cuda(concurrency=14.0))
    assert windowed.plan(PlanSettings(max_model_len=8_000)).max_concurrency is None
    # Such a model may have recurrent layers, whose state is as large as before.
    plan = windowed.plan(PlanSettings(kv_cache_dtype="fp8"))
    assert (plan.max_concurrency, plan.kv_cache_tokens) == (None, None)
    assert any("another kv_cache_dtype gives is unknown" in n for n in plan.notes)


def test_no_request_fits_where_no_memory_is_left_for_the_cache():
    """Whatever a request of another length would take."""
    windowed = CachePlanner(cuda(concurrency=14.0))
    settings = PlanSettings(gpu_memory_utilization=0.1, max_model_len=8_000)
    plan = windowed.plan(settings)
    assert (plan.kv_cache_bytes, plan.outcome) == (0, "no_kv_cache")


def test_a_fixed_cache_does_not_follow_utilisation():
    planner = CachePlanner(cuda(num_gpu_blocks_override=10_000))
    assert planner.grid() == [PlanSettings()]
    plan = planner.plan(PlanSettings(gpu_memory_utilization=0.9))
    assert plan.num_kv_blocks == 10_000
    assert "num_gpu_blocks_override is set" in plan.notes[0]


def test_of_a_start_that_failed_nothing_fits():
    """What it ran out of memory with; a smaller cache may be small enough or not."""
    summary = msgspec.structs.replace(
        cuda(total=None), status="failed",
        failure=FailureFacts(
            kind="out_of_memory", stated=FailureFigures(total_bytes=80 * GIB)
        ),
    )  # fmt: skip
    planner = CachePlanner(summary)
    shares = (0.3, 0.5, 0.6)
    plans = [planner.plan(PlanSettings(gpu_memory_utilization=s)) for s in shares]
    assert [plan.outcome for plan in plans] == [None, "ran_out", "ran_out"]
    assert "ran out of memory" in str(cache_table(plans))
    other = msgspec.structs.replace(summary, failure=FailureFacts(kind="error"))
    assert CachePlanner(other).plan(PlanSettings()).outcome is None


def test_a_run_that_got_ready_fits_whatever_it_states():
    ready = msgspec.structs.replace(cuda(), status="finished", config={})
    assert CachePlanner(ready).plan(PlanSettings()).outcome == "fits"


def test_buckets_of_a_list_that_was_cut_are_as_many_as_stated():
    planner = CachePlanner(listed := _cut_list())
    assert planner.plan(PlanSettings()).buckets == {"decode": 112}
    assert len(listed.phase("decode").buckets) == 2


def _cut_list() -> RunSummary:
    events = [
        RunStarted(engine="vllm-fork", device_kind="hpu"),
        BucketsGenerated(phase="decode", count=112, buckets=[(1, 128), (1, 256)]),
        KVCacheAllocated(num_blocks=3184),
    ]
    return summarize(RunRecord(run_id="r", source_kind="log"), events).summary


def test_on_hpu_it_gives_the_blocks_that_the_replay_gives():
    planner = planner_of(simulate()[1])
    cache = CachePlanner(planner.summary)
    for use, reserve in [(0.8, 0.25), (0.5, 0.3), (0.95, 0.05)]:
        replayed = planner.plan(
            PlanSettings(gpu_memory_utilization=use, graph_reserved_mem=reserve)
        )
        plan = cache.plan(
            PlanSettings(gpu_memory_utilization=use, graph_reserved_mem=reserve)
        )
        # The blocks of the run are whole ones; the rest of one grows with the cache.
        growth = replayed.num_kv_blocks / planner.summary.memory.num_kv_blocks
        assert plan.num_kv_blocks == pytest.approx(
            replayed.num_kv_blocks, abs=1 + growth
        )
        assert plan.graphs_captured is None


GAUDI = """\
INFO 05-11 10:00:00 [core.py:116] Initializing a V1 LLM engine (v0.26.0) with config: \
model='m/x', max_seq_len=2048, enforce_eager={eager}, tensor_parallel_size=1
INFO 05-11 10:00:01 [hpu_worker.py:432] Free device memory: {free} GiB, {usable} GiB usable \
(gpu_memory_utilization=0.5), {graphs} reserved for HPUGraphs \
(VLLM_GRAPH_RESERVED_MEM={reserve}), 36 MiB reserved for KV cache dummy block {cache} GiB \
reserved for usable KV cache
INFO 05-11 10:00:02 [kv_cache_utils.py:2177] GPU KV cache size: {tokens:,} tokens
INFO 05-11 10:00:03 [hpu_worker.py:546] Usable num_blocks: {blocks}, actual allocated \
num_blocks (max across layers): 1 (_PAD_BLOCK_ID={blocks}, _PAD_SLOT_ID=1)
"""
BLOCK = 36 * 2**20


@pytest.mark.parametrize("free", [70 * GIB, 71 * GIB - 17, 64 * GIB + 12345678])
@pytest.mark.parametrize(("eager", "reserve"), [(False, 0.1), (False, 0.4), (True, 0)])
def test_on_hpu_a_log_leaves_open_what_remains_of_its_last_block(free, eager, reserve):
    """vllm-gaudi `hpu_worker.py determine_available_memory`."""

    def blocks(use: float, kept: float) -> int:
        return int(free * use * (1 - (0 if eager else kept)) - BLOCK) // BLOCK

    usable, own = free / 2, blocks(0.5, reserve)
    text = GAUDI.format(
        eager=eager, free=f"{free / GIB:.4g}", usable=f"{usable / GIB:.4g}",
        graphs=f"{usable * reserve / GIB:.4g} GiB" if reserve else "0 B", reserve=reserve,
        cache=f"{(usable * (1 - reserve) - BLOCK) / GIB:.4g}", blocks=own,
        tokens=own * 128,
    )  # fmt: skip
    planner = CachePlanner(folded(events(text)).summary)
    for use, kept in [(0.8, 0.05), (0.6, 0.3), (0.97, 0.1), (0.31, 0.02)]:
        plan = planner.plan(
            PlanSettings(gpu_memory_utilization=use, graph_reserved_mem=kept)
        )
        low, high = plan.num_kv_blocks_range
        assert low <= blocks(use, kept) <= high
        assert high - low <= 4
        assert low <= plan.num_kv_blocks <= high
        assert plan.kv_cache_tokens == plan.num_kv_blocks * 128
        assert plan.kv_cache_tokens_step == (high - low) * 128


def test_with_a_reserve_of_0_another_one_may_change_nothing():
    """`enforce_eager` keeps nothing for graphs; the log may begin after it."""
    text = GAUDI.format(
        eager=True, free="70", usable="35", graphs="0 B", reserve=0, cache="34.96",
        blocks=994, tokens=994 * 128,
    ).partition("\n")[2]  # fmt: skip
    planner = CachePlanner(folded(events(text)).summary)
    plan = planner.plan(PlanSettings(graph_reserved_mem=0.1))
    assert (plan.num_kv_blocks, plan.kv_cache_tokens) == (None, None)
    assert planner.plan(PlanSettings(gpu_memory_utilization=0.9)).num_kv_blocks > 994


LOGS = sorted([*REAL_LOGS.glob("*.log"), *REAL_LOGS.glob("fresh/*.log")])


@pytest.mark.parametrize("log", LOGS, ids=lambda path: path.stem)
def test_every_log_that_states_its_cache_can_be_planned(log):
    parts = read_log(io.BytesIO(log.read_bytes()), log.name, Options(year=2026))
    (end,) = (part for part in parts if isinstance(part, LogEnd))
    for own in end.runs.values():
        check_plans(own.summary)


def check_plans(summary: RunSummary) -> None:
    memory = summary.memory_or_none
    try:
        planner = CachePlanner(summary)
    except InputError:
        states = memory.kv_cache_tokens or memory.num_kv_blocks
        assert not states or contradictory(summary)
        return
    own = planner.plan(PlanSettings())
    memory = planner.summary.memory_or_none  # with what an error states of it
    assert own.kv_cache_tokens == memory.kv_cache_tokens
    assert own.num_kv_blocks == memory.num_kv_blocks
    assert own.max_concurrency == memory.max_concurrency
    known = [planner.plan(each).kv_cache_tokens or 0 for each in planner.grid()]
    assert [tokens for tokens in known if tokens] == sorted(t for t in known if t)


SMALL = {
    "model": "llama-3.2-1b", "dtype": "bfloat16", "max_model_len": 2048,
    "max_num_seqs": 8, "max_num_batched_tokens": 2048, "gpu_memory_utilization": 0.5,
    "graph_reserved_mem": 0.3,
}  # fmt: skip


@pytest.mark.parametrize("old", [64, 128])
@pytest.mark.parametrize("new", [32, 128, 256])
@pytest.mark.parametrize("strategy", ["exp", "lin"])
def test_another_block_size_gives_the_blocks_and_buckets_of_a_run(old, new, strategy):
    """A block more than planned may fit where the new ones are no multiple of the old."""
    settings = {**SMALL, "environment": {"VLLM_BUCKETING_STRATEGY": strategy}}
    _, events = simulate({**settings, "block_size": old})
    made = summarize(RunRecord(run_id="r"), events).summary
    plan = CachePlanner(made).plan(PlanSettings(block_size=new))
    _, events = simulate({**settings, "block_size": new})
    truth = summarize(RunRecord(run_id="s"), events).summary
    blocks = truth.memory.num_kv_blocks
    off = 0 if new % old == 0 else old // new
    assert blocks - off <= plan.num_kv_blocks <= blocks
    assert plan.kv_cache_tokens == plan.num_kv_blocks * new
    assert plan.buckets == {
        phase: part.generated for phase, part in truth.buckets.items()
    }
    assert (plan.graph_memory_bytes, plan.warmup_s) == (
        (None, None) if old != new else (plan.graph_memory_bytes, plan.warmup_s)
    )


@pytest.mark.parametrize(
    ("version", "tokens", "short"),
    [("0.20.0", 158_720, 160_000), ("0.20.1", 141_714, 158_730)],
)
def test_a_request_takes_whole_blocks(version, tokens, short):
    """16,000 tokens are 7 blocks of 2,560, of which 160,000 tokens make 62; 1,000 tokens
    are 63 of 16. The newer version states the tokens of requests of full length."""
    planner = CachePlanner(cuda(version=version))
    plan = planner.plan(PlanSettings(block_size=2560))
    assert (plan.num_kv_blocks, plan.kv_cache_tokens) == (62, tokens)
    assert plan.max_concurrency == pytest.approx(62 / 7)
    plan = planner.plan(PlanSettings(max_model_len=1_000))
    assert plan.max_concurrency == pytest.approx(10_000 / 63)
    assert plan.kv_cache_tokens == short


@pytest.mark.parametrize(
    ("version", "concurrency", "requests"),
    [
        ("0.20.0", 10.0, 20.0),
        ("0.20.0", 9.96, None),
        ("0.20.1", 10.0, None),
        ("0.1.dev15917+g0a6396b45", 10.0, None),
    ],
)
def test_without_blocks_a_newer_run_does_not_show_what_other_lengths_take(
    version, concurrency, requests
):
    """There the tokens are those of the requests, whatever windows layers have."""
    run = cuda(version=version, concurrency=concurrency, num_blocks=None)
    planner = CachePlanner(run)
    plans = [planner.plan(PlanSettings(max_model_len=n)) for n in (8_000, 320_000)]
    assert plans[0].max_concurrency == requests
    assert [plan.outcome for plan in plans] == [
        "fits", "no_kv_cache" if requests else None,
    ]  # fmt: skip
    is_stated = any("of one kind" in note for note in plans[0].notes)
    assert is_stated == (requests is None)


@pytest.mark.parametrize(
    ("summary", "words"),
    [
        (cuda(concurrency=20.0), "of several kinds"),
        (cuda(block_size=32), "of several kinds"),
        (with_memory(cuda(), num_kv_blocks=None), "does not state its block_size"),
    ],
)
def test_blocks_of_another_size_are_unknown_where_no_rule_gives_them(summary, words):
    plan = CachePlanner(summary).plan(PlanSettings(block_size=64))
    assert (plan.num_kv_blocks, plan.kv_cache_tokens, plan.outcome) == (None,) * 3
    assert any(words in note for note in plan.notes)


def test_what_a_profiling_run_of_more_tokens_takes_is_unknown():
    own = cuda(max_num_batched_tokens=2048)
    plan = CachePlanner(own).plan(PlanSettings(max_num_batched_tokens=8192))
    assert (plan.kv_cache_bytes, plan.num_kv_blocks, plan.outcome) == (None,) * 3
    assert any("only a start shows" in note for note in plan.notes)
    same = CachePlanner(own).plan(PlanSettings(max_num_batched_tokens=2048))
    assert (same.is_own, same.kv_cache_tokens) == (True, 160_000)
    fixed = cuda(max_num_batched_tokens=2048, num_gpu_blocks_override=10_000)
    plan = CachePlanner(fixed).plan(PlanSettings(max_num_batched_tokens=8192))
    assert plan.kv_cache_tokens == 160_000


def test_where_profiling_runs_nothing_the_cache_does_not_follow_the_tokens_of_a_step():
    """As that of vllm-gaudi with `initialize_only`; its older ones ran a whole step."""
    gaudi = with_memory(cuda(max_num_batched_tokens=2048), profile_bytes=0)
    gaudi = msgspec.structs.replace(
        gaudi, engine=EngineName(name="vllm-gaudi", version="0.26.0"),
        device=msgspec.structs.replace(gaudi.device, kind="hpu"),
    )  # fmt: skip
    settings = PlanSettings(max_num_batched_tokens=8192)
    assert CachePlanner(gaudi).plan(settings).kv_cache_tokens == 160_000
    older = with_memory(gaudi, profile_bytes=GIB)
    assert CachePlanner(older).plan(settings).kv_cache_tokens is None


def test_the_reference_engine_divides_memory_alike_on_every_device():
    """On a CPU too the cache scales with the utilisation, and graphs do not stay."""
    _, events = simulate(SMALL)
    made = summarize(RunRecord(run_id="r"), events).summary
    on_cpu = msgspec.structs.replace(
        made, device=msgspec.structs.replace(made.device, kind="cpu")
    )
    for settings in (
        PlanSettings(gpu_memory_utilization=0.25),
        PlanSettings(block_size=256),
    ):
        plan = CachePlanner(on_cpu).plan(settings)
        assert plan == CachePlanner(made).plan(settings)
        assert plan.num_kv_blocks is not None
        assert plan.graph_memory_bytes is None


def started(kind: str, **settings) -> RunSummary:
    """A run on some device that made graphs and states its warm-up."""
    run = cuda(
        block_size=16, max_num_seqs=64, max_num_batched_tokens=2048,
        VLLM_DECODE_BS_BUCKET_STEP=8, **settings,
    )  # fmt: skip
    return msgspec.structs.replace(
        run,
        device=msgspec.structs.replace(run.device, kind=kind),
        time=msgspec.structs.replace(run.time, warmup_s=30.0),
    )


@pytest.mark.parametrize(
    ("settings", "devices"),
    [
        (PlanSettings(kv_cache_dtype="fp8"), ""),
        (PlanSettings(block_size=32), ""),
        (PlanSettings(max_num_seqs=32), ""),
        (PlanSettings(max_model_len=8_000), ""),
        (PlanSettings(max_num_batched_tokens=4096), ""),
        (PlanSettings(environment={"VLLM_DECODE_BS_BUCKET_STEP": "4"}), ""),
        (PlanSettings(gpu_memory_utilization=0.75), "cuda rocm xpu cpu"),
        (PlanSettings(max_num_seqs=64, block_size=16), "cuda rocm xpu cpu tpu hpu"),
        (PlanSettings(engine_version="0.13.0"), "cuda rocm xpu cpu tpu"),
        (PlanSettings(graph_prompt_ratio=0.7), "cuda rocm xpu cpu tpu"),
        (
            PlanSettings(environment={"VLLM_DECODE_BS_BUCKET_STEP": "8"}),
            "cuda rocm xpu cpu tpu hpu",
        ),
    ],
)
def test_a_warm_up_is_as_in_the_run_only_where_nothing_that_it_does_changes(
    settings, devices
):
    """What is captured and compiled follows from all of these; the size of the cache is a
    dimension of what tpu-inference compiles and of the buckets of vllm-gaudi."""
    for kind in ("cuda", "rocm", "xpu", "cpu", "tpu", "hpu"):
        plan = CachePlanner(started(kind)).plan(settings)
        assert plan.warmup_s == (30.0 if kind in devices.split() else None), kind
        says_so = any("Graphs and warm-up" in note for note in plan.notes)
        assert says_so or plan.is_own or plan.warmup_s, kind
        claims = any("as in the run" in note for note in plan.notes)
        assert not claims or plan.warmup_s, kind


@pytest.mark.parametrize(
    ("share", "stated"),
    [(0.2, 4_396_378_522), (0.4, round(8.8 * GIB))],
    ids=["less", "more"],
)
def test_on_a_cpu_the_cache_is_the_share_less_what_the_worker_takes(share, stated):
    """Starts of vLLM 0.32 on a host of 23.54 GiB that stated 6.39 GiB at 0.3."""
    run = with_memory(
        started("cpu", gpu_memory_utilization=0.3), kv_cache_bytes=round(6.39 * GIB),
        total_bytes=round(23.54 * GIB), gpu_memory_utilization=0.3, free_bytes=None,
        consumed_bytes=round(0.67 * GIB),
    )  # fmt: skip
    plan = CachePlanner(run).plan(PlanSettings(gpu_memory_utilization=share))
    off = plan.kv_cache_bytes_off
    # The start with more passed; at 0.92 another was refused, for what else the host runs.
    assert plan.outcome == ("fits" if share < 0.3 else None)
    assert 0 < off < 0.3 * GIB
    assert abs(plan.kv_cache_bytes - stated) < off


def test_a_cache_that_is_set_is_the_same_at_every_utilisation():
    run = started("tpu", num_gpu_blocks_override=10_000)
    plan = CachePlanner(run).plan(PlanSettings(gpu_memory_utilization=0.75))
    assert (plan.num_kv_blocks, plan.warmup_s) == (10_000, 30.0)


def test_what_a_profiling_run_of_more_requests_takes_is_unknown():
    """vLLM `gpu_model_runner.py`, `_dummy_sampler_run`: logits of all that may run."""
    plan = CachePlanner(started("cuda")).plan(PlanSettings(max_num_seqs=32))
    assert (plan.kv_cache_bytes, plan.kv_cache_tokens, plan.is_own) == (
        None,
        None,
        False,
    )
    assert any("max_num_seqs only a start shows" in note for note in plan.notes)


@pytest.mark.parametrize(
    ("settings", "size", "tokens"),
    [
        (PlanSettings(kv_cache_dtype="fp8"), 10 * GIB, 160_000),
        (PlanSettings(block_size=32), 40 * GIB, 320_000),
        (PlanSettings(kv_cache_dtype="fp8", block_size=32), 20 * GIB, 320_000),
        (PlanSettings(kv_cache_dtype="fp8_e5m2", max_num_seqs=9), 10 * GIB, 160_000),
    ],
)
def test_blocks_that_are_set_take_the_bytes_of_their_values(settings, size, tokens):
    """vLLM `kv_cache_utils.py`, `may_override_num_blocks`: the number stays."""
    run = cuda(num_gpu_blocks_override=10_000, block_size=16)
    run = with_memory(run, kv_cache_allocated_bytes=20 * GIB)
    plan = CachePlanner(run).plan(settings)
    assert (plan.num_kv_blocks, plan.kv_cache_tokens) == (10_000, tokens)
    assert plan.kv_cache_bytes == size
    told = cuda(kv_cache_memory_bytes=20 * GIB, block_size=16)
    plan = CachePlanner(told).plan(PlanSettings(kv_cache_dtype="fp8"))
    assert (plan.num_kv_blocks, plan.kv_cache_bytes) == (20_000, 20 * GIB)
