"""The first sentences about a start state figures of its summary, for every log at hand."""

from __future__ import annotations

import itertools

import pytest
from msgspec import structs

from tests.dashboard.builders import recorded_events
from tests.helpers import REAL_LOGS, ROOT, events
from warmup_insights import runs
from warmup_insights.analysis.sentences import (
    BUCKETS,
    cause_text,
    largest_phase,
    ranks_text,
    start_sentences,
    value_text,
    without_hint,
)
from warmup_insights.analysis.summary import summarize
from warmup_insights.ingest.find import find_files
from warmup_insights.ingest.single import ingest_path
from warmup_insights.model.events import (
    CompileFinished,
    RunFinished,
    RunStarted,
    ServerReady,
    WarmupStep,
)
from warmup_insights.model.figures import BY_NAME, contradictory
from warmup_insights.model.phases import phase_words
from warmup_insights.model.run import RunRecord
from warmup_insights.model.summary import FailureFacts, Serving, ServingEnd
from warmup_insights.storage import EventStore
from warmup_insights.testing import folded
from warmup_insights.units import format_bytes, format_duration


@pytest.fixture(scope="module")
def summaries(tmp_path_factory):
    folders = [str(folder) for folder in (ROOT / "sample_logs", REAL_LOGS)
               if folder.is_dir()]  # fmt: skip
    with EventStore(tmp_path_factory.mktemp("sentences") / "all.db") as store:
        for path in find_files(folders):
            ingest_path(store, path)
        return [runs.current(store, run).summary for run in store.runs(limit=1000)]


def test_the_time_is_that_of_the_summary(summaries):
    for summary in summaries:
        first = start_sentences(summary)[0]
        wall = BY_NAME["wall_s"].trusted(summary)
        if (
            summary.time.wall_s is None
            and summary.failure is None
            and summary.status != "skipped"
            and (summary.time.warmup_s or summary.time.engine_init_s)
        ):
            assert "he engine states" in first
            continue
        if summary.time.ready_at is not None and wall:
            assert first.startswith(f"Ready after {format_duration(wall)}"), first
            assert format_duration(summary.time.ready_s) in first
        if "wall_s" in contradictory(summary):
            assert "contradictory" in first
        if summary.failure is not None:
            assert first.startswith("Failed")


def test_the_largest_phase_is_named_with_its_seconds(summaries):
    named = 0
    for summary in summaries:
        found, wall = largest_phase(summary), BY_NAME["wall_s"].trusted(summary)
        if found is None or not wall:
            continue
        name, seconds = found
        first = start_sentences(summary)[0]
        words = "buckets" if name == BUCKETS else phase_words(name)
        assert f"{format_duration(seconds)}" in first, first
        assert words in first or "bucket" in first, first
        named += 1
    assert named > 25


def test_memory_of_graphs_is_that_of_the_summary(summaries):
    for summary in summaries:
        used = BY_NAME["graph_memory_bytes"].trusted(summary)
        reserved = BY_NAME["graph_reserved_bytes"].trusted(summary)
        sentences = start_sentences(summary)
        if len(sentences) == 2 and used and used > 0:
            assert format_bytes(used) in sentences[1]
            if reserved:
                assert format_bytes(reserved) in sentences[1]


def test_there_are_one_or_two_sentences_for_every_run(summaries):
    assert len(summaries) > 40
    for summary in summaries:
        sentences = start_sentences(summary)
        assert 1 <= len(sentences) <= 2
        text = " ".join(sentences)
        assert "None" not in text
        assert " ?" not in text


def test_the_documented_warm_up_is_explained(summaries):
    (found,) = [s for s in summaries if s.source.name == "warmup_doc_capture.log"]
    assert start_sentences(found) == [
        "The engine states 49 s for its warm-up; time to ready is not stated; 21 s of "
        "the 59 s in the log (36 %) went into capturing graphs of buckets, 28 s lie where "
        "lines were cut out of the log.",
        "14.19 GiB of 15.83 GiB reserved for graphs were used; 15 of 24 prompt and 48 of "
        "48 decode buckets have a graph.",
    ]


def test_a_start_that_is_going_on_names_its_step():
    events = itertools.takewhile(
        lambda event: not (isinstance(event, WarmupStep) and event.index == 3),
        recorded_events(),
    )
    run = RunRecord(run_id="a" * 12, source_kind="recorder", status="running")
    (sentence,) = start_sentences(summarize(run, events).summary)
    assert sentence.startswith("Running: ")
    assert "bucket 2 of 4" in sentence
    assert "; the last event came after " in sentence


