"""A run summary for a person at a terminal: what matters first."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from rich.console import Console, Group, RenderableType
from rich.markup import escape
from rich.panel import Panel
from rich.table import Table
from rich.text import Text

from warmup_insights.analysis.oddities import oddities
from warmup_insights.analysis.waterfall import memory_parts
from warmup_insights.cli.console import stdout_console
from warmup_insights.units import (
    format_bytes,
    format_count,
    format_duration,
    format_percent,
    format_time,
    parse_isoformat,
)

BAR = 46
_STATUS = {
    "finished": "green", "failed": "bold red", "skipped": "yellow", "running": "cyan",
    "interrupted": "red",
}  # fmt: skip
_PART_STYLES = {
    "weights": "blue", "profiling": "magenta", "margin": "bright_black",
    "graphs": "yellow", "kv_cache": "green", "other": "cyan",
}  # fmt: skip


def one_line(summary: dict[str, Any]) -> str:
    """Status, engine, model and the headline figures."""
    engine = summary["engine"]
    who = " ".join(
        str(part) for part in (engine["name"] or "unknown engine", engine["version"])
        if part
    )  # fmt: skip
    times = summary["time"]
    parts = [
        summary["run_id"], summary["status"], who,
        f"start-up {format_duration(times['wall_s'])}",
        f"warm-up {format_duration(times['warmup_s'])}",
    ]  # fmt: skip
    return "  ".join(parts)


def print_summary(summary: dict[str, Any], console: Console | None = None) -> None:
    """The whole summary."""
    console = console or stdout_console()
    console.print(_head(summary))
    sections = (
        _time, _memory, _buckets, _graphs, _sampler, _defrag, _misses, _benchmarks,
        _oddities,
    )  # fmt: skip
    for section in sections:
        part = section(summary)
        if part is not None:
            console.print()
            console.print(part)


def _head(summary: dict[str, Any]) -> RenderableType:
    status = summary["status"]
    engine, device = summary["engine"], summary["device"]
    text = Text()
    text.append(f"{status}", style=_STATUS.get(status, "bold"))
    text.append(f"   run {summary['run_id']}")
    if summary["label"]:
        text.append(f"   {summary['label']}", style="bold")
    if summary.get("synthetic"):
        text.append("   synthetic figures", style="bold yellow")
    lines = [
        f"{engine['name'] or 'unknown engine'} {engine['version'] or ''}".strip(),
        f"on {device['kind'] or 'an unknown device'} {device['name'] or ''}".strip(),
        f"{summary['ranks']} rank" + ("s" if summary["ranks"] != 1 else ""),
        str(summary["model"] or "unknown model"),
        f"from {summary['source']['kind']} {summary['source']['name'] or ''}".strip(),
    ]
    text.append("\n" + "  ·  ".join(lines))
    times = summary["time"]
    started = format_time(parse_isoformat(times["started_at"]))
    zone = "" if times.get("timezone") else " (time zone unknown, read as UTC)"
    text.append(f"\nstarted {started}{zone}")
    failure = summary["failure"]
    if failure is not None:
        text.append("\n" + failure_text(failure), style="red")
    return Panel(text, expand=False)


def failure_text(failure: dict[str, Any]) -> str:
    """The failure in a sentence or two."""
    where = ""
    if failure["bucket"] is not None:
        where = f" in {failure['phase']} bucket {tuple(failure['bucket'])}"
    free = failure["free_bytes"]
    if free is not None:
        where += f", {format_bytes(free)} free before it"
    message = failure["message"].splitlines()[0] if failure["message"] else ""
    return f"{failure['kind'].replace('_', ' ')}{where}: {message[:300]}"


def _time(summary: dict[str, Any]) -> RenderableType | None:
    times = summary["time"]
    wall = times["wall_s"]
    if not wall:
        return None
    table = _table("Where the time went", f"{format_duration(wall)} in all")
    totals: dict[str, float] = {}
    for phase in times["phases"]:
        totals[phase["name"]] = totals.get(phase["name"], 0.0) + phase["duration_s"]
    rows = sorted(totals.items(), key=lambda item: -item[1])
    for name, seconds in rows:
        _time_row(table, name.replace("_", " "), seconds, wall, "cyan")
    if times["unlogged_s"]:
        _time_row(table, "not in any line", times["unlogged_s"], wall, "bright_black")
    gaps = [gap for gap in times.get("gaps", []) if gap["unlogged_s"] >= 0.02 * wall]
    if not gaps:
        return table
    notes = [
        f"  {format_duration(gap['unlogged_s'])} between line {gap['line']} "
        f"“{gap['before'][:50]}” and line {gap['next_line']} “{gap['after'][:50]}”"
        for gap in gaps[:5]
    ]
    return Group(table, *(Text(note, style="bright_black") for note in notes))


def _table(title: str, note: str = "") -> Table:
    heading = Text(title, style="bold")
    if note:
        heading.append(f"  {note}", style="not bold")
    return Table(
        title=heading, title_justify="left", box=None, show_header=False, pad_edge=False
    )


def _time_row(table: Table, name: str, seconds: float, wall: float, style: str) -> None:
    share = seconds / wall
    bar = Text("█" * max(1, round(share * BAR)), style=style)
    table.add_row(
        f"  {name}", format_duration(seconds), format_percent(100 * share), bar
    )


def _memory(summary: dict[str, Any]) -> RenderableType | None:
    memory = summary["memory"]
    if memory is None:
        return None
    parts = memory_parts(memory)
    total = memory["total_bytes"]
    table = _table("Memory", f"{format_bytes(total)} on the device" if total else "")
    if parts and total:
        bar = Text("  ")
        for part in parts:
            width = round(part["bytes"] / total * (BAR + 20))
            bar.append("█" * width, style=_PART_STYLES[part["name"]])
        for part in parts:
            share = format_percent(100 * part["bytes"] / total)
            mark = Text("■ ", style=_PART_STYLES[part["name"]])
            mark.append(part["label"], style="default")
            table.add_row(Text("  ") + mark, format_bytes(part["bytes"]), share)
        return Group(table, bar, *_memory_notes(memory))
    for name, value in memory.items():
        if value is not None and name.endswith("_bytes"):
            label = name.removesuffix("_bytes").replace("_", " ")
            table.add_row(f"  {label}", format_bytes(value))
    return Group(table, *_memory_notes(memory))


def _memory_notes(memory: dict[str, Any]) -> Iterator[Text]:
    facts = []
    if memory["num_kv_blocks"] is not None:
        facts.append(f"{format_count(memory['num_kv_blocks'])} KV blocks")
    if memory["kv_cache_tokens"] is not None:
        facts.append(f"{format_count(memory['kv_cache_tokens'])} tokens")
    if memory["max_concurrency"] is not None:
        facts.append(f"{memory['max_concurrency']:g} requests at full length")
    if memory["gpu_memory_utilization"] is not None:
        facts.append(f"gpu_memory_utilization {memory['gpu_memory_utilization']:g}")
    if memory["graph_reserved_fraction"] is not None:
        facts.append(f"VLLM_GRAPH_RESERVED_MEM {memory['graph_reserved_fraction']:g}")
    if facts:
        yield Text("  " + "  ·  ".join(facts))


def _buckets(summary: dict[str, Any]) -> RenderableType | None:
    buckets = summary["buckets"]
    if not buckets:
        return None
    table = Table(
        title=Text("Buckets", style="bold"), title_justify="left", box=None,
        pad_edge=False, header_style="bright_black",
    )  # fmt: skip
    table.add_column("  phase")
    for name in ("generated", "omitted", "warmed", "captured", "share", "graph budget",
                 "graph memory", "missed"):  # fmt: skip
        table.add_column(name, justify="right")
    for phase, part in buckets.items():
        captured = format_count(part["captured"])
        if part["captured"] is None and part["captured_reported"] is not None:
            captured = f"? (log says {part['captured_reported']})"
        table.add_row(
            f"  {phase}", format_count(part["generated"]), format_count(part["omitted"]),
            format_count(part["warmed"]), captured,
            format_percent(part["capture_percent"]),
            format_bytes(part["graph_budget_bytes"]),
            format_bytes(part["graph_used_bytes"]), str(part["missed"]),
        )  # fmt: skip
    return table


def _graphs(summary: dict[str, Any]) -> RenderableType | None:
    graphs = summary["graphs"]
    if graphs is None:
        return None
    is_cuda = summary["device"]["kind"] in (None, "cuda")
    text = Text("CUDA graphs  " if is_cuda else "Graph capture  ", style="bold")
    text.append(
        f"{format_count(graphs['captured'])} captured at start in "
        f"{format_duration(graphs['duration_s'])}, {format_bytes(graphs['memory_bytes'])}"
        f" taken, {format_bytes(graphs['estimated_bytes'])} estimated",
        style="not bold",
    )
    lazy = graphs["lazy"]
    if lazy:
        seconds = sum(row["duration_s"] or 0.0 for row in lazy)
        size = sum(row["memory_bytes"] or 0 for row in lazy)
        text.append(
            f"\n  {len(lazy)} captured while serving: {format_duration(seconds)}, "
            f"{format_bytes(size)}",
            style="not bold",
        )
    return text


def _sampler(summary: dict[str, Any]) -> RenderableType | None:
    sampler = summary["sampler"]
    if sampler is None:
        return None
    text = Text("Sampler warm-up  ", style="bold")
    text.append(
        f"{sampler['status']}, batch sizes {sampler['batch_sizes'] or '?'}, "
        f"{format_count(sampler['configs'])} configurations, "
        f"{format_duration(sampler['duration_s'])}",
        style="not bold",
    )
    return text


def _defrag(summary: dict[str, Any]) -> RenderableType | None:
    defrag = summary["defrag"]
    if defrag is None:
        return None
    text = Text("Defragmenter  ", style="bold")
    words = (
        f"warm-up {defrag['status'] or '?'}, thresholds {defrag['thresholds'] or '?'}, "
    )
    words += format_duration(defrag["duration_s"])
    if defrag["reason"]:
        words += f" ({defrag['reason']})"
    runs = defrag["runs"]
    if runs:
        swapped = sum(row["swapped"] or 0 for row in runs)
        words += f"\n  ran {len(runs)} times while serving, {swapped} blocks swapped"
    text.append(words, style="not bold")
    return text


def _misses(summary: dict[str, Any]) -> RenderableType | None:
    misses = summary["misses"]
    if not misses:
        return None
    table = _table("Shapes without a bucket", f"{len(misses)} distinct")
    for miss in sorted(misses, key=lambda row: -row["count"])[:10]:
        fallback = f"ran as {tuple(miss['fallback'])}" if miss["fallback"] else ""
        table.add_row(
            f"  {miss['phase']}",
            str(tuple(miss["shape"])),
            f"{miss['count']} x",
            fallback,
        )
    return table


def _benchmarks(summary: dict[str, Any]) -> RenderableType | None:
    rows = summary["benchmarks"]
    if not rows:
        return None
    table = _table("Benchmark results", f"{len(rows)}")
    for row in rows[:6]:
        facts = [f"{name} {value}" for name, value in list(row.items())[:6]]
        table.add_row("  " + escape(", ".join(facts)))
    return table


def _oddities(summary: dict[str, Any]) -> RenderableType | None:
    found = oddities(summary)
    if not found:
        return None
    table = _table("Worth a look")
    for sentence in found:
        table.add_row(Text(f"  • {sentence}"))
    return table


def print_buckets(rows: list[dict[str, Any]], console: Console | None = None) -> None:
    """Every bucket and what became of it."""
    console = console or stdout_console()
    table = Table(box=None, pad_edge=False, header_style="bold")
    for name in ("phase", "bucket", "state", "time", "memory", "missed"):
        table.add_column(name)
    for row in rows:
        executed = f" ran as {tuple(row['executed'])}" if row["executed"] else ""
        table.add_row(
            escape(row["phase"]), str(tuple(row["bucket"])),
            escape((row["state"] or "") + executed),
            format_duration(row["duration_s"]), format_bytes(row["memory_bytes"]),
            str(row["missed"] or 0),
        )  # fmt: skip
    console.print()
    console.print(table)
