"""The same log in every wrapping gives the same events."""

from __future__ import annotations

import gzip
import json
import logging

import pytest
import zstandard

from parsers.engine.envelope import peel, peel_redrawn
from tests.helpers import ROOT, events, of, read, summary_of
from warmup_insights.model.events import (
    BucketsGenerated,
    CaptureProgress,
    ConfigRecorded,
    Failure,
    KVCacheAllocated,
    LazyCapture,
    MemoryMeasured,
    SamplerConfig,
    WarmupStep,
)  # fmt: skip

FOLDER = ROOT / "sample_logs" / "envelopes"
PLAIN = gzip.decompress((FOLDER / "made_gzip.log.gz").read_bytes())
SAME = sorted(
    path
    for path in FOLDER.iterdir()
    if path.name
    not in {
        "made_ray_repeated.log", "made_hard_wrapped.log", "made_kubernetes_cri.log",
        "made_colour.log",
    }
)  # fmt: skip


def content(found):
    """Events without what the wrapping adds: line, rank and the clock of the collector."""
    names = ("line", "rank", "time", "next_line", "timezone")
    kinds = (
        "GapSeen",
        "CaptureProgress",
        "ConfigRecorded",
        "RunStarted",
        "PhaseMarked",
    )
    return [
        {n: getattr(e, n) for n in e.__struct_fields__ if n not in names}
        for e in found
        if type(e).__name__ not in kinds
    ]


@pytest.mark.parametrize("path", SAME, ids=lambda path: path.name)
def test_wrapping_does_not_change_the_events(path):
    assert content(events(path.read_bytes())) == content(events(PLAIN))


def test_gzip_and_zstd_are_recognised_by_their_bytes():
    packed = zstandard.ZstdCompressor().compress(PLAIN)
    assert content(events(packed, name="a.log")) == content(events(PLAIN))
    assert content(events(gzip.compress(PLAIN), name="a")) == content(events(PLAIN))


def test_crlf_gives_the_same_events():
    assert content(events(PLAIN.replace(b"\n", b"\r\n"))) == content(events(PLAIN))


def test_cri_joins_the_parts_of_a_line():
    found = events((FOLDER / "made_kubernetes_cri.log").read_bytes())
    (prompt,) = of(BucketsGenerated, found)
    assert prompt.count == len(prompt.buckets) == 6


def test_hard_wrapped_list_is_whole():
    (made,) = of(
        BucketsGenerated, events((FOLDER / "made_hard_wrapped.log").read_bytes())
    )
    assert (1, 512, 0) in made.buckets
    assert len(made.buckets) == 6


def test_a_repeated_line_is_of_the_process_that_printed_it():
    """Ray leaves out numbers when it compares, so the others printed other figures."""
    found = events((FOLDER / "made_ray_repeated.log").read_bytes())
    assert len(of(MemoryMeasured, found)) == 2
    assert len({event.rank for event in of(MemoryMeasured, found)}) == 2


def test_colours_in_the_prefix_are_stripped():
    found = events((FOLDER / "made_colour.log").read_bytes())
    assert of(KVCacheAllocated, found)[0].num_tokens == 736_768


def test_process_prefix_before_a_carriage_return_owns_the_bar():
    line = (
        "(Worker_TP1 pid=31) \rCapturing CUDA graphs (FULL):  50%|█████     | 1/2 "
        "[00:00<00:01,  1.00it/s]\rCapturing CUDA graphs (FULL): 100%|██████████| 2/2 "
        "[00:01<00:00,  1.56it/s](Worker_TP0 pid=30) INFO 07-16 19:59:51 "
        "[gpu_model_runner.py:5335] Model loading took 54.82 GiB memory and 1.0 seconds\n"
    )
    found = events(line)
    progress = [e for e in found if type(e).__name__ == "CaptureProgress"]
    assert [(e.rank, e.captured) for e in progress] == [(1, 2)]
    assert of(MemoryMeasured, found)[0].rank == 0


