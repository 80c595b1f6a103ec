"""Lines belong to the start of the process that printed them; wrappings change nothing."""

from __future__ import annotations

import re

import pytest

from parsers.engine import evidence, lines, ranks
from parsers.engine.envelope import peel
from parsers.engine.fronts import Fronts
from parsers.engine.stamps import Clock
from parsers.files import dispatcher
from tests.helpers import ROOT, events, folded, of, read
from warmup_insights.analysis.sentences import start_sentences
from warmup_insights.model.events import (
    Failure,
    KVCacheAllocated,
    MemoryMeasured,
    ServingFailure,
    ShutdownRequested,
    SleepModeChanged,
)
from warmup_insights.units import GIB

ARGS = "INFO 04-30 17:45:{:02d} [utils.py:233] non-default args: {{'model': '{}'}}\n"
CORE = "(EngineCore pid={}) INFO 04-30 17:45:{:02d} "
CONFIG = (
    CORE
    + "[core.py:109] Initializing a V1 LLM engine (v0.16.0) with config: model='{}', "
    "tensor_parallel_size=1, device_config=cuda\n"
)
LOADED = CORE + "[gpu_model_runner.py:9] Model loading took {} GiB and 4.5 seconds\n"
INIT = (
    CORE + "[core.py:306] init engine (profile, create kv cache, warmup model) took "
    "0.75 s\n"
)
FAILED = "(EngineCore pid={}) ERROR 04-30 17:45:{:02d} [core.py:1136] {}\n"


def test_two_starts_that_print_in_turns_keep_their_lines():
    text = (
        ARGS.format(0, "a/one") + ARGS.format(1, "a/two")
        + CONFIG.format(11, 2, "a/one") + CONFIG.format(22, 3, "a/two")
        + LOADED.format(11, 9, "7.5") + LOADED.format(22, 12, "3.25")
        + FAILED.format(22, 13, "EngineCore failed to start.")
        + ARGS.format(20, "a/three") + CONFIG.format(33, 21, "a/three")
        + LOADED.format(11, 22, "1.5")
    )  # fmt: skip
    runs, _ = read(text)
    made = [folded(found).summary for found in runs.values()]
    assert [summary.model for summary in made] == ["a/one", "a/two", "a/three"]
    weights = [summary.memory_or_none.weights_bytes for summary in made]
    assert weights == [round(9.0 * GIB), round(3.25 * GIB), None]
    assert [summary.status for summary in made] == ["unknown", "failed", "unknown"]


def test_in_a_container_all_processes_have_the_same_numbers_again():
    start = ARGS.format(0, "a/one") + CONFIG.format(7, 1, "a/one")
    again = ARGS.format(30, "a/one") + CONFIG.format(7, 31, "a/one")
    runs, _ = read(start + again + LOADED.format(7, 40, "2.5"))
    weights = [folded(r).summary.memory_or_none.weights_bytes for r in runs.values()]
    assert weights == [None, round(2.5 * GIB)]


def test_what_fails_while_the_engine_is_made_is_a_failed_start():
    text = ARGS.format(0, "a/one") + CONFIG.format(7, 1, "a/one") + INIT.format(7, 5)
    text += FAILED.format(7, 6, "EngineCore failed to start.")
    text += FAILED.format(7, 6, "TypeError: __init__() got an unexpected argument")
    found = events(text)
    assert (len(of(Failure, found)), of(ServingFailure, found)) == (1, [])
    assert folded(found).summary.status == "failed"


def test_a_signal_is_of_the_process_that_got_it():
    text = ARGS.format(0, "a/one") + CONFIG.format(7, 1, "a/one")
    text += (
        "*** SIGTERM received by PID 7 (TID 7) on cpu 3, from PID 9; stack trace: ***\n"
    )
    found = events(text)
    assert len(of(ShutdownRequested, found)) == 1
    assert start_sentences(folded(found).summary)[0].startswith("Stopped")


def test_the_end_of_another_process_is_no_start():
    ready = "(APIServer pid=1) INFO:     Application startup complete.\n"
    head = "(APIServer pid=1) INFO 04-30 17:45:00 [x.py:3] vLLM API server version 0.16.0\n"
    late = "(APIServer pid=900) INFO 04-30 17:46:00 [launcher.py:9] Shutting down FastAPI HTTP server.\n"
    runs, _ = read(head + ready + late)
    assert len(runs) == 1


