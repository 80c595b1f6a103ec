"""From summaries and rows to frames, one per figure; no I/O, no Streamlit.

Bytes stay integers and seconds floats; figures turn them into units.
"""

from __future__ import annotations

import time
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import pandas as pd

from dashboard.palette import phase_meaning
from dashboard.text import visible
from warmup_insights.model.events import (
    AnyEvent,
    BucketRangesConfigured,
    BucketsGenerated,
)
from warmup_insights.model.run import RunRecord

Summary = Mapping[str, Any]

RUN_COLUMNS = (
    "run_id", "label", "notes", "engine", "version", "model", "device_kind",
    "device_name", "status", "started_at", "created_at", "updated_at", "heartbeat_at",
    "synthetic", "source_kind", "source_name", "num_events", "process", "ready_s",
    "warmup_s", "captured_percent", "num_kv_blocks", "missed",
)  # fmt: skip
BUCKET_COLUMNS = (
    "phase", "bucket", "generated", "warmed", "captured", "skipped", "missed",
    "duration_s", "memory_bytes", "executed", "state",
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


def runs_frame(
    rows: Sequence[Mapping[str, Any]], now: float | None = None
) -> pd.DataFrame:
    """The runs page: RUN_COLUMNS with `status` as it is at `now`, and `name`."""
    now = time.time() if now is None else now
    frame = pd.DataFrame(list(rows), columns=list(RUN_COLUMNS))
    if frame.empty:
        return frame.assign(name=pd.Series(dtype="str"))
    # Columns that are empty throughout would become numbers.
    for column in ("label", "notes", "engine", "version", "model", "device_name"):
        frame[column] = (
            frame[column].astype("object").where(frame[column].notna(), None)
        )
    frame["status"] = [_status(row, now) for row in rows]
    frame["name"] = [run_name(row) for row in rows]
    return frame


def runs_table(rows: pd.DataFrame) -> pd.DataFrame:
    """The table of the runs page: one column per thing a person looks for."""
    started = rows["started_at"].astype("float64")
    engine = rows["engine"].fillna("") + (" " + rows["version"].fillna(""))
    return pd.DataFrame(
        {
            "open": "Open",
            "name": [visible(name, 80) for name in rows["name"]],
            "status": [[status] for status in rows["status"]],
            "engine": [visible(text, 60).strip() or None for text in engine],
            "model": [_cell(text) for text in rows["model"]],
            "device": [
                _cell(name or kind)
                for name, kind in zip(
                    rows["device_name"], rows["device_kind"], strict=True
                )
            ],
            "started": pd.to_datetime(started, unit="s"),
            "warmup_s": rows["warmup_s"].astype("float64"),
            "captured_percent": rows["captured_percent"].astype("float64"),
            "num_kv_blocks": rows["num_kv_blocks"].astype("Int64"),
            "missed": rows["missed"].astype("Int64"),
            "figures": [
                _figures(kind, made_up)
                for kind, made_up in zip(
                    rows["device_kind"], rows["synthetic"], strict=True
                )
            ],
            "notes": [_cell(text) for text in rows["notes"]],
            "run_id": rows["run_id"],
        }
    )


def _cell(text: object) -> str | None:
    return visible(text, 120) if isinstance(text, str) and text else None


def _figures(device_kind: object, synthetic: object) -> str | None:
    if device_kind == "simulated":
        return "simulated"
    return "synthetic" if synthetic else None


def trend_frame(rows: pd.DataFrame, by: str) -> pd.DataFrame:
    """Runs of the series with two or more of them, the largest series first.

    A series is a model on a kind of device; simulated and made-up runs are series of
    their own. Columns: series, figures, started_at, name, status, run_id and `by`.
    """
    known = rows[rows[by].notna() & rows["started_at"].notna()]
    if known.empty:
        return known.assign(series=[])
    named = with_series(known)
    counts = named["series"].value_counts()
    kept = named[named["series"].map(counts) > 1]
    order = kept["series"].map(counts)
    kept = kept.assign(order=order).sort_values("order", ascending=False, kind="stable")
    kept["figures"] = [
        _figures(kind, made_up)
        for kind, made_up in zip(kept["device_kind"], kept["synthetic"], strict=True)
    ]
    return kept[["series", "figures", "started_at", "name", "status", "run_id", by]]


def with_series(rows: pd.DataFrame) -> pd.DataFrame:
    """Runs with the name of their series: a model on a kind of device."""
    return rows.assign(series=[_series(row) for row in rows.to_dict("records")])


def _series(row: Mapping[Any, Any]) -> str:
    model = row["model"].rstrip("/").rsplit("/", 1)[-1] if row["model"] else "any model"
    device = row["device_name"] or row["device_kind"] or "any device"
    figures = _figures(row["device_kind"], row["synthetic"])
    marked = figures == "synthetic" or (figures and "simulated" not in device)
    return f"{model} on {device}" + (f" ({figures})" if marked else "")


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


def run_name(row: Mapping[str, Any]) -> str:
    """What a person calls a run: its label, else its model, else its log, else its id."""
    model = row["model"]
    if isinstance(model, str) and "/" in model:
        model = model.rstrip("/").rsplit("/", 1)[-1]
    name = row["label"] or model or row["source_name"] or row["run_id"]
    return str(name)


def name_of(run: RunRecord) -> str:
    """What a person calls a run."""
    return run_name(
        {
            "label": run.label,
            "model": run.model,
            "source_name": run.source_name,
            "run_id": run.run_id,
        }
    )


def buckets_frame(rows: Sequence[Mapping[str, Any]]) -> pd.DataFrame:
    """One row per bucket: BUCKET_COLUMNS; `bucket` and `executed` are tuples."""
    shaped = [
        {
            **row,
            "bucket": tuple(row["bucket"]),
            "executed": None if row["executed"] is None else tuple(row["executed"]),
        }
        for row in rows
    ]
    return pd.DataFrame(shaped, columns=list(BUCKET_COLUMNS))


def dimension_names(events: Iterable[AnyEvent]) -> dict[str, tuple[str, ...]]:
    """Phase to names of its dimensions, from the lists and ranges of a run."""
    found: dict[str, tuple[str, ...]] = {}
    for event in events:
        if isinstance(event, BucketsGenerated):
            names = tuple(event.dimensions)
        elif isinstance(event, BucketRangesConfigured):
            names = tuple(event.ranges)
        else:
            continue
        if names:
            found.setdefault(event.phase, tuple(_NAMES.get(n, n) for n in names))
    return found


def names_for(size: int, known: tuple[str, ...] | None) -> tuple[str, ...]:
    """Names of the dimensions of a bucket of `size` numbers."""
    if known is not None and len(known) == size:
        return known
    return _DEFAULT_NAMES.get(size, tuple(f"dimension {n + 1}" for n in range(size)))


def phases_frame(summary: Summary) -> pd.DataFrame:
    """The start-up in order: name, meaning, start_s, duration_s, detail.

    The time between phases is a row of its own, `unlogged`, so that the durations add
    up to the wall time; `detail` tells the lines that bound it.
    """
    section = summary["time"]
    wall = section["wall_s"]
    rows: list[dict[str, Any]] = []
    position = 0.0
    end = {"name": "end", "start_s": wall or 0.0, "duration_s": 0.0}
    for phase in [*section["phases"], end]:
        if phase["start_s"] - position > 1e-6:
            rows.append(_unlogged(position, phase["start_s"], section["gaps"]))
        if phase is not end:
            rows.append({**phase, "detail": ""})
        position = max(position, phase["start_s"] + phase["duration_s"])
    frame = pd.DataFrame(rows, columns=["name", "start_s", "duration_s", "detail"])
    frame["meaning"] = [phase_meaning(name) for name in frame["name"]]
    return frame


def _unlogged(
    start: float, end: float, gaps: Sequence[Mapping[str, Any]]
) -> dict[str, Any]:
    within = [
        gap
        for gap in gaps
        if gap["start_s"] < end and gap["start_s"] + gap["duration_s"] > start
    ]
    longest = max(within, key=lambda gap: float(gap["unlogged_s"]), default=None)
    detail = ""
    if longest is not None:
        detail = (
            f"between line {longest['line']} ({longest['before'][:90]}) and line "
            f"{longest['next_line']} ({longest['after'][:90]})"
        )
    return {
        "name": "unlogged",
        "start_s": start,
        "duration_s": end - start,
        "detail": detail,
    }


def phase_totals(phases: pd.DataFrame) -> pd.DataFrame:
    """Seconds per phase, in the order of first appearance: name, meaning, duration_s."""
    grouped = phases.groupby("name", sort=False)
    totals = grouped.agg(meaning=("meaning", "first"), duration_s=("duration_s", "sum"))
    return totals.reset_index()


def capture_frame(summary: Summary) -> pd.DataFrame:
    """Per phase: generated, warmed, captured, captured_reported and their shares."""
    rows = []
    for phase, section in (summary["buckets"] or {}).items():
        generated = section["generated"]
        names = ("warmed", "captured", "captured_reported")
        shares = {f"{name}_percent": _share(section[name], generated) for name in names}
        rows.append(
            {"phase": phase, "generated": generated, "missed": section["missed"]}
            | {name: section[name] for name in names}
            | shares
            | {"capture_percent": section["capture_percent"]}
        )
    return pd.DataFrame(rows)


def _share(part: int | None, whole: int | None) -> float | None:
    if part is None or not whole:
        return None
    return 100.0 * part / whole


def lines_frame(lines: Sequence[tuple[int, str | None, str]]) -> pd.DataFrame:
    """Kept lines of a log: line, rule (None when no rule knows it), text."""
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


def filled_in(rows: pd.DataFrame, section: Mapping[str, Any] | None) -> pd.DataFrame:
    """Buckets as the summary counts them.

    Where lines were cut out of a log, but its last step says that all buckets were
    warmed, those without a line of their own were warmed as well.
    """
    if section is None or not section["generated"]:
        return rows
    if section["warmed"] != section["generated"]:
        return rows
    is_bare = (rows["state"] == "generated") & (rows["generated"] > 0)
    return rows.assign(
        state=rows["state"].mask(is_bare, "warmed"),
        warmed=rows["warmed"].mask(is_bare, 1),
    )