@pytest.mark.parametrize(
    ("prefix", "rank"),
    [
        ("(VllmWorker rank=3 pid=123) ", 3),
        ("(VllmWorker TP2 pid=3527) ", 2),
        ("(Worker_TP6 pid=142964) ", 6),
        ("(Worker_TP0_DCP0_EP0 pid=374284) ", 0),
        ("(VllmWorkerProcess pid=614) ", 1),
        ("(RayWorkerWrapper pid=263, ip=10.0.16.95) ", 1),
        ("(RayWorkerProc pid=65043) (Worker_TP5 pid=65043) ", 5),
        ("(EngineCore_DP0 pid=805) ", None),
        ("", None),
    ],
)
def test_rank_comes_from_the_process_prefix(prefix, rank):
    line = f"{prefix}INFO 03-22 10:58:13 [x.py:1] Model loading took 2.0 GiB and 1.0 seconds\n"
    assert of(MemoryMeasured, events(line))[0].rank == rank


def test_record_of_two_lines_is_one_capture():
    head = "(EngineCore_0 pid=1) INFO 08-19 07:06:32 [gpu_model_runner.py:2721] "
    text = (
        f"{head}Graph capturing for 512 input tokens\r\n"
        f"{head}                        finished in 0.073 secs, took -342.00 MiB\r\n"
    )
    (capture,) = of(LazyCapture, events(text))
    assert (capture.num_tokens, capture.duration_s) == (512, 0.073)
    assert capture.memory_bytes == -342 * 1024**2


def test_interleaved_ranks_keep_their_own_steps():
    lines = [
        f"(VllmWorker rank={rank} pid={rank + 5}) INFO 07-07 19:15:{38 + 2 * i:02d} "
        f"[hpu_model_runner.py:2679] [Warmup][Graph/prompt][{i + 1}/3] batch_size:{4 - i} "
        f"query_len:128 num_blocks:0 free_mem:{21 - i - rank} GiB"
        for i in range(3)
        for rank in (0, 1)
    ]
    steps = of(WarmupStep, events("\n".join(lines)))
    for rank in (0, 1):
        mine = [s for s in steps if s.rank == rank]
        assert [s.bucket for s in mine] == [(4, 128, 0), (3, 128, 0), (2, 128, 0)]
        assert [s.duration_s for s in mine] == [2.0, 2.0, None]
        assert mine[0].memory_bytes == 1024**3


def test_twelve_sampler_configurations_survive_an_outer_time_stamp():
    text = (ROOT / "sample_logs" / "vllm-gaudi" / "sampler_doc.log").read_text()
    wrapped = "\n".join(
        f"2026-05-01 23:13:17.078 | {line}" for line in text.splitlines()
    )
    assert len(of(SamplerConfig, events(wrapped))) == 12


def test_bare_warning_behind_a_bar_is_read():
    text = (
        "Processed prompts:   0%|          | 0/4 [00:00<?, ?it/s, est. speed input: 0.00 "
        "toks/s, output: 0.00 toks/s]Configuration: ('prompt', 4, 128) was not warmed-up!"
    )
    runs, _ = read(text)
    assert [e.shape for e in runs[0] if type(e).__name__ == "BucketMiss"] == [(4, 128)]


def test_a_list_of_cloud_logging_is_read_from_its_oldest_entry():
    lines = (
        "(EngineCore pid=9) ValueError: Failed to find a kernel",
        "(EngineCore pid=9) ERROR 06-06 03:41:48 [core.py:1165] EngineCore failed to start.",
        "(EngineCore pid=9) INFO 06-06 03:41:23 [core.py:112] Initializing a V1 LLM "
        "engine (v0.22.1) with config: model='a/b', device_config=cuda",
    )
    entries = [
        {
            "logName": "projects/p/logs/run.googleapis.com%2Fstdout",
            "textPayload": text,
            "timestamp": f"2026-06-06T03:41:{second}.385811Z",
        }
        for text, second in zip(lines, (49, 48, 23), strict=True)
    ]
    for data in (json.dumps(entries, indent=2), json.dumps(entries)):
        (failure,) = of(Failure, events(data))
        assert failure.message == "ValueError: Failed to find a kernel"
        assert failure.time == 1780717309.385811


