"""Limits on the figures of a run: absolute, or relative to a baseline.

A limit that cannot be checked, because the figure is unknown for the run or the baseline,
does not pass: a gate that the unknown passes guards nothing.
"""

from __future__ import annotations

import math
import re
from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any, Literal

from warmup_insights.analysis.compare import START_GROUPS, Comparability
from warmup_insights.analysis.sentences import article
from warmup_insights.errors import InputError, SettingError
from warmup_insights.model.figures import (
    BY_NAME,
    Figure,
    Unit,
    all_figures,
    contradictory,
    phase_figure,
)
from warmup_insights.model.summary import SCHEMA, STARTS, RunSummary
from warmup_insights.units import parse_duration, parse_size

Side = Literal["max", "min"]

SHORT_NAMES: dict[str, str] = {
    "ready": "ready_s",
    "startup": "wall_s",
    "warmup": "warmup_s",
    "graph-capture": "graph_capture_s",
    "sampler": "sampler_s",
    "defrag": "defrag_s",
    "graph-memory": "graph_memory_bytes",
    "weights": "weights_bytes",
    "kv-cache": "kv_cache_bytes",
    "kv-blocks": "num_kv_blocks",
    "kv-tokens": "kv_cache_tokens",
    "concurrency": "max_concurrency",
    "captured": "captured_percent",
    "misses": "misses",
    "runtime-compiles": "runtime_compiles",
    "unlogged": "unlogged_s",
}
"""Names of options (`--max-warmup`) to names of figures."""

_NUMBER = re.compile(r"([+-]?[0-9]{1,15}(?:\.[0-9]{1,9})?)(.*)", re.S)
_OTHER = re.compile(r"(?:phase:|bench[0-9]{0,9}_).+", re.S)


@dataclass(frozen=True)
class Limit:
    """One limit: a side of a figure, and a value or a step away from the baseline.

    `value` is in the figure's unit, or in percent of the baseline when `is_percent`.
    """

    name: str
    side: Side
    value: float
    text: str
    is_relative: bool = False
    is_percent: bool = False
    start: str | None = None
    """The kind of start that it is for; None for every one."""


@dataclass(frozen=True)
class LimitResult:
    """What became of a limit. `outcome` is `passed`, `broken` or `unknown`."""

    name: str
    title: str
    unit: Unit
    limit: str
    bound: float | None
    value: float | None
    baseline: float | None
    outcome: str
    reason: str
    text: str | None = None
    """The value where it is no number."""


@dataclass(frozen=True)
class CheckResult:
    """All limits of one run.

    `serving_end` is how serving ended, if it did not end well: no part of the start-up
    that is checked, so it breaks no limit.
    """

    run_id: str
    baseline_id: str | None
    results: tuple[LimitResult, ...]
    serving_end: str | None = None

    @property
    def verdict(self) -> str:
        """The result as a message."""
        total = len(self.results)
        count = sum(1 for result in self.results if result.outcome != "passed")
        if total == 1:
            return "The limit does not hold" if count else "The limit holds"
        if not count:
            return f"All {total} limits hold"
        verb = "does" if count == 1 else "do"
        return f"{count} of {total} limits {verb} not hold"

    @property
    def passed(self) -> bool:
        """Whether every limit holds and could be checked."""
        return all(result.outcome == "passed" for result in self.results)

    def as_dict(self) -> dict[str, Any]:
        """Plain values; what `--json` prints."""
        return {"schema": SCHEMA, "passed": self.passed, **asdict(self)}


