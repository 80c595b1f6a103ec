"""What another program puts in front of every line, as the records of the engine show it.

Log shippers and the loggers of programs that start a server have many forms. Where
records of vLLM stand behind text of one shape again and again, that text is none of the
engine's, and lines without a head of their own (tracebacks, progress bars) have it too.
"""

from __future__ import annotations

import re
from collections import Counter
from typing import NamedTuple

ENOUGH = 3
"""Records behind a front of one shape."""
MAX_FRONTS = 8
MAX_SHAPES = 64
MAX_LENGTH = 160
_LEVEL = "(?:DEBUG|INFO|WARN(?:ING)?|ERROR|CRITICAL)"
_VARIES = re.compile(rf"\d+|{_LEVEL}")
_BAR = re.compile(r"%|\[\d\d:\d\d[<,]|it/s|s/it")
"""Of a progress bar that a record is glued to: a line of its own, not a front."""
_STERN = re.compile(
    r"(?P<source>[a-z0-9][a-z0-9.-]{1,240}-(?:[a-z0-9]{5}|\d{1,4}) [a-z0-9-]{1,63}) "
    rf"(?=\(\w|{_LEVEL}(?: \d\d-\d\d |:     ))"
)
"""stern's pod, whose name ends in what Kubernetes adds to it, and container."""


class Fronts:
    """The fronts of the lines of one log."""

    def __init__(self) -> None:
        self._sources: set[str] = set()
        """Pods and containers that stern named in front of records."""
        self._shapes: Counter[str] = Counter()
        """Fronts as patterns, and how many records stood behind each."""
        self._patterns: list[re.Pattern[str]] = []

    def add(self, front: str) -> None:
        """Note the text in front of a record; numbers and levels in it may vary."""
        if len(front) > MAX_LENGTH or _BAR.search(front) is not None:
            return
        shape = _VARIES.sub(_as_pattern, re.escape(front))
        if shape not in self._shapes and len(self._shapes) >= MAX_SHAPES:
            return
        self._shapes[shape] += 1
        if self._shapes[shape] == ENOUGH and len(self._patterns) < MAX_FRONTS:
            self._patterns.append(re.compile(shape))

    @property
    def is_known(self) -> bool:
        """Whether a front was found."""
        return bool(self._patterns or self._sources)

    def drop_counts(self) -> None:
        """Drop the counts, for lines that are read again."""
        self._shapes.clear()

    def source_of(self, text: str) -> str | None:
        """The pod and container that stern names in front of a line; None without."""
        match = _STERN.match(text)
        if match is not None and len(self._sources) < MAX_SHAPES:
            self._sources.add(match["source"])
        if not self._sources:
            return None
        source = text[: text.find(" ", text.find(" ") + 1)]
        return source if source in self._sources else None

    def without(self, text: str) -> str | None:
        """The text without its front, and without the edge of a table whose first column
        that begins with; None without one."""
        for pattern in self._patterns:
            match = pattern.match(text)
            if match is not None:
                rest = text[match.end() :]
                return rest.rstrip().removesuffix("|") if text[0] == "|" else rest
        return None


class Writer(NamedTuple):
    """The number that journald has for the process that wrote a line, and those of the
    processes that the line itself names."""

    pid: int
    named: list[int]


class Units:
    """Which lines of one name in a journal are of one program.

    Each process that a unit starts writes under its own number, and vLLM names it in its
    lines. What a unit runs in a container has one number, that of the program which starts
    it, and lines that name others: two such programs under one name differ in it.
    """

    def __init__(self) -> None:
        self._first: dict[str, int] = {}
        self._own: set[str] = set()
        """Names whose processes write their lines themselves."""
        self._passed: set[tuple[str, int]] = set()
        """Programs that pass on the lines of others."""

    def source_of(self, name: str, writer: Writer) -> str:
        """The name, with the number of its process where that is a program of its own."""
        pid, named = writer
        if len(self._first) < MAX_SHAPES:
            self._first.setdefault(name, pid)
        if pid in named and len(self._own) < MAX_SHAPES:
            self._own.add(name)
        elif named and len(self._passed) < MAX_SHAPES:
            self._passed.add((name, pid))
        first = self._first.get(name)
        if pid == first or name in self._own or first is None:
            return name
        is_passed = (name, pid) in self._passed
        if is_passed or (not named and (name, first) in self._passed):
            return f"{name}[{pid}]"
        return name


def _as_pattern(part: re.Match[str]) -> str:
    return r"\d{1,20}" if part[0][0].isdecimal() else _LEVEL
