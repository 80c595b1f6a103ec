"""A run, or several side by side, as one HTML file that needs no server and no network.

What the run page and the compare page hold, in their order; every chart has its table.
Text from logs is escaped by the template, and the file's own policy lets no script run
but the two that it contains, by their hash.
"""

from __future__ import annotations

import base64
import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from html import unescape
from importlib.resources import files

import jinja2
import pandas as pd
from plotly.offline import get_plotlyjs

from dashboard import comparing, shown
from dashboard.charts.base import Figure, Picture, make_room, mark_synthetic, on_dark
from dashboard.charts.buckets import (
    bucket_map,
    bucket_text,
    buckets_frame,
    late_frame,
    map_axes,
    map_title,
    misses_frame,
    of_phase,
    panels_of,
    phases_in_order,
    sleeps_frame,
)
from dashboard.charts.memory import budget_picture, curve_picture, reserve_picture
from dashboard.charts.steps import (
    captures_picture,
    defrag_picture,
    graph_captures,
    sampler_picture,
    sizes_picture,
    stages_picture,
)
from dashboard.charts.time import (
    gaps_frame,
    phases_frame,
    ranks_picture,
    steps_picture,
    timeline,
    totals_picture,
)
from dashboard.palette import darkened
from dashboard.text import visible
from warmup_insights.analysis.advice import Finding
from warmup_insights.analysis.compare import compare
from warmup_insights.analysis.misses import diagnose
from warmup_insights.analysis.oddities import lacks, oddities
from warmup_insights.analysis.sentences import (
    ORDERED,
    contradiction_sentence,
    count_text,
    serving_words,
    start_sentences,
)
from warmup_insights.analysis.summary import Folded
from warmup_insights.export.comparison import bucket_sets_table
from warmup_insights.export.findings import finding_pairs
from warmup_insights.export.runs import RunWithLines, bucket_rows_table
from warmup_insights.export.tables import TextTable
from warmup_insights.model.figures import known_figures
from warmup_insights.model.summary import RunSummary
from warmup_insights.version import __version__

MOST_ROWS = 2000
"""Rows of a table that are in the file; what is left out is counted below it."""
LONG_LEGEND = 8
"""Entries of a legend beyond which a chart takes the whole width."""


@dataclass(frozen=True)
class Bar:
    """A part of a row of horizontal bars: where it lies, in per cent of the axis."""

    left: float
    width: float
    light: str
    dark: str
    is_hatched: bool
    text: str


@dataclass(frozen=True)
class Chart:
    """A picture for a light and for a dark page, and its data.

    `bars` are its rows where it has horizontal bars: the page draws them without a
    script, so that they are on the screen before the library of charts has been read.
    """

    title: str
    hint: str
    light: str
    dark: str
    height: int
    has_long_legend: bool
    bars: Mapping[str, Sequence[Bar]]
    table: TextTable


@dataclass
class Section:
    """A part of the report; what is empty is left out."""

    title: str
    made_up: str | None = None
    """What stands on its charts when no real device gave their figures."""
    paragraphs: list[str] = field(default_factory=list)
    findings: list[Mapping[str, object]] = field(default_factory=list)
    charts: list[Chart] = field(default_factory=list)
    tables: list[TextTable] = field(default_factory=list)

    @property
    def has_content(self) -> bool:
        """Whether there is anything to show."""
        return bool(self.paragraphs or self.findings or self.charts or self.tables)

    def chart(self, picture: Picture) -> None:
        """Draw a picture for both kinds of page, if it has data."""
        if picture.frame.empty:
            return
        figure = picture.draw(picture.frame)
        entries = make_room(figure)
        if self.made_up is not None:
            mark_synthetic(figure, self.made_up)
        figure.update_layout(template="none")
        height = int(figure.layout.height)
        self.charts.append(
            Chart(
                picture.title, picture.hint, _json(figure), _json(on_dark(figure)),
                height, entries > LONG_LEGEND, _bars(figure), table_of(picture.frame),
            )
        )  # fmt: skip

    def table(self, title: str, frame: pd.DataFrame) -> None:
        """Add a frame as a table, if it has rows."""
        if len(frame):
            self.tables.append(table_of(frame, title))


