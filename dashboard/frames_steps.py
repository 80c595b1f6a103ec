"""Frames of single steps: what each cost, per rank, per bucket, per configuration."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

import pandas as pd

from dashboard.palette import phase_meaning
from warmup_insights.analysis.timeline import Timeline
from warmup_insights.model.events import (
    AnyEvent,
    BucketUsed,
    CaptureProgress,
    GraphCaptured,
    LazyCapture,
    SamplerConfig,
    SamplerStep,
)
from warmup_insights.units import MIB, parse_isoformat

COSTLY_KINDS = (
    "warmup_step", "graph_captured", "compile_finished", "lazy_capture",
    "sampler_step", "defrag_step",
)  # fmt: skip
HISTORY_KINDS = (
    "warmup_step", "graph_captured", "graph_skipped", "bucket_miss", "bucket_used",
)  # fmt: skip
_WORDS = {
    "warmup_step": ("warm-up", "warmed"),
    "graph_captured": ("capture", "captured"),
    "compile_finished": ("compile", "compile"),
    "lazy_capture": ("capture while serving", "missed"),
    "sampler_step": ("sampler", "sampler"),
    "defrag_step": ("defragmenter", "defrag"),
}


def rank_phases(events: Iterable[AnyEvent], started_at: str | None) -> pd.DataFrame:
    """The phases of each rank: rank, name, meaning, start_s, duration_s, detail."""
    lanes: dict[int | None, Timeline] = {}
    for event in events:
        lanes.setdefault(event.rank, Timeline()).add(event)
    start = parse_isoformat(started_at)
    rows: list[dict[str, Any]] = []
    for rank in sorted(lanes, key=lambda rank: -1 if rank is None else rank):
        section = lanes[rank].result()
        own = parse_isoformat(section["started_at"])
        if own is None or start is None:
            continue
        rows += [
            {
                "rank": rank,
                "name": phase["name"],
                "meaning": phase_meaning(phase["name"]),
                "start_s": phase["start_s"] + own - start,
                "duration_s": phase["duration_s"],
                "detail": "",
            }
            for phase in section["phases"]
        ]
    columns = ["rank", "name", "meaning", "start_s", "duration_s", "detail"]
    return pd.DataFrame(rows, columns=columns)


def costly_steps(events: pd.DataFrame, limit: int) -> pd.DataFrame:
    """The steps that took longest: name, meaning, duration_s, line, rank, kind."""
    columns = ["name", "meaning", "duration_s", "memory_bytes", "line", "rank", "kind"]
    if events.empty:
        return pd.DataFrame([], columns=columns)
    known = events[events["duration_s"].notna() & (events["duration_s"] > 0)]
    # A recorder states a capture as a step and as a capture; one of them is enough.
    if (known["kind"] == "graph_captured").any():
        known = known[~((known["kind"] == "warmup_step") & (known["mode"] == "graph"))]
    top = known.sort_values("duration_s", ascending=False, kind="stable").head(limit)
    names = _distinct([_step_name(row) for row in top.to_dict("records")], top["line"])
    meanings = [_meaning(row) for row in top.to_dict("records")]
    return top.assign(name=names, meaning=meanings)[columns].reset_index(drop=True)


def _distinct(names: list[str], lines: pd.Series) -> list[str]:
    """Names that differ: those that repeat say their line, else which one they are."""
    seen: dict[str, int] = {}
    result = []
    for name, line in zip(names, lines, strict=True):
        seen[name] = seen.get(name, 0) + 1
        if names.count(name) > 1:
            name += f", line {int(line)}" if _is_known(line) else f" {seen[name]}"
        result.append(name)
    return result


def _step_name(row: Mapping[Any, Any]) -> str:
    words = _WORDS[row["kind"]][0]
    parts = [row["batch_size"], row["query_len"], row["num_blocks"]]
    shape = ", ".join(str(int(part)) for part in parts if _is_known(part))
    phase = row["phase"] if isinstance(row["phase"], str) else ""
    return " ".join(p for p in (phase, words, f"({shape})" if shape else "") if p)


def _meaning(row: Mapping[Any, Any]) -> str:
    is_graph = row["kind"] == "warmup_step" and row["mode"] == "graph"
    return "captured" if is_graph else _WORDS[row["kind"]][1]


def _is_known(value: object) -> bool:
    return isinstance(value, int | float) and not pd.isna(value)


def dimension_costs(buckets: pd.DataFrame, dimension: int) -> pd.DataFrame:
    """Seconds per value of one dimension: value, duration_s, count; known ones only."""
    known = buckets[buckets["duration_s"].notna()]
    frame = pd.DataFrame(
        {
            "value": [bucket[dimension] for bucket in known["bucket"]],
            "duration_s": list(known["duration_s"]),
        }
    )
    grouped = frame.groupby("value", as_index=False).agg(
        duration_s=("duration_s", "sum"), count=("duration_s", "size")
    )
    return grouped.sort_values("value").reset_index(drop=True)


def sampler_cells(
    section: Mapping[str, Any] | None, events: Iterable[AnyEvent], name: Any
) -> pd.DataFrame:
    """The sampler grid: batch_size, config, duration_s.

    Logs name sizes and configurations apart; each was run with each then
    (vllm-gaudi `warmup_sampler`).
    """
    columns = ["batch_size", "config", "duration_s"]
    rows: list[tuple[int, str, float | None]] = []
    configs: dict[str, None] = {}
    for event in events:
        if isinstance(event, SamplerStep):
            rows.append((event.batch_size, name(_config(event)), event.duration_s))
        elif isinstance(event, SamplerConfig):
            configs[name(_config(event))] = None
    if rows:
        frame = pd.DataFrame(rows, columns=columns)
        return frame.groupby(["batch_size", "config"], sort=False, as_index=False).agg(
            duration_s=("duration_s", lambda values: values.sum(min_count=1))
        )
    sizes = (section or {}).get("batch_sizes") or []
    crossed = [(size, config, None) for config in configs for size in sizes]
    return pd.DataFrame(crossed, columns=columns)


def _config(event: SamplerConfig | SamplerStep) -> dict[str, Any]:
    return {
        "temperature": event.temperature,
        "top_p": event.top_p,
        "top_k": event.top_k,
        "batch_changed": event.batch_changed,
    }


def defrag_runs(events: pd.DataFrame, summary: Mapping[str, Any]) -> pd.DataFrame:
    """Live defragmentations with what to draw them over.

    `x` is seconds since ready (or since the first one) where the log has times, else
    their order.
    """
    runs = pd.DataFrame((summary["defrag"] or {}).get("runs") or [])
    if runs.empty:
        return runs
    times = list(events["time"].iloc[: len(runs)]) if len(events) else []
    zero = parse_isoformat(summary["time"]["ready_at"])
    name = "time since ready (s)"
    if len(times) < len(runs) or any(
        value is None or pd.isna(value) for value in times
    ):
        return runs.assign(x=range(1, len(runs) + 1), x_name="in order")
    if zero is None:
        zero, name = times[0], "time since the first one (s)"
    return runs.assign(x=[value - zero for value in times], x_name=name)


def graph_captures(
    events: Iterable[AnyEvent], summary: Mapping[str, Any]
) -> pd.DataFrame:
    """CUDA graphs of the lowest rank: num_tokens, mode, when, duration_s, memory_bytes,
    since_s (of the delayed ones, relative to ready or to the first of them)."""
    rows: list[dict[str, Any]] = []
    ranks: set[int] = set()
    for event in events:
        ranks.add(event.rank or 0)
        if isinstance(event, GraphCaptured) and event.phase not in ("prompt", "decode"):
            rows.append(_capture(event, event.bucket[0], event.mode, "at start"))
        elif isinstance(event, LazyCapture):
            rows.append(_capture(event, event.num_tokens, None, "while serving"))
    kept = [row for row in rows if row["rank"] == min(ranks, default=0)]
    columns = [
        "num_tokens",
        "mode",
        "when",
        "duration_s",
        "memory_bytes",
        "time",
        "line",
    ]
    frame = pd.DataFrame(kept, columns=columns)
    lazy = frame[frame["when"] == "while serving"]["time"].dropna()
    zero = parse_isoformat(summary["time"]["ready_at"])
    name = "time since ready (s)"
    if zero is None:
        zero, name = (
            (lazy.iloc[0] if len(lazy) else 0.0),
            "time since the first one (s)",
        )
    return frame.assign(since_s=frame["time"] - zero, since_name=name)


def _capture(
    event: GraphCaptured | LazyCapture, tokens: int, mode: str | None, when: str
) -> dict[str, Any]:
    return {
        "num_tokens": tokens, "mode": mode, "when": when, "rank": event.rank or 0,
        "duration_s": event.duration_s, "memory_bytes": event.memory_bytes,
        "time": event.time, "line": event.line,
    }  # fmt: skip


def capture_progress(events: Iterable[AnyEvent]) -> pd.DataFrame:
    """The capture bars of a log: mode, captured, total, duration_s; last state each."""
    last: dict[str, CaptureProgress] = {}
    for event in events:
        if isinstance(event, CaptureProgress):
            last[event.mode] = event
    return pd.DataFrame(
        [(e.mode, e.captured, e.total, e.duration_s) for e in last.values()],
        columns=["mode", "captured", "total", "duration_s"],
    )


def padding_frame(events: Iterable[AnyEvent]) -> pd.DataFrame:
    """Padding of the steps while serving: phase, bucket, count, needed, executed and
    padding_ratio; in tokens for prompts, in sequences for decode steps."""
    found: dict[tuple[str, tuple[int, ...]], list[int]] = {}
    for event in events:
        if not isinstance(event, BucketUsed) or len(event.bucket) < 2:
            continue
        entry = found.setdefault((event.phase, event.bucket), [0, 0, 0])
        entry[0] += event.count
        entry[1] += event.count * _work(event.phase, event.shape)
        entry[2] += event.count * _work(event.phase, event.bucket)
    rows = [
        (phase, bucket, count, needed, executed, 1 - needed / executed)
        for (phase, bucket), (count, needed, executed) in found.items()
        if executed
    ]
    columns = ["phase", "bucket", "count", "needed", "executed", "padding_ratio"]
    frame = pd.DataFrame(rows, columns=columns)
    return frame.sort_values("count", ascending=False).reset_index(drop=True)


def _work(phase: str, shape: tuple[int, ...]) -> int:
    return shape[0] if phase == "decode" else shape[0] * shape[1]


def bucket_history(events: pd.DataFrame) -> pd.DataFrame:
    """The events of one bucket: kind, mode, time, duration_s, memory_mib, rank, line."""
    columns = ["kind", "mode", "time", "duration_s", "memory_mib", "rank", "line"]
    if events.empty:
        return pd.DataFrame([], columns=columns)
    return events.assign(
        kind=[str(kind).replace("_", " ") for kind in events["kind"]],
        time=pd.to_datetime(events["time"], unit="s"),
        memory_mib=events["memory_bytes"] / MIB,
    )[columns]


def bucket_columns(bucket: tuple[int, ...]) -> dict[str, int]:
    """The typed columns of the store that hold the numbers of a bucket; empty for four
    numbers, which have none."""
    if len(bucket) == 1:
        return {"query_len": bucket[0]}
    if len(bucket) > 3:
        return {}
    names = ("batch_size", "query_len", "num_blocks")
    return dict(zip(names, bucket, strict=False))
