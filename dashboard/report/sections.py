"""The sections of a report, from the same frames and chart functions as the pages."""

from __future__ import annotations

from collections.abc import Sequence

import pandas as pd

from dashboard import comparing, shown
from dashboard.charts.buckets import (
    bucket_map,
    bucket_text,
    buckets_frame,
    choose_axes,
    filled_in,
    names_for,
    of_phase,
    panels_of,
    phases_in_order,
)
from dashboard.charts.memory import (
    BUDGET_HINTS,
    budget_frame,
    budget_waterfall,
    capture_curve,
    capture_points,
    graph_shares,
    reserved_used,
)
from dashboard.charts.steps import (
    capture_bars,
    capture_frame,
    capture_hint,
    defrag_frame,
    defrag_runs,
    graph_captures,
    graphs_by_size,
    sampler_cells,
    sampler_grid,
    stage_bars,
    stages_frame,
)
from dashboard.charts.time import (
    phase_bars,
    phase_totals,
    phases_frame,
    rank_phases,
    rank_timeline,
    step_bars,
    timeline,
)
from dashboard.comparing import part_stacks, phase_stacks
from dashboard.report.parts import Section, table_of
from dashboard.text import visible
from warmup_insights.analysis.advice import Finding
from warmup_insights.analysis.compare import compare
from warmup_insights.analysis.misses import diagnose
from warmup_insights.analysis.oddities import lacks, oddities
from warmup_insights.analysis.sentences import contradiction_sentence
from warmup_insights.export.findings import finding_pairs
from warmup_insights.export.runs import RunWithLines
from warmup_insights.model.figures import known_figures, text_of
from warmup_insights.model.summary import BucketRow, RunSummary
from warmup_insights.units import format_bytes, format_duration

MOST_PANELS = 4
"""Maps of a phase whose third dimension varies; the table has all buckets."""
COSTLIEST = 15


def run_sections(run: RunWithLines) -> list[Section]:
    """The parts of a run, in the order of its page."""
    summary, rows = run.folded.summary, run.folded.rows
    made_up = shown.provenance(summary)
    known = {contradiction_sentence(broken) for broken in summary.contradictions}
    odd = [visible(text) for text in oddities(summary) if text not in known]
    sections = [
        Section("What stands out", paragraphs=odd),
        Section("Not in this log", paragraphs=lacks(summary)),
        Section("Advice", findings=[_finding(finding) for finding in run.findings]),
    ]
    for title, add in (
        ("Where the time went", _time),
        ("Memory", _memory),
        ("Buckets and captures", _buckets),
        ("CUDA graphs", _graphs),
        ("Sampler and defragmenter", _stages),
        ("Bucket misses", _misses),
        ("Settings", _settings),
    ):
        section = Section(title, made_up)
        add(section, summary, rows)
        sections.append(section)
    return [*sections[:-1], _figures(run), sections[-1]]


def _finding(finding: Finding) -> dict[str, object]:
    pairs = [
        *finding_pairs(finding),
        ("Based on", shown.evidence_text(finding)),
    ]
    return {
        "severity": finding.severity, "title": visible(finding.title),
        "pairs": [(name, visible(text)) for name, text in pairs],
        "details": [visible(line) for line in finding.details],
    }  # fmt: skip


def _step_meaning(row: BucketRow) -> str:
    if row.is_spike:
        return "compile"
    return "captured" if row.capture else "warmed"


def _time(section: Section, summary: RunSummary, rows: Sequence[BucketRow]) -> None:
    wall = summary.time.wall_s
    if wall is None:
        return
    phases = phases_frame(summary)
    hint = f"{text_of(summary, 'wall_s')} in all; unlogged time is hatched."
    section.chart("By phase", hint, phase_totals(phases), phase_bars)
    hint = "Phases from the first line to ready."
    section.chart("On the clock", hint, phases, timeline)
    section.chart(
        "Each rank",
        "Ranks above 0 often print little.",
        rank_phases(summary),
        lambda frame: rank_timeline(frame, wall),
    )
    timed = [(row.duration_s, row) for row in rows if row.duration_s]
    timed = sorted(timed, key=lambda pair: -pair[0])[:COSTLIEST]
    steps = [
        (
            f"{row.phase} {bucket_text(row.bucket)}",
            _step_meaning(row),
            seconds,
            format_duration(seconds),
        )
        for seconds, row in timed
    ]
    section.chart(
        f"The {len(steps)} costliest buckets",
        "All steps of a bucket together."
        + (
            " Those that took a multiple of their neighbours' time have another colour."
            if any(row.is_spike for _, row in timed)
            else ""
        ),
        pd.DataFrame(steps, columns=["name", "meaning", "duration_s", "text"]),
        step_bars,
    )
    gaps = [
        (
            f"{gap.start_s:.1f} s",
            format_duration(gap.unlogged_s),
            str(gap.line or ""),
            visible(gap.before),
            visible(gap.after),
        )
        for gap in summary.time.gaps
    ]
    header = ("from", "gap", "line", "last line before it", "first line after it")
    section.table("Unlogged time", header, gaps)


def _memory(section: Section, summary: RunSummary, rows: Sequence[BucketRow]) -> None:
    memory = summary.memory_or_none
    hint = BUDGET_HINTS[bool(memory.parts)]
    budget = budget_frame(summary)
    section.chart("Memory budget", hint, budget, budget_waterfall)
    section.chart(
        "Graph memory: reserved against used",
        "What was set aside for graphs, and what they took.",
        graph_shares(summary),
        reserved_used,
    )
    points, is_warmup = capture_points(rows)
    limit = memory.graph_budget.total_bytes if memory.graph_budget else None
    section.chart(
        "Memory in the order of warm-up" if is_warmup else "Captures",
        "Step by step, as far as single steps are known.",
        points,
        lambda frame: capture_curve(frame, limit),
    )