def _bars(figure: Figure) -> dict[str, list[Bar]]:
    """The rows of a figure of horizontal bars, one of a name; none of any other figure."""
    is_plain = len(figure.data) == 1 or figure.layout.barmode == "stack"
    if not is_plain or any(
        trace.type != "bar" or trace.orientation != "h" for trace in figure.data
    ):
        return {}
    ends = {str(name): 0.0 for name in figure.layout.yaxis.categoryarray or ()}
    places = []
    for number, trace in enumerate(figure.data):
        for index, (name, length) in enumerate(zip(trace.y, trace.x, strict=True)):
            start = ends.get(name, 0.0) if trace.base is None else trace.base[index]
            ends[name] = start + length
            places.append((number, index, name, start, length))
    limits = figure.layout.xaxis.range
    share = 100 / (limits[1] if limits else max(ends.values(), default=0.0) or 1.0)
    rows: dict[str, list[Bar]] = {_plain(name): [] for name in ends}
    for number, index, name, start, length in places:
        trace = figure.data[number]
        shade = _item(trace.marker.color, index)
        bar = Bar(
            left=round(start * share, 3), width=round(length * share, 3),
            light=shade, dark=darkened(shade),
            is_hatched=bool(_item(trace.marker.pattern.shape, index)),
            text=_item(trace.text, index),
        )  # fmt: skip
        rows[_plain(name)].append(bar)
    return rows


def _plain(label: str) -> str:
    """A label of a figure without the markup that figures understand."""
    return unescape(label.replace("<br>", " "))


def _item(values: str | Sequence[str] | None, index: int) -> str:
    """A property of one bar; it may be given once for all of them."""
    return values or "" if values is None or isinstance(values, str) else values[index]


def _json(figure: Figure) -> str:
    """A figure as JSON that cannot end the script element in which it stands."""
    return str(figure.to_json().replace("<", "\\u003c"))


def table_of(frame: pd.DataFrame, title: str = "") -> TextTable:
    """A frame as a table of text."""
    rows = tuple(
        tuple(_cell(value) for value in row)
        for row in frame.head(MOST_ROWS).itertuples(index=False, name=None)
    )
    left = len(frame) - MOST_ROWS
    note = f"{left:,} more rows are not in this file; export has all." * (left > 0)
    return TextTable(title, tuple(map(str, frame.columns)), rows, note=note)


def _cell(value: object) -> str:
    if isinstance(value, tuple):
        return bucket_text(value)
    if value is None or value != value:
        return ""
    if isinstance(value, float):
        return f"{value:,.6g}"
    return visible(value)


MOST_PANELS = 4
"""Maps of a phase whose third dimension varies; the table has all buckets."""


def run_sections(run: RunWithLines) -> list[Section]:
    """The parts of a run, in the order of its page."""
    summary = run.folded.summary
    made_up = shown.provenance(summary)
    known = {contradiction_sentence(broken) for broken in summary.contradictions}
    odd = [visible(text) for text in oddities(summary) if text not in known]
    sections = [
        Section("What stands out", paragraphs=odd),
        Section("Not in this log", paragraphs=lacks(summary)),
        Section(
            "Advice",
            findings=[_finding(found, summary.run_id) for found in run.findings],
        ),
    ]
    for title, add in (
        ("Time", _time),
        ("Memory", _memory),
        ("Buckets and captures", _buckets),
        ("CUDA graphs", _graphs),
        ("Sampler and defragmenter", _stages),
        ("While serving", _late_work),
        ("Settings", _settings),
    ):
        section = Section(title, made_up)
        add(section, run.folded)
        sections.append(section)
    return [*sections[:-1], _figures(run), sections[-1]]


def _finding(finding: Finding, run_id: str) -> dict[str, object]:
    pairs = [
        *finding_pairs(finding, run_id),
        ("Based on", shown.evidence_text(finding)),
    ]
    return {
        "severity": finding.severity, "title": visible(finding.title),
        "pairs": [(name, visible(text)) for name, text in pairs],
        "details": [visible(line) for line in finding.details],
    }  # fmt: skip


def _time(section: Section, folded: Folded) -> None:
    summary = folded.summary
    if not summary.time.phases:
        return
    section.chart(totals_picture(summary))
    hint = "Phases from the beginning on."
    section.chart(Picture("On the clock", hint, phases_frame(summary), timeline))
    section.chart(ranks_picture(summary))
    section.chart(steps_picture(folded))
    section.table("Unlogged time", gaps_frame(summary))


def _memory(section: Section, folded: Folded) -> None:
    section.chart(budget_picture(folded.summary))
    section.chart(reserve_picture(folded.summary))
    section.chart(curve_picture(folded))


def _buckets(section: Section, folded: Folded) -> None:
    summary = folded.summary
    section.chart(captures_picture(summary))
    buckets = buckets_frame(folded.rows)
    for phase in phases_in_order(buckets):
        found = of_phase(buckets, phase)
        if found.empty:
            continue
        axes = map_axes(found, summary.phase(phase), phase)
        panels = {
            f" with {axes.title(axes.panel)} {value}": panel
            for value, panel in panels_of(found, axes).items()
        }
        for where, panel in list((panels or {"": found}).items())[:MOST_PANELS]:
            draw = partial(bucket_map, axes=axes, by="state")
            title = map_title(phase) + where
            section.chart(Picture(title, "One cell per bucket.", panel, draw))
    table = shown.frame_of(bucket_rows_table(folded.rows))
    section.table(f"All {len(table):,} buckets", table)


