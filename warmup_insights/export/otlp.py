"""A start-up as OpenTelemetry spans, sent by the exporter of the SDK (extra `otel`).

One trace a run: the start-up as a whole, its stages below it, in them the buckets; misses
are events of the whole. The same run gives the same ids, so sending it twice adds nothing.
"""

from __future__ import annotations

import hashlib
import logging
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

from warmup_insights.analysis.summary import Folded
from warmup_insights.errors import InputError
from warmup_insights.export.tables import plain
from warmup_insights.export.trace import Slice, facts, slices
from warmup_insights.model.events import Event
from warmup_insights.model.spans import ROOT_SPAN, span_of_stage
from warmup_insights.model.summary import RunSummary

if TYPE_CHECKING:
    from opentelemetry.sdk.trace import ReadableSpan

BATCH = 512
"""Spans of a request: the limit of the SDK's own batches."""
TIMEOUT_S = 10.0


def send(folded: Folded, events: Iterable[Event], endpoint: str) -> int:
    """Send a run to an OpenTelemetry collector, OTLP over HTTP; the number of spans.

    `endpoint` is its address, such as http://localhost:4318; a path other than
    `/v1/traces` has to be given.

    Raises:
        InputError: the SDK is not installed, the run has no times, or the
            OpenTelemetry collector does not take the spans.
    """
    address = urlsplit(endpoint)
    if address.scheme not in ("http", "https") or not address.netloc:
        raise InputError(
            f"{endpoint} is no address of an OpenTelemetry collector; name one such as "
            "http://localhost:4318"
        )
    spans = make_spans(folded, events)
    whole = endpoint if address.path.strip("/") else f"{endpoint.rstrip('/')}/v1/traces"
    _export(spans, whole)
    return len(spans)


def _export(spans: Sequence[ReadableSpan], address: str) -> None:
    from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
    from opentelemetry.sdk.trace.export import SpanExporter, SpanExportResult

    exporter: SpanExporter = OTLPSpanExporter(endpoint=address, timeout=TIMEOUT_S)
    log = logging.getLogger("opentelemetry")
    before = log.level
    log.setLevel(logging.CRITICAL + 1)  # what went wrong is one sentence of ours
    try:
        for first in range(0, len(spans), BATCH):
            if (
                exporter.export(spans[first : first + BATCH])
                != SpanExportResult.SUCCESS
            ):
                raise InputError(
                    f"The OpenTelemetry collector at {address} did not take the spans; check the "
                    "address, and that it receives OTLP over HTTP"
                )
    finally:
        log.setLevel(before)
        exporter.shutdown()


def make_spans(folded: Folded, events: Iterable[Event]) -> list[ReadableSpan]:
    """The spans of a run, each after the one around it.

    Raises InputError when the SDK is not installed or the run has no times.
    """
    summary = folded.summary
    started, wall = summary.time.started, summary.time.wall_s
    if started is None or wall is None:
        raise InputError(
            f"Run {summary.run_id} has no times, so there are no spans; a log with timestamps "
            "has them"
        )
    try:
        from opentelemetry.sdk.resources import Resource
    except ModuleNotFoundError as error:
        raise InputError(
            f"Spans need the package {error.name}; install warmup-insights[otel]"
        ) from error
    made = _Spans(summary.run_id, started, Resource(_resource(summary)))
    found = slices(folded, events)
    lasting = [one for one in found if one["ph"] == "X"]
    misses = [one for one in found if one["ph"] == "i"]
    made.add_root(summary, wall, misses)
    stages = [one for one in lasting if one["cat"] == "stage"]
    for one in stages:
        made.add(span_of_stage(one["name"]), one, None)
    for one in lasting:
        if one["cat"] != "stage":
            middle = one["ts"] + one["dur"] / 2
            around = (
                index
                for index, stage in enumerate(stages)
                if stage["pid"] == 0  # of the whole run
                and stage["ts"] <= middle <= stage["ts"] + stage["dur"]
            )
            made.add(one["name"], one, next(around, None))
    return made.spans


def _resource(summary: RunSummary) -> dict[str, Any]:
    known = {f"warmup_insights.{key}": value for key, value in facts(summary).items()}
    named = {
        "service.name": summary.engine.name,
        "service.version": summary.engine.version,
        "warmup_insights.label": summary.label,
        "warmup_insights.model": summary.model,
    }
    return {key: _safe(value) for key, value in (known | named).items() if value}


def _safe(value: Any) -> Any:
    """A value as attributes can hold it; text from logs on one line."""
    if isinstance(value, str):
        return plain(value)
    if isinstance(value, list):
        return [_safe(item) for item in value]
    return value if isinstance(value, float | bool) or abs(value) < 1 << 63 else None


class _Spans:
    """Collects the spans of a run; times are microseconds from its start."""

    def __init__(self, run_id: str, started: float, resource: Any) -> None:
        self.spans: list[ReadableSpan] = []
        self._run_id, self._resource = run_id, resource
        self._started_ns = round(started * 1e6) * 1000

    def add_root(
        self, summary: RunSummary, wall: float, marks: Sequence[Slice]
    ) -> None:
        """The start-up as a whole."""
        from opentelemetry.sdk.trace import Event as SpanEvent
        from opentelemetry.trace import Status, StatusCode

        failure = summary.failure
        status = Status(StatusCode.UNSET)
        if failure is not None:
            status = Status(StatusCode.ERROR, plain(failure.message))
        happened = [SpanEvent(m["name"], timestamp=self._time(m["ts"])) for m in marks]
        attributes = {"warmup_insights.status": summary.status}
        self._add(ROOT_SPAN, 0, round(wall * 1e6), None, attributes, happened, status)

    def add(self, name: str, one: Slice, around: int | None) -> None:
        """A slice of the trace; `around` is the index of its stage, None for the root."""
        args = {f"warmup_insights.{key}": _safe(v) for key, v in one["args"].items()}
        args["warmup_insights.category"] = one["cat"]
        if one["pid"]:
            args["warmup_insights.rank"] = one["pid"] - 1
        parent = self.spans[0 if around is None else 1 + around]
        self._add(plain(name), one["ts"], one["dur"], parent, args)

    def _time(self, microseconds: int) -> int:
        return self._started_ns + microseconds * 1000

    def _add(
        self, name: str, start: int, duration: int, parent: ReadableSpan | None,
        attributes: dict[str, Any], events: Sequence[Any] = (), status: Any = None,
    ) -> None:  # fmt: skip
        from opentelemetry.sdk.trace import ReadableSpan
        from opentelemetry.sdk.util.instrumentation import InstrumentationScope
        from opentelemetry.trace import SpanContext, Status, TraceFlags

        context = SpanContext(
            trace_id=_number(self._run_id, 16),
            span_id=_number(f"{self._run_id}/{len(self.spans)}", 8),
            is_remote=False, trace_flags=TraceFlags(TraceFlags.SAMPLED),
        )  # fmt: skip
        self.spans.append(
            ReadableSpan(
                name, context, parent.get_span_context() if parent else None,
                self._resource, attributes, list(events),
                start_time=self._time(start), end_time=self._time(start + duration),
                instrumentation_scope=InstrumentationScope("warmup_insights"),
                status=status or Status(),
            )
        )  # fmt: skip


def _number(text: str, size: int) -> int:
    """A number of `size` bytes that follows from a text; never 0."""
    digest = hashlib.blake2b(text.encode(), digest_size=size).digest()
    return int.from_bytes(digest, "big") or 1
