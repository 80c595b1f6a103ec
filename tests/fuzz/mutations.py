"""Changes that a log can suffer, for a fuzzer that otherwise only knows bytes."""

from __future__ import annotations

import random
import re
from collections.abc import Callable

from tests.fuzz import seeds

_NUMBER = re.compile(rb"\d+(?:\.\d+)?")
_NUMBERS = (
    b"0", b"-1", b"1", b"00", b"2147483648", b"9223372036854775807",
    b"9223372036854775808", b"9" * 30, b"1" * 5000, b"0.0000000001", b"1e400", b"nan",
    b"4.9.9", b"100000", b"99999999",
)  # fmt: skip
_LINES = seeds.lines()

Change = Callable[[random.Random, list[bytes]], None]


def _put(chance: random.Random, lines: list[bytes]) -> None:
    lines.insert(chance.randint(0, len(lines)), chance.choice(_LINES))


def _drop(chance: random.Random, lines: list[bytes]) -> None:
    if len(lines) > 1:
        del lines[chance.randrange(len(lines))]


def _repeat(chance: random.Random, lines: list[bytes]) -> None:
    at = chance.randrange(len(lines))
    lines[at:at] = [lines[at]] * chance.choice((1, 2, 30))


def _swap(chance: random.Random, lines: list[bytes]) -> None:
    one, other = chance.randrange(len(lines)), chance.randrange(len(lines))
    lines[one], lines[other] = lines[other], lines[one]


def _cut(chance: random.Random, lines: list[bytes]) -> None:
    at = chance.randrange(len(lines))
    lines[at] = lines[at][: chance.randint(0, len(lines[at]))]


def _glue(chance: random.Random, lines: list[bytes]) -> None:
    at = chance.randrange(len(lines))
    lines[at] += chance.choice((b"", b" ", b"\r", b"\\n")) + chance.choice(_LINES)


def _wrap(chance: random.Random, lines: list[bytes]) -> None:
    at = chance.randrange(len(lines))
    lines[at] = chance.choice(seeds.WRAPPINGS).encode() + lines[at]


def _number(chance: random.Random, lines: list[bytes]) -> None:
    at = chance.randrange(len(lines))
    found = list(_NUMBER.finditer(lines[at]))
    if found:
        match = chance.choice(found)
        begin, end = match.span()
        lines[at] = lines[at][:begin] + chance.choice(_NUMBERS) + lines[at][end:]


def _stretch(chance: random.Random, lines: list[bytes]) -> None:
    """A character or a few many times over: what makes bad patterns slow."""
    at = chance.randrange(len(lines))
    line = lines[at]
    begin = chance.randint(0, len(line))
    piece = line[begin : begin + chance.choice((1, 1, 2, 5, 20))]
    lines[at] = line[:begin] + piece * chance.choice((3, 50, 1000)) + line[begin:]


CHANGES: tuple[Change, ...] = (
    _put, _drop, _repeat, _swap, _cut, _glue, _wrap, _number, _number, _stretch,
)  # fmt: skip


def changed(data: bytes, limit: int, seed: int) -> bytes:
    """The log with one to four changes; at most `limit` bytes."""
    chance = random.Random(seed)
    lines = data.split(b"\n")
    for _ in range(chance.randint(1, 4)):
        chance.choice(CHANGES)(chance, lines)
    return b"\n".join(lines)[:limit]