def test_a_hole_in_front_of_a_log_hides_nothing():
    text = ARGS.format(0, "a/one") + CONFIG.format(7, 1, "a/one")
    runs, report = read(b"\0" * 3_000_000 + text.encode())
    assert (len(runs), report.problems, report.lines) == (1, [], 2)


def test_all_workers_get_the_smallest_cache():
    size = "INFO 04-30 17:45:09 [kv_cache_utils.py:833] GPU KV cache size: {} tokens\n"
    most = (
        "INFO 04-30 17:45:09 [kv_cache_utils.py:837] Maximum concurrency for 4,096 tokens "
        "per request: {}x\n"
    )
    text = ARGS.format(0, "a/one") + CONFIG.format(7, 1, "a/one")
    for tokens, times in (("40,976", "10.00"), ("36,880", "9.00"), ("45,072", "11.00")):
        text += size.format(tokens) + most.format(times)
    found = events(text)
    assert len(of(KVCacheAllocated, found)) == 6
    memory = folded(found).summary.memory
    assert (memory.kv_cache_tokens, memory.max_concurrency) == (36880, 9.0)


def test_one_sleep_is_one_row():
    text = ARGS.format(0, "a/one") + CONFIG.format(7, 1, "a/one")
    text += (
        "INFO 04-30 17:45:20 [api_server.py:7] Starting vLLM server on http://0:8000\n"
    )
    head = CORE.format(7, 30)
    text += head + (
        "[cumem.py:215] CuMemAllocator: sleep freed 53.50 GiB memory in total, of which "
        "15.25 GiB is backed up in CPU and the rest 38.25 GiB is discarded directly.\n"
    )
    text += head + (
        "[gpu_worker.py:175] Sleep mode freed 53.25 GiB memory, 20.25 GiB memory is still "
        "in use.\n"
    )
    text += head + "[abstract.py:331] It took 13.25 seconds to fall asleep.\n"
    found = events(text)
    assert len(of(SleepModeChanged, found)) == 3
    (row,) = folded(found).summary.serving.sleeps
    assert (row.duration_s, row.freed_bytes) == (13.25, round(53.25 * GIB))
    assert (row.used_bytes, row.host_bytes) == (round(20.25 * GIB), round(15.25 * GIB))


def test_a_sleep_that_each_worker_states_is_one_row():
    text = ARGS.format(0, "a/one") + CONFIG.format(7, 2, "a/one")
    text += (
        "INFO 04-30 17:45:20 [api_server.py:7] Starting vLLM server on http://0:8000\n"
    )
    worker = "(Worker_TP{} pid=9{}) INFO 04-30 17:45:{} "
    for second in (30, 50):
        for rank in (0, 1):
            text += worker.format(rank, rank, second) + (
                "[cumem.py:215] CuMemAllocator: sleep freed 53.50 GiB memory in total, of "
                "which 15.25 GiB is backed up in CPU and the rest 38.25 GiB is discarded "
                "directly.\n"
            )
        for rank in (0, 1):
            text += worker.format(rank, rank, second) + (
                "[gpu_worker.py:175] Sleep mode freed 53.25 GiB memory, 20.25 GiB memory "
                "is still in use.\n"
            )
        text += CORE.format(7, second) + (
            "[abstract.py:331] It took 13.25 seconds to fall asleep.\n"
        )
    rows = folded(events(text)).summary.serving.sleeps
    assert [(row.duration_s, row.freed_bytes) for row in rows] == [
        (13.25, round(53.25 * GIB))
    ] * 2


def test_a_stage_follows_from_the_traceback():
    text = ARGS.format(0, "a/one") + CONFIG.format(7, 1, "a/one")
    for line in (
        "EngineCore failed to start.",
        '  File "/x/vllm/v1/worker/gpu_worker.py", line 5, in load_model',
        '  File "/x/torch/storage.py", line 9, in __init__',
        "ValueError: no shape",
    ):
        text += FAILED.format(7, 6, line)
    (failure,) = of(Failure, events(text))
    assert failure.phase == "load_model"


def test_a_buffer_that_a_collector_got_late_keeps_the_times_of_the_engine():
    line = "2026-04-30T15:45:{:02d}.{:06d}Z INFO 04-30 17:45:{:02d} {}\n"
    text = line.format(
        0, 120000, 0, "[utils.py:233] non-default args: {'model': 'a/b'}"
    )
    text += line.format(40, 1, 10, "[model.py:5] Using max model len 1024")
    text += line.format(40, 3, 30, "[core.py:109] Initializing a V1 LLM engine (v0.16.0) "
                        "with config: model='a/b'")  # fmt: skip
    assert folded(events(text)).summary.time.wall_s == pytest.approx(29.88)


