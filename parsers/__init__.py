"""Parsers: existing vLLM logs of every dialect become the events of a run."""

from __future__ import annotations

from parsers.base import Dialect, LineRule
from parsers.dialects import (
    reference,
    tpu_inference,
    vllm,
    vllm_bench,
    vllm_fork,
    vllm_gaudi,
    vllm_hpu_plugin,
)
from parsers.formats import (
    collect_env,
    otlp_spans,
    profiler_events,
    vllm_json,
)

_JSON_LINES = Dialect(
    name="json",
    title="JSON-formatted logs",
    versions="any",
    # vLLM with python-json-logger (its own default has only `message`), container
    # runtimes (`log`, `stream`, `time`); messages go through the rules of the others.
    source="VLLM_LOGGING_CONFIG_PATH; container runtimes",
    rules=(),
    sample='{"asctime": "2026-01-21 08:28:33,853", "levelname": "INFO", "message": '
    '"Warmup finished in 49 secs, allocated 14.19 GiB of device memory"}',
)

DIALECTS: tuple[Dialect, ...] = (
    vllm_fork.DIALECT,
    vllm_hpu_plugin.DIALECT,
    vllm_gaudi.DIALECT,
    vllm.DIALECT,
    tpu_inference.DIALECT,
    vllm_bench.DIALECT,
    profiler_events.DIALECT,
    otlp_spans.DIALECT,
    _JSON_LINES,
    vllm_json.DIALECT,
    collect_env.DIALECT,
    reference.DIALECT,
)
"""Every dialect that can be read."""


def all_rules() -> tuple[LineRule, ...]:
    """The rules of all dialects, shared ones once, in the order of the dialects."""
    seen: dict[str, LineRule] = {}
    for dialect in DIALECTS:
        for rule in dialect.rules:
            seen.setdefault(rule.name, rule)
    return tuple(seen.values())


__all__ = ["DIALECTS", "Dialect", "LineRule", "all_rules"]
