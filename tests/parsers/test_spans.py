"""vLLM's own start-up spans, as the SDK makes them and a collector writes them as JSON."""

from __future__ import annotations

import base64
import json

import pytest
from google.protobuf.json_format import MessageToDict
from opentelemetry.exporter.otlp.proto.common.trace_encoder import encode_spans
from opentelemetry.sdk.resources import Resource
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from opentelemetry.trace import Status, StatusCode, set_span_in_context

from tests.helpers import events, folded, of, read
from warmup_insights.model.events import EngineInitialized, Failure, PhaseMarked

BEGAN = 1_784_193_731
FRONT, CORE, WORKERS = "", "EngineCore", ("Worker_0", "Worker_1")
TREE = [
    # name, parent, process, start, end; the shape of a start of vLLM 0.33 with two GPUs
    ("API server setup", None, FRONT, 0, 1),
    ("Overall Loading", None, FRONT, 2, 100),
    ("AsyncMPClient init", "Overall Loading", FRONT, 2, 99),
    ("EngineCoreProc init", "AsyncMPClient init", CORE, 10, 98),
    ("Executor init", "EngineCoreProc init", CORE, 11, 50),
    *(
        span
        for worker in WORKERS
        for span in (
            ("Worker init", "Executor init", worker, 20, 49),
            ("Init device", "Worker init", worker, 21, 29),
            ("Loading (GPU)", "Worker init", worker, 30, 48),
            ("Load weights", "Loading (GPU)", worker, 33, 45),
        )
    ),
    ("Prepare model", "EngineCoreProc init", CORE, 51, 96),
    *(
        span
        for worker in WORKERS
        for span in (
            ("Compile graph", "Prepare model", worker, 55, 65),
            ("Allocate KV cache", "Prepare model", worker, 75, 76),
            ("Warmup (GPU)", "Prepare model", worker, 77, 95),
            ("Capture model", "Warmup (GPU)", worker, 80, 92),
        )
    ),
]
REQUEST = ("llm_request", None, FRONT, 120, 121)


def exported(tree, *, errors=(), message="CUDA out of memory", offset=0):
    """Lines of a file exporter: one request for each process."""
    made = {}
    lines = []
    for process in dict.fromkeys(span[2] for span in tree):
        attributes = {"service.name": "llm", "vllm.process_name": process}
        memory = InMemorySpanExporter()
        provider = TracerProvider(resource=Resource(attributes))
        provider.add_span_processor(SimpleSpanProcessor(memory))
        tracer = provider.get_tracer("vllm.v1")
        for name, parent, owner, start, end in tree:
            if owner != process:
                continue
            around = made.get((parent, process)) or made.get((parent, CORE))
            around = around or made.get((parent, FRONT))
            span = tracer.start_span(
                name, context=set_span_in_context(around) if around else None,
                start_time=(BEGAN + offset + start) * 10**9,
            )  # fmt: skip
            made[name, process] = span
            if (name, process) in errors:
                span.record_exception(RuntimeError(message))
                span.set_status(Status(StatusCode.ERROR, message))
            span.end((BEGAN + offset + end) * 10**9)
        lines.append(as_json(memory.get_finished_spans()))
    return "".join(f"{line}\n" for line in lines)


def as_json(spans):
    """OTLP JSON: the JSON of protobuf, but ids in hexadecimal."""
    content = MessageToDict(encode_spans(spans))
    for group in content["resourceSpans"]:
        for scope in group["scopeSpans"]:
            for span in scope["spans"]:
                for key in {"traceId", "spanId", "parentSpanId"} & set(span):
                    span[key] = base64.b64decode(span[key]).hex()
    return json.dumps(content)


def test_moments_belong_to_the_innermost_span():
    summary = folded(events(exported([*TREE, REQUEST]))).summary
    phases = [(p.name, p.start_s, p.duration_s) for p in summary.time.phases]
    own = [phase for phase in phases if "other rank" not in phase[0]]
    assert own == [
        ("configure", 0, 1), ("start_engine", 2, 9), ("start_workers", 11, 9),
        ("init_worker", 20, 10), ("load_model", 30, 3), ("load_weights", 33, 12),
        ("load_model", 45, 3), ("init_worker", 48, 1), ("start_workers", 49, 1),
        ("start_engine", 50, 1), ("prepare_model", 51, 4), ("compile", 55, 10),
        ("prepare_model", 65, 10), ("kv_cache", 75, 1), ("prepare_model", 76, 1),
        ("model_warmup", 77, 3), ("graph_capture", 80, 12), ("model_warmup", 92, 3),
        ("prepare_model", 95, 1), ("start_engine", 96, 4),
    ]  # fmt: skip
    assert summary.time.wall_s == 100
    assert summary.time.engine_init_s == 45
    assert summary.status == "finished"
    assert summary.time.timezone == "UTC"
    assert [rank.rank for rank in summary.time.ranks] == [0, 1]


def test_lines_of_the_file_are_the_evidence():
    found = events(exported(TREE))
    assert {event.rank: event.line for event in of(PhaseMarked, found)} == {
        None: 1, 0: 3, 1: 4,
    }  # fmt: skip


@pytest.mark.parametrize("indent", [None, 2])
def test_one_object_may_be_a_whole_file(indent):
    line = exported(TREE).splitlines()[1]
    found = events(json.dumps(json.loads(line), indent=indent))
    assert len(of(PhaseMarked, found)) == 3


def test_each_start_is_a_run():
    runs, report = read(exported(TREE) + exported(TREE, offset=500))
    assert len(runs) == 2
    assert [len(of(EngineInitialized, found)) for found in runs.values()] == [1, 1]
    assert report.as_dict()["dialects"] == ["otlp-spans"]


def test_the_first_exception_is_the_cause():
    failing = {
        ("Loading (GPU)", "Worker_0"), ("Worker init", "Worker_0"), ("Executor init", CORE),
        ("EngineCoreProc init", CORE), ("AsyncMPClient init", FRONT),
        ("Overall Loading", FRONT),
    }  # fmt: skip
    message = "CUDA out of memory. Tried to allocate 2.00 GiB"
    (failure,) = of(
        Failure, events(exported(TREE[:9], errors=failing, message=message))
    )
    assert failure.failure == "out_of_memory"
    assert failure.phase == "load_model"
    assert failure.needed_bytes == 2 << 30
    assert failure.message == f"RuntimeError: {message}"
    assert failure.rank == 0


def test_an_exception_that_a_caller_handled_is_no_failure():
    found = events(exported(TREE, errors={("Load weights", "Worker_0")}))
    assert of(Failure, found) == []


@pytest.mark.parametrize(
    "text",
    [
        '{"resourceSpans": ' + "[" * 5000,
        '{"resourceSpans": 5}',
        '{"resourceSpans": [{"scopeSpans": [{"spans": [{"name": "Load model"}]}]}]}',
        '{"resourceSpans": [{"scopeSpans": [{"spans": [{"name": "Load model", '
        '"startTimeUnixNano": "x", "endTimeUnixNano": 9e99}]}]}]}',
        '{"resourceSpans": []}',
        "{\n" * 10 + '"resourceSpans"',
    ],
)
def test_what_is_damaged_is_no_run_and_no_error(text):
    runs, report = read(text)
    assert runs == {}
    assert report.problems


def test_spans_of_other_programs_are_ignored():
    runs, report = read(exported([("GET /", None, FRONT, 0, 1), REQUEST]))
    assert runs == {}
    assert report.ignored == {"otlp_spans": 2}
    assert report.problems
