"""How often a regular expression can start over, from its structure alone.

`retries_of` bounds the number of ways in which a backtracking matcher can walk a pattern
from one place in a text: a number, and the power of the text's length that it is
multiplied by. A repetition counts only where it could stop at several places and go on:
where what may follow can also begin another round. Everything is counted as if the text
were as bad as possible, so the bound is often far too high and never too low.
"""

from __future__ import annotations

import importlib
import pkgutil
import re
import warnings
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import reduce
from types import ModuleType
from typing import Any

with warnings.catch_warnings():
    warnings.simplefilter("ignore", DeprecationWarning)
    # The parser of the standard library, under its name before Python 3.11.
    _parser = importlib.import_module(
        "re._parser" if hasattr(re, "_parser") else "sre_parse"
    )

MAXREPEAT = _parser.MAXREPEAT
ALPHABET = [chr(code) for code in range(256)] + list("дЖ│ …٣ ")
"""Characters that stand for all: every class that occurs tells them apart enough."""
EVERY = frozenset(ALPHABET)
_CATEGORIES = {
    "CATEGORY_DIGIT": r"\d", "CATEGORY_NOT_DIGIT": r"\D", "CATEGORY_SPACE": r"\s",
    "CATEGORY_NOT_SPACE": r"\S", "CATEGORY_WORD": r"\w", "CATEGORY_NOT_WORD": r"\W",
}  # fmt: skip
_CLASSES = {
    name: frozenset(char for char in ALPHABET if re.fullmatch(text, char))
    for name, text in _CATEGORIES.items()
}
_REPEATS = ("MAX_REPEAT", "MIN_REPEAT")
_ZERO_WIDTH = ("AT", "ASSERT", "ASSERT_NOT")

Chars = frozenset[str]


@dataclass(frozen=True)
class Retries:
    """At most `count` times the length of the text to the power of `degree`."""

    count: int = 1
    degree: int = 0

    def times(self, other: Retries) -> Retries:
        """One after the other."""
        return Retries(self.count * other.count, self.degree + other.degree)

    def plus(self, other: Retries) -> Retries:
        """One or the other."""
        return Retries(self.count + other.count, max(self.degree, other.degree))


class Nested(Exception):
    """A repetition of something that can itself be walked in several ways."""


def retries_of(pattern: str, flags: int = 0) -> Retries:
    """The bound of a pattern. Raises Nested where there is none worth the name."""
    folded = bool(flags & re.IGNORECASE)
    return _sequence(list(_parser.parse(pattern, flags)), frozenset(), folded)


def has_unbounded_scan(pattern: str, flags: int = 0) -> bool:
    """Whether a repetition without an end stands before the last element.

    A search would walk it again from every place of the text.
    """
    return _scans(list(_parser.parse(pattern, flags)))


def _scans(items: list[Any]) -> bool:
    *before, last = items or [None]
    if any(_is_endless(item) for item in before):
        return True
    if last is None or str(last[0]) in _REPEATS:
        return last is not None and _scans_inside(last)
    return any(_scans(inner) for inner in _inner(last))


def _scans_inside(item: Any) -> bool:
    return any(_is_endless(inner) for inner in item[1][2])


def _is_endless(item: Any) -> bool:
    """Whether an element has a repetition without an end anywhere in it."""
    if str(item[0]) in _REPEATS and item[1][1] == MAXREPEAT:
        return True
    return any(_is_endless(part) for inner in _inner(item) for part in inner)


def _inner(item: Any) -> list[list[Any]]:
    """The sequences inside an element."""
    kind, value = str(item[0]), item[1]
    if kind in (*_REPEATS, "POSSESSIVE_REPEAT"):
        return [list(value[2])]
    if kind == "SUBPATTERN":
        return [list(value[3])]
    if kind == "BRANCH":
        return [list(branch) for branch in value[1]]
    if kind == "ATOMIC_GROUP":
        return [list(value)]
    return []


def _sequence(items: list[Any], follow: Chars, folded: bool) -> Retries:
    total = Retries()
    for index, item in enumerate(items):
        rest, is_empty = _first(items[index + 1 :], folded)
        total = total.times(_element(item, rest | follow if is_empty else rest, folded))
    return total


