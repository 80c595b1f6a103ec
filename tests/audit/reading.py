"""What the rules make of a rendered statement, and whether the figures came back."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

import msgspec

from parsers import all_rules
from parsers.base import LineRule, Made
from parsers.engine.dispatch import Dispatcher
from parsers.engine.envelope import Record, peel
from parsers.engine.signals import FailureLine
from tests.audit.rendering import HOWS, Head, render
from tests.audit.statements import Statement
from warmup_insights.model.events import MemoryBudgetSet, Note
from warmup_insights.model.failure_text import kind_of_message
from warmup_insights.units import GIB, KIB, MIB

OUTCOMES = ("understood", "note", "unreadable", "swallowed", "counted", "silent")
"""Best first: an event or signal, a note, a value that cannot be converted, a rule that
makes nothing, no rule but counted as unknown, no rule and not counted."""
_BYTE_UNITS = {
    "GiB": (GIB,), "GB": (GIB, 10**9), "Gb": (GIB,), "MiB": (MIB,), "MB": (MIB, 10**6),
    "KiB": (KIB,), "bytes": (1,), "B": (1,),
}  # fmt: skip
_TIME_UNITS = {"s": 1.0, "sec": 1.0, "secs": 1.0, "seconds": 1.0, "[secs]": 1.0,
               "second": 1.0, "ms": 1e-3}  # fmt: skip
_NUMBER = re.compile(
    r"(?P<minutes>\d{1,3}):(?P<seconds>\d\d)<|"
    r"(?<![\w.])(?P<number>-?\d[\d,]*(?:\.\d+)?)(?:(?:/-?[\d.]+)?\)?[ -]?"
    r"(?P<unit>\[secs\]|GiB|GB|Gb|MiB|MB|KiB|bytes|B|seconds?|secs?|ms|s)\b)?"
)
"""A number, and its unit: of `12/16 GiB` both numbers have it."""
_OUR_WORDS = ("topic", "name", "edge", "stage", "phase", "kind", "status", "action")
_NOT_FIGURES = ("time", "line", "text", "message", "item_error_s")


@dataclass(frozen=True)
class Printed:
    """A number of a line and the unit behind it."""

    number: float
    unit: str | None


@dataclass
class Reading:
    """What became of a statement."""

    outcome: str = "silent"
    rule: str | None = None
    text: str = ""
    """The line as it was given to the rules."""
    reads: str = ""
    """What was made: `#2` is the second number of the line, `~` a text in it."""
    wrong: list[str] = field(default_factory=list)
    """Figures that the line does not print so."""


def numbers_of(text: str) -> list[Printed]:
    """The numbers of a line in their order."""
    found = []
    start = 0
    while match := _NUMBER.search(text, start):
        start = match.end("number") if match["number"] else match.end()
        if match["minutes"]:
            number = int(match["minutes"]) * 60.0 + int(match["seconds"])
            found.append(Printed(number, "s"))
        else:
            number = float(match["number"].replace(",", "").rstrip("."))
            before = text[max(0, match.start() - 30) : match.start()]
            is_gib = "hbm" in before or "offloaded parameters" in before
            is_gib = is_gib or "KVCACHE_SPACE (GiB)" in text
            found.append(Printed(number, match["unit"] or ("GiB" if is_gib else None)))
    return found


class Reader:
    """Gives statements to the rules of the project."""

    def __init__(self, head: Head) -> None:
        self._head = head
        self._rules = all_rules()

    def read(self, statement: Statement) -> Reading:
        """The best reading of all renderings: a bad guess of a value is no miss."""
        best = Reading()
        for how in HOWS:
            now = self._lines(statement, render(statement.parts, how))
            if not best.text or _order(now) < _order(best):
                best = now
            if best.outcome == "understood":
                best.wrong += self._signs(statement, how)
                break
        return best

    def _signs(self, statement: Statement, how: str) -> list[str]:
        """Figures whose sign is lost when sizes are below zero."""
        text = render(statement.parts, how, negative=True)
        if text == render(statement.parts, how):
            return []
        return [f"below zero: {wrong}" for wrong in self._lines(statement, text).wrong]

    def _lines(self, statement: Statement, text: str) -> Reading:
        best = Reading(text=text)
        for piece in text.split("\n"):
            for record in peel(self._head.line(statement, piece)):
                now = self._record(record)
                if _order(now) < _order(best):
                    best = now
        return best

    def _record(self, record: Record) -> Reading:
        # Without the memory of earlier lines, each is found by its own rule.
        dispatcher = _dispatcher(self._rules)
        dispatcher._last.clear()
        found = dispatcher.find(record.message, record.level, record.file)
        if found is None:
            counted = dispatcher.looks_relevant(record.message, record.level)
            return Reading("counted" if counted else "silent", None, record.message)
        rule, match = found
        try:
            made = [item for item in rule.make(match) if item is not None]
        except (ValueError, OverflowError, IndexError, KeyError):
            return Reading("unreadable", rule.name, record.message)
        if not made:
            return Reading("swallowed", rule.name, record.message)
        return _understood(rule, made, record.message)


def _order(reading: Reading) -> int:
    return OUTCOMES.index(reading.outcome)


_DISPATCHERS: list[Dispatcher] = []


def _dispatcher(rules: tuple[LineRule, ...]) -> Dispatcher:
    if not _DISPATCHERS:
        _DISPATCHERS.append(Dispatcher(rules))
    return _DISPATCHERS[0]


def _understood(rule: LineRule, made: list[Made], message: str) -> Reading:
    printed = numbers_of(message)
    shown, wrong = [], []
    for item in made:
        words = [type(item).__name__]
        for name, value in _fields(item):
            if value == rule.fixed.get(name, ...):
                words.append(f"{name}={value}")
                continue
            if _is_derived(item, name, value):
                words.append(f"{name}=derived")
                continue
            place = _place(name, value, printed)
            if place is None and _is_number(value):
                wrong.append(f"{words[0]}.{name}={value} is not in the line")
            words.append(
                f"{name}=" + (f"#{place}" if place else _short(name, value, message))
            )
        wrong += _phase(item, message)
        shown.append(" ".join(words))
    empty = all(isinstance(item, Note) and not item.values for item in made)
    outcome = "note" if empty else "understood"
    return Reading(outcome, rule.name, message, "; ".join(shown), wrong)


def _is_derived(item: Any, name: str, value: Any) -> bool:
    """Whether it follows from other fields: what is free or usable, a list's length."""
    if name == "count":
        return value == len(getattr(item, "buckets", None) or ())
    if name == "usable_bytes" and isinstance(item, MemoryBudgetSet):
        share, whole = item.gpu_memory_utilization, item.total_bytes
        return None not in (share, whole) and abs(value - whole * share) < 1
    used, total = (getattr(item, f"{n}_bytes", None) for n in ("used", "total"))
    return name == "free_bytes" and None not in (used, total) and value == total - used


