"""Copies of a log: lines that a terminal cut at its width, text indented as a whole.

A terminal of N columns shows a longer line in several rows, and a copy of the screen has
the rows: none is longer than N, and one of exactly N goes on in the next.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from textwrap import dedent

WIDTHS = range(60, 251)
"""Columns of terminals; a start of vLLM that is not cut has longer lines."""
MIN_FULL = 3
"""Rows of exactly that width, so that it is no chance."""
LOOKED_AT = 4000
_BEGINS = re.compile(
    r"\s*$|(?:DEBUG|INFO|WARNING|ERROR|CRITICAL)(?:\s|:)|\([A-Za-z_][\w.:-]{0,60} .{0,20}pid=|"
    r"\[?\d{4}-\d\d-\d\d|Traceback \(|\s{1,4}File \"|\s{4}\S|\[(?:rank|default)\d|"
    r"[A-Z][\w ,()-]{3,80}: {1,3}\d{1,3}%|\S{0,40}[$#>] |\*\*\* |Process "
)
_RECORD = re.compile(
    r"(?:\([A-Za-z_][\w.:-]{0,60} .{0,20}pid=\d{1,9}\) )?(?:DEBUG|INFO|WARNING|ERROR) \d\d-\d\d "
)


def width_of(text: str) -> int | None:
    """The width that the lines of a text were cut at; None where they were not."""
    lines = [line.rstrip("\r") for line in text.split("\n", LOOKED_AT)[:LOOKED_AT]]
    width = max(map(len, lines))
    if width not in WIDTHS or "\r" in text.replace("\r\n", "\n"):
        return None
    full = [index for index, line in enumerate(lines[:-1]) if _is_cut(line, width)]
    cut = [index for index in full if _BEGINS.match(lines[index + 1]) is None]
    records = sum(_RECORD.match(lines[index]) is not None for index in cut)
    if len(cut) < MIN_FULL or records < 2 or len(cut) * 3 < len(full) * 2:
        return None
    return width


def unwrapped(blocks: Iterable[bytes], width: int) -> Iterator[bytes]:
    """The blocks with whole lines; empty lines keep the numbers of those that follow."""
    held = ""
    for block in blocks:
        lines = (held + block.decode("utf-8", "replace")).split("\n")
        ended = lines.pop() if not lines[-1] else None
        # What may go on in the next block waits for it.
        first = len(lines) - 1
        while first > 0 and _is_cut(lines[first - 1], width):
            first -= 1
        held = "\n".join(lines[first:]) + ("\n" if ended is not None else "")
        if whole := _joined(lines[:first], width):
            yield whole.encode()
    if held:
        yield _joined(held.removesuffix("\n").split("\n"), width).encode()


def _is_cut(line: str, width: int) -> bool:
    """Whether a row may go on; the space at its end is often left out of a copy."""
    return len(line.rstrip("\r")) >= width - 1


def _joined(lines: list[str], width: int) -> str:
    out: list[str] = []
    index = 0
    while index < len(lines):
        row = lines[index].rstrip("\r")
        pieces, rows = [row], 1
        while (
            _is_cut(row, width)
            and index + rows < len(lines)
            and _BEGINS.match(lines[index + rows]) is None
        ):
            if len(row) < width:
                pieces.append(" ")
            row = lines[index + rows].rstrip("\r")
            pieces.append(row)
            rows += 1
        out += ["".join(pieces), *[""] * (rows - 1)]
        index += rows
    return "".join(f"{line}\n" for line in out)


def indent_of(text: str) -> str:
    """The space in front of every line of a text, as in a quotation; often empty."""
    if not text[:1].isspace():
        return ""
    first, bare = (
        next((line for line in lines.split("\n") if line.strip()), "")
        for lines in (text, dedent(text))
    )
    return first.removesuffix(bare)


def unindented(blocks: Iterable[bytes], indent: str) -> Iterator[bytes]:
    """The blocks without that space in front of their lines."""
    pattern = re.compile(b"(?m)^" + indent.encode())
    for block in blocks:
        yield pattern.sub(b"", block)
