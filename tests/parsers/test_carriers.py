"""What a log states does not depend on the way that it took: a shipper, a page, a terminal."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from tests.helpers import REAL_LOGS, ROOT, public
from warmup_insights.testing import folded, read

SIZE = 1 << 20
"""Larger logs are left out: they would take most of the time."""
Lines = list[str]


def each(change: Callable[[int, str], str], end: str = "\n") -> Callable[[Lines], str]:
    return lambda lines: "".join(change(i, text) + end for i, text in enumerate(lines))


def in_json(line: str, **fields: Any) -> str:
    return json.dumps({"log": f"{line}\n", "stream": "stderr", **fields})


POD = {"namespace_name": "llm", "pod_name": "vllm-0", "container_name": "vllm"}
ACCESS = '10.0.0.1 - - [24/Nov/2026:12:00:00 +0000] "GET /x HTTP/1.1" 200 12 "-" "curl"'
CARRIERS: dict[str, Callable[[Lines], str]] = {
    "Windows": each(lambda _, line: line, "\r\n"),
    "docker compose": each(lambda _, line: f"vllm-1  | {line}"),
    "docker service": each(
        lambda _, line: f"vllm_vllm.1.k2j3h4kj2h34@node-1    | {line}"
    ),
    "docker json-file": each(lambda _, line: in_json(line)),
    "fluent-bit": each(lambda _, line: in_json(line, kubernetes=POD)),
    "kubectl --prefix": each(lambda _, line: f"[pod/llm-0/vllm] {line}"),
    "indented": each(lambda _, line: f"    {line}"),
    "quoted": each(lambda _, line: f"> {line}"),
    "cat -n": each(lambda i, line: f"{i + 1:6}\t{line}"),
    "code block": lambda lines: "\n".join(["My log:", "", "```", *lines, "```", ""]),
    "terminal": each(lambda _, line: f"{line}  "),
    "colours": each(lambda _, line: f"\x1b[0m{line}\x1b[0m"),
    "proxy beside it": each(lambda i, line: line + f"\n{ACCESS}" * (i % 7 == 3)),
}
CUT = ("made_kubernetes_cri.log", "made_hard_wrapped.log")
"""Samples with lines in pieces: what follows a piece is part of the line."""


def logs() -> Iterator[Any]:
    paths = [*(ROOT / "sample_logs").rglob("*.log"), *REAL_LOGS.rglob("*.log")]
    for path in sorted(paths):
        if path.stat().st_size <= SIZE:
            yield pytest.param(path, id=path.name)


def facts(data: bytes) -> list[dict[str, Any]]:
    """The summaries without the places in the file."""
    found = []
    for events in read(data)[0].values():
        summary = public(folded(events).summary)
        found.append(without_places(summary))
    return found


def without_places(value: Any) -> Any:
    if isinstance(value, dict):
        places = ("line", "lines", "next_line", "run_id", "source_name")
        return {k: without_places(v) for k, v in value.items() if k not in places}
    return [without_places(v) for v in value] if isinstance(value, list) else value


@pytest.mark.parametrize("path", [*logs()])
def test_a_log_states_the_same_whatever_carried_it(path):
    data = path.read_bytes()
    text = data.decode("utf-8", "replace")
    lines = text.removesuffix("\n").split("\n")
    expected = facts(data)
    for name, carry in CARRIERS.items():
        if name != "terminal" or path.name not in CUT:
            assert facts(carry(lines).encode()) == expected, name