def _phase(item: Any, message: str) -> list[str]:
    phase = getattr(item, "phase", None)
    words = {"prompt": ("prompt", "prefill"), "decode": ("decode",)}.get(phase, ())
    if words and not any(word in message.lower() for word in words):
        return [f"{type(item).__name__}.phase={phase} is not in the line"]
    return []


def _fields(item: Any) -> Iterator[tuple[str, Any]]:
    """Names and values of what is set; of a mapping its keys, of a list its members."""
    if isinstance(item, FailureLine):
        yield "kind", item.kind or kind_of_message(item.message)
    for place in msgspec.structs.fields(type(item)) if item is not None else ():
        name, value = place.name, getattr(item, place.name)
        if name in _NOT_FIGURES or value in (place.default, None, [], {}, ""):
            continue
        yield from _leaves(name, value)


def _leaves(name: str, value: Any) -> Iterator[tuple[str, Any]]:
    if isinstance(value, dict):
        for key, inner in value.items():
            yield from _leaves(f"{name}.{key}", inner)
    elif isinstance(value, list | tuple):
        for inner in value:
            yield from _leaves(name, inner)
    else:
        yield name, value


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


def _place(name: str, value: Any, printed: list[Printed]) -> int | None:
    """Which number of the line a field holds, in the unit of the field."""
    if isinstance(value, str) and value.isdigit():
        value = int(value)
    if not _is_number(value):
        return None
    for place, number in enumerate(printed, 1):
        if any(
            abs(value - one) <= 1e-6 * max(1, abs(one)) for one in _as(name, number)
        ):
            return place
    return None


def _as(name: str, printed: Printed) -> list[float]:
    """What a printed number is in the unit of a field; nothing where the units differ."""
    number, unit = printed.number, printed.unit
    if name.endswith("_bytes"):
        scales = _BYTE_UNITS.get(unit, ()) if unit else (1,)
        return [round(number * scale) for scale in scales]
    if name.endswith("_s"):
        if unit is None:
            return [number]
        return [number * _TIME_UNITS[unit]] if unit in _TIME_UNITS else []
    return [number]


def _short(name: str, value: Any, message: str) -> str:
    """A word of ours; `~` for a text that the line holds."""
    is_taken = isinstance(value, str) and name not in _OUR_WORDS and value in message
    return "~" if is_taken else str(value)