@pytest.mark.parametrize(
    ("end", "text"),
    [
        (ServingEnd("out_of_memory", "CUDA out of memory"), "serving ended after 2 min 01 s: out of memory"),
        (ServingEnd("error", "ValueError: no such block."), "serving ended after 2 min 01 s: ValueError: no such block"),
        (ServingEnd("error", ""), "serving ended after 2 min 01 s: an error"),
        (ServingEnd("shutdown", "SIGTERM"), None),
    ],
)  # fmt: skip
def test_what_ended_serving_is_in_the_first_sentence(end, text):
    run = RunRecord(run_id="a", source_kind="log")
    events = [RunStarted(time=1.0, engine="vllm"), ServerReady(time=61.0)]
    summary = summarize(run, events).summary
    serving = Serving(end=end, duration_s=121.0)
    first = start_sentences(structs.replace(summary, serving=serving))[0]
    assert first.startswith("Ready after 1 min 00 s")
    assert (f"; {text}" in first) if text else ("ended" not in first)


def test_nothing_is_said_of_a_run_without_events():
    run = RunRecord(run_id="a" * 12, source_kind="log")
    assert start_sentences(summarize(run, []).summary) == [
        "No start-up was read in these lines."
    ]


def test_settings_of_an_engine_are_of_a_start():
    """The first lines of a worker: buckets are configured, nothing else is known."""
    run = RunRecord(run_id="a" * 12, source_kind="log")
    assert start_sentences(
        summarize(run, [RunStarted(engine="vllm-fork")]).summary
    ) == ["The log has no line that the server was ready."]


@pytest.mark.parametrize(
    ("phase", "words"),
    [
        ("unified_warmup", "warming unified buckets"),
        ("chat_template_warmup", "warming the chat template"),
        ("multimodal_warmup", "warming multi-modal inputs"),
        ("unified", "unified buckets"),
        ("validation_warmup", "the validation of the warm-up"),
        ("server_start", "preparing for requests"),
    ],
)
def test_only_what_has_buckets_warms_them(phase, words):
    assert phase_words(phase) == words


@pytest.mark.parametrize(
    ("ranks", "config", "is_per_engine"),
    [
        (1, {"tensor_parallel_size": 1}, False),
        (2, {"tensor_parallel_size": 2, "data_parallel_size": 1}, False),
        (2, {"tensor_parallel_size": 1, "data_parallel_size": 1}, True),
        (2, {"tensor_parallel_size": 1, "prefill_context_parallel_size": 2}, False),
        (4, {"tensor_parallel_size": 2, "pipeline_parallel_size": 2}, False),
        (4, {"tensor_parallel_size": 2, "data_parallel_size": 2}, True),
        (1, {"data_parallel_size": 2, "data_parallel_rank": 0}, False),
        (2, {}, False),
        (None, {"tensor_parallel_size": 2}, False),
    ],
)
def test_the_kv_cache_of_one_of_several_engines_is_named_so(
    ranks, config, is_per_engine
):
    summary = summarize(RunRecord(run_id="a"), recorded_events()).summary
    summary = structs.replace(summary, ranks=ranks, config=config, buckets=None)
    (left,) = [text for text in start_sentences(summary) if "KV cache" in text]
    assert (" per engine" in left) == is_per_engine


@pytest.mark.parametrize(("ranks", "is_per_engine"), [(1, False), (2, True)])
def test_on_tpu_one_engine_may_hold_all_data_parallel_shards(ranks, is_per_engine):
    summary = summarize(RunRecord(run_id="a"), recorded_events()).summary
    device = structs.replace(summary.device, kind="tpu")
    config = {"tensor_parallel_size": 4, "data_parallel_size": 2}
    summary = structs.replace(
        summary, ranks=ranks, config=config, device=device, buckets=None
    )
    (left,) = [text for text in start_sentences(summary) if "KV cache" in text]
    assert (" per engine" in left) == is_per_engine


def test_a_compilation_is_of_a_start():
    found = CompileFinished(what="total", duration_s=18.2, time=20.0)
    (sentence, *_) = start_sentences(folded([found]).summary)
    assert "no start-up" not in sentence.lower()


def test_the_line_of_an_engine_that_begins_is_of_a_start():
    line = (
        "INFO 11-12 16:04:20 llm_engine.py:176] Initializing an LLM engine (v0.5.3.post1) "
        "with config: model='a/b', speculative_config=None, device_config=hpu\n"
    )
    (sentence, *_) = start_sentences(folded(events(line)).summary)
    assert sentence == (
        "The log has no line that the server was ready; it ends with starting the engine."
    )


def test_a_recording_is_no_log():
    end = RunFinished(status="interrupted", time=9.0)
    events = [RunStarted(engine="vllm", time=1.0), end]
    first = start_sentences(folded(events, source_kind="recorder").summary)[0]
    assert "recording ends before the server was ready" in first
    first = start_sentences(folded(events, source_kind="log").summary)[0]
    assert "log has no line that the server was ready" in first


