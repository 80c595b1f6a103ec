"""Logs whose lines are JSON objects, whatever their keys are called.

The message goes through the rules of the other dialects. Sources: vLLM
`VLLM_LOGGING_CONFIG_PATH` with python-json-logger (its own default has only
`message`), container runtimes (`log`, `stream`, `time`), and the keys planned upstream
(asctime, levelname, name, vllm_process_name, process, message).
"""

from __future__ import annotations

from parsers.base import Dialect

DIALECT = Dialect(
    name="json",
    title="JSON-formatted logs",
    versions="any",
    source="VLLM_LOGGING_CONFIG_PATH; container runtimes",
    rules=(),
    sample='{"asctime": "2026-01-21 08:28:33,853", "levelname": "INFO", "message": '
    '"Warmup finished in 49 secs, allocated 14.19 GiB of device memory"}',
)
