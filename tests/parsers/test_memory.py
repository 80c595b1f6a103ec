"""Statements of CUDA memory, in the wording of each version, give all their parts."""

from __future__ import annotations

import pytest

from tests.helpers import REAL_LOGS, events, folded, of, read, summary_of
from warmup_insights.analysis.plan.memory import divide_memory
from warmup_insights.model.events import GraphMemoryEstimated, MemoryBudgetSet
from warmup_insights.model.figures import BY_NAME
from warmup_insights.units import GIB

HEAD = "(EngineCore pid=7) INFO 09-16 14:14:04 [gpu_worker.py:1066] "
FREE = (
    "Free memory on device (78.57/79.18 GiB) on startup. Desired GPU memory utilization "
    "is (0.9, 71.26 GiB). Actual usage is "
)
END = (
    "Replace gpu_memory_utilization config with `--kv-cache-memory=8417154969` (7.84 "
    "GiB) to fit into requested memory, or `--kv-cache-memory=16270032384` (15.15 GiB) "
    "to fully utilize gpu memory. Current kv cache memory in use is 8.68 GiB."
)


def gib(value: float) -> int:
    return round(value * GIB)


def budget_of(text: str) -> MemoryBudgetSet:
    (found,) = of(MemoryBudgetSet, events(HEAD + text))
    return found


def test_parts_up_to_0_26_add_up_to_usable_memory():
    found = budget_of(
        f"{FREE}56.93 GiB for weight, 5.58 GiB for peak activation, 0.07 GiB for "
        f"non-torch memory, and 0.69 GiB for CUDAGraph memory. {END}"
    )
    assert found.usable_bytes == gib(71.26)
    parts = (found.weights_bytes, found.activation_bytes, found.non_torch_bytes)
    assert sum(parts) + found.kv_cache_bytes == pytest.approx(gib(71.26), abs=gib(0.02))
    assert found.graph_bytes == gib(0.69)


def test_since_0_27_weights_and_non_torch_memory_are_one_figure():
    found = budget_of(
        f"{FREE}57.0 GiB for consumed memory (weights + non-torch), 5.58 GiB for peak "
        f"activation, and 0.69 GiB for CUDAGraph memory. {END}"
    )
    assert found.consumed_bytes == gib(57.0)
    assert (found.weights_bytes, found.non_torch_bytes) == (None, None)
    assert found.graph_bytes == gib(0.69)
    assert found.suggested_kv_cache_bytes == 8417154969


def test_a_statement_that_was_cut_gives_what_is_whole():
    found = budget_of(f"{FREE}56.93 GiB for weight, 5.58 GiB for peak activation, 0.")
    assert (found.activation_bytes, found.graph_bytes) == (gib(5.58), None)


def test_profile_result_of_0_27_has_no_weights_beside_their_sum():
    found = budget_of(
        "Memory profiling takes 14.06 seconds. Total non KV cache memory: 1.05GiB; "
        "torch peak memory increase: 0.24GiB; total consumed (from mem_get_info): "
        "0.81GiB; weights memory: 0.67GiB."
    )
    assert (found.consumed_bytes, found.weights_bytes) == (gib(0.81), None)


def test_peak_of_0_6_less_the_weights_is_that_of_activations():
    """7.92 x 0.95 = 2.32 weights + 1.17 + 0.44 + 3.6 for the KV cache."""
    found = folded(events(
        "INFO 12-06 14:07:55 llm_engine.py:249] Initializing an LLM engine (v0.6.4.post1) with "
        "config: model='a/b', tensor_parallel_size=1\n"
        "INFO 12-06 14:08:00 model_runner.py:1077] Loading model weights took 2.3185 GB\n"
        "INFO 12-06 14:08:01 worker.py:232] Memory profiling results: total_gpu_memory=7.92GiB "
        "initial_memory_usage=2.73GiB peak_torch_memory=3.49GiB memory_usage_post_profile="
        "2.76GiB non_torch_memory=0.44GiB kv_cache_size=3.60GiB gpu_memory_utilization=0.95\n"
    )).summary.memory  # fmt: skip
    assert found.profile_bytes == gib(3.49) - gib(2.3185)
    assert {part.name for part in found.parts}.isdisjoint({"other"})


