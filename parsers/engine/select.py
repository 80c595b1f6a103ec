"""Which lines of a block hold one of the literals, as fast as can be had.

With hyperscan (an extra, made for many patterns at once) or, without it, one compiled
alternation. Both find the same lines; a test compares them.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any

Trie = dict[str, Any]


def any_of(literals: Iterable[str]) -> str:
    """A pattern that finds any of the literals, the longest at a position first.

    Their common beginnings are written once: the standard library tries the branches of
    an alternation one after the other at every position; factored, it tries one or two.
    """
    trie: Trie = {}
    for literal in set(literals):
        node = trie
        for char in literal:
            node = node.setdefault(char, {})
        node[""] = {}
    return _pattern(trie)


def _pattern(node: Trie) -> str:
    branches = []
    for char in sorted(key for key in node if key):
        text, child = char, node[char]
        while len(child) == 1 and "" not in child:
            ((following, child),) = child.items()
            text += following
        branches.append(re.escape(text) + _pattern(child))
    if not branches:
        return ""
    joined = branches[0] if len(branches) == 1 else f"(?:{'|'.join(branches)})"
    if "" not in node:
        return joined
    return f"(?:{joined})?"


DENSE = 4
"""From one candidate in so many lines on, all lines are decoded at once."""


Selector = Callable[[bytes], list[int]]
"""Takes a block of whole lines; gives where literals end, in order, and at least one of
every line that holds one."""


def make_selector(literals: Sequence[str]) -> Selector:
    """The fastest selector that is installed."""
    try:
        import hyperscan
    except ImportError:
        return regex_selector(literals)
    return _hyperscan_selector(literals, hyperscan)


def regex_selector(literals: Sequence[str]) -> Selector:
    """The standard library's way: the first literal of every candidate line."""
    search = re.compile(any_of(literals).encode()).search

    def ends(block: bytes) -> list[int]:
        found: list[int] = []
        position = 0
        while position >= 0 and (match := search(block, position)) is not None:
            found.append(match.end())
            position = block.find(b"\n", match.end())
        return found

    return ends


def _hyperscan_selector(literals: Sequence[str], hyperscan: Any) -> Selector:
    """All literals in one pass with vector instructions."""
    unique = sorted(set(literals))
    database = hyperscan.Database(mode=hyperscan.HS_MODE_BLOCK)
    database.compile(
        expressions=[text.encode() for text in unique],
        ids=list(range(len(unique))),
        elements=len(unique),
        flags=[0] * len(unique),
        literal=True,
    )

    def ends(block: bytes) -> list[int]:
        found: list[int] = []
        database.scan(
            block, match_event_handler=lambda _i, _s, end, _f, _c: found.append(end)
        )
        return found

    return ends


class Lines:
    """The lines of a block, numbered from 0; its length is their number."""

    def __init__(self, block: bytes) -> None:
        import numpy as np  # a tenth of a second, which small logs need not wait

        self._block = block
        self._breaks = np.flatnonzero(np.frombuffer(block, np.uint8) == ord("\n"))

    def __len__(self) -> int:
        return len(self._breaks) + (not self._block.endswith(b"\n"))

    def with_any(self, ends: list[int]) -> Iterator[tuple[int, str]]:
        """Number and text of the lines in which something ends, in order."""
        if not ends:
            return iter(())
        breaks, block = self._breaks, self._block
        found = breaks.searchsorted(ends)
        # What ends with the line ends where the break is.
        numbers = sorted(set(found.tolist()))
        if len(numbers) * DENSE > len(breaks):
            texts = block.decode("utf-8", "replace").split("\n")
            return ((number, texts[number]) for number in numbers)
        return ((number, self._text(number)) for number in numbers)

    def after(self, number: int) -> bytes:
        """The block behind a line."""
        if number >= len(self._breaks):
            return b""
        return self._block[self._breaks[number] + 1 :]

    def _text(self, number: int) -> str:
        breaks = self._breaks
        start = breaks[number - 1] + 1 if number else 0
        end = breaks[number] if number < len(breaks) else len(self._block)
        return self._block[start:end].decode("utf-8", "replace")
