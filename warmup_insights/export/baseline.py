"""Runs as JSON files, to be kept and to be held against later ones."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from warmup_insights.errors import InputError

FORMAT = "warmup-insights-run"
MAX_BYTES = 64 * 1024 * 1024
SUMMARY_SCHEMA = 1

_SECTIONS: dict[str, type[Any]] = {
    "engine": dict, "device": dict, "config": dict, "time": dict, "memory": dict,
    "buckets": dict, "sampler": dict, "defrag": dict, "graphs": dict, "source": dict,
    "misses": list, "benchmarks": list,
}  # fmt: skip


def run_json(
    summary: Mapping[str, Any], bucket_rows: Sequence[Mapping[str, Any]]
) -> str:
    """A run as text: its summary and what became of each bucket."""
    content = {"format": FORMAT, "summary": summary, "bucket_rows": list(bucket_rows)}
    return json.dumps(content, indent=2, ensure_ascii=False) + "\n"


def read_run_json(path: str | Path) -> tuple[dict[str, Any], list[dict[str, Any]]]:
    """The summary and the bucket rows in a file that `run_json` or `show --json` made.

    Raises:
        InputError: the file cannot be read, or holds something else.
    """
    try:
        with open(path, "rb") as stream:
            data = stream.read(MAX_BYTES + 1)
    except OSError as error:
        raise InputError(f"{path} cannot be read: {error.strerror}") from error
    if len(data) > MAX_BYTES:
        raise InputError(
            f"{path} is larger than {MAX_BYTES >> 20} MiB, so it is no run"
        )
    try:
        content = json.loads(data)
    except (ValueError, RecursionError) as error:
        raise InputError(f"{path} holds no JSON: {error}") from error
    return _parts(path, content)


def _parts(
    path: str | Path, content: Any
) -> tuple[dict[str, Any], list[dict[str, Any]]]:
    summary = content.get("summary", content) if isinstance(content, dict) else None
    if not isinstance(summary, dict) or "schema" not in summary:
        raise InputError(
            f"{path} is no exported run; make one with `warmup-insights export RUN`"
        )
    if summary["schema"] != SUMMARY_SCHEMA:
        raise InputError(
            f"{path} has summary schema {summary['schema']!r}, and this version reads "
            f"{SUMMARY_SCHEMA}; export the run again, or install the version that made it"
        )
    for name, kind in _SECTIONS.items():
        if summary.get(name) is not None and not isinstance(summary[name], kind):
            raise InputError(f"{path}: {name} is not as a run summary has it")
    rows = content.get("bucket_rows") or summary.get("bucket_rows") or []
    if not isinstance(rows, list) or not all(isinstance(row, dict) for row in rows):
        raise InputError(f"{path}: bucket_rows is not a list of buckets")
    return summary, rows
