"""One run as CSV, as Markdown, or as JSON to be kept and read again as a baseline."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec

from warmup_insights.analysis.sentences import (
    contradiction_sentence,
    failure_sentence,
    serving_words,
    start_sentences,
)
from warmup_insights.analysis.summary import Folded
from warmup_insights.errors import InputError, cannot_read
from warmup_insights.export.tables import (
    TextTable,
    csv_text,
    escape_markdown,
    make_table,
    markdown_table,
)
from warmup_insights.model.figures import (
    all_figures,
    known_figures,
    part_text,
    phase_figures,
)
from warmup_insights.model.summary import SCHEMA, BucketRow, RunSummary
from warmup_insights.units import format_bytes, format_count, format_duration

if TYPE_CHECKING:
    from warmup_insights.analysis.advice import Finding

FORMAT = "warmup-insights-run"
MAX_BYTES = 64 * 1024 * 1024


@dataclass(frozen=True)
class RunWithLines:
    """A run, the lines that were kept of its log by their number, and advice about it."""

    folded: Folded
    lines: Mapping[int, str] = field(default_factory=dict)
    findings: Sequence[Finding] = ()

    @property
    def summary(self) -> RunSummary:
        """What is known of the run."""
        return self.folded.summary


class _Version(msgspec.Struct):
    """Whether a file holds a run, and of which schema."""

    schema: int | None = None
    summary: _Version | None = None


class _Exported(msgspec.Struct):
    """What `export` writes."""

    summary: RunSummary
    bucket_rows: list[BucketRow] = []


class _Shown(RunSummary, frozen=True, kw_only=True):
    """What `show --json` writes."""

    bucket_rows: list[BucketRow] = msgspec.field(default_factory=list)


def run_json(summary: RunSummary, rows: Sequence[BucketRow]) -> str:
    """A run as text: its summary and what became of each bucket."""
    content = {"format": FORMAT, "summary": summary, "bucket_rows": rows}
    return msgspec.json.format(msgspec.json.encode(content), indent=2).decode() + "\n"


def is_run_json(path: str | Path) -> bool:
    """Whether a file has the name or the beginning of an exported run."""
    if Path(path).suffix == ".json":
        return True
    try:
        with open(path, "rb") as stream:
            head = stream.read(4096)
    except OSError:
        return False
    return head.lstrip().startswith(b"{") and b'"schema"' in head


def read_run_json(path: str | Path) -> tuple[RunSummary, list[BucketRow]]:
    """The summary and the bucket rows in a file that `run_json` or `show --json` made.

    Raises:
        InputError: the file cannot be read, or holds something else.
    """
    try:
        with open(path, "rb") as stream:
            data = stream.read(MAX_BYTES + 1)
    except OSError as error:
        raise cannot_read(path, error) from error
    if len(data) > MAX_BYTES:
        raise InputError(
            f"{path} is larger than {MAX_BYTES >> 20} MiB; name the file of one run"
        )
    try:
        return _decoded(path, data)
    except msgspec.ValidationError as error:
        raise InputError(
            f"{path} is no exported run: {error}; make one with "
            "`warmup-insights export RUN`"
        ) from error
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise InputError(
            f"{path} holds no JSON: {error}; make it with `warmup-insights export RUN`"
        ) from error


def _decoded(path: str | Path, data: bytes) -> tuple[RunSummary, list[BucketRow]]:
    head = msgspec.json.decode(data, type=_Version)
    schema = head.schema if head.summary is None else head.summary.schema
    if schema is None:
        raise msgspec.ValidationError("it has no schema")
    if schema != SCHEMA:
        raise InputError(
            f"{path} has summary schema {schema!r}, and this version reads "
            f"{SCHEMA}; export the run again, or install the version that made it"
        )
    if head.summary is not None:
        exported = msgspec.json.decode(data, type=_Exported)
        return exported.summary, exported.bucket_rows
    shown = msgspec.json.decode(data, type=_Shown)
    return shown, shown.bucket_rows


_BUCKET_COLUMNS = (
    "generated", "warmed", "captured", "skipped", "missed", "duration_s",
    "memory_bytes", "state", "spike_s",
)  # fmt: skip


def figures_csv(summary: RunSummary) -> str:
    """A row per figure: run, name, value, unit. Sizes are bytes, times seconds.

    The last rows are sentences about evidence that contradicts itself, if any.
    """
    run_id = summary.run_id
    figures = [*all_figures([summary]), *phase_figures([summary])]
    rows = [[run_id, f.key, f.read(summary), f.unit] for f in figures]
    rows += [
        [run_id, "contradiction", contradiction_sentence(broken), "text"]
        for broken in summary.contradictions
    ]
    return csv_text(("run_id", "figure", "value", "unit"), rows)


def buckets_csv(summary: RunSummary, rows: Sequence[BucketRow]) -> str:
    """A row per bucket; the dimensions are columns, empty where there are fewer."""
    header = ("run_id", "phase", "d0", "d1", "d2", "d3", *_BUCKET_COLUMNS)
    cells = []
    for row in rows:
        bucket = [*row.bucket, *[None] * (4 - len(row.bucket))]
        values = [_plain(getattr(row, name)) for name in _BUCKET_COLUMNS]
        cells.append([summary.run_id, row.phase, *bucket, *values])
    return csv_text(header, cells)


def _plain(value: Any) -> Any:
    return int(value) if isinstance(value, bool) else value


def run_markdown(summary: RunSummary, rows: Sequence[BucketRow]) -> str:
    """The figures of a run for a person, in Markdown."""
    head = f"## {escape_markdown(summary.title)} ({summary.run_id})\n\n"
    head += escape_markdown(" ".join(start_sentences(summary))) + "\n"
    tables = [
        _facts(summary),
        _contradictions(summary),
        _phases(summary),
        _memory(summary),
        _figures(summary),
        _costliest(rows),
    ]
    return "\n".join([head, *(markdown_table(t) for t in tables if t.rows)])


def _facts(summary: RunSummary) -> TextTable:
    engine, device = summary.engine, summary.device
    rows = [
        ("status", summary.status),
        ("serving ended", serving_words(summary) or ""),
        ("engine", " ".join(filter(None, (engine.name, engine.version)))),
        ("model", summary.model or ""),
        ("device", device.name or device.kind or ""),
    ]
    if summary.synthetic:
        origin = "a simulated device" if device.kind == "simulated" else "a made-up log"
        rows.append(("synthetic", f"the figures come from {origin}"))
    if summary.failure is not None:
        rows.append(("failure", failure_sentence(summary.failure)))
    return make_table("", ("what", "value"), [row for row in rows if row[1]])


def _contradictions(summary: RunSummary) -> TextTable:
    rows = [(contradiction_sentence(broken),) for broken in summary.contradictions]
    return make_table("Contradictions in the evidence", ("what differs",), rows)


def _phases(summary: RunSummary) -> TextTable:
    rows = [(f.title, f.text(summary)) for f in phase_figures([summary])]
    return make_table("Time by phase", ("phase", "time"), rows, right=(1,))


def _memory(summary: RunSummary) -> TextTable:
    parts = summary.memory_or_none.parts
    rows = [(part.label, part_text(summary, part)) for part in parts]
    return make_table("Memory budget", ("part", "size"), rows, right=(1,))


def _figures(summary: RunSummary) -> TextTable:
    rows = [(one.title, one.text(summary)) for one in known_figures(summary)]
    return make_table("Figures", ("figure", "value"), rows, right=(1,))


def _costliest(rows: Sequence[BucketRow]) -> TextTable:
    timed = [row for row in rows if row.duration_s is not None]
    timed.sort(key=lambda row: -(row.duration_s or 0.0))
    return bucket_rows_table(timed[:10], "Costliest buckets")


def bucket_rows_table(rows: Iterable[BucketRow], title: str = "") -> TextTable:
    """Buckets and what became of each."""
    header = (
        "phase", "bucket", "state", "time", "memory", "missed", "GC", "compiled",
    )  # fmt: skip
    cells = [
        (
            row.phase, str(row.bucket),
            (f"{row.state} ran as {row.executed}" if row.executed else row.state)
            + (", spike" if row.is_spike else ""),
            format_duration(row.duration_s),
            format_bytes(row.memory_bytes),
            str(row.missed), format_duration(row.gc_s), format_count(row.compiled),
        )
        for row in rows
    ]  # fmt: skip
    return make_table(title, header, cells, right=range(3, 8))