FILES = sorted(REAL_LOGS.rglob("*.log"))


@pytest.mark.skipif(not FILES, reason="the real logs are not here")
@pytest.mark.parametrize("path", FILES, ids=lambda path: path.name)
def test_stated_parts_of_real_logs_add_up_to_usable_memory(path):
    """Within the rounding of five figures of two decimals."""
    runs, _ = read(path.read_bytes(), path.name)
    for found in runs.values():
        estimates = of(GraphMemoryEstimated, found)
        reserved = any(event.is_reserved for event in estimates)
        estimate = max((e.estimated_bytes or 0 for e in estimates), default=0)
        for event in of(MemoryBudgetSet, found):
            parts = (event.weights_bytes, event.non_torch_bytes, event.activation_bytes)
            if None in (*parts, event.usable_bytes, event.kv_cache_bytes):
                continue
            total = sum(parts) + event.kv_cache_bytes + (estimate if reserved else 0)
            assert total == pytest.approx(event.usable_bytes, abs=gib(0.03))


@pytest.mark.parametrize(
    ("requests", "tokens"), [("5.53", 725376), ("5.70", None), ("0.02", None)]
)
def test_tokens_of_the_fork_follow_from_the_requests_that_fit(requests, tokens):
    """5.53 requests of 131,072 tokens in 5,667 blocks: 128 tokens a block, no other size."""
    text = (
        "INFO 06-10 10:00:00 [__init__.py:239] Automatically detected platform hpu.\n"
        "INFO 06-10 10:00:09 [llm_engine.py:240] Initializing a V0 LLM engine (v0.7.2) with "
        "config: model='a/b', max_seq_len=131072, device_config=hpu\n"
        "INFO 06-10 10:00:45 [executor_base.py:110] # hpu blocks: 5667, # CPU blocks: 256\n"
        "INFO 06-10 10:00:45 [executor_base.py:115] Maximum concurrency for 131072 tokens "
        f"per request: {requests}x\n"
    )
    assert folded(events(text)).summary.memory.kv_cache_tokens == tokens


HYBRID = """\
(EngineCore pid=7) INFO 08-21 07:43:09 [hpu_model_runner.py:4814] Loading model weights took 26.5000 GB
(EngineCore pid=7) INFO 08-21 07:43:17 [hpu_worker.py:404] Model profiling run took 0 B of \
device memory (26.5 GiB/126.5 GiB used) and 0 B of host memory (475.4 GiB/1007 GiB used)
(EngineCore pid=7) INFO 08-21 07:43:17 [hpu_worker.py:432] Free device memory: 100 GiB, 90 GiB \
usable (gpu_memory_utilization=0.9), 9 GiB reserved for HPUGraphs (VLLM_GRAPH_RESERVED_MEM=0.1), \
{dummy} reserved for KV cache dummy block 80.9 GiB reserved for usable KV cache
(EngineCore pid=7) INFO 08-21 07:43:17 [hpu_worker.py:473] {adjusted}
(EngineCore pid=7) INFO 08-21 07:43:18 [hpu_worker.py:540] Usable num_blocks: {blocks}, actual \
allocated num_blocks (max across layers): {blocks} (_PAD_BLOCK_ID={blocks}, _PAD_SLOT_ID=1)
(EngineCore pid=7) INFO 08-21 07:43:18 [hpu_worker.py:549] Initializing cache engine took 80.9 GiB \
of device memory (107.4 GiB/126.5 GiB used) and 0 B of host memory (475.4 GiB/1007 GiB used)
"""
GDN = (
    "HPU hybrid cache: reducing available KV cache memory by 40.0% (factor=0.600) for "
    "separate per-spec allocations (padded_page=2 MiB, real_attn=2 MiB, real_mamba=1.333 MiB)."
)
MAMBA = (
    "Hybrid model (standard Mamba2 + ATN): adjusted usable KV cache from 80.9 GiB to 48.54 "
    "GiB (attn_page=2097152, mamba_state=1398101, ratio=0.600)"
)