def _element(item: Any, follow: Chars, folded: bool) -> Retries:
    kind = str(item[0])
    if kind in _REPEATS:
        return _repeat(item, follow, folded)
    if kind == "BRANCH":
        return _branch(_inner(item), follow, folded)
    if kind == "SUBPATTERN":
        return _sequence(_inner(item)[0], follow, folded)
    if kind in ("LITERAL", "NOT_LITERAL", "ANY", "IN", *_ZERO_WIDTH):
        return Retries()
    if kind in ("ATOMIC_GROUP", "POSSESSIVE_REPEAT"):
        return Retries()
    raise ValueError(f"{kind} is not counted yet")


def _repeat(item: Any, follow: Chars, folded: bool) -> Retries:
    least, most, _ = item[1]
    (body,) = _inner(item)
    first, _ = _first(body, folded)
    inside = _sequence(body, first | follow if most > 1 else follow, folded)
    if most == 1:
        return inside.plus(Retries()) if first & follow else inside
    if inside != Retries():
        raise Nested(f"{least} to {most} rounds of what has {inside}")
    if not first & follow or least == most:
        return Retries()
    if most == MAXREPEAT:
        return Retries(1, 1)
    return Retries(most - least + 1)


def _branch(branches: list[list[Any]], follow: Chars, folded: bool) -> Retries:
    """The sum of the branches that can begin alike; the largest of such sums."""
    found = []
    for branch in branches:
        first, is_empty = _first(branch, folded)
        begin = first | follow if is_empty else first
        found.append((begin, _sequence(branch, follow, folded)))
    best = Retries()
    for begin, own in found:
        alike = [retries for other, retries in found if other & begin]
        total = reduce(Retries.plus, alike) if alike else own
        best = max(best, total, key=lambda r: (r.degree, r.count))
    return best


def _first(items: Iterable[Any], folded: bool) -> tuple[Chars, bool]:
    """The characters a sequence can begin with, and whether it can be empty."""
    found: Chars = frozenset()
    for item in items:
        chars, is_empty = _first_of(item, folded)
        found |= chars
        if not is_empty:
            return found, False
    return found, True


def _first_of(item: Any, folded: bool) -> tuple[Chars, bool]:
    kind, value = str(item[0]), item[1]
    if kind == "ASSERT" and value[0] > 0:
        # What follows must begin as the text that is looked ahead for.
        return _first(list(value[1]), folded)
    if kind in _ZERO_WIDTH:
        return frozenset(), True
    inner = [_first(sequence, folded) for sequence in _inner(item)]
    if kind in (*_REPEATS, "POSSESSIVE_REPEAT"):
        ((chars, is_empty),) = inner
        return chars, is_empty or value[0] == 0
    if inner:
        return frozenset().union(*(c for c, _ in inner)), any(e for _, e in inner)
    return _chars(kind, value, folded), False


def _chars(kind: str, value: Any, folded: bool) -> Chars:
    if kind == "ANY":
        return EVERY - {"\n"}
    if kind == "IN":
        return _in(value, folded)
    same = frozenset({chr(value)})
    if folded:
        same |= {chr(value).lower(), chr(value).upper()}
    return EVERY - same if kind == "NOT_LITERAL" else same


def _in(parts: list[Any], folded: bool) -> Chars:
    found: Chars = frozenset()
    for part in parts:
        kind, value = str(part[0]), part[1]
        if kind == "RANGE":
            found |= {char for char in ALPHABET if value[0] <= ord(char) <= value[1]}
        elif kind == "CATEGORY":
            found |= _CLASSES[str(value)]
        elif kind != "NEGATE":
            found |= _chars(kind, value, folded)
    if folded:
        found |= {c.lower() for c in found} | {c.upper() for c in found}
    return EVERY - found if str(parts[0][0]) == "NEGATE" else found


def modules_of(*packages: ModuleType) -> Iterator[ModuleType]:
    """Every module of some packages that can be imported here."""
    for package in packages:
        yield package
        for info in pkgutil.walk_packages(package.__path__, package.__name__ + "."):
            if "migrations" not in info.name and not info.name.endswith("__main__"):
                yield importlib.import_module(info.name)


def compiled_in(module: ModuleType) -> Iterator[tuple[str, re.Pattern[Any]]]:
    """The patterns that a module compiles for itself, by name."""
    for name, value in vars(module).items():
        if isinstance(value, re.Pattern):
            yield f"{module.__name__}.{name}", value
