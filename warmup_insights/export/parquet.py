"""Runs, their buckets and their events as Parquet files, for DuckDB, pandas and the like.

Needs pyarrow (extra `parquet`). The columns are the same for every run; what is unknown is
null, and so are figures whose evidence contradicts itself, which `contradictory` names.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import ExitStack
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any

from warmup_insights.analysis.summary import Folded
from warmup_insights.errors import InputError
from warmup_insights.model.events import Event, encode, kind_of
from warmup_insights.model.figures import FIGURES, contradictory
from warmup_insights.model.summary import BucketRow, RunSummary

if TYPE_CHECKING:
    import pyarrow as pa
    import pyarrow.parquet as pq

NAMES = ("runs.parquet", "buckets.parquet", "events.parquet")
ROWS = 20_000
"""Rows of a row group."""
_LARGEST = 1 << 63
_TEXTS = (
    "run_id", "label", "source", "engine", "engine_version", "model", "device_kind",
    "device", "status", "timezone",
)  # fmt: skip
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
    for name in NAMES:
        if (folder / name).exists() and not force:
            raise InputError(f"{folder / name} exists; --force overwrites it")
    try:
        folder.parent.mkdir(parents=True, exist_ok=True)
        with TemporaryDirectory(prefix=".parquet-", dir=folder.parent) as unfinished:
            count = _write(Path(unfinished), runs, _types(pa))
            folder.mkdir(exist_ok=True)
            for name in NAMES:
                (Path(unfinished) / name).replace(folder / name)
        return count
    except (OSError, pa.ArrowException) as error:
        raise InputError(
            f"{folder} cannot be written: {getattr(error, 'strerror', error)}; use "
            "another path"
        ) from error


def _write(
    folder: Path, runs: Iterable[Opened], types: Mapping[str, pa.DataType]
) -> int:
    count = 0
    kinds = (_run_columns(), _BUCKET, _EVENT)
    with ExitStack() as stack:
        files = [
            stack.enter_context(_File(folder / name, columns, types))
            for name, columns in zip(NAMES, kinds, strict=True)
        ]
        for folded, events in runs:
            count += 1
            files[0].add(_run(folded.summary))
            for row in folded.rows:
                files[1].add(_bucket(folded.summary.run_id, row))
            for event in _events(folded.summary.run_id, events):
                files[2].add(event)
    return count


def _types(pa: Any) -> dict[str, pa.DataType]:
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

    def __init__(
        self, path: Path, columns: Mapping[str, str], types: Mapping[str, pa.DataType]
    ) -> None:
        import pyarrow as pa

        self._path = path
        self._kinds = columns
        self._schema = pa.schema(
            [(name, types[kind]) for name, kind in columns.items()]
        )
        self._rows: list[dict[str, Any]] = []
        self._writer: pq.ParquetWriter | None = None

    def __enter__(self) -> _File:
        import pyarrow.parquet as pq

        self._writer = pq.ParquetWriter(self._path, self._schema)
        return self

    def __exit__(self, *_: object) -> None:
        self._flush()
        if self._writer is not None:
            self._writer.close()

    def add(self, row: dict[str, Any]) -> None:
        """Take a row."""
        self._rows.append(
            {name: _CONVERT.get(self._kinds[name], _same)(row[name]) for name in row}
        )
        if len(self._rows) >= ROWS:
            self._flush()

    def _flush(self) -> None:
        import pyarrow as pa

        if self._writer is not None and self._rows:
            self._writer.write_table(pa.Table.from_pylist(self._rows, self._schema))
        self._rows = []


def _same(value: Any) -> Any:
    return value


def _int(value: int | None) -> int | None:
    """A number that the column can hold; None for what a hostile log made up."""
    return value if value is not None and -_LARGEST <= value < _LARGEST else None


def _text(value: str | None) -> str | None:
    """Text without half surrogate pairs, which no file can hold."""
    return None if value is None else value.encode("utf-8", "replace").decode()


def _shape(value: Iterable[int] | None) -> list[int | None] | None:
    return None if value is None else [_int(size) for size in value]


def _time(value: float | None) -> int | None:
    """Microseconds since the epoch."""
    return None if value is None else _int(round(value * 1e6))


_CONVERT: dict[str, Callable[[Any], Any]] = {
    "int": _int, "string": _text, "shape": _shape, "time": _time,
}  # fmt: skip


def _run_columns() -> dict[str, str]:
    figures = {figure.name: "float" for figure in FIGURES}
    texts = dict.fromkeys(_TEXTS, "string")
    own = {
        "synthetic": "bool",
        "started_at": "time",
        "ranks": "int",
        "phases": "phases",
    }
    return {**texts, **own, **figures, "contradictory": "texts"}


def _run(summary: RunSummary) -> dict[str, Any]:
    return {
        "run_id": summary.run_id,
        "label": summary.label,
        "source": summary.source.name,
        "engine": summary.engine.name,
        "engine_version": summary.engine.version,
        "model": summary.model,
        "device_kind": summary.device.kind,
        "device": summary.device.name,
        "status": summary.status,
        "timezone": summary.time.timezone,
        "synthetic": summary.synthetic,
        "started_at": summary.time.started,
        "ranks": summary.ranks,
        "phases": [
            {"name": p.name, "start_s": p.start_s, "seconds": p.duration_s}
            for p in summary.time.phases
        ],
        **{figure.name: _float(figure.trusted(summary)) for figure in FIGURES},
        "contradictory": sorted(contradictory(summary)),
    }


def _float(value: float | None) -> float | None:
    return None if value is None else float(value)


def _bucket(run_id: str, row: BucketRow) -> dict[str, Any]:
    values = {name: getattr(row, name) for name in _BUCKET if name != "run_id"}
    return {"run_id": run_id, **values}


def _events(run_id: str, events: Iterable[Event]) -> Iterator[dict[str, Any]]:
    for seq, event in enumerate(events):
        yield {
            "run_id": run_id, "seq": seq, "kind": kind_of(event), "time": event.time,
            "rank": event.rank, "line": event.line, "event": encode(event).decode(),
        }  # fmt: skip
