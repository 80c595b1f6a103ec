"""OTLP JSON with vLLM's own spans of its start-up, as an OpenTelemetry collector writes them to a file.

Source: vLLM `vllm/tracing` 0.19 to 0.33 with `--otlp-traces-endpoint`; OpenTelemetry
protocol, JSON encoding: one `ExportTraceServiceRequest` a line, or a file with one.
Spans of requests and of other programs are ignored.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import Any

import msgspec

from parsers.base import Dialect
from parsers.report import ParseReport
from warmup_insights.model.events import (
    EngineInitialized,
    Event,
    Failure,
    PhaseMarked,
    RunStarted,
)
from warmup_insights.model.failure_text import figures_of, kind_of_message
from warmup_insights.model.spans import ROOT_SPAN, STAGE_OF_SPAN
from warmup_insights.secrets import mask_text

MAX_WHOLE = 64 << 20
"""Bytes of a file that is one object over several lines."""
MAX_SPANS = 100_000
MAX_NANOSECONDS = 1 << 62
_KIND = "otlp_spans"
_FIRST = ("API server setup", ROOT_SPAN, "SyncMPClient init")
"""Each comes once in a start-up; another one after its end begins another start-up."""
_ERROR = (2, "STATUS_CODE_ERROR")
_SOURCE = ("service.name", "host.name", "k8s.pod.name")
"""What distinguishes engines in one file; the processes of one engine share it."""

DIALECT = Dialect(
    name="otlp-spans",
    title="OTLP JSON with vLLM's own spans of a start-up",
    versions="0.19 to 0.33",
    source="vllm/tracing",
    rules=(),
    sample='{"resourceSpans": [{"scopeSpans": [{"spans": [{"name": "Load model", '
    '"startTimeUnixNano": "1784193731000000000", "endTimeUnixNano": "178419376',
)


class _Value(msgspec.Struct, frozen=True, rename="camel"):
    string_value: str | None = None


class _Attribute(msgspec.Struct, frozen=True):
    key: str
    value: _Value = _Value()


class _Happened(msgspec.Struct, frozen=True):
    name: str = ""
    attributes: list[_Attribute] = []


class _Status(msgspec.Struct, frozen=True):
    code: int | str = 0


class _Span(msgspec.Struct, frozen=True, rename="camel"):
    name: str
    start_time_unix_nano: int | str
    end_time_unix_nano: int | str
    span_id: str = ""
    parent_span_id: str = ""
    status: _Status = _Status()
    events: list[_Happened] = []


class _Scope(msgspec.Struct, frozen=True):
    spans: list[_Span] = []


class _Resource(msgspec.Struct, frozen=True):
    attributes: list[_Attribute] = []


class _ResourceSpans(msgspec.Struct, frozen=True, rename="camel"):
    resource: _Resource = _Resource()
    scope_spans: list[_Scope] = []


class _Request(msgspec.Struct, frozen=True, rename="camel"):
    resource_spans: list[_ResourceSpans]


_DECODER = msgspec.json.Decoder(_Request)


@dataclass(frozen=True, slots=True)
class _Stage:
    """A span of a start-up; times in seconds since the epoch."""

    span: _Span
    start: float
    end: float
    rank: int | None
    line: int

    @property
    def is_error(self) -> bool:
        return self.span.status.code in _ERROR


@dataclass(slots=True)
class _Start:
    """The spans of one start-up."""

    stages: list[_Stage] = field(default_factory=list)
    ends: dict[str, float] = field(default_factory=dict)

    def goes_on(self, stage: _Stage) -> bool:
        """Whether a span is of this start-up."""
        return stage.start < self.ends.get(stage.span.name, stage.start + 1)

    def add(self, stage: _Stage) -> None:
        """Take a span; they come in the order of their starts."""
        self.stages.append(stage)
        if stage.span.name in _FIRST:
            end = self.ends.get(stage.span.name, stage.end)
            self.ends[stage.span.name] = max(end, stage.end)


def looks_like_spans(block: bytes) -> bool:
    """Whether a file that begins with this block holds spans as OTLP JSON."""
    head = block[:4096].lstrip()
    return head[:1] == b"{" and b'"resourceSpans"' in head


def read_spans(blocks: Iterable[bytes], report: ParseReport) -> list[list[Event]]:
    """The events of each start-up in a file, the first one first."""
    found: dict[tuple[str, ...], list[_Stage]] = {}
    count = 0
    for line, request in _requests(blocks, report):
        for group in request.resource_spans:
            known = _texts(group.resource.attributes)
            source = tuple(known.get(key, "") for key in _SOURCE)
            for stage in _stages(group, known, line, report):
                count += 1
                if count <= MAX_SPANS:
                    found.setdefault(source, []).append(stage)
    if count > MAX_SPANS:
        report.add_problem(f"only the first {MAX_SPANS:,} spans of start-ups were read")
    starts = [start for stages in found.values() for start in _starts(stages)]
    starts.sort(key=lambda start: start.stages[0].start)
    return [list(_events(start)) for start in starts]


def _requests(
    blocks: Iterable[bytes], report: ParseReport
) -> Iterator[tuple[int, _Request]]:
    """The objects of a file with the numbers of their lines."""
    whole = bytearray()
    for number, line in enumerate(_lines(blocks), 1):
        report.lines = number
        if not line.strip() or len(whole) > MAX_WHOLE:
            continue
        if whole:
            whole += line
            continue
        try:
            request = _DECODER.decode(line)
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
            if number == 1:
                whole += line
            else:
                report.add_failed(number, _KIND, _start_of(line))
            continue
        yield number, request
    if whole:
        try:
            yield 1, _DECODER.decode(whole)
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
            report.add_failed(1, _KIND, _start_of(bytes(whole[:200])))


def _start_of(line: bytes) -> str:
    return line[:200].decode("utf-8", "replace")


def _lines(blocks: Iterable[bytes]) -> Iterator[bytes]:
    """Lines, each up to a block longer than MAX_WHOLE; what follows of it is left out."""
    rest = bytearray()
    for block in blocks:
        first, *others = block.split(b"\n")
        if len(rest) <= MAX_WHOLE:
            rest += first
        if others:
            yield bytes(rest)
            yield from others[:-1]
            rest = bytearray(others[-1])
    if rest:
        yield bytes(rest)


def _stages(
    group: _ResourceSpans, known: dict[str, str], line: int, report: ParseReport
) -> Iterator[_Stage]:
    rank = re.fullmatch(r"Worker_(\d{1,5})", known.get("vllm.process_name", ""))
    for span in (span for scope in group.scope_spans for span in scope.spans):
        start = _seconds(span.start_time_unix_nano)
        end = _seconds(span.end_time_unix_nano)
        if (
            span.name not in STAGE_OF_SPAN
            or start is None
            or end is None
            or end < start
        ):
            report.ignored[_KIND] += 1
            continue
        report.matched[_KIND] += 1
        yield _Stage(span, start, end, int(rank[1]) if rank else None, line)


def _seconds(value: int | str) -> float | None:
    """Seconds from nanoseconds, which JSON holds as text; None for anything else."""
    text = str(value)
    if not re.fullmatch(r"[0-9]{1,19}", text) or not 0 < int(text) < MAX_NANOSECONDS:
        return None
    return round(int(text) / 1e9, 6)


def _texts(attributes: Iterable[_Attribute]) -> dict[str, str]:
    return {a.key: a.value.string_value for a in attributes if a.value.string_value}


def _starts(stages: list[_Stage]) -> list[_Start]:
    starts: list[_Start] = []
    for stage in sorted(stages, key=lambda stage: (stage.start, -stage.end)):
        if not starts or not starts[-1].goes_on(stage):
            starts.append(_Start())
        starts[-1].add(stage)
    return starts


def _events(start: _Start) -> Iterator[Event]:
    first = start.stages[0]
    is_cpu = any(stage.span.name.endswith("(CPU)") for stage in start.stages)
    yield RunStarted(
        engine="vllm", device_kind="cpu" if is_cpu else None, time=first.start,
        line=first.line, timezone="UTC",
    )  # fmt: skip
    for stage in sorted(start.stages, key=lambda stage: stage.end):
        seconds = round(stage.end - stage.start, 6)
        yield PhaseMarked(
            name=STAGE_OF_SPAN[stage.span.name], edge="end", duration_s=seconds,
            time=stage.end, rank=stage.rank, line=stage.line,
        )  # fmt: skip
        if stage.span.name == "Prepare model" and not stage.is_error:
            yield EngineInitialized(
                duration_s=seconds, time=stage.end, rank=stage.rank, line=stage.line
            )
    cause = _cause(start.stages)
    if cause is not None:
        yield cause


def _cause(stages: list[_Stage]) -> Failure | None:
    """The first exception that ended a span and every span around it."""
    by_id = {stage.span.span_id: stage for stage in stages if stage.span.span_id}
    for stage in sorted(stages, key=lambda stage: stage.end):
        message = _exception(stage.span)
        if message and stage.is_error and not _is_handled(stage, by_id):
            fields: dict[str, Any] = {
                "failure": kind_of_message(message),
                "message": mask_text(message)[:2000],
                **figures_of(message),
            }
            return Failure(
                phase=STAGE_OF_SPAN[stage.span.name], time=stage.end, rank=stage.rank,
                line=stage.line, **fields,
            )  # fmt: skip
    return None


def _exception(span: _Span) -> str:
    for event in span.events:
        known = _texts(event.attributes)
        if event.name == "exception" and "exception.type" in known:
            text = known.get("exception.message", "")
            return (
                f"{known['exception.type']}: {text}"
                if text
                else known["exception.type"]
            )
    return ""


def _is_handled(stage: _Stage, by_id: dict[str, _Stage]) -> bool:
    """Whether a span around it ended in order."""
    seen = set()
    while (parent := by_id.get(stage.span.parent_span_id)) and id(parent) not in seen:
        if not parent.is_error:
            return True
        seen.add(id(parent))
        stage = parent
    return False
