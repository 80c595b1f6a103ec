"""From summaries and rows to frames, one per figure; no I/O, no Streamlit.

Bytes stay integers and seconds floats; figures turn them into units.
"""

from __future__ import annotations

import time
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import pandas as pd

from dashboard import shown
from dashboard.palette import phase_meaning
from warmup_insights.analysis.sentences import phase_words
from warmup_insights.model.run import RunRecord, run_name
from warmup_insights.model.summary import (
    OF_OTHER_RANK,
    BucketRow,
    Gap,
    PhaseBuckets,
    RunSummary,
)

RUN_COLUMNS = (
    "run_id", "label", "notes", "engine", "version", "model", "device_kind",
    "device_name", "status", "started_at", "created_at", "updated_at", "heartbeat_at",
    "synthetic", "source_kind", "source_name", "num_events", "process", "ready_s",
    "warmup_s", "captured_percent", "num_kv_blocks", "missed", "doubtful",
    "start",
)  # fmt: skip
BUCKET_COLUMNS = (
    "phase", "bucket", "generated", "warmed", "captured", "skipped", "missed",
    "duration_s", "memory_bytes", "executed", "state", "gc_s", "compiled",
    "compile_s", "spike_s",
)  # fmt: skip
_NAMES = {
    "bs": "batch size",
    "batch_size": "batch size",
    "seq": "sequence length (tokens)",
    "seq_len": "sequence length (tokens)",
    "query": "query length (tokens)",
    "query_len": "query length (tokens)",
    "block": "KV blocks",
    "blocks": "KV blocks",
    "num_blocks": "KV blocks",
    "ctx": "KV blocks",
    "shared_blocks": "shared KV blocks",
    "unique_blocks": "unique KV blocks",
}
_DEFAULT_NAMES = {
    1: ("tokens",),
    2: ("batch size", "length (tokens)"),
    3: ("batch size", "query length (tokens)", "KV blocks"),
    4: ("query length (tokens)", "shared KV blocks", "unique KV blocks", "causal"),
}


def runs_frame(rows: Sequence[Mapping[str, Any]]) -> pd.DataFrame:
    """The runs page: RUN_COLUMNS with `status` as it is now, and `name`.

    `doubtful` names the figures among them whose evidence contradicts itself.
    """
    now = time.time()
    frame = pd.DataFrame(list(rows), columns=list(RUN_COLUMNS))
    if frame.empty:
        return frame.assign(name=pd.Series(dtype="str"))
    # Columns that are empty throughout would become numbers.
    for column in (
        "label",
        "notes",
        "engine",
        "version",
        "model",
        "device_kind",
        "device_name",
        "start",
    ):
        frame[column] = (
            frame[column].astype("object").where(frame[column].notna(), None)
        )
    frame["status"] = [_status(row, now) for row in rows]
    frame["name"] = [
        run_name(row["label"], row["model"], row["source_name"], row["run_id"])
        for row in rows
    ]
    frame["doubtful"] = [doubtful((row["doubtful"] or "").split()) for row in rows]
    return frame


def doubtful(names: Iterable[str]) -> str | None:
    """Labels of figures whose evidence contradicts itself; None when there are none."""
    return ", ".join(shown.label(name) for name in names) or None


def _status(row: Mapping[str, Any], now: float) -> str:
    if row["status"] != "running":
        return str(row["status"])
    record = RunRecord(
        run_id=row["run_id"],
        status=row["status"],
        heartbeat_at=row["heartbeat_at"],
        process=row["process"],
    )
    return record.status_at(now)


def buckets_frame(rows: Sequence[BucketRow]) -> pd.DataFrame:
    """One row per bucket: BUCKET_COLUMNS; `bucket` and `executed` are tuples."""
    shaped = [[getattr(row, name) for name in BUCKET_COLUMNS] for row in rows]
    return pd.DataFrame(shaped, columns=list(BUCKET_COLUMNS))


def names_for(
    size: int, section: PhaseBuckets | None = None, phase: str = ""
) -> tuple[str, ...]:
    """Names of the dimensions of a bucket of `size` numbers; that of the only one can be
    the name of its phase."""
    known = section.dimensions if section is not None else []
    if len(known) == size:
        return tuple(_NAMES.get(name, name) for name in known)
    if size == 1 and phase == "requests":
        return (phase,)
    return _DEFAULT_NAMES.get(size, tuple(f"dimension {n + 1}" for n in range(size)))


