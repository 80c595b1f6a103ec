"""Frames of single steps: what each cost, per rank, per bucket, per configuration."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

import msgspec
import pandas as pd

from warmup_insights.model.events import Bucket
from warmup_insights.model.summary import (
    GraphFacts,
    RunSummary,
    SamplerConfigFacts,
    SamplerFacts,
    SamplerStepFacts,
    UsedShape,
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
    """Names that differ: those that repeat get their line, else a number."""
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
    """Seconds per value of one dimension: value, duration_s, count; known ones only.

    A spike counts as its neighbours took: another bucket compiles that recipe then.
    """
    known = buckets[buckets["duration_s"].notna()]
    spikes = pd.to_numeric(known["spike_s"]).fillna(0.0)
    frame = pd.DataFrame(
        {
            "value": [bucket[dimension] for bucket in known["bucket"]],
            "duration_s": list(known["duration_s"] - spikes),
        }
    )
    grouped = frame.groupby("value", as_index=False).agg(
        duration_s=("duration_s", "sum"), count=("duration_s", "size")
    )
    return grouped.sort_values("value").reset_index(drop=True)


def sampler_cells(section: SamplerFacts) -> pd.DataFrame:
    """The sampler grid: batch_size, config, duration_s.

    Logs name sizes and configurations apart; each was run with each then
    (vllm-gaudi `warmup_sampler`).
    """
    columns = ["batch_size", "config", "duration_s"]
    rows = [(s.batch_size, config_name(s), s.duration_s) for s in section.steps]
    if rows:
        frame = pd.DataFrame(rows, columns=columns)
        return frame.groupby(["batch_size", "config"], sort=False, as_index=False).agg(
            duration_s=("duration_s", lambda values: values.sum(min_count=1))
        )
    crossed = [
        (size, config_name(config), None)
        for config in section.configurations
        for size in section.batch_sizes or ()
    ]
    return pd.DataFrame(crossed, columns=columns)


def config_name(config: SamplerConfigFacts | SamplerStepFacts) -> str:
    """One sampling configuration in a few characters."""
    changed = ", batch changed" if config.batch_changed else ""
    return f"T {config.temperature:g}, p {config.top_p:g}, k {config.top_k:g}{changed}"


def defrag_runs(summary: RunSummary) -> pd.DataFrame:
    """Live defragmentations with what to draw them over.

    `x` is seconds since ready (or since the first one) where all have a time, else
    their order.
    """
    found = summary.defrag.runs if summary.defrag is not None else []
    runs = pd.DataFrame([msgspec.to_builtins(run) for run in found])
    if runs.empty:
        return runs
    if runs["time"].isna().any():
        return runs.assign(x=range(1, len(runs) + 1), x_name="in order")
    return _since(runs, summary, "x", "x_name")


def graph_captures(summary: RunSummary) -> pd.DataFrame:
    """CUDA graphs: num_tokens, mode, when, duration_s, memory_bytes, line, time and,
    of those captured while serving, since_s (relative to ready or the first of them)."""
    graphs = summary.graphs or GraphFacts()
    rows: list[tuple[Any, ...]] = [
        (c.bucket[0], c.mode, "at start", c.duration_s, c.memory_bytes, c.line, None)
        for c in graphs.captures
        if c.bucket
    ]
    rows += [
        (
            c.num_tokens,
            None,
            "while serving",
            c.duration_s,
            c.memory_bytes,
            None,
            c.time,
        )
        for c in graphs.lazy
    ]
    columns = [
        "num_tokens",
        "mode",
        "when",
        "duration_s",
        "memory_bytes",
        "line",
        "time",
    ]
    frame = pd.DataFrame(rows, columns=columns)
    return _since(frame, summary, "since_s", "since_name")


def _since(
    frame: pd.DataFrame, summary: RunSummary, column: str, name: str
) -> pd.DataFrame:
    """With seconds since ready, else since the first row that has a time."""
    times = frame["time"].astype("float64")
    zero, words = parse_isoformat(summary.time.ready_at), "time since ready (s)"
    if zero is None:
        zero, words = times.min(), "time since the first one (s)"
    frame[column], frame[name] = times - zero, words
    return frame


def padding_frame(uses: Iterable[UsedShape]) -> pd.DataFrame:
    """Padding of the steps while serving: phase, bucket, count, needed, executed and
    padding_ratio; in tokens for prompts, in sequences for decode steps."""
    found: dict[tuple[str, Bucket], list[int]] = {}
    for use in uses:
        if len(use.bucket) < 2:
            continue
        entry = found.setdefault((use.phase, use.bucket), [0, 0, 0])
        entry[0] += use.count
        entry[1] += use.count * _work(use.phase, use.shape)
        entry[2] += use.count * _work(use.phase, use.bucket)
    rows = [
        (phase, bucket, count, needed, executed, 1 - needed / executed)
        for (phase, bucket), (count, needed, executed) in found.items()
        if executed
    ]
    columns = ["phase", "bucket", "count", "needed", "executed", "padding_ratio"]
    frame = pd.DataFrame(rows, columns=columns)
    return frame.sort_values("count", ascending=False).reset_index(drop=True)


def _work(phase: str, shape: Bucket) -> int:
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