SAMPLES = [
    path
    for folder in ("vllm", "vllm-gaudi", "vllm-fork")
    for path in sorted((ROOT / "sample_logs" / folder).glob("*.log"))
]


def _writer(line: str) -> str:
    """The number that journald has for the process that wrote a line."""
    match = re.search(r" pid=(\d+)", line)
    return match[1] if match is not None else "815"


WRAPPINGS = {
    "carriage returns": lambda n, line: line + "\r",
    "colours": lambda n, line: f"\x1b[36m{line}\x1b[0m",
    "compose": lambda n, line: f"vllm-server-1  | {line}",
    "pod": lambda n, line: f"[pod/vllm-0/server] {line}",
    "journal": lambda n, line: f"Mar 02 09:00:01 host vllm[{_writer(line)}]: {line}",
    "chatter": lambda n, line: f"some other program, line {n}\n{line}",
}
FRONTS = {
    "journal, precise": lambda n, line: f"Mar 02 09:00:01.{n:06} host vllm[8]: {line}",
    "swarm": lambda n, line: f"vllm.1.x8k2j3h4g5f6@node-1    | {line}",
    "pm2": lambda n, line: f"0|vllm     | {line}",
    "skypilot": lambda n, line: f"(worker1, rank=1, pid=1234, ip=10.0.0.1) {line}",
    "srun": lambda n, line: f"0: {line}",
    "mpirun": lambda n, line: f"[1,0]<stderr>:{line}",
    "logging": lambda n, line: f"12:00:01,{n % 1000:03} - a.b - INFO - [vllm] {line}",
    "stern": lambda n, line: f"vllm-7d9f-abcde vllm {line}",
    "table": lambda n, line: f"| {n} | {line} |",
}
_TIMED = ("time", "lines", "guessed", "source", "progress")


def figures(text: str) -> list[dict]:
    """The summaries without what the wrapping adds, which is times and line numbers."""
    from tests.helpers import public

    runs, _ = read(text)
    made = [public(folded(found).summary) for found in runs.values()]
    for summary in made:
        for name in _TIMED:
            summary.pop(name, None)
    return [_without_lines(summary) for summary in made]


def _without_lines(value):
    if isinstance(value, dict):
        dropped = ("line", "next_line", "time", "started_at", "ready_at", "evidence")
        return {k: _without_lines(v) for k, v in value.items() if k not in dropped}
    return [_without_lines(v) for v in value] if isinstance(value, list) else value


@pytest.mark.parametrize("wrapping", WRAPPINGS)
@pytest.mark.parametrize("path", SAMPLES, ids=lambda path: path.name)
def test_what_stands_around_lines_changes_no_figure(path, wrapping):
    lines = path.read_text("utf-8").split("\n")[:-1]
    wrapped = "\n".join(WRAPPINGS[wrapping](n, line) for n, line in enumerate(lines))
    assert figures(wrapped + "\n") == figures("\n".join(lines) + "\n")


@pytest.mark.parametrize("time", ["2026-03-02T09:00:{}+0100", "мар 02 09:00:{}"])
def test_a_unit_has_one_start_of_several_processes(time):
    """journald names the process that wrote a line."""
    text = (
        "(APIServer pid=81) INFO 03-02 09:00:00 [u.py:345] vLLM API server version 0.26.0\n"
        "(EngineCore pid=82) INFO 03-02 09:00:05 [core.py:116] Initializing a V1 LLM engine "
        "(v0.26.0) with config: model='a/b', device_config=cuda\n"
        "(Worker_TP0 pid=83) INFO 03-02 09:00:30 [gpu_worker.py:475] Available KV cache "
        "memory: 5.35 GiB\n"
        "(EngineCore pid=82) INFO 03-02 09:00:31 [kv_cache_utils.py:1733] GPU KV cache size: "
        "215,401 tokens\n"
    )
    lines = text.splitlines(keepends=True)
    front = f"{time} host python3[{{}}]: "
    wrapped = [front.format(31, _writer(line)) + line for line in lines]
    (made,) = figures("".join(wrapped))
    assert made["memory"]["kv_cache_bytes"] == round(5.35 * 2**30)
    assert made["memory"]["kv_cache_tokens"] == 215401


