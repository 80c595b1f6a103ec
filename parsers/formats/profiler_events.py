"""`server_events_*.json` of the high-level profiler of vllm-gaudi.

Source: vllm-gaudi `extension/profiler.py` (`HabanaHighLevelProfiler`): an array of
Chrome trace events that is never closed, written by rank 0. The `warmup` span comes
after everything that ran inside it; forwards are named after the shape that really
ran, `model_forward_bs{batch}_seq{query}_ctx{blocks}_graphs{T|F}`.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator
from typing import Any

from parsers.base import Dialect
from parsers.report import ParseReport
from warmup_insights.model.events import (
    BucketUsed,
    CompileFinished,
    ConfigRecorded,
    Event,
    PhaseMarked,
    RunStarted,
    WarmupFinished,
    WarmupStep,
)

MAX_OBJECT = 1 << 20
MAX_HELD = 500_000
MAX_DAMAGED = 100
"""Events that may be damaged: each is searched for its end, up to that of the block."""
_LARGEST = 1e18
_FORWARD = re.compile(
    r"model_forward_bs(\d{1,9})_seq(\d{1,9})_ctx(\d{1,9})_graphs([TF])"
)
_CONSTANTS = {
    "const_cache_num_blocks": "num_kv_blocks",
    "const_gpu_memory_utilization": "gpu_memory_utilization",
    "const_block_size": "block_size",
}

DIALECT = Dialect(
    name="server-events",
    title="server_events_*.json of the vllm-gaudi high-level profiler",
    versions="v0.10.0 to 2026-08",
    source="vllm_gaudi/extension/profiler.py",
    rules=(),
    sample='[{"pid": 7, "tid": 3, "ph": "X", "name": '
    '"model_forward_bs1_seq128_ctx0_graphsT", "ts": 1.0, "dur": 9.0, "args": null},',
)


def looks_like_events(block: bytes) -> bool:
    """Whether a file that begins with this block is an array of trace events."""
    head = block[:4096].lstrip()
    return head[:1] == b"[" and b'"ph"' in head and b'"ts"' in head


def objects(blocks: Iterable[bytes], report: ParseReport) -> Iterator[dict[str, Any]]:
    """The objects of an array that may never end; damaged ones are counted, and what follows
    too many of them is not looked into."""
    decoder = json.JSONDecoder()
    text, damaged = "", 0
    for block in blocks:
        if damaged == MAX_DAMAGED:
            continue
        text += block.decode("utf-8", "replace")
        position = 0
        while True:
            start = text.find("{", position)
            if start < 0:
                position = len(text)
                break
            try:
                value, position = decoder.raw_decode(text, start)
            except (ValueError, RecursionError):
                if len(text) - start < MAX_OBJECT:
                    position = start
                    break
                report.add_failed(1, "server_events", text[start : start + 200])
                position, damaged = start + 1, damaged + 1
                if damaged == MAX_DAMAGED:
                    report.add_problem(
                        "too many events are damaged; the rest was left out"
                    )
                    position = len(text)
                    break
                continue
            if isinstance(value, dict):
                yield value
        text = text[position:]
    if text.strip(" \r\n,]"):
        report.add_problem("the last event was cut off; it was left out")


def read_events(blocks: Iterable[bytes], report: ParseReport) -> Iterator[Event]:
    """The events of the run that a profile holds."""
    report.lines = 1
    held: list[Event] = []
    started = False
    constants: dict[str, Any] = {}
    for item in objects(blocks, report):
        time = _seconds(item.get("ts"))
        if not started and time is not None:
            started = True
            yield RunStarted(
                engine="vllm-gaudi", device_kind="hpu", time=time, timezone="UTC"
            )
        constants |= _constants(item)
        event = _event(item, time)
        if event is None:
            report.ignored["server_events"] += 1
            continue
        report.matched["server_events"] += 1
        if isinstance(event, WarmupFinished):
            yield from (_step(e) for e in held)
            held = []
            yield from _marks(event)
        if isinstance(event, BucketUsed) and len(held) < MAX_HELD:
            held.append(event)
        else:
            yield event
    yield from held
    if constants:
        yield ConfigRecorded(settings=constants)


def _event(item: dict[str, Any], time: float | None) -> Event | None:
    name, duration = item.get("name"), _seconds(item.get("dur"))
    if not isinstance(name, str) or item.get("ph") != "X":
        return None
    if name == "warmup":
        return WarmupFinished(duration_s=duration, time=time)
    if name.startswith("GRAPH COMPILE"):
        detail = name.partition(":")[2].strip()[:200] or None
        return CompileFinished(
            what="recipe", detail=detail, duration_s=duration, time=time
        )
    match = _FORWARD.fullmatch(name)
    if match is None:
        return None
    shape = (int(match[1]), int(match[2]), int(match[3]))
    phase = "decode" if shape[1] == 1 else "prompt"
    return BucketUsed(
        phase=phase, shape=shape, bucket=shape, duration_s=duration, time=time
    )


def _step(event: Event) -> Event:
    """A forward that turned out to lie inside warm-up."""
    if not isinstance(event, BucketUsed):
        return event
    return WarmupStep(
        phase=event.phase, bucket=event.bucket, executed=event.bucket,
        duration_s=event.duration_s, time=event.time,
    )  # fmt: skip


def _marks(event: WarmupFinished) -> Iterator[Event]:
    """Begin and end of the warm-up span, which carries its start as its time."""
    if event.time is None or event.duration_s is None:
        return
    yield PhaseMarked(
        name="warmup", edge="end", duration_s=event.duration_s,
        time=event.time + event.duration_s,
    )  # fmt: skip


def _constants(item: dict[str, Any]) -> dict[str, Any]:
    args = item.get("args")
    if not isinstance(args, dict):
        return {}
    return {
        ours: args[name]
        for name, ours in _CONSTANTS.items()
        if _is_figure(args.get(name))
    }


def _seconds(value: Any) -> float | None:
    """Seconds from the microseconds of a trace."""
    return float(value) / 1e6 if _is_figure(value) else None


def _is_figure(value: Any) -> bool:
    """Whether a value is a number that can be one of a trace."""
    if isinstance(value, bool) or not isinstance(value, int | float):
        return False
    return -_LARGEST < value < _LARGEST