def test_a_command_that_failed_before_a_hook_saw_why_failed():
    ended = [
        RunStarted(engine="vllm", time=1.0),
        RunFinished(status="failed", time=9.0),
    ]
    first = start_sentences(folded(ended, source_kind="recorder").summary)[0].lower()
    assert first.startswith("failed after 8 s, without an error that was seen")


BEGUN = """\
INFO 07-16 10:02:00 [__init__.py:216] Automatically detected platform cuda.
(APIServer pid=7) INFO 07-16 10:02:04 [api_server.py:1839] vLLM API server version 0.11.0
(APIServer pid=7) INFO 07-16 10:02:04 [utils.py:233] non-default args: {'model': 'a/b'}
(APIServer pid=7) INFO 07-16 10:02:21 [model.py:1510] Using max model len 8192
"""
TRACEBACK = """\
(APIServer pid=7) {0}Traceback (most recent call last):
(APIServer pid=7) {0}  File "/vllm/config/model.py", line 7, in check
(APIServer pid=7) {0}ValueError: no such limit
"""


@pytest.mark.parametrize(
    ("front", "text"),
    [
        ("ERROR 07-16 10:02:31 [core.py:708] ", "failed after 31 s: "),
        ("", "failed after at least 21 s: "),
    ],
)
def test_an_error_without_a_time_came_no_earlier_than_the_line_above_it(front, text):
    found = events(BEGUN + TRACEBACK.format(front))
    first = start_sentences(folded(found, source_kind="log").summary)[0].lower()
    assert first.startswith(text)


CLIENT = """\
INFO 08-06 19:29:57 [__init__.py:216] Automatically detected platform cuda.
Namespace(subparser='bench', bench_type='serve', seed=0, num_prompts=8)
INFO 08-06 19:30:19 [utils.py:90] Sampling input_len from [1024, 1024]
============ Serving Benchmark Result ============
Successful requests:                     8
Benchmark duration (s):                  8.53
Request throughput (req/s):              0.94
==================================================
"""


def test_a_client_that_imports_vllm_starts_none():
    summary = folded(events(CLIENT), source_kind="log").summary
    assert start_sentences(summary) == [
        "No start-up in these lines; 1 benchmark result."
    ]
    assert (summary.time.wall_s, summary.time.phases) == (None, [])


@pytest.mark.parametrize(
    ("kind", "ranks", "text"),
    [("tpu", 1, "1 rank with 8 devices"), ("tpu", 2, "2 ranks with 4 devices each"),
     ("tpu", 8, "8 ranks"), ("cuda", 8, "8 ranks"), ("hpu", None, "? ranks")],
)  # fmt: skip
def test_a_process_of_a_tpu_drives_several_devices(kind, ranks, text):
    summary = structs.replace(
        folded([RunStarted(engine="vllm", device_kind=kind)]).summary,
        ranks=ranks, guessed=[], config={"tensor_parallel_size": 8},
    )  # fmt: skip
    assert ranks_text(summary) == text


@pytest.mark.parametrize(
    ("value", "text"),
    [(512, "512"), ("auto", "auto"), ("[1, 2, 4, 8]", "[1, 2, 4, 8]"),
     (str([1, 2, 4, *range(8, 520, 8)]), "[1, 2, ... 512] (67 values)"),
     (str([[n, n] for n in range(30)]), "[[0, 0], [1, 1], ... [29, 29]] (30 values)"),
     (f"[{'word ' * 20}]", "[word word word word word word word word word word word ..."),
     ("/a" * 40, "/a" * 30 + " ...")],
)  # fmt: skip
def test_a_long_value_is_no_cut_list(value, text):
    assert value_text(value) == text


@pytest.mark.parametrize(
    "hint",
    ["; Set TORCHDYNAMO_VERBOSE=1 for the internal stack trace",
     "\n\nSet TORCHDYNAMO_VERBOSE=1 for the internal stack trace", ""],
)  # fmt: skip
def test_the_hint_of_torch_is_no_part_of_an_error(hint):
    text = "InductorError: RuntimeError: PassManager::run failed"
    assert without_hint(f"{text}{hint}") == text


@pytest.mark.parametrize(
    "message",
    ["RuntimeError: Engine core initialization failed. See root cause above.",
     "Exception: WorkerProc initialization failed due to an exception in a background "
     "process. See stack trace for root cause."],
)  # fmt: skip
def test_what_only_announces_a_failure_is_no_cause(message):
    words = cause_text(FailureFacts(kind="error", message=message))
    assert words.startswith("the log does not hold the cause")
