"""What the examples of docs/export.md print: cog runs them, a test compares the page.

Commands run in a temporary folder in which `server.log` is a copy of a sample.
"""

from __future__ import annotations

import contextlib
import io
import os
import re
import shlex
import tempfile
from collections.abc import Iterator, Sequence
from pathlib import Path

from click.testing import CliRunner
from opentelemetry.sdk.trace import ReadableSpan

from warmup_insights.cli import cli
from warmup_insights.cli.loading import open_run
from warmup_insights.export.otlp import make_spans
from warmup_insights.runs import current

ROOT = Path(__file__).resolve().parents[1]
SAMPLE = ROOT / "sample_logs" / "vllm-fork" / "warmup_doc_capture.log"
NAME = "server.log"
SHOWN = ("warmup_insights.category", "warmup_insights.status")
WRITTEN = 1_754_150_000
"""When the file was written, which gives its timestamps their year."""


def commands(*lines: str, only: str = "") -> str:
    """Commands, each with what it prints; of that, lines that have one of some words."""
    with _folder():
        parts = []
        for line in lines:
            printed = _run(line).splitlines()
            kept = [t for t in printed if any(word in t for word in only.split("|"))]
            parts += [f"$ {line}", *kept]
    return _block("console", "\n".join(parts))


def python(command: str, code: str) -> str:
    """A program that reads what a command wrote, and what it prints."""
    printed = io.StringIO()
    with _folder(), contextlib.redirect_stdout(printed):
        _run(command)
        exec(compile(code, "example", "exec"), {})  # text of this project's page
    shown = f"$ {command}"
    return "\n".join([
        _block("console", shown), _block("python", code.strip()),
        _block("text", printed.getvalue().rstrip()),
    ])  # fmt: skip


def summary(command: str) -> str:
    """A check as in GitHub Actions: what it prints, and the summary of its job."""
    with _folder() as folder:
        job = folder / "summary.md"
        printed = _run(command, GITHUB_ACTIONS="true", GITHUB_STEP_SUMMARY=str(job))
        text = job.read_text(encoding="utf-8")
    # Headings would be headings of the page.
    lines = re.sub(
        r"^#+ (.*)$", r"**\1**", text.strip(), flags=re.MULTILINE
    ).splitlines()
    quoted = "\n".join(f"> {line}".rstrip() for line in lines)
    notes = [line for line in printed.splitlines() if line.startswith("::")]
    return f"{_block('text', chr(10).join(notes))}\n{quoted}\n"


def spans() -> str:
    """The spans of the sample as a tree, with some of their attributes."""
    with _folder(), open_run("absent.db", NAME) as (store, record):
        found = make_spans(current(store, record), store.events(record.run_id))
    resource = found[0].resource.attributes
    lines = [f"service.name={resource['service.name']}", *_tree(found, None, 0)]
    return _block("text", "\n".join(lines))


def _tree(
    spans: Sequence[ReadableSpan], around: int | None, depth: int
) -> Iterator[str]:
    """A line for each span in that one, in the order of their starts."""
    inside = [s for s in spans if around == (s.parent.span_id if s.parent else None)]
    for span in sorted(inside, key=lambda span: span.start_time or 0):
        seconds = ((span.end_time or 0) - (span.start_time or 0)) / 1e9
        words = [
            f"{key}={value}" for key, value in (span.attributes or {}).items()
            if key in SHOWN and value != "stage"
        ]  # fmt: skip
        name = "  " * depth + span.name
        yield f"{name:24}{seconds:5.1f} s  {' '.join(words)}".rstrip()
        yield from _tree(spans, span.get_span_context().span_id, depth + 1)


@contextlib.contextmanager
def _folder() -> Iterator[Path]:
    """The current folder until the end: a new one with the sample."""
    before = Path.cwd()
    with tempfile.TemporaryDirectory() as name:
        log = Path(name) / NAME
        log.write_bytes(SAMPLE.read_bytes())
        os.utime(log, (WRITTEN, WRITTEN))
        os.chdir(name)
        try:
            yield Path(name)
        finally:
            os.chdir(before)


def _run(line: str, **more: str) -> str:
    """What a command of this project prints."""
    program, *arguments = shlex.split(line)
    assert program == "warmup-insights", line
    done = CliRunner(env={"COLUMNS": "100", **more}).invoke(cli, arguments)
    if not isinstance(done.exception, SystemExit | None):
        raise done.exception
    return done.output


def _block(kind: str, text: str) -> str:
    return f"\n```{kind}\n{text}\n```\n"
