"""Runs, their buckets and their events as Parquet files, for DuckDB, pandas and the like.

Needs pyarrow (extra `parquet`). The columns are the same for every run; what is unknown is
null, and so are figures whose evidence contradicts itself, which `contradictory` names.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import ExitStack, closing
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any

from warmup_insights.analysis.sentences import serving_words
from warmup_insights.analysis.summary import Folded
from warmup_insights.errors import InputError
from warmup_insights.model.events import Event, encode, kind_of
from warmup_insights.model.figures import FIGURES, contradictory
from warmup_insights.model.summary import BucketRow, RunSummary, TimePhase

if TYPE_CHECKING:
    import pyarrow as pa

NAMES = ("runs.parquet", "buckets.parquet", "events.parquet")
ROWS = 20_000
"""Rows of a row group."""
_LARGEST = 1 << 63
_RUN: dict[str, tuple[str, Callable[[RunSummary], Any]]] = {
    "run_id": ("string", lambda run: run.run_id),
    "label": ("string", lambda run: run.label),
    "source": ("string", lambda run: run.source.name),
    "engine": ("string", lambda run: run.engine.name),
    "engine_version": ("string", lambda run: run.engine.version),
    "model": ("string", lambda run: run.model),
    "device_kind": ("string", lambda run: run.device.kind),
    "device": ("string", lambda run: run.device.name),
    "status": ("string", lambda run: run.status),
    "serving_end": ("string", serving_words),
    "timezone": ("string", lambda run: run.time.timezone),
    "synthetic": ("bool", lambda run: run.synthetic),
    "started_at": ("time", lambda run: run.time.started),
    "ranks": ("int", lambda run: run.ranks),
    "phases": ("phases", lambda run: [_phase(phase) for phase in run.time.phases]),
    **{figure.name: ("float", figure.trusted) for figure in FIGURES},
    "contradictory": ("texts", lambda run: sorted(contradictory(run))),
}
"""Column to its kind, and how it is read."""
_BUCKET = {
    "run_id": "string", "phase": "string", "bucket": "shape", "executed": "shape",
    "generated": "bool", "warmed": "bool", "captured": "bool", "skipped": "bool",
    "missed": "int", "duration_s": "float", "resolution_s": "float",
    "memory_bytes": "int", "state": "string", "gc_s": "float", "compiled": "int",
    "compile_s": "float",
}  # fmt: skip
_EVENT = {
    "run_id": "string", "seq": "int", "kind": "string", "time": "time", "rank": "int",
    "line": "int", "event": "string",
}  # fmt: skip

Opened = tuple[Folded, Iterable[Event]]


def write_parquet(folder: Path, runs: Iterable[Opened], *, force: bool = False) -> int:
    """Write the three files of `NAMES` into a folder; the number of runs.

    Raises InputError when a file exists and `force` is off, or pyarrow is missing.
    """
    try:
        import pyarrow as pa
    except ModuleNotFoundError as error:
        raise InputError(
            f"Parquet needs the package {error.name}; install warmup-insights[parquet]"
        ) from error
    if folder.exists() and not folder.is_dir():
        raise InputError(f"{folder} is a file; name a folder for the Parquet files")
    for name in NAMES:
        if (folder / name).exists() and not force:
            raise InputError(f"{folder / name} exists; --force overwrites it")
    try:
        folder.parent.mkdir(parents=True, exist_ok=True)
        with TemporaryDirectory(prefix=".parquet-", dir=folder.parent) as unfinished:
            count = _write(Path(unfinished), runs)
            folder.mkdir(exist_ok=True)
            for name in NAMES:
                (Path(unfinished) / name).replace(folder / name)
        return count
    except (OSError, pa.ArrowException) as error:
        raise InputError(
            f"{folder} cannot be written: {getattr(error, 'strerror', error)}; use "
            "another path"
        ) from error


def _write(folder: Path, runs: Iterable[Opened]) -> int:
    count = 0
    kinds = ({name: kind for name, (kind, _) in _RUN.items()}, _BUCKET, _EVENT)
    with ExitStack() as stack:
        files = [
            stack.enter_context(closing(_File(folder / name, columns)))
            for name, columns in zip(NAMES, kinds, strict=True)
        ]
        for folded, events in runs:
            count += 1
            files[0].add(
                {name: read(folded.summary) for name, (_, read) in _RUN.items()}
            )
            for row in folded.rows:
                files[1].add(_bucket(folded.summary.run_id, row))
            for event in _events(folded.summary.run_id, events):
                files[2].add(event)
    return count


def _types() -> dict[str, pa.DataType]:
    import pyarrow as pa

    phase = [
        ("name", pa.string()),
        ("start_s", pa.float64()),
        ("seconds", pa.float64()),
    ]
    return {
        "string": pa.string(), "bool": pa.bool_(), "int": pa.int64(),
        "float": pa.float64(), "time": pa.timestamp("us", tz="UTC"),
        "shape": pa.list_(pa.int64()), "texts": pa.list_(pa.string()),
        "phases": pa.list_(pa.struct(phase)),
    }  # fmt: skip


class _File:
    """One Parquet file; rows are written in groups."""

    def __init__(self, path: Path, columns: Mapping[str, str]) -> None:
        import pyarrow as pa
        import pyarrow.parquet as pq

        self._kinds = columns
        types = _types()
        self._schema = pa.schema(
            [(name, types[kind]) for name, kind in columns.items()]
        )
        self._rows: list[dict[str, Any]] = []
        self._writer = pq.ParquetWriter(path, self._schema)

    def close(self) -> None:
        """Write what is left, and the end of the file."""
        self._flush()
        self._writer.close()

    def add(self, row: dict[str, Any]) -> None:
        """Take a row."""
        self._rows.append(
            {name: _CONVERT[self._kinds[name]](value) for name, value in row.items()}
        )
        if len(self._rows) >= ROWS:
            self._flush()

    def _flush(self) -> None:
        import pyarrow as pa

        if self._rows:
            self._writer.write_table(pa.Table.from_pylist(self._rows, self._schema))
        self._rows = []


def _int(value: int | None) -> int | None:
    """A number that the column can hold; None for what a hostile log made up."""
    return value if value is not None and -_LARGEST <= value < _LARGEST else None


def _float(value: float | None) -> float | None:
    return None if value is None else float(value)


def _text(value: str | None) -> str | None:
    """Text without half surrogate pairs, which no file can hold."""
    return None if value is None else value.encode("utf-8", "replace").decode()


def _shape(value: Iterable[int] | None) -> list[int | None] | None:
    return None if value is None else [_int(size) for size in value]


def _time(value: float | None) -> int | None:
    """Microseconds since the epoch."""
    return None if value is None else _int(round(value * 1e6))


def _as_it_is(value: Any) -> Any:
    return value


_CONVERT: dict[str, Callable[[Any], Any]] = {
    "int": _int, "float": _float, "string": _text, "shape": _shape, "time": _time,
    "bool": _as_it_is, "texts": _as_it_is, "phases": _as_it_is,
}  # fmt: skip


def _phase(phase: TimePhase) -> dict[str, Any]:
    return {"name": phase.name, "start_s": phase.start_s, "seconds": phase.duration_s}


def _bucket(run_id: str, row: BucketRow) -> dict[str, Any]:
    values = {name: getattr(row, name) for name in _BUCKET if name != "run_id"}
    return {"run_id": run_id, **values}


def _events(run_id: str, events: Iterable[Event]) -> Iterator[dict[str, Any]]:
    for seq, event in enumerate(events):
        yield {
            "run_id": run_id, "seq": seq, "kind": kind_of(event), "time": event.time,
            "rank": event.rank, "line": event.line, "event": encode(event).decode(),
        }  # fmt: skip
