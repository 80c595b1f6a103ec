"""Files that vLLM writes beside its log, each read as a whole: JSON, and one CSV.

`cache_key_factors.json` lies in a directory of the compile cache and has what the name of
that directory was hashed from: vLLM `compilation/backends.py` (`VllmBackend.__call__`).
Results of `vllm bench startup --output-json` have the keys of vLLM
`benchmarks/startup.py`; `vllm bench sweep startup` writes a list of them for each
combination (`summary.json`) and all as a table (`summary.csv`, by pandas).
"""

from __future__ import annotations

import csv
import json
from collections.abc import Iterator, Mapping
from typing import Any

from parsers.base import Dialect
from parsers.engine.convert import literal_of, text_of
from warmup_insights.model.events import BenchmarkResult, Event, Note, RunStarted
from warmup_insights.secrets import mask

MAX_BYTES = 16 << 20
MAX_FACTORS = 5000
MAX_RESULTS = 1000
_HASHES = {
    "env_hash": "env", "config_hash": "config", "compiler_hash": "compiler",
    "code_hash": "code",
}  # fmt: skip
_STARTUP = "avg_cold_startup_time"

DIALECT = Dialect(
    name="vllm-json",
    title="JSON files that vLLM writes: factors of its compile cache, start-up benchmarks",
    versions="v0.11 to 2026-11",
    source="compilation/backends.py; benchmarks/startup.py, benchmarks/sweep/startup.py",
    rules=(),
    sample='{"code_hash": "a", "compiler_hash": "b", "config_hash": "c", "env": '
    '{"VLLM_NIXL_SIDE_CHANNEL_PORT": 5600}}',
)


def looks_like_vllm_json(block: bytes) -> bool:
    """Whether a file that begins with this block is one of these."""
    if block.lstrip()[:1] not in (b"{", b"["):
        return _is_table(block)
    is_key = b'"config_hash"' in block or b'"compiler_hash"' in block
    return is_key or f'"{_STARTUP}"'.encode() in block


def read_vllm_json(data: bytes) -> list[Event] | None:
    """The events of the run that the file stands for; None when it is not whole."""
    try:
        found = _table(data) if _is_table(data) else json.loads(data)
    except (ValueError, RecursionError, csv.Error):
        return None
    if isinstance(found, dict) and not found.keys().isdisjoint(_HASHES):
        return [RunStarted(engine="vllm"), _cache_key(found)]
    results = found if isinstance(found, list) else [found]
    kept = [each for each in results if isinstance(each, dict) and _STARTUP in each]
    if not kept:
        return None
    return [
        RunStarted(engine="vllm"),
        *(BenchmarkResult(values=_masked(each)) for each in kept[:MAX_RESULTS]),
    ]


def _is_table(block: bytes) -> bool:
    """Whether this begins with the heading of `summary.csv`."""
    heading = block[:20_000].partition(b"\n")[0]
    return _STARTUP.encode() in heading.rstrip(b"\r").split(b",")


def _table(data: bytes) -> list[dict[str, Any]]:
    """The rows of `summary.csv`; cells that are empty are no figures."""
    lines = data.decode("utf-8", "replace").splitlines()
    return [
        {name: _cell(text) for name, text in row.items() if name and text}
        for row in csv.DictReader(lines)
    ]


def _cell(text: str) -> Any:
    """A number, a list or a mapping as Python prints it; other text as it is."""
    return literal_of(text) if text[:1] in "[{-.0123456789" else text


def _masked(values: Mapping[str, Any]) -> dict[str, Any]:
    return {text_of(str(key)): mask(str(key), value) for key, value in values.items()}


def _cache_key(found: Mapping[str, Any]) -> Note:
    hashes = {name: found[key] for key, name in _HASHES.items() if key in found}
    factors: dict[str, str] = {}
    for part in _HASHES.values():
        for name, value in _flat(part, found.get(part), 0):
            if len(factors) < MAX_FACTORS:
                factors[name] = value
    return Note(
        topic="compile_cache_key",
        text="factors of the compile cache, from its directory",
        values={
            "hashes": {name: str(value)[:100] for name, value in hashes.items()},
            "factors": factors,
        },
    )


def _flat(name: str, value: object, depth: int) -> Iterator[tuple[str, str]]:
    """Names joined by points, to values as text; lists stay whole."""
    if isinstance(value, dict) and depth < 6:
        for key, inner in value.items():
            yield from _flat(f"{name}.{text_of(str(key))[:200]}", inner, depth + 1)
    elif value is not None or depth:
        text = value if isinstance(value, str) else json.dumps(value, default=str)
        yield name, text_of(str(mask(name.rpartition(".")[2], text)))[:300]
