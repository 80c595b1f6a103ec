"""A run, or several side by side, as one HTML file that needs no server and no network.

What the run page and the compare page hold, in their order; every chart has its table.
Text from logs is escaped by the template, and the file's own policy lets no script run
but the two that it contains, by their hash.
"""

from __future__ import annotations

import base64
import hashlib
from collections.abc import Sequence
from importlib.resources import files

import jinja2
from plotly.offline import get_plotlyjs

from dashboard import shown
from dashboard.report.sections import compared_sections, run_sections
from dashboard.text import visible
from warmup_insights.analysis.sentences import (
    ORDERED,
    contradiction_sentence,
    serving_words,
    start_sentences,
)
from warmup_insights.export.runs import RunWithLines
from warmup_insights.model.summary import RunSummary
from warmup_insights.version import __version__


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
