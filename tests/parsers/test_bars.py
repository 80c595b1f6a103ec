"""A bar over buckets is a stopwatch: the time of each step comes back from its rate."""

from __future__ import annotations

import re
import statistics

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.helpers import REAL_LOGS, events, folded, of, read, summary_of
from warmup_insights.model.events import CaptureProgress, PhaseMarked, WarmupStep
from warmup_insights.units import GIB

BAR = "Decode warmup processing: {:3d}%|####| {}/{} [{:02d}:{:02d}<00:10, {}, {}/{}]"
UPDATE_S = 0.1
"""tqdm draws no update sooner after the last one."""


def drawn(item_s: float) -> str:
    return f"{item_s:5.2f}s/item" if item_s >= 1 else f"{1 / item_s:5.2f}item/s"


def bar_of(times: list[float]) -> str:
    """The states that tqdm draws: one per update that is not too soon, then the next."""
    states, items, seconds, elapsed, waiting, waited = [], 0.0, 0.0, 0.0, 0, 0.0
    rate = "?item/s"
    for index, took in enumerate(times):
        elapsed, waiting, waited = elapsed + took, waiting + 1, waited + took
        clock = divmod(int(elapsed), 60)
        if waited >= UPDATE_S:
            items, seconds = 0.3 * waiting + 0.7 * items, 0.3 * waited + 0.7 * seconds
            rate, waiting, waited = drawn(seconds / items), 0, 0.0
            states.append((index + 1, clock, rate, index))
        states.append((index + 1, clock, rate, index + 1))
    total = len(times) + 1
    return "\r".join(
        BAR.format(100 * n // total, n, total, *clock, rate, place, total)
        for n, clock, rate, place in states
        if place < total
    )


def steps_of(text: str) -> list[WarmupStep]:
    start = "Decode warmup processing:   0%|    | 0/{} [00:00<?, ?item/s]\r"
    total = re.search(r"/(\d+) \[", text)
    return of(WarmupStep, events(start.format(total[1]) + text + "\n"))


@given(st.lists(st.floats(0.15, 30.0), min_size=2, max_size=40))
def test_times_come_back_within_the_stated_resolution(times):
    found = steps_of(bar_of(times))
    assert len(found) == len(times)
    for step, took in zip(found, times, strict=True):
        assert step.duration_s == pytest.approx(took, abs=step.resolution_s + 1e-3)


def test_updates_that_were_left_out_are_told_together():
    found = steps_of(bar_of([1.0, 0.04, 0.03, 0.93, 2.0]))
    assert [step.duration_s is None for step in found] == [
        False,
        True,
        True,
        True,
        False,
    ]
    assert (found[3].group_size, found[1].group_size) == (3, None)
    assert found[3].group_duration_s == pytest.approx(1.0, abs=0.05)


LINE = "[Warmup][Decode][{}/{}] batch_size:1 query_len:1 num_blocks:{} free_mem:9 GiB"


def bar_with_lines(times: list[float]) -> str:
    """The same in developer mode: the bar is drawn anew below the line of each bucket."""
    items = seconds = elapsed = waited = 0.0
    text, rate, waiting, total = "", "?item/s", 0, len(times) + 1
    for index, took in enumerate(times):
        clock = divmod(int(elapsed), 60)
        bar = BAR.format(0, index, total, *clock, rate, max(0, index - 1), total)
        text += "\r     \r" + LINE.format(index + 1, total, 10 + index) + f"\n\r{bar}\n"
        elapsed, waiting, waited = elapsed + took, waiting + 1, waited + took
        clock = divmod(int(elapsed), 60)
        text += "\r" + BAR.format(0, index, total, *clock, rate, index, total)
        if waited >= UPDATE_S:
            items, seconds = 0.3 * waiting + 0.7 * items, 0.3 * waited + 0.7 * seconds
            rate, waiting, waited = drawn(seconds / items), 0, 0.0
            text += "\r" + BAR.format(0, index + 1, total, *clock, rate, index, total)
    return text + "\r     \r" + LINE.format(total, total, 10 + len(times)) + "\n"


@given(st.lists(st.sampled_from([0.04, 0.09, 0.2, 0.7, 3.0]), min_size=2, max_size=30))
def test_a_bar_below_the_line_of_the_next_bucket_is_no_update(times):
    """Drawn again without one, as a step was too short, it has the average of before."""
    found = steps_of(bar_with_lines(times))[: len(times)]
    assert [step.index for step in found] == list(range(1, len(times) + 1))
    together = 0.0
    for step, took in zip(found, times, strict=True):
        together += took
        if step.duration_s is not None:
            assert step.duration_s == pytest.approx(took, abs=step.resolution_s + 1e-3)
        if step.group_duration_s is not None:
            assert step.duration_s is None
            assert step.group_size > 1
            near = step.resolution_s + 1e-3
            assert step.group_duration_s == pytest.approx(together, abs=near)
        if step.duration_s is not None or step.group_duration_s is not None:
            together = 0.0
    assert together < UPDATE_S


def test_steps_that_have_a_time_together_count_in_the_sum():
    lists = (
        "INFO 07-16 10:00:00 [common.py:85] Generated 6 decode buckets [bs, query, "
        "num_blocks]: [(1, 1, 10), (1, 1, 11), (1, 1, 12), (1, 1, 13), (1, 1, 14), "
        "(1, 1, 15)]\n"
    )
    bar = bar_of([1.0, 0.04, 0.03, 0.93, 2.0])
    decode = folded(events(lists + bar + "\n")).summary.phase("decode")
    assert decode.steps_s == pytest.approx(4.0, abs=0.1)


def test_steps_are_named_from_the_end_of_the_list():
    lists = (
        "INFO 07-16 10:00:00 [common.py:85] Generated 3 decode buckets [bs, query, "
        "num_blocks]: [(1, 1, 8), (1, 1, 16), (1, 1, 32)]\n"
    )
    found = of(WarmupStep, events(lists + bar_of([1.0, 2.0]) + "\n"))
    assert [step.bucket for step in found] == [(1, 1, 32), (1, 1, 16)]


def test_a_bar_that_was_not_seen_from_its_beginning_has_whole_seconds():
    text = bar_of([1.5, 2.5, 3.5, 4.5]).split("\r")
    found = of(WarmupStep, events("\r".join(text[4:]) + "\n"))
    assert {step.resolution_s for step in found} <= {1.0, None}


def test_a_bucket_that_was_skipped_leaves_the_others_without_a_name():
    state = "Decode warmup processing:  33%|##| 1/3 [00:01<00:02,  1.00s/item, 2/3]"
    lists = (
        "INFO 07-16 10:00:00 [common.py:85] Generated 3 decode buckets [bs, query, "
        "num_blocks]: [(1, 1, 8), (1, 1, 16), (1, 1, 32)]\n"
    )
    (step,) = of(WarmupStep, events(f"{lists}{state}\n"))
    assert step.bucket is None


def test_after_a_state_that_is_missing_times_are_those_of_the_clock():
    """The rate of the next is an average with what is not there."""
    times = [1.0, 9.0, 1.0, 1.0, 1.0]
    states = bar_of(times).split("\r")
    del states[2:4]  # the second update, and what is drawn before the third step
    found = steps_of("\r".join(states))
    known = [step for step in found if step.duration_s is not None]
    assert [step.index for step in known] == [1, 4, 5]
    for step in known:
        took = times[step.index - 1]
        assert step.duration_s == pytest.approx(took, abs=step.resolution_s)


def test_the_last_step_has_what_the_clock_leaves_for_it():
    """tqdm draws it with the average of all where its own update came too soon."""
    state = "Decode warmup processing: {}%|####| {}/2 [00:0{}<00:00, {}, {}/2]\r"
    text = state.format(50, 1, 4, " 4.90s/item", 0) + state.format(
        100, 2, 4, " 2.47s/item", 1
    )
    first, last = steps_of(text)
    assert first.duration_s == pytest.approx(4.9, abs=first.resolution_s)
    assert last.duration_s == pytest.approx(0.05, abs=last.resolution_s)
    assert last.duration_s <= 5.0 - first.duration_s + 1e-9


GENERATED = (
    "(Worker_TP{0} pid=3{0}) INFO 07-16 10:00:00 [common.py:85] Generated 4 decode buckets "
    "[bs, query, num_blocks]: [(1, 1, 8), (1, 1, 16), (1, 1, 32), (1, 1, 64)]\n"
)


@pytest.mark.parametrize("num_done", [(3, 2), (3, 4), (4, 4)])
def test_bars_of_several_processes_in_one_line_have_no_times(num_done):
    """Only what stands first in a line has a name (vLLM `system_utils.py _add_prefix`)."""
    each = [
        [BAR.format(25 * n, n, 4, 0, 2 * n + 9 * rank, " 2.00s/item", n - 1, 4)
         for n in range(1, num_done[rank] + 1)]
        for rank in (0, 1)
    ]  # fmt: skip
    mixed = [state for pair in zip(*each, strict=False) for state in pair]
    mixed += max(each, key=len)[len(mixed) // 2 :]
    text = GENERATED.format(0) + GENERATED.format(1)
    text += "(Worker_TP1 pid=31) \r" + "\r".join(mixed) + "\n"
    found = folded(events(text))
    decode = found.summary.phase("decode")
    assert (decode.warmed, decode.steps_s) == (max(num_done), None)
    assert [row.duration_s for row in found.rows] == [None] * 4


def test_bars_of_several_processes_have_times_where_each_ends_its_line():
    """A line of a step ends that of the bar, and the next state has a name again."""
    times = ([1.2, 0.4, 0.9, 0.5], [1.9, 0.6, 0.2, 0.7])
    lines = []
    for rank, each in enumerate(times):
        name = f"(Worker_TP{rank} pid=3{rank}) "
        lines.append([
            name + line.replace("[Warmup]", f"{name}[Warmup]") if "[Warmup]" in line
            else line
            for line in bar_with_lines(each).split("\n")[:-1]
        ])  # fmt: skip
    text = "".join(f"{line}\n" for pair in zip(*lines, strict=True) for line in pair)
    for rank, each in enumerate(times):
        found = [step for step in of(WarmupStep, events(text)) if step.rank == rank]
        for step, took in zip(found, each, strict=False):
            assert step.duration_s == pytest.approx(took, abs=step.resolution_s + 1e-3)


PASSED_OVER = """\
INFO 07-16 10:00:00 [api_utils.py:1] non-default args: {{'model': 'a/b'{tokens}}}
INFO 07-16 10:00:00 [common.py:85] Generated 4 prompt buckets [bs, query, num_blocks]: \
[(1, 128, 0), (1, 512, 0), (1, 1024, 0), (2, 1024, 0)]
{bars}
INFO 07-16 10:00:09 [hpu_model_runner.py:1] Graph/Prompt captured:4 used_mem:1 GiB
INFO 07-16 10:00:09 [hpu_model_runner.py:1] Warmup finished in 9 secs, allocated 1 GiB of \
device memory
"""
BARS = "\r".join(
    f"Prompt warmup processing: {25 * done:3d}%|##| {done}/4 [00:0{done}<00:02, "
    f" 1.00s/item, {done + 1}/4]"
    for done in range(3)
)
LINES = "\n".join(
    f"[Warmup][Prompt][{n}/4] batch_size:1 query_len:{length} num_blocks:0 free_mem:9 GiB"
    for n, length in ((3, 512), (4, 128))
)


@pytest.mark.parametrize("shown", [BARS, LINES], ids=["bars", "lines"])
@pytest.mark.parametrize("tokens", [", 'max_num_batched_tokens': 512", ""])
def test_buckets_longer_than_a_step_are_passed_over(shown, tokens):
    """`warmup_graphs`; those of a bucket file with merged prefill may be so long."""
    found = folded(events(PASSED_OVER.format(bars=shown, tokens=tokens)))
    part = found.summary.phase("prompt")
    assert (part.generated, part.warmed) == (4, 2 if tokens else None)
    if tokens:
        warmed = [row.bucket for row in found.rows if row.warmed]
        assert warmed == [(1, 128, 0), (1, 512, 0)]


def test_a_full_bar_of_weights_ends_their_loading_once():
    line = "Loading safetensors checkpoint shards: 100% Completed | 4/4 [00:11<00:00, {}s/it]\n"
    found = of(PhaseMarked, events(line.format("2.49") + line.format("2.93")))
    assert [(e.name, e.edge, e.duration_s) for e in found] == [
        ("load_weights", "end", 11.0)
    ]


PROBED = REAL_LOGS / "simdev_gaudi_0.26.0_high_level_profiler.log"
PROBE = re.compile(
    r" t=([\d.]+)\] HPUModelRunner\.log_warmup \S+ args=\('(\w+)', (\d+),"
)


@pytest.mark.skipif(not PROBED.exists(), reason="the real logs are not here")
def test_times_from_the_bar_are_those_of_probes_in_the_real_plugin():
    data = PROBED.read_bytes()
    began = {
        (phase.lower(), int(index)): float(time)
        for time, phase, index in PROBE.findall(data.decode("utf-8", "replace"))
    }
    differences = [
        abs(step.duration_s - (began[step.phase, step.index] - start))
        for step in of(WarmupStep, read(data)[0][0])
        if (start := began.get((step.phase, step.index - 1))) is not None
        and (step.phase, step.index) in began
    ]
    assert len(differences) == 43
    assert statistics.median(differences) < 0.03
    assert max(differences) < 0.15


GRAPHS = "Capturing CUDA graph shapes: {:3d}%|####| {}/67 [01:{:02d}<00:01,  1.0it/s]"


def test_a_bar_whose_owner_was_pushed_off_the_line_is_still_the_first_ranks():
    states = "\r".join(GRAPHS.format(n, n, n % 60) for n in range(10, 66, 5))
    found = read(
        "INFO 08-16 01:43:40 [core.py:71] Initializing a V1 LLM engine (v0.10.0) with "
        "config: model='a/b', tensor_parallel_size=8, device_config=cuda\n"
        f"(VllmWorker rank=0 pid=1) \r{states}(VllmWorker rank=7 pid=8) INFO 08-16 01:51:15 "
        "[custom_all_reduce.py:196] Registering 8643 cuda graph addresses\n"
        f"\r{GRAPHS.format(99, 66, 8)}\r{GRAPHS.format(100, 67, 9)}\n"
        "(VllmWorker rank=0 pid=1) INFO 08-16 01:51:18 [gpu_model_runner.py:2485] Graph "
        "capturing finished in 83 secs, took 1.17 GiB\n"
    )[0][0]
    (bar,) = of(CaptureProgress, found)
    assert (bar.captured, bar.total, bar.rank) == (67, 67, 0)


_CAPTURES = (
    "Capturing CUDA graphs (PIECEWISE):   0%|          | 0/7 [00:00<?, ?it/s]",
    "Capturing CUDA graphs (PIECEWISE):  43%|####3     | 3/7 [00:00<00:00,  4.50it/s]",
    "Capturing CUDA graphs (PIECEWISE): 100%|##########| 7/7 [00:01<00:00,  5.98it/s]",
)
_RECORD = (
    "INFO 10-04 12:24:22 [model_runner.py:1066] Graph capturing finished in 2 secs"
)


@pytest.mark.parametrize("between", ["\r", "", " " * 72])
@pytest.mark.parametrize("behind", ["\n", "", "(EngineCore pid=34521) "])
def test_a_bar_keeps_its_states_where_carriage_returns_were_lost(between, behind):
    text = f"(EngineCore pid=34521) {between.join(_CAPTURES)}{behind}{_RECORD}\n"
    (bar,) = of(CaptureProgress, events(text))
    assert (bar.captured, bar.total) == (7, 7)
    assert bar.states == [(0, 0.0), (3, 0.0), (7, 1.0)]


def test_the_graphs_of_a_draft_model_are_not_those_of_the_model():
    bar = " 100%|##########| {0}/{0} [00:01<00:00,  1.37it/s]\n"
    text = "INFO 09-25 00:21:05 [gpu_worker.py:551] x\n" + "".join(
        f"(Worker_TP0 pid=657) {name}:{bar.format(count)}"
        for name, count in (
            ("Capturing CUDA graphs (PIECEWISE)", 5),
            ("Capturing CUDA graphs (FULL)", 3),
            ("Capturing dspark CUDA graphs (FULL)", 2),
            ("Capturing prefill eagle CUDA graphs (FULL)", 1),
        )
    )
    assert [(bar.mode, bar.captured) for bar in of(CaptureProgress, events(text))] == [
        ("PIECEWISE", 5), ("FULL", 3), ("dspark, FULL", 2), ("prefill eagle, FULL", 1),
    ]  # fmt: skip


def test_a_bar_of_transformers_is_none_of_the_engine():
    head = "INFO 07-16 10:00:00 [gpu_model_runner.py:1] Starting to load model a/b...\n"
    bar = "Loading {}checkpoint shards: 100%|██████████| 4/4 [00:13<00:00,  3.09s/it]\n"
    names = [
        {e.name for e in of(PhaseMarked, events(head + bar.format(kind)))}
        for kind in ("", "safetensors ")
    ]
    assert ["load_weights" in found for found in names] == [False, True]


@pytest.mark.parametrize("name", ["loading shards", "loading pt checkpoint shards"])
def test_bars_of_several_threads_are_of_the_weights(name):
    """vLLM `weight_utils.py multi_thread_safetensors_weights_iterator`, `..._pt_...`."""
    head = "INFO 07-16 10:00:00 [gpu_model_runner.py:1] Starting to load model a/b...\n"
    bar = f"Multi-thread {name}: 100%|██████████| 4/4 [00:13<00:00,  3.09s/it]\n"
    names = {event.name for event in of(PhaseMarked, events(head + bar))}
    assert "load_weights" in names


def test_bars_without_a_rank_leave_the_lines_of_ranks_as_they_are():
    listed = "[(1, 128, 0), (1, 256, 0)]"
    text = "".join(
        f"(Worker_TP{rank} pid=7{rank}) INFO 02-09 19:44:52 [common.py:222] Generated 2 "
        f"prompt buckets [bs, query, num_blocks]: {listed}\n"
        for rank in (0, 1)
    )
    text += "".join(
        f"Prompt warmup processing: {50 * done:3d}%|█  | {done}/2 [00:0{4 * done}<00:04, "
        f"4.00s/item, {done}/2]\n"
        for done in range(3)
        for rank in (0, 1)
    )
    text += "".join(
        f"(Worker_TP{rank} pid=7{rank}) INFO 02-09 19:45:00 [hpu_model_runner.py:4285] "
        "Graph/Prompt captured:2 used_mem:11.11 GiB\n"
        for rank in (0, 1)
    )
    found = folded(events(text))
    prompts = found.summary.phase("prompt")
    assert prompts.graph_used_bytes == round(11.11 * GIB)
    assert (prompts.warmed, prompts.buckets) == (2, [(1, 128, 0), (1, 256, 0)])
    assert [(row.generated, row.warmed) for row in found.rows] == [(True, True)] * 2


CORE = "(EngineCore_DP0 pid=7) {} 09-23 12:00:{:02d} [{}] {}\n"
UNIFIED = (
    "Unified Attention warmup: {:3d}%|####| {}/4 [00:{:02d}<00:10, 5.00s/item, {}/4]\r"
)
BEFORE = CORE.format(
    "INFO", 5, "hpu_model_runner.py:1", "Starting sampler warmup..."
) + (
    CORE.format(
        "INFO", 9, "hpu_model_runner.py:1", "Sampler warmup completed successfully"
    )
)


@pytest.mark.parametrize(
    ("num_done", "level", "message"),
    [
        (4, "INFO", "Warmup finished in 24 secs, allocated 1 GiB of device memory"),
        (2, "ERROR", "RuntimeError: Graph compile failed. synStatus=synStatus 26"),
    ],
    ids=["finished", "failed"],
)
def test_a_bar_without_a_summary_below_it_ends_with_the_warmup(
    num_done, level, message
):
    """vllm-gaudi to 0.16 prints none for unified attention (`warmup_unified_graphs`)."""
    text = BEFORE + "Unified Attention warmup:   0%|    | 0/4 [00:00<?, ?item/s]\r"
    text += "".join(
        UNIFIED.format(25 * n, n, 5 * n, n - 1) for n in range(1, num_done + 1)
    )
    text += "\n" + CORE.format(level, 29, "core.py:1", message)
    time = folded(events(text)).summary.time
    phases = {phase.name: phase.duration_s for phase in time.phases}
    assert phases == {"sampler_warmup": 4.0, "unified_warmup": 20.0}


def test_a_line_that_was_printed_over_a_bar_has_its_process():
    """Where carriage returns were taken out, it stands behind the bar."""
    step = "(EngineCore pid=200) [Warmup][Prompt][{}/3] batch_size:1 query_len:{} num_blocks:0 free_mem:9 GiB\n"
    bar = "Prompt warmup processing:  33%|###       | {}/3 [00:0{}<00:02,  1.17s/item, {}/3]"
    text = (
        f"(EngineCore pid=200) {bar.format(0, 0, 0)}{' ' * 60}{step.format(1, 384)}"
        f"{bar.format(0, 0, 0)}{bar.format(1, 1, 0)}{' ' * 60}{step.format(2, 256)}"
    )
    steps = of(WarmupStep, events(text))
    assert [step.bucket for step in steps] == [(1, 384, 0), (1, 256, 0)]


def test_a_kind_of_graphs_whose_count_is_cut_off_leaves_the_number_unknown():
    piecewise = (
        "Capturing CUDA graphs (mixed prefill-decode, PIECEWISE): 100%|##| 67/67 "
        "[00:05<00:00, 11.74it/s]\n"
    )
    cut = "Capturing CUDA graphs (decode, FULL): 100%|██\n"
    assert summary_of(events(piecewise))["graphs"]["captured"] == 67
    summary = summary_of(events(piecewise + cut))
    assert summary["graphs"]["captured"] is None
    assert summary["progress"]["stage"] == "graph_capture"
    assert "done" not in summary["progress"]
    whole = (
        "Capturing CUDA graphs (decode, FULL): 100%|##| 35/35 [00:03<00:00, 9.10it/s]\n"
    )
    assert summary_of(events(piecewise + cut + whole))["graphs"]["captured"] == 67 + 35


def test_a_bar_over_buckets_without_a_step_states_how_many_there_are():
    bars = (
        "Prompt warmup processing:   0%|   | 0/39 [00:32<?, ?item/s]\n"
        "Decode warmup processing:   0%|   | 0/20 [00:39<?, ?item/s\n"
    )
    summary = summary_of(events(bars))
    counts = {phase: row["generated"] for phase, row in summary["buckets"].items()}
    assert counts == {"prompt": 39, "decode": 20}
    assert summary["device"]["kind"] == "hpu"


def test_a_bar_of_another_engine_begins_no_start():
    bar = (
        "Multi-thread loading shards:  96% Completed | 47/49 [00:02<00:01,  2.85s/it]\n"
    )
    assert events(bar)
    stated = "[2026-08-01 22:25:21] server_args=ServerArgs(model_path='a/b', tokenizer_path='a')\n"
    assert not read(stated + bar)[0]


PRECOMPILED = (
    "[Aiter Triton] Pre-compiling fp8 BMM kernel: {}/1024 [00:{}<00:00, 34.13it/s]\n"
)
LOADED = (
    "INFO 03-01 16:05:00 [gpu_model_runner.py:3619] Starting to load model a/b...\n"
    "INFO 03-01 16:05:20 [default_loader.py:308] Loading weights took 20.00 seconds\n"
    + PRECOMPILED.format("100%|##| 1024", "30")
    + PRECOMPILED.format("  0%|  | 0", "00")
    + PRECOMPILED.format("100%|##| 1024", "10")
    + "INFO 03-01 16:06:03 [gpu_model_runner.py:3716] Model loading took 9.4922 GiB memory "
    "and 62.97 seconds\n"
)


def test_kernels_compiled_for_each_layer_while_a_model_loads_are_built():
    summary = summary_of(events(LOADED))
    phases = {part["name"]: part["duration_s"] for part in summary["time"]["phases"]}
    assert phases["kernel_build"] == pytest.approx(40.0)
    assert phases["load_model"] < 5