def phases_frame(summary: RunSummary) -> pd.DataFrame:
    """The start-up in order: name, label, meaning, start_s, duration_s, detail.

    The time between phases is a row of its own, `unlogged`, so that the durations add
    up to the wall time; `detail` has the lines on both sides of it.
    """
    times = summary.time
    rows: list[tuple[str, float, float, str]] = []
    position, end = 0.0, times.wall_s or 0.0
    for phase in times.phases:
        if phase.start_s - position > 1e-6:
            rows.append(_unlogged(position, phase.start_s, times.gaps))
        detail = shown.doubt(summary, f"phase:{phase.name}") or ""
        rows.append((phase.name, phase.start_s, phase.duration_s, detail))
        position = max(position, phase.start_s + phase.duration_s)
    if end - position > 1e-6:
        rows.append(_unlogged(position, end, times.gaps))
    frame = pd.DataFrame(rows, columns=["name", "start_s", "duration_s", "detail"])
    words = {name: phase_label(name) for name in frame["name"]}
    frame["label"] = [
        words[name] + shown.mark(summary, f"phase:{name}") for name in frame["name"]
    ]
    frame["meaning"] = [phase_meaning(name) for name in frame["name"]]
    return frame


def phase_label(name: str) -> str:
    """A phase in the words of the sentences about a start."""
    base = name.removesuffix(OF_OTHER_RANK)
    words = "unlogged time" if base == "unlogged" else phase_words(base)
    return words + (OF_OTHER_RANK if base != name else "")


def _unlogged(
    start: float, end: float, gaps: Sequence[Gap]
) -> tuple[str, float, float, str]:
    within = [g for g in gaps if g.start_s < end and g.start_s + g.duration_s > start]
    longest = max(within, key=lambda gap: gap.unlogged_s, default=None)
    detail = ""
    if longest is not None:
        detail = (
            f"between line {longest.line} ({longest.before[:90]}) and line "
            f"{longest.next_line} ({longest.after[:90]})"
        )
    return "unlogged", start, end - start, detail


def rank_phases(summary: RunSummary) -> pd.DataFrame:
    """The phases of each rank: rank, name, label, meaning, start_s, duration_s."""
    rows = [
        (own.rank, phase.name, phase_label(phase.name), phase_meaning(phase.name),
         phase.start_s, phase.duration_s)
        for own in summary.time.ranks
        for phase in own.phases
    ]  # fmt: skip
    columns = ["rank", "name", "label", "meaning", "start_s", "duration_s"]
    return pd.DataFrame(rows, columns=columns)


def phase_totals(phases: pd.DataFrame) -> pd.DataFrame:
    """Seconds per phase, in the order of first appearance: name, label, meaning,
    duration_s."""
    grouped = phases.groupby("name", sort=False)
    return grouped.agg(
        label=("label", "first"),
        meaning=("meaning", "first"),
        duration_s=("duration_s", "sum"),
    ).reset_index()


def capture_frame(summary: RunSummary) -> pd.DataFrame:
    """One row per phase and count of its buckets: phase, what, count, generated, text.

    `what` is `warmed`, `captured_reported` or `captured`; unknown counts are left out.
    """
    rows = []
    for phase, part in (summary.buckets or {}).items():
        for what in ("warmed", "captured_reported", "captured"):
            count, name = getattr(part, what), f"{phase}_{what}"
            if count is None or not part.generated:
                continue
            words = f"{shown.text(summary, name)} of {part.generated}"
            if what == "captured":
                words += f", {shown.text(summary, f'{phase}_capture_percent')}"
            rows.append((phase, what, count, part.generated, words))
    return pd.DataFrame(rows, columns=["phase", "what", "count", "generated", "text"])


def lines_frame(lines: Sequence[tuple[int, str | None, str]]) -> pd.DataFrame:
    """Kept lines of a log: line, rule (None when no rule matches), text."""
    return pd.DataFrame(list(lines), columns=["line", "rule", "text"])


def phases_in_order(buckets: pd.DataFrame) -> list[str]:
    """The phases that have buckets: prompt and decode first."""
    known = [str(phase) for phase in buckets["phase"].unique()]
    order = {"prompt": 0, "decode": 1}
    return sorted(known, key=lambda phase: (order.get(phase, 2), phase))


def of_phase(buckets: pd.DataFrame, phase: str) -> pd.DataFrame:
    """The buckets of one phase that have its usual number of dimensions.

    A run-time shape may be stated with fewer numbers than the buckets have; it has no
    place on their map.
    """
    rows = buckets[buckets["phase"] == phase]
    if rows.empty:
        return rows
    listed = rows[rows["generated"] > 0]
    size = len((listed if len(listed) else rows)["bucket"].iloc[0])
    return rows[[len(bucket) == size for bucket in rows["bucket"]]]


def filled_in(rows: pd.DataFrame, section: PhaseBuckets) -> pd.DataFrame:
    """Buckets as the summary counts them.

    Where lines were cut out of a log, but its last step shows that all buckets were
    warmed, those without a line of their own were warmed as well.
    """
    if not section.generated or section.warmed != section.generated:
        return rows
    is_bare = (rows["state"] == "generated") & (rows["generated"] > 0)
    return rows.assign(
        state=rows["state"].mask(is_bare, "warmed"),
        warmed=rows["warmed"].mask(is_bare, 1),
    )