@pytest.mark.parametrize("adjusted", [GDN, MAMBA], ids=["gated deltanet", "mamba"])
def test_blocks_of_a_hybrid_model_hold_its_states_as_well(adjusted):
    """Twelve of 48 layers share a block: 24 MiB of attention, and 16 MiB of states."""
    blocks = int(80.9 * 1024 * 0.6 / 24)
    text = HYBRID.format(dummy="96 MiB", adjusted=adjusted, blocks=blocks)
    found = folded(events(text)).summary
    assert found.contradictions == []
    assert found.memory.kv_cache_bytes == gib(80.9)
    assert found.memory.block_bytes == pytest.approx(40 * 2**20, rel=0.001)
    assert "other" not in {part.name for part in found.memory.parts}
    assert [note.topic for note in found.notes] == ["hybrid_cache"]


LOADED = """\
(EngineCore pid=7) INFO 08-21 07:43:09 [hpu_model_runner.py:4814] Loading model weights took {loaded} GB
(EngineCore pid=7) INFO 08-21 07:43:39 [hpu_model_runner.py:4873] Preparing model with INC took {inc} GB
(EngineCore pid=7) INFO 08-21 07:43:39 [hpu_model_runner.py:4907] Wrapping in HPUGraph took 0.0000 GB
(EngineCore pid=7) INFO 08-21 07:43:45 [hpu_model_runner.py:4922] Loading drafter model weights took 1.2500 GB
"""
"""Weights that INC has on the host are loaded there, and moved once they are quantised."""


@pytest.mark.parametrize(
    ("loaded", "inc"), [("0.0000", "8.5000"), ("16.0000", "-7.5000")]
)
def test_weights_are_those_after_their_quantisation_and_of_the_draft_model(loaded, inc):
    found = folded(events(LOADED.format(loaded=loaded, inc=inc))).summary
    assert found.memory.weights_bytes == gib(9.75)


def test_the_fork_states_its_weights_quantised():
    text = (
        "INFO 08-02 17:37:52 hpu_model_runner.py:430] Pre-loading model weights on hpu:0 "
        "took 16 GiB of device memory (16 GiB/94.62 GiB used) and 2.95 GiB of host memory "
        "(475.2 GiB/1007 GiB used)\n"
        "INFO 08-02 17:38:12 hpu_model_runner.py:440] Preparing model with INC took -7.5 "
        "GiB of device memory (8.5 GiB/94.62 GiB used) and 2.95 GiB of host memory (475.2 "
        "GiB/1007 GiB used)\n"
        "INFO 08-02 17:38:12 hpu_model_runner.py:442] Loading model weights took in total "
        "8.5 GiB of device memory (8.5 GiB/94.62 GiB used) and 2.95 GiB of host memory "
        "(475.2 GiB/1007 GiB used)\n"
    )
    assert folded(events(2 * text)).summary.memory.weights_bytes == gib(8.5)


OVERRIDDEN = """\
(EngineCore pid=7) INFO 08-21 07:43:09 [hpu_model_runner.py:4814] Loading model weights took 26.5000 GB
(EngineCore pid=7) INFO 08-21 07:43:17 [hpu_worker.py:404] Model profiling run took 0 B of \
device memory (26.5 GiB/126.5 GiB used) and 0 B of host memory (475.4 GiB/1007 GiB used)
(EngineCore pid=7) INFO 08-21 07:43:17 [hpu_worker.py:432] Free device memory: 100 GiB, 90 GiB \
usable (gpu_memory_utilization=0.9), 9 GiB reserved for HPUGraphs (VLLM_GRAPH_RESERVED_MEM=0.1), \
8 MiB reserved for KV cache dummy block 80.99 GiB reserved for usable KV cache
(EngineCore pid=7) INFO 08-21 07:43:17 [kv_cache_utils.py:2115] Overriding num_gpu_blocks=10366 \
with num_gpu_blocks_override={blocks}
(EngineCore pid=7) INFO 08-21 07:43:18 [hpu_worker.py:540] Usable num_blocks: {blocks}, actual \
allocated num_blocks (max across layers): {blocks} (_PAD_BLOCK_ID={blocks}, _PAD_SLOT_ID=1)
(EngineCore pid=7) INFO 08-21 07:43:18 [hpu_worker.py:549] Initializing cache engine took {taken} \
of device memory (107.4 GiB/126.5 GiB used) and 0 B of host memory (475.4 GiB/1007 GiB used)
"""