def parse_limit(name: str, side: Side, text: str) -> Limit:
    """A limit from what a user wrote: `600 s`, `12 GiB`, `100`, `+10%`, `-30 s`.

    With a sign it is relative to the baseline; with a kind of start before it (`warm:60 s`)
    it holds for starts of that kind alone. Names are those of the figures of a
    summary (`warmup_s`), the short ones of `SHORT_NAMES`, `phase:NAME` for the seconds
    of a phase, or `bench_KEY` for a benchmark figure.

    Raises:
        SettingError: there is no such figure, or the value cannot be read.
    """
    option = f"--{side}-{name}" if name in SHORT_NAMES else f"--{side} {name[:60]}"
    kind, colon, rest = text.partition(":")
    if colon:
        start, limit = _start(option, kind), parse_limit(name, side, rest)
        if limit.start is not None:
            raise SettingError(
                f"{option} {text[:40]!r} has two kinds of start; give one"
            )
        return replace(limit, text=text, start=start)
    known = SHORT_NAMES.get(name, name)
    unit = _unit(known)
    match = _NUMBER.fullmatch(text.strip())
    if match is None:
        raise SettingError(_unreadable(option, text, unit))
    suffix = match[2].strip()
    is_relative = match[1][0] in "+-"
    if suffix == "%" and (is_relative or unit != "percent"):
        if not is_relative:
            raise SettingError(
                f"{option} {text} is a percentage of the baseline without a sign; "
                f"write it as +{match[1]}%"
            )
        return Limit(known, side, float(match[1]), text, True, True)
    try:
        value = _value(match[1], suffix, unit)
    except ValueError:
        raise SettingError(_unreadable(option, text, unit)) from None
    if unit == "percent" and not is_relative and value > 100:
        raise SettingError(
            f"{option} {text[:40]} is more than all; a share is at most 100 %"
        )
    return Limit(known, side, value, text, is_relative)


def _start(option: str, text: str) -> str:
    kind = text.strip().replace("-", " ")
    if kind not in STARTS:
        known = ", ".join(name.replace(" ", "-") for name in STARTS)
        raise SettingError(
            f"{option} {text[:40]!r} is no kind of start; use one of {known}, such as "
            "warm:60s"
        )
    return kind


def _value(number: str, suffix: str, unit: Unit) -> float:
    if unit == "s":
        return parse_duration(number.lstrip("+") + suffix)
    if unit == "bytes":
        return float(parse_size(number.lstrip("+") + suffix))
    if suffix not in (("", "%") if unit == "percent" else ("",)):
        raise ValueError(suffix)
    return float(number)


def _unreadable(option: str, text: str, unit: Unit) -> str:
    examples = {"s": "600 s or +10%", "bytes": "12GiB or +5%", "percent": "100"}
    example = examples.get(unit, "0 or +5%")
    return f"{option} {text[:40]!r} is not a limit; write it like {example}"


def _unit(name: str) -> Unit:
    if name not in BY_NAME and not _OTHER.fullmatch(name):
        short = ", ".join(SHORT_NAMES)
        raise SettingError(
            f"There is no figure {name[:60]!r}; use one of {short}, phase:NAME, "
            "bench_KEY, or a name of `compare --json`"
        )
    return find_figure(name, []).unit


def check_run(
    summary: RunSummary, limits: Sequence[Limit], baseline: RunSummary | None = None
) -> CheckResult:
    """Check a run against limits.

    Raises:
        SettingError: no limit is given, or a relative one has no baseline.
        InputError: the baseline ran on another device.
    """
    if not limits:
        raise SettingError("No limit is given; add one such as --max-ready 5min")
    relative = next((limit for limit in limits if limit.is_relative), None)
    if relative is not None and baseline is None:
        raise SettingError(
            f"The limit {relative.text} on {find_figure(relative.name, []).title} is "
            "relative; name what it is relative to with --baseline"
        )
    if baseline is not None:
        _check_device(summary, baseline)
    return CheckResult(
        summary.run_id,
        None if baseline is None else baseline.run_id,
        (
            *_failure(summary),
            *(_check(limit, summary, baseline) for limit in _for(summary, limits)),
        ),
        _serving_end(summary),
    )


def _for(summary: RunSummary, limits: Sequence[Limit]) -> list[Limit]:
    """The limits that hold for this kind of start; of a figure with none of these the
    first, so that a start without a limit does not pass."""
    kind = summary.start.kind
    known = [each for each in limits if each.start is None or each.start == kind]
    covered = {each.name for each in known}
    rest = {each.name: each for each in reversed(limits) if each.name not in covered}
    return [*known, *rest.values()]