def test_two_programs_that_pass_on_lines_are_two_sources():
    """As of two units that run containers: the line names a process of the container."""
    line = (
        "Mar 02 09:00:0{} host docker[{}]: (EngineCore pid=7) INFO 03-02 09:00:0{} {}\n"
    )
    size = "[kv_cache_utils.py:1733] GPU KV cache size: {} tokens"
    text = line.format(1, 815, 1, size.format("1,024"))
    text += line.format(2, 902, 2, size.format("2,048"))
    text += "Mar 02 09:00:03 host docker[815]: of no process\n"
    found = [summary["memory"]["kv_cache_tokens"] for summary in figures(text)]
    assert found == [1024, 2048]


PLATFORM = "DEBUG 04-30 17:{} [platforms/__init__.py:225] Automatically detected platform cuda."


def test_a_program_that_starts_engines_in_actors_is_no_part_of_their_start():
    """As in a trainer's log: its driver and other actors of Ray import vLLM as well."""
    text = (
        PLATFORM.format("40:00") + "\n"
        "(pid=50) " + PLATFORM.format("40:20") + "\n"
        "(TaskRunner pid=50) {'actor': 1}\n"
        "(pid=70) " + PLATFORM.format("45:00") + "\n"
        "(pid=80) " + PLATFORM.format("45:00") + "\n"
        "(Server pid=70) " + CONFIG.format(71, 4, "a/one")
        + "(Server pid=70) " + PLATFORM.format("45:05") + " [repeated 2x across cluster]\n"
        "(Server pid=80) " + CONFIG.format(81, 6, "a/one")
        + "(Server pid=70) (Worker pid=72) "
        + LOADED.format(0, 9, "7.5").partition(") ")[2]
        + "(Server pid=80) " + LOADED.format(81, 10, "3.25")
        + "(Server pid=70) " + INIT.format(71, 12)
        + "(Server pid=80) " + INIT.format(81, 14)
        + "(Other pid=90) " + PLATFORM.format("46:00") + "\n"
    )  # fmt: skip
    runs, _ = read(text)
    made = [folded(found).summary for found in runs.values()]
    assert [s.memory_or_none.weights_bytes for s in made] == [
        round(7.5 * GIB), round(3.25 * GIB),
    ]  # fmt: skip
    assert [s.time.wall_s for s in made] == [12.0, 8.0]
    phases = {phase.name: phase.duration_s for phase in made[0].time.phases}
    assert phases["import"] == 4.0


def test_an_engine_in_an_actor_starts_with_the_lines_that_the_actor_prints_before_it():
    """While that in another one goes on."""
    length = "(Server pid={}) INFO 04-30 17:45:{:02d} [model.py:1752] Using max model len 256\n"
    text = (
        length.format(70, 1)
        + "(Server pid=70) " + CONFIG.format(71, 4, "a/one")
        + length.format(80, 2)
        + "(Server pid=80) " + CONFIG.format(81, 6, "a/one")
        + "(Server pid=70) " + INIT.format(71, 12)
        + "(Server pid=80) " + INIT.format(81, 14)
    )  # fmt: skip
    runs, _ = read(text)
    made = [folded(found).summary.time for found in runs.values()]
    assert [time.wall_s for time in made] == [11.0, 12.0]


def test_the_import_of_a_program_that_is_the_engine_stays():
    """Ray's actors without an engine of their own change nothing."""
    text = (
        PLATFORM.format("45:00") + "\n" + ARGS.format(5, "a/one")
        + "(RayWorkerWrapper pid=50) " + PLATFORM.format("45:06") + "\n"
        + CONFIG.format(71, 8, "a/one") + INIT.format(71, 12)
    )  # fmt: skip
    summary = folded(events(text)).summary
    phases = {phase.name: phase.duration_s for phase in summary.time.phases}
    assert (summary.time.wall_s, phases["import"]) == (12.0, 5.0)


@pytest.mark.parametrize("front", FRONTS)
@pytest.mark.parametrize("path", SAMPLES, ids=lambda path: path.name)
def test_what_some_records_show_to_be_a_front_is_taken_off_every_line(path, front):
    lines = ["INFO 03-02 09:00:00 [utils.py:1] Something else"] * 3
    lines += path.read_text("utf-8").split("\n")[:-1]
    wrapped = "\n".join(FRONTS[front](n, line) for n, line in enumerate(lines))
    assert figures(wrapped + "\n") == figures("\n".join(lines) + "\n")