@pytest.mark.parametrize(
    ("blocks", "taken", "sizes"),
    [(127, 1.0, {"unused": 79.99, "kv_cache": 1.0}), (10393, 81.2, {"kv_cache": 81.2})],
)
def test_a_cache_of_another_size_than_the_engine_takes_as_much_as_was_allocated(
    blocks, taken, sizes
):
    text = OVERRIDDEN.format(blocks=blocks, taken=f"{taken} GiB")
    found = folded(events(text)).summary
    assert found.contradictions == []
    last = {part.name: part.bytes for part in found.memory.parts[-len(sizes) :]}
    assert last == {name: pytest.approx(gib(size)) for name, size in sizes.items()}
    assert found.memory.block_bytes == 8 * 2**20
    assert BY_NAME["kv_cache_bytes"].read(found) == blocks * 8 * 2**20


OVERRIDING = "".join(OVERRIDDEN.splitlines(keepends=True)[3:4])


def test_a_rank_has_no_more_blocks_than_the_one_with_the_least_memory():
    text = OVERRIDDEN.replace(OVERRIDING, "").format(blocks=9000, taken="70.32 GiB")
    found = folded(events(text)).summary
    sizes = {part.name: part.bytes for part in found.memory.parts}
    assert sizes["unused"] == pytest.approx(gib(10.67), rel=1e-3)
    assert sizes["kv_cache"] == gib(70.32)


def test_blocks_are_those_of_the_rank_with_the_least_memory():
    """9,990 blocks of 8 MiB fit beside 78.05 GiB; the first rank has more, and 10,366."""
    first = OVERRIDDEN.replace(OVERRIDING, "").format(blocks=9990, taken="78.05 GiB")
    other = first.replace("80.99 GiB reserved", "78.05 GiB reserved")
    text = "".join(
        line.replace("EngineCore pid=7", f"Worker_TP{rank} pid=3{rank}")
        for pair in zip(first.splitlines(True), other.splitlines(True), strict=True)
        for rank, line in enumerate(pair)
    )
    memory = folded(events(text)).summary.memory
    low, high = memory.block_bytes_range
    assert low <= 8 * 2**20 <= high
    assert memory.block_bytes == 8 * 2**20


def test_where_no_line_states_its_size_an_overridden_cache_is_no_part():
    """vLLM overrides the number before it allocates, and states the size for its own."""
    budget = HEAD + (
        f"{FREE}56.93 GiB for weight, 5.58 GiB for peak activation, 0.07 GiB for "
        f"non-torch memory, and 0.69 GiB for CUDAGraph memory. {END}\n"
    )
    own = folded(events(budget)).summary
    text = (
        budget
        + HEAD.replace("gpu_worker.py:1066", "kv_cache_utils.py:2115")
        + ("Overriding num_gpu_blocks=28163 with num_gpu_blocks_override=64\n")
    )
    found = folded(events(text)).summary
    sizes = [{p.name: p.bytes for p in each.memory.parts} for each in (own, found)]
    assert "kv_cache" in sizes[0]
    assert "kv_cache" not in sizes[1]
    assert sum(sizes[1].values()) == sum(sizes[0].values())
    assert BY_NAME["kv_cache_bytes"].read(own) == own.memory.kv_cache_bytes
    assert BY_NAME["kv_cache_bytes"].read(found) is None


def divided(free, reserve, *, page, factor=1.0, dummy=1):
    """Blocks of `page` bytes that vllm-gaudi makes of what is free (`hpu_worker.py
    determine_available_memory`); `dummy` are the blocks that it sets aside."""
    return int((free * 0.9 * (1 - reserve) - dummy * page) * factor) // page