def _buckets(section: Section, summary: RunSummary, rows: Sequence[BucketRow]) -> None:
    captures = capture_frame(summary)
    hint = capture_hint(captures)
    section.chart("Warmed and captured", hint, captures, capture_bars)
    buckets = buckets_frame(rows)
    for phase in phases_in_order(buckets):
        part = summary.phase(phase)
        found = filled_in(of_phase(buckets, phase), part)
        if found.empty:
            continue
        names = names_for(len(found["bucket"].iloc[0]), part)
        axes = choose_axes(list(found["bucket"]), names)
        panels = {
            f" with {names[axes.panel or 0]} {value}": panel
            for value, panel in panels_of(found, axes).items()
        }
        for where, panel in list((panels or {"": found}).items())[:MOST_PANELS]:
            section.chart(
                f"{phase.capitalize()} buckets{where}",
                "One cell per bucket.",
                panel,
                lambda frame, axes=axes: bucket_map(frame, axes, by="state"),
            )
    cells = [
        (
            row.phase,
            bucket_text(row.bucket),
            row.state.replace("_", " "),
            format_duration(row.duration_s),
            format_bytes(row.memory_bytes),
        )
        for row in rows
    ]
    header = ("phase", "bucket", "state", "time", "memory")
    section.table(f"All {len(cells):,} buckets", header, cells)


def _graphs(section: Section, summary: RunSummary, rows: Sequence[BucketRow]) -> None:
    if summary.graphs is None:
        return
    captures = graph_captures(summary)
    for by, words in (("duration_s", "Time"), ("memory_bytes", "Memory")):
        section.chart(
            f"{words} by graph size",
            "One bar per captured graph.",
            captures[captures[by].notna()],
            lambda frame, by=by: graphs_by_size(frame, by=by),
        )


def _stages(section: Section, summary: RunSummary, rows: Sequence[BucketRow]) -> None:
    hint = "As far as the run states it."
    section.chart("Warm-up of both", hint, stages_frame(summary), stage_bars)
    if summary.sampler is not None:
        cells = sampler_cells(summary.sampler)
        section.chart(
            "Sampler grid", "Batch size by configuration.", cells, sampler_grid
        )
    section.chart(
        "Defragmentations while serving",
        "From the highest block in use before to after.",
        defrag_frame(summary),
        defrag_runs,
    )


def _misses(section: Section, summary: RunSummary, rows: Sequence[BucketRow]) -> None:
    found = [
        (
            item.phase,
            bucket_text(item.shape),
            str(item.count),
            item.reason(names_for(len(item.shape), summary.phase(item.phase))),
            " ".join(item.settings),
        )
        for item in diagnose(summary)
    ]
    header = ("phase", "shape", "times", "why", "setting")
    section.table("Shapes without a bucket", header, found)
    section.table(
        "Compiled while serving",
        ("kernel", "times", "after ready", "time", "configuration"),
        [
            (
                visible(k.kernel),
                str(k.count),
                format_duration(k.after_ready_s),
                "" if k.duration_s is None else format_duration(k.duration_s),
                visible(k.detail or ""),
            )
            for k in summary.serving_or_none.jit
        ],
    )


def _settings(section: Section, summary: RunSummary, rows: Sequence[BucketRow]) -> None:
    pairs = sorted((visible(k), visible(v)) for k, v in summary.config.items())
    section.table(f"{len(pairs):,} settings", ("setting", "value"), pairs)
    notes = [(visible(n.topic), str(n.count), visible(n.text)) for n in summary.notes]
    section.table("Remarks", ("topic", "times", "text"), notes)


def _figures(run: RunWithLines) -> Section:
    """Every known figure, with the line of the log that states it."""
    summary, section = run.folded.summary, Section("Every figure")
    numbers = {key.rpartition(".")[2]: line for key, line in summary.lines.items()}
    rows = []
    for figure in known_figures(summary):
        line = numbers.get(figure.name)
        text = visible(run.lines.get(line or 0, ""))
        rows.append((figure.title, figure.text(summary), str(line or ""), text))
    header = ("figure", "value", "line", "text of the line")
    section.table("Figures and their evidence", header, rows)
    return section


def compared_sections(runs: Sequence[RunWithLines]) -> list[Section]:
    """Several runs side by side; the first is the baseline."""
    summaries = [run.folded.summary for run in runs]
    result = compare(summaries, [run.folded.rows for run in runs])
    names = comparing.run_names(result)
    made_up = (
        "some figures are synthetic" if any(map(shown.provenance, summaries)) else None
    )
    section = Section("Comparison", made_up)
    section.paragraphs += [visible(text) for text in result.reasons]
    section.paragraphs += [visible(note) for note in result.notes]
    phases = comparing.phases_table(result, summaries)
    section.chart(
        "Where the time went",
        comparing.phases_hint(phases),
        phases,
        lambda frame: phase_stacks(frame, names),
    )
    section.chart(
        "Memory budgets",
        "Each bar is one device, from weights to KV cache.",
        comparing.memory_table(result),
        lambda frame: part_stacks(frame, names),
    )
    figures, _ = comparing.figures_table(result, summaries, full=True)
    partly = comparing.settings_table(result, partly=True)
    for title, frame in (
        ("Figures", figures),
        ("Settings that differ", comparing.settings_table(result)),
        ("Settings that only some runs state", partly),
        ("Unlogged time between the same lines", comparing.gaps_frame(result)),
        ("Bucket sets", comparing.bucket_counts(result)),
        ("Buckets that changed", comparing.bucket_changes(result)),
        ("Bucket misses", comparing.misses_table(result)),
    ):
        if len(frame):
            section.tables.append((title, table_of(frame)))
    return [section]
