"""Copies of a log: lines cut at the width of a terminal, text with a margin or of a page.

A terminal of N columns shows a longer line in several rows, and a copy of the screen has
the rows: none is longer than N, and one of exactly N goes on in the next. Where a page that
counts the characters of colours showed them, the rows of a copy are shorter by those.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import pairwise
from textwrap import dedent
from typing import NamedTuple

from parsers.engine.convert import CUT_WORD

WIDTHS = range(60, 251)
"""Columns of terminals; a start of vLLM that is not cut has longer lines."""
MIN_FULL = 3
"""Different rows of exactly that width, so that it is no chance."""
MIN_CUT = 4
"""Lines of exactly one length that differ in more than numbers, and none is longer."""
_CUT_ARGUMENTS = re.compile(r"non-default args: \{.{0,250}[^}]$")
"""The settings of a server, of which there is one line, and it ends with a brace."""
_ENDS_CUT = (">", "…", ".")
"""What `less -S` and others put at the end of a line that they cut."""
LOOKED_AT = 4000
_DIGITS = re.compile(r"\d+")
_LAST_WORD = re.compile(r"\S{1,250}\r?$")
_BEGINS = re.compile(
    r"\s*$|\s{0,8}\.\.\.\s{0,8}$|(?:DEBUG|INFO|WARNING|ERROR|CRITICAL)(?:\s|:)|"
    r"\([A-Za-z_][\w.:-]{0,60} .{0,20}pid=|"
    r"\[?\d{4}-\d\d-\d\d|Traceback \(|\s{1,4}File \"|\s{4}\S|\[(?:rank|default)\d|"
    r"[A-Z][\w ,()-]{3,80}: {1,3}\d{1,3}%|\S{0,40}[$#>] |\*\*\* |Process "
)
_RECORD = re.compile(
    r"\([A-Za-z_][\w.:-]{0,60} .{0,20}pid=\d{1,9}\) |(?:DEBUG|INFO|WARNING|ERROR) \d\d-\d\d "
)


_PREFIX = re.compile(
    r"\((?:(?:A[Pp][Ii]Server|EngineCore|(?:Vllm)?Worker)[\w ]{0,40} )?pid=\d{1,9}\) |"
    r"\((?:RayWorkerWrapper )?pid=\d{1,9}, ip=[\d.]{7,15}\) |"
    r"\(RayWorkerWrapper pid=\d{1,9}\) "
)
_OF_VLLM = ("(API", "(Api", "(Eng", "(Vll", "(Wor")
_COLOURS_OF_VLLM = len("[1;36m[0;0m")
"""Around the name of a process (vLLM `utils/system_utils.py`, `_add_prefix`)."""
_COLOURS_OF_RAY = len("[36m[0m")


class Width(NamedTuple):
    """What lines were cut at."""

    columns: int
    length: Callable[[str], int] = len
    """Takes a row; gives the columns that it took."""


def with_colours(row: str) -> int:
    """The length of a row with the colours of names of processes, which a copy lacks."""
    length, start = len(row), 0
    while (match := _PREFIX.match(row, start)) is not None:
        is_own = match[0].startswith(_OF_VLLM)
        length += _COLOURS_OF_VLLM if is_own else _COLOURS_OF_RAY
        start = match.end()
    return length


def of_lines(blocks: Iterable[bytes], text: str) -> Iterable[bytes]:
    """The blocks of a log with its lines as far as they are there; `text` is its beginning."""
    if (width := width_of(text)) is not None:
        return unwrapped(blocks, width)
    length = cut_at(text)
    return blocks if length is None else without_cut_words(blocks, length)


def width_of(text: str) -> Width | None:
    """The width that the lines of a text were cut at; None where they were not."""
    if "\r" in text.replace("\r\n", "\n"):
        return None
    lines = [line.rstrip("\r") for line in text.split("\n", LOOKED_AT)[:LOOKED_AT]]
    # A page around a log has longer lines of its own.
    records = list(filter(_RECORD.match, lines)) or lines
    widths = [Width(max(map(len, records)))]
    if "pid=" in text and "\x1b[" not in text:
        widths.append(Width(max(map(with_colours, records)), with_colours))
    cut = [_count_cut(lines, width) for width in widths]
    return widths[cut.index(max(cut))] if any(cut) else None


def _count_cut(lines: Sequence[str], width: Width) -> int:
    """How many rows go on in the next; 0 where that may be by chance."""
    if width.columns not in WIDTHS:
        return 0
    full = [index for index, line in enumerate(lines[:-1]) if _is_cut(line, width)]
    cut = [index for index in full if _BEGINS.match(lines[index + 1]) is None]
    rows = {lines[index] for index in cut}
    records = sum(_RECORD.match(row) is not None for row in rows)
    is_sure = len(rows) >= MIN_FULL and records >= 2 and len(cut) * 3 >= len(full) * 2
    return len(cut) if is_sure else 0


def cut_at(text: str) -> int | None:
    """Behind how many characters the rest of each line is missing, as `cut -c` and windows
    that do not wrap leave a log; None where lines are whole."""
    lines = [line.rstrip("\r") for line in text.split("\n", LOOKED_AT)[:LOOKED_AT]]
    longest = max(map(len, lines))
    if longest not in WIDTHS:
        return None
    shapes = {
        _DIGITS.sub("0", line)
        for line in lines
        if len(line) == longest and _RECORD.search(line) is not None
    }
    ends = {shape[-1] for shape in shapes}
    is_table = len(ends) == 1 and ends.isdisjoint(_ENDS_CUT)
    is_cut = any(map(_CUT_ARGUMENTS.search, shapes))
    is_cut = is_cut or (len(shapes) >= MIN_CUT and not is_table)
    return longest if is_cut else None


def without_cut_words(blocks: Iterable[bytes], length: int) -> Iterator[bytes]:
    """The blocks with dots for the last word of each line that was cut: a part of a number
    is another number, and what ends with the line is no end."""
    for block in blocks:
        lines = block.decode("utf-8", "replace").split("\n")
        whole = [
            _LAST_WORD.sub(CUT_WORD, x) if len(x.rstrip("\r")) == length else x
            for x in lines
        ]
        yield "\n".join(whole).encode()


def unwrapped(blocks: Iterable[bytes], width: Width) -> Iterator[bytes]:
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


def _is_cut(line: str, width: Width) -> bool:
    """Whether a row may go on; the space at its end is often left out of a copy."""
    return -1 <= width.length(line.rstrip("\r")) - width.columns <= 0


def _joined(lines: list[str], width: Width) -> str:
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
            if width.length(row) < width.columns:
                pieces.append(" ")
            row = lines[index + rows].rstrip("\r")
            pieces.append(row)
            rows += 1
        out += ["".join(pieces), *[""] * (rows - 1)]
        index += rows
    return "".join(f"{line}\n" for line in out)


_QUOTED = re.compile("> ?")
_NUMBERED = re.compile(r"[ \t]{0,20}(\d{1,9})(?:\t|:(?! |\d\d:))")
_NUMBER = r"[ \t]{0,20}(\d{1,9})[\t:]"
"""The same in a text that is known to have them, whatever follows."""
MIN_NUMBERED = 3
ELIDED = b"...\r"


def margin_of(text: str) -> re.Pattern[bytes] | None:
    """What stands in front of every line of a text: space or `>`, as in a quotation, or the
    numbers that `cat -n` and `grep -n` print; None where lines stand for themselves."""
    if text[:1] not in "> \t\r\n0123456789":
        return None
    lines = [line for line in text.split("\n") if line.strip()]
    if all(map(_QUOTED.match, lines)):
        return _margin(_QUOTED.pattern)
    found = list(map(_NUMBERED.match, lines))
    numbers = [int(match[1]) for match in found if match is not None]
    are_rising = all(a < b for a, b in pairwise(numbers))
    if len(numbers) == len(lines) >= MIN_NUMBERED and are_rising:
        return _margin(_NUMBER)
    if not text[:1].isspace():
        return None
    bare = next((line for line in dedent(text).split("\n") if line.strip()), "")
    indent = lines[0].removesuffix(bare) if lines else ""
    return _margin(re.escape(indent)) if indent else None


def _margin(pattern: str) -> re.Pattern[bytes]:
    return re.compile(b"(?m)^(?:" + pattern.encode() + b")")


def without_margin(
    blocks: Iterable[bytes], margin: re.Pattern[bytes]
) -> Iterator[bytes]:
    """The blocks without what stands in front of their lines; dots stand where a number
    shows that lines between were left out, as by `grep -n`, drawn over by the line."""
    last = None

    def without(match: re.Match[bytes]) -> bytes:
        nonlocal last
        number = match[1] if margin.groups else None
        before, last = last, number and int(number)
        return b"" if before is None or last in (None, before + 1) else ELIDED

    for block in blocks:
        yield margin.sub(without, block)


_ENTITIES = {
    b"#x27": b"'", b"#39": b"'", b"#x2F": b"/", b"#x2f": b"/", b"#47": b"/",
    b"quot": b'"', b"lt": b"<", b"gt": b">", b"amp": b"&",
}  # fmt: skip
_ENTITY = re.compile(rb"&(#x27|#39|#x2[Ff]|#47|quot|lt|gt|amp);")
_LOGGED = re.compile(
    rb"(?:DEBUG|INFO|WARNING|ERROR) \d\d-\d\d \d\d:\d\d:\d\d ([^\n]{1,4000})"
)
_TAG = re.compile(rb"</?[a-z]{1,8}(?: [^<>\n]{0,200})?/?>")


def is_escaped(block: bytes) -> bool:
    """Whether characters of a log are written as HTML has them, as a page is saved: then
    each of them is, where an entity in a text that was logged stands beside others."""
    if b"&" not in block:
        return False
    logged = [_TAG.sub(b"", line) for line in _LOGGED.findall(block)]
    names = {name for line in logged for name in _ENTITY.findall(line)}
    characters = {_ENTITIES[name] for name in names} - {b"&"}
    bare = any(character in line for line in logged for character in characters)
    return bool(characters) and not bare


def unescaped(blocks: Iterable[bytes]) -> Iterator[bytes]:
    """The blocks with the characters that HTML writes as entities."""
    for block in blocks:
        yield _ENTITY.sub(lambda match: _ENTITIES[match[1]], block)
