"""Which lines of a block hold one of the literals, as fast as can be had.

With hyperscan (an extra, made for many patterns at once) or, without it, one compiled
alternation. Both give the same lines; a test compares them.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from typing import Any, Protocol

from parsers.literals import any_of


class Selector(Protocol):
    """Finds candidate lines in blocks of whole lines."""

    def spans(self, block: bytes) -> Iterator[tuple[int, int]]:
        """Start and end of every line with a literal, in order."""
        ...


def make_selector(literals: Sequence[str]) -> Selector:
    """The fastest selector that is installed."""
    try:
        import hyperscan
    except ImportError:
        return RegexSelector(literals)
    return HyperscanSelector(literals, hyperscan)


class RegexSelector:
    """The standard library's way."""

    def __init__(self, literals: Sequence[str]) -> None:
        self._search = re.compile(any_of(literals).encode()).search

    def spans(self, block: bytes) -> Iterator[tuple[int, int]]:
        """Start and end of every candidate line of a block, in order."""
        position = 0
        while (match := self._search(block, position)) is not None:
            start = block.rfind(b"\n", 0, match.start()) + 1
            end = block.find(b"\n", match.end())
            end = len(block) if end < 0 else end
            yield start, end
            position = end + 1
            if position > len(block):
                return


class HyperscanSelector:
    """All literals in one pass with vector instructions."""

    def __init__(self, literals: Sequence[str], hyperscan: Any) -> None:
        unique = sorted(set(literals))
        self._database = hyperscan.Database(mode=hyperscan.HS_MODE_BLOCK)
        self._database.compile(
            expressions=[text.encode() for text in unique],
            ids=list(range(len(unique))),
            elements=len(unique),
            flags=[hyperscan.HS_FLAG_SINGLEMATCH * 0] * len(unique),
            literal=True,
        )

    def spans(self, block: bytes) -> Iterator[tuple[int, int]]:
        """Start and end of every candidate line of a block, in order."""
        ends: list[int] = []
        self._database.scan(
            block, match_event_handler=lambda _i, _s, end, _f, _c: ends.append(end)
        )
        done = 0
        for position in ends:
            if position > done:
                start = block.rfind(b"\n", 0, position - 1) + 1
                done = block.find(b"\n", position - 1)
                done = len(block) if done < 0 else done
                yield start, done
