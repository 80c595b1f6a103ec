"""Run summaries and bucket summaries to table rows and back."""

from __future__ import annotations

import math
from collections.abc import Mapping
from datetime import datetime
from typing import Any

import msgspec

from warmup_insights.storage.faults import ForeignValueError
from warmup_insights.storage.rows import bucket_text
from warmup_insights.storage.text import clean_text, from_json, to_json

_COUNTS = ("generated", "warmed", "captured", "skipped", "missed")
_AS_IS = ("duration_s", "memory_bytes")


def summary_row(
    run_id: str, summary: Mapping[str, Any], num_events: int
) -> dict[str, Any]:
    """The row of a run summary: all of it as JSON, and what the runs page sorts by."""
    time = summary.get("time") or {}
    phases = summary.get("buckets") or {}
    buckets = [phases[name] for name in ("prompt", "decode") if phases.get(name)]
    return {
        "run_id": run_id,
        "schema": summary.get("schema", 1),
        "summary": to_json(summary),
        "num_events": num_events,
        "status": summary.get("status"),
        "started_at": _epoch(time.get("started_at")),
        "ready_s": _between(time.get("started_at"), time.get("ready_at")),
        "warmup_s": time.get("warmup_s"),
        "captured_percent": _captured_percent(buckets),
        "num_kv_blocks": (summary.get("memory") or {}).get("num_kv_blocks"),
        "missed": _sum(part.get("missed") for part in buckets),
    }


_SECTIONS = msgspec.json.Decoder(dict[str, msgspec.Raw])
_LISTS = ("buckets", "captured_buckets")


def read_summary(text: str, *, with_lists: bool = True) -> dict[str, Any]:
    """A stored summary.

    Without `with_lists` the lists of buckets are empty (null where they were null):
    they are most of the text, and figures do not need them.
    """
    if with_lists:
        known = from_json(text)
        if not isinstance(known, dict):
            raise ForeignValueError("a summary")
        return known
    sections = _SECTIONS.decode(text)
    phases = sections.pop("buckets", None)
    summary: dict[str, Any] = {k: _value(raw) for k, raw in sections.items()}
    if phases is None or bytes(phases) == b"null":
        return {**summary, "buckets": None}
    summary["buckets"] = {
        phase: _without_lists(raw) for phase, raw in _SECTIONS.decode(phases).items()
    }
    return summary


def _without_lists(raw: msgspec.Raw) -> dict[str, Any]:
    parts = _SECTIONS.decode(raw)
    return {
        name: [] if name in _LISTS and bytes(part) != b"null" else _value(part)
        for name, part in parts.items()
    }


def _value(raw: msgspec.Raw) -> Any:
    """The value in a stretch of JSON."""
    return msgspec.json.decode(raw)


def bucket_row(run_id: str, row: Mapping[str, Any]) -> dict[str, Any]:
    """The table row of a bucket: `phase`, `bucket` and whatever else is known of it."""
    bucket = tuple(row["bucket"])
    executed = row.get("executed")
    return {
        "run_id": run_id,
        "phase": clean_text(row["phase"]),
        "bucket": bucket_text(bucket),
        **{f"d{n}": bucket[n] if n < len(bucket) else None for n in range(4)},
        **{name: _count(row.get(name)) for name in _COUNTS},
        **{name: row.get(name) for name in _AS_IS},
        "executed": None if executed is None else to_json(list(executed)),
        "state": clean_text(row.get("state")),
    }


def read_bucket_row(row: Mapping[str, Any]) -> dict[str, Any]:
    """A stored bucket, as it was given: dimensions are lists again."""
    known = {name: row[name] for name in ("phase", *_COUNTS, *_AS_IS, "state")}
    executed = row["executed"]
    try:
        known["bucket"] = [int(number) for number in row["bucket"].split("x") if number]
        known["executed"] = None if executed is None else [*from_json(executed)]
        is_known = all(map(_is_number, (known[name] for name in (*_COUNTS, *_AS_IS))))
    except (TypeError, ValueError, AttributeError):
        is_known = False
    texts = (known["phase"], known["state"] or "")
    if not is_known or not all(isinstance(text, str) for text in texts):
        raise ForeignValueError("a bucket")
    return known


def _is_number(value: Any) -> bool:
    return value is None or (isinstance(value, int | float) and math.isfinite(value))


def _count(value: int | bool | None) -> int | None:
    return None if value is None else int(value)


def _epoch(value: float | str | None) -> float | None:
    """A time as seconds; summaries may say it as ISO 8601."""
    if isinstance(value, str):
        return datetime.fromisoformat(value.replace("Z", "+00:00")).timestamp()
    return value


def _between(start: float | str | None, end: float | str | None) -> float | None:
    first, last = _epoch(start), _epoch(end)
    return None if first is None or last is None else last - first


def _sum(values: Any) -> int | None:
    known = [value for value in values if value is not None]
    return sum(known) if known else None


def _captured_percent(parts: list[Mapping[str, Any]]) -> float | None:
    """Share of the generated buckets that were captured; None if a phase does not know."""
    pairs = [(part.get("captured"), part.get("generated")) for part in parts]
    known = [(c, g) for c, g in pairs if c is not None and g is not None]
    generated = sum(g for _, g in known)
    if len(known) < len(pairs) or not generated:
        return None
    return float(100.0 * sum(c for c, _ in known) / generated)
