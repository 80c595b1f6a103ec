"""From lines to the rules that match them: literals first, then one pattern.

Which lines of a block hold one of the literals is found with hyperscan (an extra, made for
many patterns at once) or, without it, with one compiled alternation. Both find the same
lines; a test compares them.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import chain, groupby
from os.path import commonprefix
from typing import Any

import msgspec

from parsers.base import LineRule, Made
from parsers.engine.envelope import Record
from parsers.engine.signals import StatisticsLine

_HEAD = 14
_FEW_BYTES = 4096
Matcher = Callable[[str], "re.Match[str] | None"]

# Words that make a line look as if it were about start-up. A line with one of them
# that no rule matches is counted and shown.
RELEVANT = (
    "armup", "arming up", "arm-up", "warmed", "aptur", "bucket", "Bucket", "HPUGraph",
    "HPU Graph", "CUDA graph", "cudagraph", "CUDAGraph", "KV cache", "kv cache",
    "free_mem", "efrag", "device memory", "evice memory", "GPU blocks", "HPU blocks",
    "hpu blocks", "cuda blocks", "Maximum concurrency", "took", "weights", "compil",
    "out of memory", "OutOfMemory", "init engine", "LLM engine", "startup complete",
    "profil", "num_blocks", "non-default args", "STARTUP", "Benchmark", "server on http",
    "server 0 on http", "bytecode", "asleep", "wake up", "autotun", "startup plan",
    "Warmed", "Compilation", "paddings", "ready to accept", "failed to start",
    "Prefetching", "page cache",
)  # fmt: skip


# The same for text that no logger printed: only what cannot be anything else.
BARE = ("[Warmup]", "was not warmed-up", "warmup processing", "captured:", "free_mem:",
        "Benchmark Result", "Capturing CUDA graph", "warmup completed")  # fmt: skip

# A traceback continues a record with source code, that of a build with commands of ninja and
# the errors of its compiler.
_TRACEBACK = re.compile(
    r"\s*(?:File \"|\^+\s*$|~+)|\s{2,}|Traceback|\(|(?:\[[\d/]+\] {1,2})?\S{0,99}[c+]{2} |"
    r"\d{1,4} errors? detected in the compilation|Compilation terminated"
)


class Matched(msgspec.Struct, gc=False):
    """A record with its rule and what that makes of it."""

    rule: LineRule
    made: list[Made]
    record: Record
    time: float | None
    """Seconds since the epoch."""
    line: int


class Dispatcher:
    """Finds the rule for a message; rules are tried only when their literal is there."""

    def __init__(self, rules: Sequence[LineRule]) -> None:
        by_hint: dict[str, list[LineRule]] = {}
        for rule in rules:
            for hint in rule.hints:
                by_hint.setdefault(hint, []).append(rule)
        longest = sorted(by_hint, key=len, reverse=True)
        self._by_hint = {hint: by_hint[hint] for hint in longest}
        self._tried: dict[str, list[LineRule]] = {}
        """Literals that were found to the rules that are tried."""
        self._hints = re.compile(any_of(by_hint))
        self._relevant = re.compile(any_of(RELEVANT))
        self._bare = re.compile(any_of(BARE))
        # Head of a message to the rule that matched the last one like it.
        self._last: dict[str, tuple[LineRule, bool, Matcher]] = {}
        self.literals = _literals(r for r in rules if r.matters_while_serving)
        self.statistics = _literals(r for r in rules if r.makes is StatisticsLine)
        """The literals of lines that a ready server prints as long as it runs."""

    def find(
        self, message: str, level: str | None = None, file: str | None = None
    ) -> tuple[LineRule, re.Match[str]] | None:
        """The rule that matches and its match, or None."""
        head = message[:_HEAD]
        last = self._last.get(head)
        if last is not None:
            rule, is_open, matcher = last
            if is_open or rule.admits(level, file):
                match = matcher(message)
                if match is not None:
                    return rule, match
        return self._search(message, head, level, file)

    def _search(
        self, message: str, head: str, level: str | None, file: str | None
    ) -> tuple[LineRule, re.Match[str]] | None:
        tried: set[str] = set()
        found = self._hints.search(message)
        while found is not None:
            hint = found[0]
            # The next one may begin inside it.
            found = self._hints.search(message, found.start() + 1)
            if hint in tried:
                continue
            tried.add(hint)
            if hint not in self._tried:
                # It hides shorter ones inside it, so it tries their rules too.
                inside = (own for key, own in self._by_hint.items() if key in hint)
                self._tried[hint] = list(chain.from_iterable(inside))
            for rule in self._tried[hint]:
                if not rule.admits(level, file):
                    continue
                match = rule.match(message)
                if match is not None:
                    if len(self._last) > 2048:
                        self._last.clear()
                    is_open = not (rule.levels or rule.files or rule.not_files)
                    self._last[head] = (rule, is_open, rule.match)
                    return rule, match
        return None

    def looks_relevant(self, message: str, level: str | None) -> bool:
        """Whether a message without a rule should be counted as unknown."""
        if level is None:
            return self._bare.search(message) is not None
        return not _TRACEBACK.match(message) and bool(self._relevant.search(message))


def _literals(rules: Iterable[LineRule]) -> tuple[str, ...]:
    return tuple(sorted({hint for rule in rules for hint in rule.hints}))


def any_of(literals: Iterable[str]) -> str:
    """A pattern that finds any of the literals, the longest at a position first.

    Their common beginnings are written once: the standard library tries the branches of
    an alternation one after the other at every position; factored, it tries one or two.
    """
    return _any_of_sorted(sorted(set(literals)))


def _any_of_sorted(literals: list[str]) -> str:
    if len(literals) < 2:
        return re.escape("".join(literals))
    branches = []
    for first, group in groupby(literals, key=lambda literal: literal[:1]):
        if first:
            alike = list(group)
            begin = commonprefix([alike[0], alike[-1]])  # noqa: RUF071 - of texts
            rests = [literal[len(begin) :] for literal in alike]
            branches.append(re.escape(begin) + _any_of_sorted(rests))
    joined = branches[0] if len(branches) == 1 else f"(?:{'|'.join(branches)})"
    return joined if literals[0] else f"(?:{joined})?"


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


def lines_at(block: bytes, ends: Iterable[int]) -> Iterator[tuple[int, int, int]]:
    """The lines of a block in which something ends, in order: the number of each, from 0,
    where it begins, and where the line behind it begins."""
    number, behind = -1, 0
    for end in ends:
        if end <= behind:
            continue  # of a line that was given
        begin = block.rfind(b"\n", behind, end) + 1 or behind
        number += 1 if begin == behind else _count_breaks(block, behind, begin) + 1
        behind = block.find(b"\n", end) + 1 or len(block) + 1
        yield number, begin, behind


def text_of(block: bytes, begin: int, behind: int) -> str:
    """The line of a block between these places."""
    return block[begin : behind - 1].decode("utf-8", "replace")


def count_lines(block: bytes, begin: int = 0) -> int:
    """The lines of a block from a place on where one begins."""
    is_open = begin < len(block) and not block.endswith(b"\n")
    return _count_breaks(block, begin, len(block)) + is_open


def _count_breaks(block: bytes, begin: int, end: int) -> int:
    """The line breaks in a part of a block.

    NumPy counts eight times as fast as `bytes.count` of Python 3.11, but its import takes
    as long as counting those of 200 MB: it counts where it was imported for a large file.
    """
    numpy = sys.modules.get("numpy")
    if numpy is None or end - begin < _FEW_BYTES:
        return block.count(b"\n", begin, end)
    part = numpy.frombuffer(block, numpy.uint8, end - begin, begin)
    return int(numpy.count_nonzero(part == ord("\n")))
