"""Runs as JSON files, to be kept and to be held against later ones."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import msgspec

from warmup_insights.errors import InputError
from warmup_insights.model.summary import SCHEMA, BucketRow, RunSummary

FORMAT = "warmup-insights-run"
MAX_BYTES = 64 * 1024 * 1024


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
        raise InputError(f"{path} cannot be read: {error.strerror}") from error
    if len(data) > MAX_BYTES:
        raise InputError(
            f"{path} is larger than {MAX_BYTES >> 20} MiB, so it is no run"
        )
    try:
        return _decoded(path, data)
    except msgspec.ValidationError as error:
        raise InputError(
            f"{path} is no exported run: {error}; make one with "
            "`warmup-insights export RUN`"
        ) from error
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise InputError(f"{path} holds no JSON: {error}") from error


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