def test_a_progress_bar_before_a_record_is_no_front():
    fronts = Fronts()
    for n in range(5):
        peel(f"Loading: {n}it [00:0{n}, 1.5s/it]INFO 03-02 09:00:00 [a.py:1] b", fronts)
        peel(f"Loading:  {n}%|# | {n}/9 INFO 03-02 09:00:00 [a.py:1] b", fronts)
    assert fronts.without("Loading: 6it [00:06, 1.5s/it]") is None
    assert fronts.without("Loading:  6%|# | 6/9 ") is None


def test_the_shapes_that_are_kept_are_bounded():
    fronts = Fronts()
    for n in range(500):
        for _ in range(5):
            fronts.add(chr(97 + n % 26) * (n + 1))
    assert len(fronts._patterns) <= 8
    assert len(fronts._shapes) <= 64


def test_a_program_that_imports_before_the_server_does_is_not_its_start():
    banner = "INFO 04-30 17:45:04 [api_server.py:3] vLLM API server version 0.16.0\n"
    first, second = PLATFORM.format("44:30") + "\n", PLATFORM.format("45:00") + "\n"
    rest = CONFIG.format(71, 8, "a/one") + INIT.format(71, 12)
    for text, wall_s in (
        (first + second + banner + rest, 12.0),
        # The core of an engine imports after the program that is its server.
        (first + second + rest, 42.0),
    ):
        assert folded(events(text)).summary.time.wall_s == wall_s


@pytest.mark.parametrize("core", [True, False])
def test_a_program_that_imported_long_before_is_not_the_start(core: bool):
    text = "INFO 04-30 {}:00 [__init__.py:216] Automatically detected platform cuda.\n"
    chatter = "".join(
        f"INFO 04-30 17:{n}:00 [train.py:1] step\n" for n in range(10, 44)
    )
    engine = CONFIG.format(71, 8, "a/one") + INIT.format(71, 12)
    both = text.format("15:08") + chatter
    if core:
        both += text.format("17:44") + text.format("17:45")
    summary = folded(events(both + engine)).summary
    assert summary.time.wall_s == (72.0 if core else 4.0)
    assert [n.topic for n in summary.notes] == ["begins_here"]


def test_another_web_server_that_is_ready_first_is_not_the_one_that_waits():
    ready = "INFO:     Application startup complete.\n"
    routes = "INFO 04-30 17:45:19 [launcher.py:29] Available routes are:\n"
    config, init = CONFIG.format(7, 3, "a/one"), INIT.format(7, 18)
    server = "INFO 04-30 17:45:00 [api_server.py:3] vLLM API server version 0.16.0\n"
    for text in (server + ready + config + init, server + config + init):
        summary = folded(events(text + routes + ready)).summary
        assert (summary.status, summary.time.wall_s) == ("finished", 19.0)
    assert folded(events(server + ready)).summary.status == "unknown"
    assert folded(events(server + routes + ready)).summary.status == "finished"


def test_lines_of_ever_new_processes_do_not_fill_the_memory(monkeypatch):
    for module in (evidence, lines, ranks):
        monkeypatch.setattr(module, "MAX_PROCESSES", 50)
    monkeypatch.setattr(ranks, "MAX_RANKS", 50)
    parser = lines.LineParser(dispatcher(), clock=Clock(year=2026))
    for i in range(300):
        name = ("VllmWorkerProcess", f"Worker_{i}_DP{i}", f"Other{i}")[i % 3]
        text = f"Warmup finished in {i} secs, allocated 1.5 GiB of device memory"
        parser.feed(
            f"({name} pid={i + 2}) INFO 07-16 00:00:01 [a{i}.py:{i}] {text}", i + 1
        )
    run = parser._stream.run
    kept = [run.pids, *vars(run.evidence).values(), *vars(run.ranks).values()]
    sizes = [len(each) for each in kept if isinstance(each, set | dict)]
    assert max(sizes) == 50
    assert (parser.report.events, parser.num_runs) == (301, 1)


def test_processes_of_one_number_on_two_hosts_are_two():
    line = (
        "(RayWorkerWrapper pid=345, ip=10.0.0.{}) INFO 07-16 10:00:0{} [gpu_model_runner.py:9] "
        "Model loading took {}.0 GiB and 9.0 seconds\n"
    )
    found = of(MemoryMeasured, events(line.format(1, 1, 2) + line.format(2, 2, 3)))
    assert len({each.rank for each in found}) == 2
