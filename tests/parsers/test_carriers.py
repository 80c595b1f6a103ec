"""What a log states does not depend on the way that it took: a shipper, a page, a terminal."""

from __future__ import annotations

import codecs
import csv
import io
import json
import re
from collections.abc import Callable, Iterator
from datetime import datetime
from functools import lru_cache
from itertools import pairwise
from typing import Any

import pytest

from tests.helpers import REAL_LOGS, ROOT, public, some_of
from warmup_insights.testing import folded, read

SIZE = 1 << 20
"""Larger logs are left out: they would take most of the time."""
Lines = list[str]


def each(change: Callable[[int, str], str], end: str = "\n") -> Callable[[Lines], str]:
    return lambda lines: "".join(change(i, text) + end for i, text in enumerate(lines))


def in_json(line: str, **fields: Any) -> str:
    return json.dumps({"log": f"{line}\n", "stream": "stderr", **fields})


FIGURE = re.compile(r"(?<=took )\d[\d.]* \w+|(?<=takes )\d[\d.]* \w+")


def with_colours(line: str, escape: str) -> str:
    """The name of a process in vLLM's colours (`utils/system_utils.py`, `_add_prefix`)."""
    colours = rf"{escape}[1;36m\1{escape}[0;0m"
    return re.sub(r"^(\((?:\w[\w ]{0,60} )?pid=\d+\))", colours, line)


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
    "colours, copied": each(lambda _, line: with_colours(line, "")),
    "colours, rsyslog": each(lambda _, line: with_colours(line, "#033") + "#015"),
    "Markdown": each(lambda _, line: FIGURE.sub(r"**\g<0>**", line)),
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
    """The summaries without the places in the file, and the zone that a shipper states."""
    found = []
    for events in read(data)[0].values():
        summary = public(folded(events).summary)
        found.append(without_places(summary))
    return found


def without_places(value: Any) -> Any:
    if isinstance(value, dict):
        places = ("line", "lines", "next_line", "run_id", "source_name", "timezone")
        return {k: without_places(v) for k, v in value.items() if k not in places}
    return [without_places(v) for v in value] if isinstance(value, list) else value


@pytest.mark.parametrize("path", [*logs()])
def test_a_log_states_the_same_whatever_carried_it(path):
    data = path.read_bytes()
    encoding = "utf-16" if data.startswith(codecs.BOM_UTF16_LE) else "utf-8"
    text = data.decode(encoding, "replace")
    lines = text.removesuffix("\n").split("\n")
    expected = facts(data)
    for name in some_of(CARRIERS, path.name, 4):
        if name != "terminal" or path.name not in CUT:
            assert facts(CARRIERS[name](lines).encode()) == expected, name


HEAD = re.compile(
    r"(?:\([A-Za-z_][^)]{0,60}pid=\d+\) )?(?:INFO|DEBUG|WARNING|ERROR) "
    r"(\d\d)-(\d\d) (\d\d):(\d\d):(\d\d)"
)
OTHER_STAMPS = re.compile(r"\d{4}-\d\d-\d\d|\d\d:\d\d:\d\d[ .,]\d{3}|T\d\d:")


@lru_cache(maxsize=1)
def plain() -> dict[str, list[tuple[datetime, str]]]:
    """Logs that nothing carried, with the time of each line; those that go back are left out."""
    found = {}
    for path in (param.values[0] for param in logs()):
        text = path.read_text(encoding="utf-8", errors="replace")
        lines = text.removesuffix("\n").split("\n")
        heads = list(map(HEAD.match, lines))
        times = [datetime(2026, *map(int, m.groups())) for m in heads if m is not None]
        is_plain = (
            len(times) >= 3
            and times[0] < times[-1]
            and len(times) >= 0.9 * len(stamps_in(text))
        )
        goes_back = any(later < time for time, later in pairwise(times))
        if is_plain and not goes_back and OTHER_STAMPS.search(text) is None:
            last, dated = times[0], []
            for head, line in zip(heads, lines, strict=True):
                last = datetime(2026, *map(int, head.groups())) if head else last
                dated.append((last, line))
            found[path.name] = dated
    return found


def stamps_in(text: str) -> list[str]:
    return re.findall(r"(?<!\d)\d\d-\d\d \d\d:\d\d:\d\d", text)


LABELS = ("0: ", " 3: ", "[1,0]<stdout>:", "vllm.log:", "{} ", "E   ")
"""`srun --label`, Open MPI, `grep -H`, `logcli`, pytest."""