@pytest.mark.parametrize("reserve", [0.02, 0.05, 0.3])
@pytest.mark.parametrize(
    ("limit", "factor", "dummy"),
    [(100, 1.0, 1), (94, 1.0, 1), (100, 0.6, 10)],
    ids=["alone", "another rank has less", "hybrid"],
)
def test_blocks_under_another_reserve_follow_from_those_of_the_run(
    reserve, limit, factor, dummy
):
    page, free = 8 * 2**20, gib(limit)
    blocks = divided(free, 0.1, page=page, factor=factor, dummy=dummy)
    text = HYBRID if factor < 1 else OVERRIDDEN.replace(OVERRIDING, "")
    taken = blocks * page / GIB
    text = text.format(
        adjusted=GDN, dummy=f"{dummy * 8} MiB", blocks=blocks, taken=f"{taken:.4g} GiB"
    )
    found = folded(events(text)).summary
    plan = divide_memory(found, utilization=0.9, reserve=reserve)
    low, high = plan.num_blocks_range
    truth = divided(free, reserve, page=page, factor=factor, dummy=dummy)
    assert low <= truth <= high <= low + 3
    assert low <= plan.num_blocks <= high


def test_a_model_without_a_kv_cache_takes_nothing_of_its_budget():
    """An encoder: vllm-gaudi divides the memory as for others, and allocates nothing."""
    text = OVERRIDDEN.replace(OVERRIDING, "").replace("8 MiB reserved", "0 B reserved")
    lines = [line for line in text.splitlines() if "Usable num_blocks" not in line]
    found = folded(events("\n".join(lines).format(taken="0 B") + "\n")).summary
    sizes = {part.name: part.bytes for part in found.memory.parts}
    assert sizes["unused"] == gib(80.99)
    assert "kv_cache" not in sizes


@pytest.mark.parametrize(
    ("ids", "dummy", "tokens"),
    [
        ("16512 (_PAD_BLOCK_ID=128, _PAD_SLOT_ID=16384)", "8 MiB", 128 * 128),
        ("147584 (_PAD_BLOCK_ID=128, _PAD_SLOT_ID=16384)", "8 MiB", None),
        ("16512 (_PAD_BLOCK_ID=128, _PAD_SLOT_ID=16384)", "2.5 GiB", None),
    ],
    ids=["blocks of the kernel", "several in a block", "groups of layers"],
)
def test_tokens_follow_from_blocks_where_each_token_takes_its_part_of_one(
    ids, dummy, tokens
):
    text = OVERRIDDEN.replace(OVERRIDING, "").replace(
        "8 MiB reserved", f"{dummy} reserved"
    )
    text = text.replace("{blocks} (_PAD_BLOCK_ID={blocks}, _PAD_SLOT_ID=1)", ids)
    found = folded(events(text.format(blocks=128, taken="1 GiB"))).summary
    assert found.memory.num_kv_blocks == 128
    assert found.memory.kv_cache_tokens == tokens


def test_a_block_is_unknown_where_ranks_have_budgets_far_apart():
    """In V0 the first rank has the most memory, and the blocks are those of the last."""
    free = (
        "{}INFO 05-12 09:00:0{} hpu_worker.py:177] Free device memory: 14 GiB, 12 GiB usable "
        "(gpu_memory_utilization=0.5), 6 GiB reserved for HPUGraphs "
        "(VLLM_GRAPH_RESERVED_MEM=0.5), {} GiB reserved for KV cache\n"
    )
    worker = "(VllmWorkerProcess pid=301) "
    text = free.format("", 1, 6.8) + free.format(worker, 2, 5.4)
    blocks = "INFO 05-12 09:00:03 executor_base.py:110] # HPU blocks: 1105, # CPU blocks: 256\n"
    memory = folded(events(text + blocks)).summary.memory
    assert memory.block_bytes == 5 << 20
    engines = (
        "INFO 05-12 09:00:00 [utils.py:1] non-default args: {'data_parallel_size': 2}\n"
    )
    memory = folded(events(engines + text + blocks)).summary.memory
    assert memory.block_bytes_range[0] < 5 << 20 < 6 << 20 < memory.block_bytes_range[1]
    assert memory.block_bytes is None


