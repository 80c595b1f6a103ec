"""`show`: everything about one run; a headline, then tables, time and memory with bars."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import click
from msgspec import to_builtins

from warmup_insights.analysis.oddities import lacks, oddities
from warmup_insights.analysis.sentences import (
    ORDERED,
    began_text,
    cache_text,
    count_of,
    devices_of_a_rank,
    division_settings,
    extent_text,
    failure_sentence,
    first_request_sentences,
    made_up_word,
    pod_text,
    ranks_text,
    serving_end_sentence,
    serving_words,
    start_sentences,
)
from warmup_insights.cli.loading import open_run
from warmup_insights.cli.options import db_option, json_option
from warmup_insights.cli.printing import print_json, print_tables
from warmup_insights.export.runs import bucket_rows_table
from warmup_insights.export.tables import (
    TextTable,
    excerpt,
    make_list,
    make_table,
    plain,
)
from warmup_insights.model.events import encode
from warmup_insights.model.figures import (
    BY_NAME,
    contradiction_mark,
    part_text,
    text_of,
)
from warmup_insights.model.phases import phase_words
from warmup_insights.model.summary import SHORTEST_S, RunSummary
from warmup_insights.runs import current
from warmup_insights.units import (
    format_bytes,
    format_count,
    format_duration,
    format_percent,
)

MOST_ROWS, MOST_GAPS = 10, 5
"""Of a table that can be long, and of stretches of unlogged time; all are in `--json`."""


@click.command()
@click.argument("run", default="latest")
@db_option
@json_option
@click.option(
    "--events", is_flag=True, help="Print the events themselves, as JSON lines."
)
@click.option(
    "--buckets", is_flag=True, help="List every bucket and what became of it."
)
def show(run: str, db: str, as_json: bool, events: bool, buckets: bool) -> None:
    """RUN is a run id, its first 4 characters or more, a label, `latest` (the last to start; the
    default), or a log."""
    if events and (as_json or buckets):
        raise click.UsageError(
            "--events goes without --json and --buckets; it prints lines of JSON alone"
        )
    with open_run(db, run) as (store, record):
        if events:
            for event in store.events(record.run_id):
                click.echo(encode(event).decode())
            return
        folded = current(store, record)
    if as_json:
        extra = {"bucket_rows": to_builtins(folded.rows)} if buckets else {}
        print_json({**to_builtins(folded.summary), **extra})
        return
    print_summary(folded.summary)
    if buckets:
        print_tables([bucket_rows_table(folded.rows)])


BAR = 46
"""Columns of the bar of a whole."""
_STATUS = {
    "finished": "green", "failed": "red", "skipped": "yellow", "running": "cyan",
    "stopped": "yellow",
}  # fmt: skip


def print_summary(summary: RunSummary) -> None:
    """The whole summary, the answer first."""
    click.echo(plain(" ".join(start_sentences(summary))))
    _print_head(summary)
    tables = [
        _time(summary), _memory(summary), _buckets(summary), _ranges(summary), _graphs(summary),
        _steps(summary), _misses(summary),
        make_list("First requests", first_request_sentences(summary.serving)),
        _graph_uses(summary), _late_compiles(summary), _sleeps(summary),
        _benchmarks(summary),
        make_list("What stands out", [f"• {text}" for text in oddities(summary)]),
        make_list("Not in this log", [f"• {text}" for text in lacks(summary)]),
    ]  # fmt: skip
    print_tables(table for table in tables if table.rows or table.note)


def _print_head(summary: RunSummary) -> None:
    engine, device = summary.engine, summary.device
    click.secho(summary.status, fg=_STATUS.get(summary.status), bold=True, nl=False)
    ended = serving_words(summary)
    if ended is not None:
        click.secho(
            f"   serving: {ended}", fg=None if ended == ORDERED else "red", nl=False
        )
    word = made_up_word(device.kind, summary.synthetic)
    figures = None if word is None else f"{word} figures"
    parts = [f"run {summary.run_id}", summary.label, figures]
    click.echo("".join(f"   {plain(part)}" for part in parts if part))
    facts = [
        f"{engine.name or 'unknown engine'} {engine.version or ''}",
        f"on {device_text(summary)}",
        ranks_text(summary),
        summary.model or "unknown model",
        f"from {summary.source.kind} {summary.source.name or ''}",
    ]
    click.echo("  ·  ".join(map(plain, facts)))
    click.echo(began_text(summary))
    pod = pod_text(summary)
    if pod is not None:
        click.echo(plain(pod))
    if summary.failure is not None:
        click.secho(plain(failure_sentence(summary.failure)), fg="red")
    end = summary.serving_or_none.end
    if end is not None:
        click.secho(plain(serving_end_sentence(summary, end)), fg="yellow")
    click.echo()


def device_text(summary: RunSummary) -> str:
    """Kind and name of the device, the kind once."""
    kind, name = summary.device.kind or "an unknown device", summary.device.name or ""
    text = name if name.startswith(kind) else f"{kind} {name}".rstrip()
    return f"{text} (guessed)" if "device.kind" in summary.guessed else text


def _bar(part: float, whole: float) -> str:
    return "█" * max(1, round(part / whole * BAR))


def _time(summary: RunSummary) -> TextTable:
    times, wall = summary.time, summary.time.wall_s
    phases = sorted(times.seconds_by_phase().items(), key=lambda item: -item[1])
    if times.unlogged_s:
        phases.append(("unlogged time", times.unlogged_s))
    whole = sum(seconds for _, seconds in phases) if wall is None else wall
    if not whole or (summary.is_log and whole < SHORTEST_S):
        return make_list("Time: as far as stated", _time_notes(summary, 0.0))
    rows = [
        (phase_words(name),
         format_duration(seconds) + contradiction_mark(summary, f"phase:{name}"),
         "" if wall is None else format_percent(100 * seconds / wall),
         _bar(seconds, whole))
        for name, seconds in phases
    ]  # fmt: skip
    title = f"Where the time went: {extent_text(summary)}"
    note = "\n".join(_time_notes(summary, whole))
    return make_table(title, ("", "", "", ""), rows, right=(1, 2), note=note)


def _time_notes(summary: RunSummary, wall: float) -> Iterator[str]:
    if summary.compile is not None and summary.compile.seconds is not None:
        yield f"compilation {text_of(summary, 'compile_s')}, as the engine states it"
    if summary.recipes is not None:
        yield (
            f"{text_of(summary, 'recipes')} recipes compiled before ready, "
            f"{text_of(summary, 'recipe_s')} of the compiler's time"
        )
    caches = cache_text(summary)
    if caches is not None:
        yield f"from earlier starts: {caches}"
    if summary.time.engine_init_s is not None:
        yield f"engine initialisation {text_of(summary, 'engine_init_s')}, as the engine states it"
    if summary.time.warmup_s is not None:
        yield f"warm-up {text_of(summary, 'warmup_s')}, as the engine states it"
    yield from _gc_notes(summary)
    gaps = [gap for gap in summary.time.gaps if gap.unlogged_s >= 0.02 * wall]
    for gap in gaps[:MOST_GAPS]:
        yield (
            f"{format_duration(gap.unlogged_s)} between line {gap.line} "
            f"“{excerpt(gap.before)}” and line {gap.next_line} “{excerpt(gap.after)}”"
        )
    if len(gaps) > MOST_GAPS:
        more = count_of(len(gaps) - MOST_GAPS, "more stretch", "more stretches")
        yield f"{more} of unlogged time; --json prints all"


def _gc_notes(summary: RunSummary) -> Iterator[str]:
    if summary.gc is None:
        return
    if summary.gc.seconds is not None:
        yield (
            f"garbage collection {text_of(summary, 'gc_s')} of "
            f"{format_duration(summary.gc.steps_s)} of bucket steps "
            f"({text_of(summary, 'gc_percent')})"
        )
    if summary.gc.warmup_s is not None:
        yield f"garbage collection {text_of(summary, 'gc_warmup_s')} of the warm-up"
    if summary.gc.frozen:
        taken = text_of(summary, "gc_freeze_s")
        yield f"garbage collector frozen before warm-up, in {taken}"


def _memory(summary: RunSummary) -> TextTable:
    memory = summary.memory
    if memory is None:
        return make_list("Memory", [])
    total = memory.total_bytes
    if memory.parts and total:
        rows = [
            (part.label, part_text(summary, part),
             format_percent(100 * part.bytes / total), _bar(part.bytes, total))
            for part in memory.parts
        ]  # fmt: skip
    else:
        rows = [
            (one.title, text_of(summary, name), "", "")
            for name, one in BY_NAME.items()
            if one.group == "memory"
            and one.read(summary) is not None
            and name != "total_bytes"  # is in the title
        ]
    # Those of the division that are no part of the whole; a table without parts has them.
    beside = ("free_bytes", "usable_bytes", "host_weights_bytes", "kv_offload_bytes")
    names = beside if memory.parts and total else ()
    facts = [
        f"{BY_NAME[name].title} {text_of(summary, name)}"
        for name in (*names, "num_kv_blocks", "kv_cache_tokens", "max_concurrency")
        if BY_NAME[name].read(summary) is not None
    ]  # fmt: skip
    facts += division_settings(memory)
    device = "each device" if devices_of_a_rank(summary) > 1 else "the device"
    whole = f": {text_of(summary, 'total_bytes')} on {device}" if total else ""
    return make_table(
        f"Memory{whole}", ("", "", "", ""), rows, right=(1, 2), note="  ·  ".join(facts)
    )


_COLUMNS = {
    "generated": "generated", "omitted": "omitted", "warmed": "warmed",
    "captured": "captured", "capture_percent": "share",
    "graph_budget_bytes": "graph budget", "graph_used_bytes": "graph memory",
    "missed": "missed", "steps_s": "steps", "gc_s": "GC", "compiled": "compiled",
    "reused": "compiled nothing",
}  # fmt: skip
_OF_OTHER_PHASES = ("generated", "warmed")
_ONLY_IF_KNOWN = ("steps_s", "gc_s", "compiled", "reused")


def _buckets(summary: RunSummary) -> TextTable:
    phases, others = summary.buckets or {}, dict(summary.other_phases)
    if summary.multimodal is not None:
        others["multimodal"] = summary.multimodal
    shown = [
        name
        for name in (_COLUMNS if phases else _OF_OTHER_PHASES)
        if name not in _ONLY_IF_KNOWN
        or any(getattr(part, name) is not None for part in phases.values())
    ]
    rows: list[tuple[str, ...]] = []
    for phase, part in phases.items():
        cells = {name: text_of(summary, f"{phase}_{name}") for name in shown}
        if part.captured is None and part.captured_reported is not None:
            cells["captured"] = f"? (reported: {part.captured_reported})"
        rows.append((phase, *cells.values()))
    for phase, other in others.items():
        counts = {name: format_count(getattr(other, name)) for name in _OF_OTHER_PHASES}
        rows.append(
            (phase.replace("_", " "), *(counts.get(name, "") for name in shown))
        )
    header = ("phase", *(_COLUMNS[name] for name in shown))
    return make_table("Buckets", header, rows, right=range(1, len(header)))


def _ranges(summary: RunSummary) -> TextTable:
    """What buckets are made from, a column for each parameter."""
    ranges = summary.bucket_ranges
    names = list(dict.fromkeys(name for each in ranges for name in each.values))
    rows = [
        (
            each.phase,
            each.dimension,
            *(str(each.values.get(name, "")) for name in names),
        )
        for each in ranges
    ]
    header = ("phase", "dimension", *names)
    return make_table("Bucket ranges", header, rows, right=range(2, len(header)))


def _graphs(summary: RunSummary) -> TextTable:
    rows, graphs = [], summary.graphs
    if graphs is not None:
        known = graphs.estimated_bytes is not None
        estimated = f"{text_of(summary, 'graph_estimated_bytes')} estimated" * known
        measured = (graphs.captured, graphs.duration_s, graphs.memory_bytes)
        if any(value is not None for value in measured):
            rows.append(
                (
                    f"{text_of(summary, 'graphs_captured')} captured at start",
                    text_of(summary, "graph_capture_s"),
                    format_bytes(graphs.memory_bytes), estimated,
                )
            )  # fmt: skip
        elif known and not graphs.bars:
            rows.append(("no capture is stated", "", "", estimated))
        else:
            rows += [
                (f"{bar.captured} of {bar.total} captured ({bar.mode})",
                 format_duration(bar.duration_s), "", estimated)
                for bar in graphs.bars
            ]  # fmt: skip
    if graphs is not None and graphs.lazy:
        seconds = sum(row.duration_s or 0.0 for row in graphs.lazy)
        size = sum(row.memory_bytes or 0 for row in graphs.lazy)
        text = f"{len(graphs.lazy)} captured while serving"
        rows.append((text, format_duration(seconds), format_bytes(size), ""))
    is_cuda = summary.device.kind in (None, "cuda")
    title = "CUDA graphs" if is_cuda else "Graph capture"
    return make_table(title, ("", "", "", ""), rows, right=(1, 2))


def _steps(summary: RunSummary) -> TextTable:
    """The other steps of a warm-up: sampler and defragmenter."""
    rows, sampler, defrag = [], summary.sampler, summary.defrag
    if sampler is not None:
        text = (
            f"{sampler.status}, batch sizes {sampler.batch_sizes or '?'}, "
            f"{format_count(sampler.configs)} configurations"
        )
        rows.append(("sampler", text_of(summary, "sampler_s"), text))
    if defrag is not None:
        text = f"{defrag.status or '?'}, thresholds {defrag.thresholds or '?'}"
        if defrag.reason:
            text += f" ({defrag.reason})"
        if defrag.runs:
            swapped = sum(row.swapped or 0 for row in defrag.runs)
            text += f"; ran {len(defrag.runs)} times while serving, {swapped} blocks swapped"
        rows.append(("defragmenter", text_of(summary, "defrag_s"), text))
    return make_table("Other warm-up", ("", "", ""), rows, right=[1])


def _misses(summary: RunSummary) -> TextTable:
    misses = sorted(summary.misses, key=lambda row: -row.count)
    rows = [
        (miss.phase, str(miss.shape), f"{miss.count} x",
         f"ran as {miss.fallback}" if miss.fallback else "")
        for miss in misses[:MOST_ROWS]
    ]  # fmt: skip
    title = f"Bucket misses, distinct shapes: {text_of(summary, 'misses')}"
    return make_table(title, ("", "", "", ""), rows, note=_part_of(misses))


def _graph_uses(summary: RunSummary) -> TextTable:
    """Steps while serving by the size of the graph that they ran in."""
    found = summary.serving_or_none.graph_uses
    rows = [
        (format_count(use.num_tokens), format_count(use.padded_tokens), use.mode,
         format_count(use.count))
        for use in found[:MOST_ROWS]
    ]  # fmt: skip
    title = (
        f"Steps while serving: {text_of(summary, 'graph_steps_percent')} in CUDA graphs, "
        f"{text_of(summary, 'graph_padding_percent')} of their tokens padding"
    )
    header = ("tokens", "ran as", "graph", "steps")
    return make_table(title, header, rows, right=(0, 1, 3), note=_part_of(found))


def _late_compiles(summary: RunSummary) -> TextTable:
    """Kernels and recipes that were compiled while a request waited."""
    found = summary.serving_or_none.jit
    rows = [
        (row.kernel, f"{row.count} x", format_duration(row.after_ready_s),
         format_duration(row.duration_s),
         row.detail or "")
        for row in found[:MOST_ROWS]
    ]  # fmt: skip
    title = f"Kernels and recipes compiled while serving: {len(found)}"
    header = ("", "", "after ready", "took", "")
    return make_table(title, header, rows, right=[1, 2, 3], note=_part_of(found))


def _sleeps(summary: RunSummary) -> TextTable:
    """The last ones: a failure follows them."""
    found = summary.serving_or_none.sleeps
    rows = [
        (row.action.replace("_", " "), format_duration(row.duration_s),
         format_bytes(row.freed_bytes), ", ".join(row.tags))
        for row in found[-MOST_ROWS:]
    ]  # fmt: skip
    header = ("", "took", "freed", "what")
    note = _part_of(found, "the last ")
    return make_table("Sleep mode", header, rows, right=(1, 2), note=note)


def _part_of(found: Sequence[object], which: str = "") -> str:
    """That a table has some of the rows alone; empty where it has all."""
    if len(found) <= MOST_ROWS:
        return ""
    return f"{which}{MOST_ROWS} of {len(found):,}; --json prints all"


_OF_BENCHMARKS = (
    "completed", "failed", "request_throughput", "output_throughput", "mean_ttft_ms",
    "p99_ttft_ms", "mean_tpot_ms",
)  # fmt: skip
"""Results before the settings that they were measured with."""


def _benchmarks(summary: RunSummary) -> TextTable:
    lines = []
    for result in summary.benchmarks[:6]:
        known = [name for name in result if result[name] is not None]
        names = [name for name in _OF_BENCHMARKS if name in known] or known[:6]
        lines.append(
            ", ".join(f"{name} {_plain_value(result[name])}" for name in names)
        )
    return make_list(f"Benchmark results: {len(summary.benchmarks)}", lines)


def _plain_value(value: Any) -> str:
    return f"{value:.6g}" if isinstance(value, float) else str(value)