def _graphs(section: Section, folded: Folded) -> None:
    captures = graph_captures(folded.summary)
    section.chart(sizes_picture(captures, "duration_s"))
    section.chart(sizes_picture(captures, "memory_bytes"))


def _stages(section: Section, folded: Folded) -> None:
    summary = folded.summary
    section.chart(stages_picture(summary))
    if summary.sampler is not None:
        section.chart(sampler_picture(summary.sampler))
    section.chart(defrag_picture(summary))


def _late_work(section: Section, folded: Folded) -> None:
    summary = folded.summary
    section.table("Shapes without a bucket", misses_frame(summary, diagnose(summary)))
    section.table("Compiled while serving", late_frame(summary))
    section.table("Sleep mode", sleeps_frame(summary))


def _settings(section: Section, folded: Folded) -> None:
    settings = shown.config_frame(folded.summary.config)
    section.table(count_text(len(settings), "setting"), settings)
    section.table("Remarks", shown.notes_frame(folded.summary))


def _figures(run: RunWithLines) -> Section:
    """Every known figure, with the line of the log that states it."""
    summary, section = run.folded.summary, Section("Every figure")
    numbers = {key.rpartition(".")[2]: line for key, line in summary.lines.items()}
    rows = []
    for figure in known_figures(summary):
        line = numbers.get(figure.name)
        text = visible(run.lines.get(line or 0, ""))
        rows.append((figure.title, figure.text(summary), str(line or ""), text))
    header = ["figure", "value", "line", "text of the line"]
    section.table("Figures and their evidence", pd.DataFrame(rows, columns=header))
    return section


def compared_sections(runs: Sequence[RunWithLines]) -> list[Section]:
    """Several runs side by side; the first is the baseline."""
    summaries = [run.folded.summary for run in runs]
    result = compare(summaries, [run.folded.rows for run in runs])
    made_up = (
        "some figures are synthetic" if any(map(shown.provenance, summaries)) else None
    )
    section = Section("Comparison", made_up)
    if comparing.run_names(result) != [visible(run.title) for run in result.runs]:
        section.paragraphs += comparing.run_lines(result)
    section.paragraphs += [visible(text) for text in result.reasons]
    section.paragraphs += [visible(note) for note in result.notes]
    section.chart(comparing.phases_picture(result, summaries))
    section.chart(comparing.memory_picture(result))
    figures, _ = comparing.figures_table(result, summaries, full=True)
    partly = comparing.settings_table(result, partly=True)
    for title, frame in (
        ("Figures", figures),
        ("Settings that differ", comparing.settings_table(result)),
        ("Settings that only some runs state", partly),
        ("Unlogged time between the same lines", comparing.gaps_frame(result)),
        ("Bucket sets", shown.frame_of(bucket_sets_table(result))),
        ("Buckets that changed", comparing.bucket_changes(result)),
        ("Bucket misses", comparing.misses_table(result)),
    ):
        section.table(title, frame)
    return [section]


def report_html(runs: Sequence[RunWithLines]) -> str:
    """The report on one run, or the comparison of several, as HTML."""
    summaries = [run.folded.summary for run in runs]
    title = " against ".join(visible(summary.title) for summary in summaries)
    sections = run_sections(runs[0]) if len(runs) == 1 else compared_sections(runs)
    folder = files(__package__)
    environment = jinja2.Environment(
        autoescape=True, undefined=jinja2.StrictUndefined, trim_blocks=True,
        lstrip_blocks=True,
    )  # fmt: skip
    source = (folder / "page.html").read_text(encoding="utf-8")
    draw = source.rpartition("<script>")[2].partition("</script>")[0]
    library = get_plotlyjs()
    return environment.from_string(source).render(
        title=title,
        heads=[_head(summary) for summary in summaries],
        sections=[section for section in sections if section.has_content],
        version=__version__,
        library=library,
        policy=" ".join(_source_hash(script) for script in (library, draw)),
    )


def _source_hash(script: str) -> str:
    digest = hashlib.sha256(script.encode()).digest()
    return f"'sha256-{base64.b64encode(digest).decode()}'"


def _head(summary: RunSummary) -> dict[str, object]:
    """Name, badges, facts and headline figures of a run."""
    alerts = [contradiction_sentence(broken) for broken in summary.contradictions]
    answer, end = start_sentences(summary), serving_words(summary)
    if summary.failure is not None:
        alerts = [*answer, *alerts]
        answer = []
    return {
        "title": visible(summary.title), "status": summary.status,
        "serving_end": end, "is_broken": end not in (None, ORDERED),
        "made_up": shown.provenance(summary), "badges": shown.badges(summary),
        "facts": " · ".join(map(visible, shown.facts(summary))),
        "headline": shown.headline(summary), "answer": [visible(text) for text in answer], "alerts": [visible(text) for text in alerts],
    }  # fmt: skip
