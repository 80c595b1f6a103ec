"""A run as the text of an issue, or two runs as before and after, in Markdown.

The headings are those of vLLM's issue templates (`.github/ISSUE_TEMPLATE`: bug report,
performance discussion); vllm-gaudi has no template of its own.
"""

from __future__ import annotations

import html
import re
from collections.abc import Iterable, Iterator, Sequence

from msgspec.structs import replace

from warmup_insights.analysis.compare import compare
from warmup_insights.analysis.sentences import (
    contradiction_sentence,
    serving_sentences,
    start_sentences,
)
from warmup_insights.export.comparison import comparison_tables
from warmup_insights.export.runs import RunWithLines
from warmup_insights.export.tables import (
    TextTable,
    escape_markdown,
    make_table,
    markdown_table,
    plain,
)
from warmup_insights.model.figures import FIGURES, phase_figures
from warmup_insights.model.summary import RunSummary

MAX_LINES = 60
FIRST_TABLES = ("Settings that differ", "Time", "Time by phase", "Memory")
"""Of a comparison, what is not folded."""
_MACHINE = (
    "os", "python_version", "torch_version", "torch_cuda_version", "torch_rocm_version",
    "torch_xpu_version", "cuda_runtime_version", "hip_runtime_version", "rocm_version",
    "xpu_runtime_version", "habana_version", "driver_version", "devices", "vllm_version",
)  # fmt: skip
_PACKAGE = "package."
_VARIABLE = re.compile(r"[A-Z][A-Z0-9_]{2,100}")
_EXPECTED = "**Expected:** <!-- what the engine should have done -->\n"


def issue_markdown(runs: Sequence[RunWithLines]) -> str:
    """The text of an issue about the last of one or two runs; the first is the one before."""
    run = runs[-1]
    parts = ["### Your current environment\n", *_environment(run.summary)]
    if len(runs) > 1:
        parts += ["### Report of performance regression\n", *_before_and_after(runs)]
    else:
        parts += ["### Describe the bug\n", *_seen(run.summary), _EXPECTED]
        parts += _tables(_figures(run.summary))
    for each in runs:
        title = f"Lines of the log of {plain(each.summary.title)}"
        parts += _folded(title, [_fenced(_lines(each))])
    return "\n".join(parts)


def _environment(summary: RunSummary) -> Iterator[str]:
    """What collect_env prints, as far as it is known, and the settings of the engine."""
    engine, device, config = summary.engine, summary.device, summary.config
    facts = {
        "Engine": " ".join(filter(None, (engine.name, engine.version))),
        "Model": summary.model,
        "Device": device.name or device.kind,
        "Ranks": str(summary.ranks) if summary.ranks else None,
        **{name: config.get(name) for name in _MACHINE},
    }
    shown = [f"{name}: {value}" for name, value in facts.items() if value]
    shown += [f"{k}: {v}" for k, v in sorted(config.items()) if k.startswith(_PACKAGE)]
    title = "Environment, as the log and the output of collect_env state it"
    yield from _folded(title, [_fenced(shown)])
    known = {*_MACHINE, *summary.defaults}
    rest = {
        name: value
        for name, value in sorted(config.items())
        if name not in known and not name.startswith(_PACKAGE)
    }
    for title, is_variable in (("Settings", False), ("Environment variables", True)):
        lines = [
            f"{name}={value}"
            for name, value in rest.items()
            if (_VARIABLE.fullmatch(name) is not None) == is_variable
        ]
        if lines:
            yield from _folded(f"{title} ({len(lines):,})", [_fenced(lines)])


def _seen(summary: RunSummary) -> Iterator[str]:
    """What happened, in sentences."""
    sentences = [*start_sentences(summary), *serving_sentences(summary)]
    yield f"**Seen:** {escape_markdown(' '.join(sentences))}\n"
    for broken in summary.contradictions:
        yield f"> {escape_markdown(contradiction_sentence(broken))}\n"


def _before_and_after(runs: Sequence[RunWithLines]) -> Iterator[str]:
    before, after = (run.summary for run in runs)
    yield f"**Before:** {escape_markdown(' '.join(start_sentences(before)))}\n"
    yield f"**After:** {escape_markdown(' '.join(start_sentences(after)))}\n"
    named = [replace(before, label="before"), replace(after, label="after")]
    result = compare(named, [run.folded.rows for run in runs])
    yield from (f"> {escape_markdown(note)}\n" for note in result.notes)
    yield from (f"- {escape_markdown(text)}\n" for text in result.reasons)
    yield from _tables(comparison_tables(result))


def _figures(summary: RunSummary) -> list[TextTable]:
    """Every figure that nothing contradicts; the first tables are not folded."""

    def rows(groups: Iterable[str]) -> list[tuple[str, str]]:
        return [
            (figure.title, figure.text(summary))
            for figure in FIGURES
            if figure.group in groups and figure.trusted(summary) is not None
        ]

    phases = [(f.title, f.text(summary)) for f in phase_figures([summary])]
    tables = (
        ("Time", rows(("time",))), ("Time by phase", phases),
        ("Memory", rows(("memory", "capacity"))), ("Buckets and graphs", rows(("buckets",))),
    )  # fmt: skip
    return [
        make_table(title, ("figure", "value"), found, right=(1,))
        for title, found in tables
        if found
    ]


def _tables(tables: Sequence[TextTable]) -> Iterator[str]:
    """The tables of most interest, then the others folded."""
    for table in tables:
        if table.title in FIRST_TABLES:
            yield markdown_table(table)
    rest = [
        markdown_table(table) for table in tables if table.title not in FIRST_TABLES
    ]
    if rest:
        yield from _folded("More figures", rest)


def _lines(run: RunWithLines) -> list[str]:
    """The lines that state the failure, what contradicts itself and the figures."""
    summary = run.summary
    end = summary.serving_or_none.end
    wanted = [
        summary.failure.line if summary.failure is not None else None,
        end.line if end is not None else None,
        *summary.lines.values(),
    ]
    numbers = [number for number in dict.fromkeys(wanted) if number in run.lines]
    kept = sorted(number for number in numbers[:MAX_LINES] if number is not None)
    return [run.lines[number] for number in kept]


def _folded(title: str, parts: Sequence[str]) -> list[str]:
    """Parts that a reader unfolds; nothing without any."""
    if not any(parts):
        return []
    return [
        f"<details>\n<summary>{html.escape(plain(title))}</summary>\n", *parts,
        "</details>\n",
    ]  # fmt: skip


def _fenced(lines: Sequence[str]) -> str:
    """Text that nothing in it can end or style; empty without a line."""
    if not lines:
        return ""
    text = "\n".join(plain(line) for line in lines)
    longest = max((len(found) for found in re.findall(r"`+", text)), default=0)
    fence = "`" * max(3, longest + 1)
    return f"{fence}text\n{text}\n{fence}\n"