def _serving_end(summary: RunSummary) -> str | None:
    end = summary.serving.end if summary.serving is not None else None
    if end is None or end.kind == "shutdown":
        return None
    return f"{end.kind.replace('_', ' ')}: {end.message}"


def _check_device(summary: RunSummary, baseline: RunSummary) -> None:
    reason = Comparability(baseline, summary).device_reason
    if reason is not None:
        raise InputError(
            f"The baseline cannot be held against this run: {reason}; choose a baseline "
            "from the same device"
        )


FAILED = "status"
"""The name of the result that a start-up which failed or was stopped adds to its limits."""


def _failure(summary: RunSummary) -> tuple[LimitResult, ...]:
    """A start-up that failed or was stopped breaks every gate, whatever its limits are."""
    if summary.status == "failed":
        message = summary.failure.message if summary.failure is not None else ""
        reason = f"the start-up failed: {message or 'no reason known'}"
    elif summary.status == "stopped":
        reason = f"the start-up was stopped before it was ready: {summary.stop}"
    else:
        return ()
    nothing = (None, None, None)
    return (
        LimitResult(
            FAILED,
            "start-up",
            "count",
            "finished",
            *nothing,
            "broken",
            reason,
            summary.status,
        ),
    )


def _check(
    limit: Limit, summary: RunSummary, baseline: RunSummary | None
) -> LimitResult:
    figure = find_figure(limit.name, [summary, *([baseline] if baseline else [])])
    value = figure.read(summary)
    base = figure.read(baseline) if baseline is not None else None
    bound = _bound(limit, base)
    reason = _other_start(limit, summary) or _unknown(figure, summary, "run")
    if reason is None and limit.is_relative and baseline is not None:
        if figure.group in START_GROUPS:
            reason = Comparability(baseline, summary).start_reason
        reason = reason or _unknown(figure, baseline, "baseline")
    outcome = "unknown"
    if reason is None and value is not None and bound is not None:
        reason = _excess(limit, figure, summary, value, bound)
        outcome = "broken" if reason else "passed"
    return LimitResult(
        limit.name,
        figure.title,
        figure.unit,
        f"{limit.side} {limit.text}",
        bound,
        value,
        base,
        outcome,
        reason or "",
    )


def _other_start(limit: Limit, summary: RunSummary) -> str | None:
    kind = summary.start.kind
    if limit.start is None or limit.start == kind:
        return None
    if kind is None:
        return "the run does not show which kind of start it was"
    return f"no limit is given for {article(kind)} {kind} start"


def _unknown(figure: Figure, summary: RunSummary, which: str) -> str | None:
    """Why a figure cannot be checked; None when it can."""
    if figure.read(summary) is None:
        return f"the {which} does not state this figure"
    if figure.key in contradictory(summary):
        where = " in the baseline" if which == "baseline" else ""
        return f"the evidence for this figure contradicts itself{where}"
    return None


def _bound(limit: Limit, base: float | None) -> float | None:
    if not limit.is_relative:
        return limit.value
    if base is None:
        return None
    return base + (abs(base) * limit.value / 100 if limit.is_percent else limit.value)


def _excess(
    limit: Limit, figure: Figure, summary: RunSummary, value: float, bound: float
) -> str | None:
    """How a value breaks its bound; None when it holds."""
    # A log rounds to the nearest: half a step does not differ from nothing.
    slack = figure.step(summary) / 2 if limit.is_relative else 0.0
    slack += 1e-9 * max(1.0, abs(bound))
    over = value - bound if limit.side == "max" else bound - value
    if over <= slack or math.isclose(value, bound, rel_tol=1e-12):
        return None
    return "above the limit" if limit.side == "max" else "below the limit"


def find_figure(name: str, summaries: Sequence[RunSummary]) -> Figure:
    """The figure of that name, also one of a phase or a benchmark."""
    if name.startswith("phase:"):
        return phase_figure(name.partition(":")[2])
    known = next((f for f in all_figures(summaries) if f.name == name), None)
    title = name.replace("_", " ")
    return known or Figure(name, title, "number", "serving", None, lambda summary: None)