def test_a_list_of_loki_that_grafana_saved_is_read():
    line = "(EngineCore pid=9) INFO 06-06 03:41:{} [x.py:1] Model loading took {} GiB and 1.0 seconds"
    entries = [
        {"line": line.format(second, size), "timestamp": f"17807172{second}000000000",
         "date": "2026-06-06T03:41:24Z", "fields": {"pod": "vllm-0"}}
        for second, size in ((49, "2.0"), (48, "3.0"))
    ]  # fmt: skip
    for data in (json.dumps(entries, indent=2), json.dumps(entries)):
        found = of(MemoryMeasured, events(data))
        assert [e.delta_bytes // 2**30 for e in found] == [3, 2]


@pytest.mark.parametrize(
    ("key", "stamp"),
    [
        ("log", "time"),
        ("line", "timestamp"),
        ("textPayload", "timestamp"),
        ("Log", "TimeStamp"),
        ("LogMessage", "TimeGenerated"),
        ("LogEntry", "TimeGenerated"),
    ],
)
def test_json_of_a_log_shipper_holds_the_line_of_the_engine(key, stamp):
    """Docker, Loki (`logcli --output=jsonl`), Cloud Logging, Azure's tools and tables."""
    line = "(EngineCore pid=9) INFO 06-06 03:41:23 [x.py:112] Loading weights took 1.5 seconds"
    record = {stamp: "2026-06-06T03:41:24.5Z", key: line, "labels": {"pod": "vllm-0"}}
    (found,) = peel(json.dumps(record))
    assert (found.message, found.process, found.pid) == (
        "Loading weights took 1.5 seconds", "EngineCore", 9,
    )  # fmt: skip
    assert found.outer is not None
    (other,) = peel(
        json.dumps({"message": "m", "line": 12, "timestamp": "t", "level": "INFO"})
    )
    assert (other.message, other.stamp) == ("m", "t")


def test_a_line_in_several_entries_of_docker_is_whole():
    line = (
        "INFO 06-06 03:41:23 [utils.py:233] non-default args: {'model': 'a/b', "
        f"'chat_template': '{'x ' * 10_000}', 'max_model_len': 8192}}\n"
    )
    entries = [
        json.dumps({"log": line[at : at + (16 << 10)], "stream": "stdout",
                    "time": f"2026-06-06T03:41:23.{at}Z"})
        for at in range(0, len(line), 16 << 10)
    ]  # fmt: skip
    found = of(ConfigRecorded, events("\n".join(entries)))[0]
    assert found.settings["max_model_len"] == 8192


def test_half_a_character_in_an_entry_of_docker_is_text():
    entry = {
        "log": "Some text \ud83d",
        "stream": "stdout",
        "time": "2026-06-06T03:41:23Z",
    }
    (found,) = peel(json.dumps(entry))
    assert found.message == "Some text \ud83d"


def test_only_the_last_piece_of_a_redrawn_line_goes_on_in_the_next():
    bar = "Capturing CUDA graphs:  {:2}%|███       | {}/4 [00:0{}<00:03,  1.00it/s]"
    bars = "\r".join(bar.format(25 * n, n, n) for n in range(1, 5))
    stamp = "2026-06-06T03:41:2{}Z stderr {} "
    cut = bars.index("3/4")
    lines = (
        "INFO 06-06 03:41:20 [core.py:112] Initializing a V1 LLM engine (v0.22.1) with "
        "config: model='a/b', device_config=cuda",
        f"{bars[:cut]}",
        f"{bars[cut:]}",
    )
    tags = ("F", "P", "F")
    text = [
        stamp.format(n, tag) + line
        for n, (tag, line) in enumerate(zip(tags, lines, strict=True))
    ]
    whole = [stamp.format(0, "F") + lines[0], stamp.format(2, "F") + bars]
    one, other = (
        of(CaptureProgress, events("\n".join(rows)))[0].states for rows in (text, whole)
    )
    assert one == other


def test_the_loggers_of_nim_state_level_time_and_module():
    (record,) = peel(
        "INFO 2025-12-08 00:00:39.768 on.py:62] Application startup complete."
    )
    assert (record.message, record.level) == ("Application startup complete.", "INFO")
    assert (record.stamp, record.file) == ("2025-12-08 00:00:39.768", "on.py:62")


def test_the_log_of_dynamo_states_level_time_and_module():
    text = (
        "2025-06-25T10:49:46.116Z  INFO llm_engine.__init__: Initializing a V0 LLM engine "
        "(v0.8.4) with config: model='a/b', device_config=cuda\n"
        "2025-06-25T10:49:50.250Z  INFO default_loader.load_model: Loading weights took 2.5 "
        "seconds   \n"
        "2025-06-25T10:49:51.500Z  WARN dynamo_llm::hub: a line of its own\n"
        "2025-06-25T10:49:52.250Z DEBUG dynamo_run::subprocess: INFO 06-25 10:49:52 "
        "[kv_cache_utils.py:637] GPU KV cache size: 32,832 tokens\n"
    )
    summary = summary_of(events(text))
    assert (summary["engine"]["version"], summary["model"]) == ("0.8.4", "a/b")
    assert summary["memory"]["kv_cache_tokens"] == 32832
    (phase,) = [p for p in summary["time"]["phases"] if p["name"] == "load_weights"]
    assert (phase["start_s"], phase["duration_s"]) == (1.634, 2.5)
    (record,) = peel(text.splitlines()[1])
    assert (record.level, record.file) == ("INFO", "default_loader.py:")


@pytest.mark.parametrize(
    "front",
    [
        "2026-06-25 10:49:51.500 ",
        "2026-06-25T10:49:51.500123456Z ",
        "2026-06-25T10:49:51Z ",
        "2026-06-25T10:49:51.500Z | ",
        "2026-06-25T10:49:51.500Z ",
    ],
)
def test_a_logger_behind_a_log_shipper_is_none_of_dynamo(front):
    for level in ("INFO", "WARN"):
        (record,) = peel(f"{front}{level} cuda.get_device: found 2 devices")
        assert (record.file, record.level) == (None, None)


@pytest.mark.parametrize(
    "form",
    [
        "%(asctime)s - %(name)s - %(levelname)s - %(message)s",
        "%(asctime)s - %(levelname)s - %(name)s - %(message)s",
        "%(asctime)s %(levelname)s %(name)s: %(message)s",
        "%(asctime)s [%(levelname)s] %(name)s: %(message)s",
        "[%(asctime)s] [%(levelname)s] [%(name)s] %(message)s",
        "%(asctime)s | %(levelname)-8s | %(name)s:%(funcName)s:%(lineno)d - %(message)s",
        "[%(asctime)s][%(name)s][%(levelname)s] - %(message)s",
        logging.BASIC_FORMAT,
    ],
)
@pytest.mark.parametrize("message", ["Loading weights took 1.5 seconds", "[Warmup][x]"])
def test_formats_of_the_standard_library_state_level_time_and_module(form, message):
    record = logging.LogRecord(
        "vllm.v1.worker", logging.WARNING, "worker.py", 7, message, None, None, "run"
    )
    line = logging.Formatter(form).format(record)
    (peeled,) = peel(line)
    assert (peeled.message, peeled.level) == (message, "WARNING")
    assert peeled.file == "worker.py:"
    has_time = "asctime" in form
    assert (peeled.stamp is not None) == has_time


def test_lines_of_other_loggers_are_not_of_vllm():
    line = "2026-11-23 18:10:19,420 - urllib3.connectionpool - WARNING - Retrying"
    (record,) = peel(line)
    assert (record.level, record.file) == (None, None)


def test_json_lines_state_the_module_of_their_logger():
    line = '{"name": "vllm.config.model", "levelname": "INFO", "message": "Using it"}'
    (record,) = peel(line)
    assert record.file == "model.py:"


BAR = "Capturing CUDA graphs (decode, FULL): {:3}%|#| {}/2 [00:0{}<00:01,  1.00it/s]"
REDRAWN = "\r".join(
    ["(EngineCore pid=7) ", *(BAR.format(n * 50, n, n) for n in range(3))]
)


@pytest.mark.parametrize(
    "line",
    [
        f"2026-03-02T09:00:04.5Z stderr F {REDRAWN}",
        json.dumps({"log": REDRAWN + "\n", "time": "2026-03-02T09:00:04.5Z"}),
        json.dumps(
            {"log": f"\x1b[0m{REDRAWN}", "@timestamp": "2026-03-02T09:00:04.5Z"}
        ),
    ],
)
def test_the_time_of_a_redrawn_line_is_that_of_its_end(line):
    records = peel_redrawn(line) if "\r" in line else peel(line)
    assert [record.message for record in records] == REDRAWN.split("\r")[1:]
    assert {(record.process, record.pid) for record in records} == {("EngineCore", 7)}
    assert [record.outer is not None for record in records] == [False, False, True]


def test_pods_in_the_lines_of_a_shipper_are_told_apart():
    def line(pod, text):
        return json.dumps({"log": text, "kubernetes": {"pod_name": pod}})

    assert [peel(line(pod, "x"))[0].source for pod in "ab"] == ["a", "b"]
    assert peel(line(3, "x"))[0].source == "3"


def test_the_right_side_of_a_box_alone_is_taken_off():
    """A pane of tmux beside another one, as a terminal copies it."""
    line = "(VllmWorker rank=1 pid=7) INFO 05-29 23:37:00 [x.py:1] Loaded 5.5 seconds      │"
    (record,) = peel(line)
    assert (record.message, record.rank) == ("Loaded 5.5 seconds", 1)


@pytest.mark.parametrize("process", ["", "(EngineCore pid=7) ", "(EngineCore) "])
@pytest.mark.parametrize(
    ("head", "file"),
    [
        ("INFO [core.py:306] ", "core.py:306"),
        ("INFO [core.py] ", "core.py:"),
        ("INFO [v1/engine/core.py:306] ", "v1/engine/core.py:306"),
        ("INFO 03-09 15:43:05 [core.py] ", "core.py:"),
        ("INFO ... [core.py:306] ", "core.py:306"),
        ("INFO ... ", None),
    ],
)
def test_a_head_of_vllm_is_one_without_its_time_or_its_line(process, head, file):
    (record,) = peel(f"{process}{head}init engine took 39.05 s")
    assert (record.message, record.level) == ("init engine took 39.05 s", "INFO")
    assert record.file == file
    assert record.stamp == ("03-09 15:43:05" if "03-09" in head else None)
    assert record.process == ("EngineCore" if process else None)


@pytest.mark.parametrize(
    "line",
    [
        "It prints INFO [core.py:306] init engine took 39.05 s",
        "INFO core.py:306 init engine took 39.05 s",
        "INFO init engine took 39.05 s",
        "INFO [core] init engine took 39.05 s",
        "(EngineCore) init engine took 39.05 s",
        "(Core) INFO [core.py:306] init engine took 39.05 s",
    ],
)
def test_prose_with_a_level_is_no_record(line):
    (record,) = peel(line)
    assert (record.message, record.level, record.process) == (line, None, None)


def test_lines_without_times_are_a_start_without_times():
    lines = (
        "(EngineCore) INFO [core.py:113] Initializing a V1 LLM engine (v0.23.0) ...",
        "(EngineCore) INFO [model_runner.py:319] Model loading took 2.09 GiB and 2.14 seconds",
        "(EngineCore) INFO [core.py:306] init engine (profile, create kv cache, warmup model) "
        "took 39.05 s (compilation: 18.97 s)",
        "(APIServer) INFO:     Application startup complete.",
    )
    summary = summary_of(events("\n".join(lines) + "\n"))
    assert summary["status"] == "finished"
    assert summary["engine"]["version"] == "0.23.0"
    assert summary["time"]["engine_init_s"] == 39.05
    assert summary["time"]["wall_s"] is None


@pytest.mark.parametrize("process", ["", "(Worker pid=7) "])
def test_a_head_without_a_time_behind_a_bar_is_one_too(process):
    bar = "Capturing CUDA graphs (decode, FULL): 100%|#| 2/2 [00:01<00:00,  1.00it/s]"
    head = "INFO [gpu_model_runner.py:2718] "
    first, last = peel(f"{bar}{process}{head}Graph capturing finished in 4 secs")
    assert (first.message, first.level) == (bar, None)
    assert (last.message, last.level) == ("Graph capturing finished in 4 secs", "INFO")
    assert last.pid == (7 if process else None)