@pytest.mark.long
@pytest.mark.parametrize("label", LABELS)
def test_the_first_lines_have_a_label_as_those_that_show_it(label: str):
    for name, dated in plain().items():
        if label not in some_of(LABELS, name, 2):
            continue
        lines = [line for _, line in dated]
        expected = facts("".join(f"{line}\n" for line in lines).encode())
        found = facts("".join(f"{label}{line}\n" for line in lines).encode())
        assert found == expected, name


def seconds(time: datetime) -> int:
    return round((time - datetime(1970, 1, 1)).total_seconds())


def entries(*, newest_first: bool = False, **keys: Callable[[datetime, str], Any]):
    def carry(dated: list[tuple[datetime, str]]) -> str:
        found = [{key: make(*each) for key, make in keys.items()} for each in dated]
        return json.dumps(found[::-1] if newest_first else found)

    return carry


def table(heading: list[str], stamp: Callable[[datetime], str], *, newest_first: bool):
    def carry(dated: list[tuple[datetime, str]]) -> str:
        out = io.StringIO()
        rows = [[stamp(time), line] for time, line in dated]
        csv.writer(out).writerows([heading, *(rows[::-1] if newest_first else rows)])
        return out.getvalue()

    return carry


def line_by_line(form: Callable[[datetime, str], str]):
    return lambda dated: "".join(form(*each) + "\n" for each in dated)


def docker(dated: list[tuple[datetime, str]]) -> str:
    """Docker cuts lines at 16 KiB, and entries go on where no line ended."""
    out = []
    for time, line in dated:
        text = f"{line}\n"
        out += [
            json.dumps({"log": text[at : at + (16 << 10)], "stream": "stderr",
                        "time": f"{time.isoformat()}Z"})
            for at in range(0, len(text), 16 << 10)
        ]  # fmt: skip
    return "".join(f"{entry}\n" for entry in out)


STAMPED: dict[str, Callable[[list[tuple[datetime, str]]], str]] = {
    "docker json-file": docker,
    "fluentd": line_by_line(
        lambda t, s: f"{t.isoformat()}+00:00\tkube.vllm\t{in_json(s)}"
    ),
    "fluent-bit": line_by_line(lambda t, s: json.dumps({"date": seconds(t), "log": s})),
    "vector": line_by_line(
        lambda t, s: json.dumps({"message": s, "timestamp": f"{t.isoformat()}Z"})
    ),
    "journald": line_by_line(
        lambda t, s: json.dumps(
            {"__REALTIME_TIMESTAMP": f"{seconds(t)}000000", "MESSAGE": s}
        )
    ),
    "Loki": line_by_line(
        lambda t, s: json.dumps({"line": s, "timestamp": f"{seconds(t)}000000000"})
    ),
    "Cloud Logging": entries(
        newest_first=True,
        logName=lambda *_: "projects/p/logs/stderr",
        textPayload=lambda _, s: s,
        timestamp=lambda t, _: f"{t.isoformat()}Z",
    ),
    "CloudWatch": lambda dated: json.dumps(
        {"events": json.loads(
            entries(
                timestamp=lambda t, _: seconds(t) * 1000,
                message=lambda _, s: s,
                ingestionTime=lambda t, _: seconds(t) * 1000 + 900,
            )(dated)
        ), "nextForwardToken": "f/1"}, indent=4
    ),
    "Grafana": table(["Time", "Line"], lambda t: f"{t.isoformat()}Z", newest_first=True),
}  # fmt: skip
UNSTAMPED = {
    "Azure": table(
        ["TimeGenerated [UTC]", "LogMessage"],
        lambda t: f"{t.month}/{t.day}/{t.year}, {t:%I:%M:%S}.000 {t:%p}",
        newest_first=False,
    )
}
"""Their times are not read: the lines have those of the engine alone."""


@pytest.mark.long
@pytest.mark.parametrize("name", [*STAMPED, *UNSTAMPED])
def test_a_store_of_logs_gives_out_what_it_was_given(name: str):
    for log, dated in plain().items():
        if name not in some_of([*STAMPED, *UNSTAMPED], log, 3):
            continue
        plainly = "".join(f"{line}\n" for _, line in dated)
        stamped = "".join(f"{time.isoformat()}Z {line}\n" for time, line in dated)
        expected = facts((stamped if name in STAMPED else plainly).encode())
        assert facts({**STAMPED, **UNSTAMPED}[name](dated).encode()) == expected, log
