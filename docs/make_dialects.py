"""Writes docs/dialects.md from the rules of the parsers and the stored
figures of `python -m tests.audit --keep`.

`python docs/make_dialects.py` rewrites the page; `--check` exits 1 when it is not current.
"""

from __future__ import annotations

import json
import re
import sys
from collections import Counter
from collections.abc import Iterable, Iterator
from pathlib import Path

from parsers import DIALECTS, Dialect, LineRule
from parsers.engine.envelope import peel

PAGE = Path(__file__).with_name("dialects.md")
COVERAGE = Path(__file__).parents[1] / "tests" / "audit" / "coverage.json"
MAX_SAMPLE = 160
HEAD = """\
# Dialects: the logs that can be read

This page is made by `python docs/make_dialects.py` from the rules in `parsers/`; a test
compares them. `warmup-insights dialects` prints the short form.

A rule is one wording of one line. The third column shows a sample of it, cut where it is
long; the second what the line becomes: an event of `warmup_insights/model/events.py`, a signal of
`parsers/engine/signals.py` from several of which events are made, or nothing, for lines that are
known and hold no figure. Collector, container, Ray and logger prefixes may stand in front
of every one, with ANSI colours and progress bars around it; `.gz`, `.zst`, UTF-16 and
Windows line ends are read as they are.
"""


def page() -> str:
    """The text of the page."""
    uses = Counter(rule.name for dialect in DIALECTS for rule in dialect.rules)
    shared = {name for name, count in uses.items() if count > 1}
    parts = [HEAD, *_overview(), *_coverage()]
    parts += [_section(dialect, shared) for dialect in DIALECTS]
    parts += _shared(shared)
    return "\n".join(parts)


def _overview() -> Iterator[str]:
    yield "| dialect | logs of | versions | rules |\n|---|---|---|---|"
    for dialect in DIALECTS:
        rules = len(dialect.rules) or "-"
        yield f"| `{dialect.name}` | {dialect.title} | {dialect.versions} | {rules} |"
    yield ""


def _coverage() -> Iterator[str]:
    yield "## What of the engines' own statements is read\n"
    yield (
        "`python -m tests.audit SOURCE_TREE` renders every printing statement of an engine's\n"
        "sources with known values, gives the lines to the rules and compares what comes\n"
        "back. Rank A is a figure, readiness or the cause of a failure, and wants an event;\n"
        "rank B is a decision or a skipped stage, whose text is enough. Which statements are\n"
        "wanted was judged by reading them (`tests/audit/judgements.tsv`); a statement counts\n"
        "as read if any of its renderings is. Wrong is a figure that came back in another\n"
        "field, unit, phase or sign, or differently from when it was judged.\n"
    )
    yield "| release | statements | rank A read | A and B read | wrong | on |\n|---|---|---|---|---|---|"
    kept = json.loads(COVERAGE.read_text(encoding="utf-8"))
    for release in sorted(kept, key=_release_key):
        row = kept[release]
        (a, of_a), (ab, of_ab) = row["a"], row["ab"]
        yield (
            f"| {release} | {row['statements']} | {a} of {of_a} | {ab} of {of_ab} | "
            f"{row['wrong']} | {row['date']} |"
        )
    yield ""


def _release_key(release: str) -> tuple[str, bool, list[int]]:
    engine, _, version = release.partition(" ")
    return (
        engine,
        not version.lstrip("v")[:1].isdigit(),
        list(map(int, re.findall(r"\d+", version))),
    )


def _section(dialect: Dialect, shared: set[str]) -> str:
    own = [rule for rule in dialect.rules if rule.name not in shared]
    lines = [f"## {dialect.name}", "", f"{dialect.title}, {dialect.versions}."]
    lines[-1] += f" Printed by {dialect.source}."
    if len(own) < len(dialect.rules):
        lines[-1] += " Lines that several dialects print are listed at the end."
    if not dialect.rules:
        lines += ["", "```", _cut(dialect.sample), "```"]
    else:
        lines += ["", *_table(own)]
    return "\n".join(lines) + "\n"


def _shared(names: set[str]) -> Iterator[str]:
    rules = {r.name: r for d in DIALECTS for r in d.rules if r.name in names}
    if not rules:
        return
    users = [d for d in DIALECTS if names & {rule.name for rule in d.rules}]
    yield "## Printed by several dialects\n"
    yield f"{', '.join(f'`{d.name}`' for d in users)} print these alike.\n"
    yield "\n".join(_table(rules.values())) + "\n"


def _table(rules: Iterable[LineRule]) -> Iterator[str]:
    yield "| rule | becomes | sample |\n|---|---|---|"
    for rule in rules:
        sample = _cut(rule.samples[0].line).replace("|", "\\|")
        fence = "``" if "`" in sample else "`"
        yield f"| `{rule.name}` | {_made_by(rule)} | {fence}{sample}{fence} |"


def _made_by(rule: LineRule) -> str:
    """The classes that the rule's samples become."""
    made = {
        type(thing).__name__
        for sample in rule.samples
        for record in peel(sample.line)
        if (match := rule.match(record.message)) is not None
        for thing in rule.make(match)
        if thing is not None
    }
    return ", ".join(f"`{name}`" for name in sorted(made)) or "nothing"


def _cut(line: str) -> str:
    """One line of readable length; what is not printable is shown as an escape."""
    text = "".join(c if c.isprintable() else repr(c)[1:-1] for c in line.strip())
    if len(text) <= MAX_SAMPLE:
        return text
    return text[:MAX_SAMPLE].rpartition(" ")[0] + " …"


def main() -> int:
    """Write the page, or compare it."""
    text = page()
    if "--check" in sys.argv[1:]:
        return int(not PAGE.exists() or PAGE.read_text(encoding="utf-8") != text)
    PAGE.write_text(text, encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
