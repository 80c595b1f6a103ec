"""Writes the generated blocks of docs/advise.md, docs/check.md and docs/plan.md.

`python docs/make_decisions.py` rewrites them; `--check` exits 1 when one is not current.
A block stands between `<!-- made: NAME -->` and `<!-- end -->`; the rest is hand-written.
"""

from __future__ import annotations

import io
import re
import sys
from collections.abc import Iterable, Sequence
from pathlib import Path

import make_trials

from parsers.files import LogReader
from warmup_insights.analysis.advice import RULES
from warmup_insights.analysis.check import SHORT_NAMES
from warmup_insights.analysis.plan.planning import Plan, Planner, PlanSettings
from warmup_insights.analysis.summary import summarize
from warmup_insights.export.findings import rule_markdown
from warmup_insights.model.figures import BY_NAME
from warmup_insights.model.run import RunRecord
from warmup_insights.rules.setting_lives import LIVES
from warmup_insights.units import format_bytes

DOCS = Path(__file__).parent
PAGES = tuple(DOCS / f"{name}.md" for name in ("advise", "check", "plan"))
LOG = DOCS.parent / "sample_logs" / "vllm-fork" / "warmup_doc_capture.log"
BLOCK = re.compile(r"(<!-- made: ([a-z-]+) -->\n).*?(<!-- end -->)", re.DOTALL)
UNITS = {
    "s": "time: `600s`, `2 min`", "bytes": "size: `12GiB`", "count": "count: `100`",
    "percent": "percent: `100`", "number": "number: `12.5`",
}  # fmt: skip


def table(header: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """A Markdown table."""
    lines = [header, ["---"] * len(header), *rows]
    return "".join(f"| {' | '.join(line)} |\n" for line in lines)


def rules() -> str:
    """The rules of advice."""
    rows = [(f"`{rule.name}`", rule.applies_when, rule.needs) for rule in RULES]
    return table(("rule", "applies when", "needs"), rows)


def sections() -> str:
    """A section for each rule, as `advise --explain` prints it."""
    return "\n".join(rule_markdown(rule) for rule in RULES)


def settings() -> str:
    """From when to when the engines read a setting."""
    rows = [
        (
            f"`{_readable(life.pattern)}`",
            life.engine,
            _version(life.first),
            _version(life.last),
            life.state,
            f"`{_readable(life.instead)}`" if life.instead else "",
            life.because,
        )
        for life in LIVES
    ]
    header = ("setting", "engine", "first", "until", "then", "instead", "why")
    return table(header, rows)


def _version(numbers: tuple[int, ...] | None) -> str:
    return ".".join(map(str, numbers)) if numbers else ""


def _readable(pattern: str) -> str:
    text = pattern.replace("(?:MULTIMODAL_)?", "[MULTIMODAL_]")
    text = re.sub(r"\((?:\?:)?([A-Z_|]+)\)", lambda m: m[1].replace("|", "/"), text)
    return text.replace(r"\1", "...")


def limits() -> str:
    """The options of `check`, and the figures that they limit."""
    rows = []
    for short, name in SHORT_NAMES.items():
        figure = BY_NAME[name]
        side = "min" if figure.better == "higher" else "max"
        unit = UNITS[figure.unit]
        rows.append((f"`--{side}-{short}`", figure.title, f"`{name}`", unit))
    return table(("option", "what", "figure", "written as"), rows)


def _planner() -> Planner:
    events = [
        event
        for batch in LogReader(io.BytesIO(LOG.read_bytes()), LOG.name, year=2026)
        for _, group in batch
        for event in group
    ]
    run = RunRecord(run_id="documented", source_kind="log", source_name=LOG.name)
    folded = summarize(run, events)
    return Planner(folded.summary, folded.rows)


def example() -> str:
    """The documentation's log under other settings."""
    planner = _planner()
    chosen = {
        "as in the log": {},
        "prompt ratio 0.5": {"graph_prompt_ratio": 0.5},
        "reserve 0.2": {"graph_reserved_mem": 0.2},
        "reserve 0.6": {"graph_reserved_mem": 0.6},
    }
    plans = {
        title: planner.plan(PlanSettings(**changes))
        for title, changes in chosen.items()
    }
    header = ("", *plans)
    rows = [
        ("KV blocks", *(f"{plan.num_kv_blocks:,}" for plan in plans.values())),
        ("graph budget", *(format_bytes(p.graph_budget_bytes) for p in plans.values())),
        ("prompt graphs", *(_graphs(plan, "prompt") for plan in plans.values())),
        ("decode graphs", *(_graphs(plan, "decode") for plan in plans.values())),
        ("graph memory", *(format_bytes(p.graph_used_bytes) for p in plans.values())),
        ("at a fitted cost", *(_fitted(plan) for plan in plans.values())),
    ]
    return f"{table(header, rows)}\n{_fit_error(plans['as in the log'])}\n"


def _fit_error(plan: Plan) -> str:
    part = plan.phases["prompt"]
    return (
        f"The fit of prompt memory errs by {part.cost_error_percent:.2g} % in the median and\n"
        f"{part.worst_cost_error_percent:.2g} % at most on figures it was not shown."
    )


def _graphs(plan: Plan, phase: str) -> str:
    part = plan.phases[phase]
    return f"{part.captured} of {part.generated}"


def _fitted(plan: Plan) -> str:
    named = [
        f"`{graph.bucket}`"
        for graph in plan.order
        if graph.source in ("interpolated", "extrapolated")
    ]
    return ", ".join(named) or "none"


def trials() -> str:
    """What advice promised on the reference engine, and what came of it."""
    header = ("what", "rule", "on", "followed", "before", "predicted", "observed")
    return table(header, make_trials.rows())


BLOCKS = {
    "trials": trials, "rules": rules, "sections": sections, "settings": settings, "limits": limits,
    "example": example,
}  # fmt: skip


def made(text: str) -> str:
    """The text of a page with its blocks made anew."""
    return BLOCK.sub(lambda m: f"{m[1]}\n{BLOCKS[m[2]]()}\n{m[3]}", text)


def main() -> int:
    """Write the pages, or name those that are not current."""
    stale = [p for p in PAGES if made(p.read_text("utf-8")) != p.read_text("utf-8")]
    if "--check" in sys.argv:
        for page in stale:
            sys.stderr.write(f"{page} is not current\n")
        return 1 if stale else 0
    for page in stale:
        page.write_text(made(page.read_text("utf-8")), encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