def test_cache_and_blocks_are_those_of_one_engine():
    """The first engine has loaded its model and has no blocks yet."""
    free = (
        "(Worker_DP{0}_TP0_EP{0} pid=30{0}) INFO 05-12 09:00:0{0} [hpu_worker.py:423] Free "
        "device memory: 70 GiB, 63 GiB usable (gpu_memory_utilization=0.9), 6 GiB reserved "
        "for HPUGraphs (VLLM_GRAPH_RESERVED_MEM=0.1), 4 MiB reserved for KV cache dummy "
        "block {1} GiB reserved for usable KV cache\n"
    )
    blocks = (
        "(Worker_DP1_TP0_EP1 pid=301) INFO 05-12 09:00:05 [hpu_worker.py:541] Usable "
        "num_blocks: 14336, actual allocated num_blocks (max across layers): 1835136 "
        "(_PAD_BLOCK_ID=14336, _PAD_SLOT_ID=1835008)\n"
    )
    memory = folded(
        events(free.format(0, 57) + free.format(1, 56) + blocks)
    ).summary.memory
    assert (memory.num_kv_blocks, memory.kv_cache_bytes) == (14336, 56 * GIB)


def test_a_block_is_not_bounded_by_budgets_where_one_is_missing():
    """That of another rank may be the smallest, and decide the number of blocks."""
    config = (
        "INFO 05-12 09:00:00 llm_engine.py:240] Initializing an LLM engine (v0.6.6.post1) "
        "with config: model='m', max_seq_len=2048, tensor_parallel_size=2, device_config=hpu\n"
    )
    text = (
        "INFO 05-12 09:00:01 hpu_worker.py:177] Free device memory: 14 GiB, 12 GiB usable "
        "(gpu_memory_utilization=0.5), 6 GiB reserved for HPUGraphs "
        "(VLLM_GRAPH_RESERVED_MEM=0.5), 6.4 GiB reserved for KV cache\n"
        "INFO 05-12 09:00:03 executor_base.py:110] # HPU blocks: 1105, # CPU blocks: 256\n"
    )
    memory = folded(events(config + text)).summary.memory
    assert memory.block_bytes is None
    assert memory.block_bytes_range[0] <= 5 << 20 <= memory.block_bytes_range[1]


def test_the_padding_of_the_forks_v1_is_unknown_where_no_line_states_it():
    """Its V0 counts blocks, of which the first is the padding; its V1 states tokens."""
    fork = (
        "INFO 08-02 17:37:44 habana_model_runner.py:1025] Loading model weights took "
        "14.97 GiB\n"
    )
    found = []
    for line in (
        "# HPU blocks: 1519, # CPU blocks: 0",
        "GPU KV cache size: 468,736 tokens",
    ):
        text = f"{fork}INFO 08-02 17:37:54 habana_executor.py:91] {line}\n"
        memory = summary_of(events(text))["memory"]
        found.append(memory["num_padding_blocks"])
    assert found == [0, None]


def test_weights_that_stay_on_the_host_are_a_figure_of_their_own():
    text = HEAD + "Total CPU offloaded parameters: 40.33\n"
    text += HEAD + "Model loading took 54.82 GiB memory and 10.0 seconds\n"
    memory = summary_of(events(text))["memory"]
    assert memory["host_weights_bytes"] == gib(40.33)
    assert memory["weights_bytes"] == gib(54.82)


def test_a_cache_that_is_elsewhere_is_not_what_the_device_lacks():
    text = HEAD + "Available KV cache memory: -2.67 GiB\n"
    short = folded(read(text)[0][0]).summary
    assert BY_NAME["kv_cache_bytes"].read(short) == gib(-2.67)
    text += (
        HEAD.replace("gpu_worker", "kv_cache_utils")
        + "GPU KV cache size: 400,000 tokens\n"
    )
    assert BY_NAME["kv_cache_bytes"].read(folded(read(text)[0][0]).summary) is None
