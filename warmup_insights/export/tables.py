"""A table of texts, and its ways out: Markdown, CSV, or a terminal."""

from __future__ import annotations

import csv
import io
import re
import unicodedata
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from rich.console import RenderableType

MAX_CELL = 400
MAX_LINE = 60
BAR = "█"
"""What bars are made of."""
_MARKDOWN = re.compile(r"([\\`*_{}\[\]<>|#~$])")
_FORMULA = ("=", "+", "-", "@", "\t", "\r")


@dataclass(frozen=True)
class TextTable:
    """A title, column heads and rows of text; `right` names columns of numbers.

    The note is shown below, on as many lines as it has.
    """

    title: str
    header: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]
    right: frozenset[int] = field(default_factory=frozenset)
    note: str = ""


def make_table(
    title: str,
    header: Sequence[str],
    rows: Iterable[Sequence[str]],
    *,
    right: Iterable[int] = (),
    note: str = "",
) -> TextTable:
    """A table of cleaned cells."""
    return TextTable(
        plain(title),
        tuple(plain(cell) for cell in header),
        tuple(tuple(plain(cell) for cell in row) for row in rows),
        frozenset(right),
        "\n".join(map(plain, note.splitlines())),
    )


def make_list(title: str, lines: Iterable[str]) -> TextTable:
    """Lines of text under a title, as a table of one column without a head."""
    return make_table(title, ("",), [(line,) for line in lines])


def plain(text: str) -> str:
    """Text without what acts on a terminal or on the direction of writing, on one line.

    Labels and settings come from logs, which anybody may have written.
    """
    text = " ".join(text.split())
    if len(text) > MAX_CELL:
        text = text[: MAX_CELL - 1] + "\N{HORIZONTAL ELLIPSIS}"
    if text.isascii() and text.isprintable():
        return text
    return "".join(
        "\N{REPLACEMENT CHARACTER}" if unicodedata.category(char)[0] == "C" else char
        for char in text
    )


def excerpt(line: str) -> str:
    """The beginning of a line of a log, where it is one thing beside others."""
    text = plain(line)
    return (
        text
        if len(text) <= MAX_LINE
        else f"{text[: MAX_LINE - 1]}\N{HORIZONTAL ELLIPSIS}"
    )


def escape_markdown(text: str) -> str:
    """Text that Markdown shows as it is, inside a table cell too."""
    return _MARKDOWN.sub(r"\\\1", plain(text))


def markdown_table(table: TextTable) -> str:
    """The table in GitHub's Markdown, under its title."""
    lines = [f"### {escape_markdown(table.title)}", ""] if table.title else []
    heads = [escape_markdown(cell) for cell in table.header]
    rules = ["---:" if i in table.right else "---" for i in range(len(heads))]
    lines += [_row(heads), _row(rules)]
    lines += [_row([escape_markdown(cell) for cell in row]) for row in table.rows]
    if table.note:
        lines += ["", *map(escape_markdown, table.note.splitlines())]
    return "\n".join(lines) + "\n"


def _row(cells: Sequence[str]) -> str:
    return f"| {' | '.join(cells)} |"


def csv_text(header: Sequence[str], rows: Iterable[Sequence[object]]) -> str:
    """Comma-separated values; unknown is an empty field.

    Texts that a spreadsheet would run as a formula get an apostrophe in front.
    """
    stream = io.StringIO()
    writer = csv.writer(stream, lineterminator="\n")
    writer.writerow(header)
    for row in rows:
        writer.writerow([_field(value) for value in row])
    return stream.getvalue()


def _field(value: object) -> object:
    if value is None:
        return ""
    if isinstance(value, str) and value.startswith(_FORMULA):
        return "'" + value
    return value


def rich_table(table: TextTable, width: int) -> RenderableType:
    """The table for a terminal, without its note; texts are never read as markup.

    Where a row does not fit the width without breaking words or numbers, the cells that
    are known follow each other under the first one, each with its head.
    """
    from rich.console import Group
    from rich.markup import escape
    from rich.table import Table as RichTable
    from rich.text import Text

    # The columns that hold bars, and nothing else.
    bars = {
        i
        for i in range(len(table.header))
        if any(row[i] for row in table.rows)
        and not any(row[i].strip(BAR) for row in table.rows)
    }
    # The title is no part of the table, which may be narrower.
    title = [Text(table.title, "bold")] if table.title else []
    widths = _widths(table, width, bars)
    if widths is None:
        return Group(*title, *_blocks(table, width))
    result = RichTable(
        box=None,
        pad_edge=False,
        header_style="bright_black",
        show_header=any(table.header),
    )
    for index, name in enumerate(table.header):
        result.add_column(
            escape(name), justify="right" if index in table.right else "left",
            overflow="fold", width=widths[index],
        )  # fmt: skip
    for row in table.rows:
        cells = [
            _fitting(cell, widths[i], table, i) if i in bars else cell
            for i, cell in enumerate(row)
        ]
        result.add_row(*(Text.assemble((cell, _style(cell))) for cell in cells))
    return Group(*title, result)


def plain_width(table: TextTable) -> int:
    """Columns that a table needs where no terminal limits them, so that each row is on one
    line unless a cell is long; no word is broken."""
    from rich.cells import cell_len

    columns = zip(table.header, *table.rows, strict=False)
    widths = [
        max(
            [
                min(max(map(cell_len, cells)), _LONG),
                *map(cell_len, " ".join(cells).split()),
            ]
        )
        for cells in columns
    ]
    needed = sum(widths) + _GAP * (len(widths) - 1)
    return max(PLAIN_WIDTH, needed, cell_len(table.title))


PLAIN_WIDTH = 130
"""Columns of a file or a pipe, unless a table needs more."""
_LONG = 60
_GAP = 2
"""Blanks between two columns."""
_LEAST_BAR = 6
_LEAST = 16
"""A word of so many columns is not broken."""


def _widths(table: TextTable, width: int, bars: set[int]) -> list[int] | None:
    """The widths of the columns, the widest shortened first and bars before texts; None
    where a word or a number would be broken."""
    from rich.cells import cell_len

    widths, least = [], []
    for index, (head, *cells) in enumerate(
        zip(table.header, *table.rows, strict=False)
    ):
        words = cells if index in table.right else " ".join(cells).split()
        longest = max(map(cell_len, words), default=0)
        widths.append(max(map(cell_len, [head, *cells])))
        limit = _LEAST_BAR if index in bars else min(longest, _LEAST)
        least.append(max(limit, *map(cell_len, ["", *head.split()])))
    over = sum(widths) + _GAP * (len(widths) - 1) - width
    while over > 0:
        free = [i for i, least_width in enumerate(least) if widths[i] > least_width]
        if not free:
            return None if any(table.header) else widths
        chosen = max(free, key=lambda i: (i in bars, widths[i]))
        widths[chosen] -= 1
        over -= 1
    return widths


def _fitting(bar: str, width: int, table: TextTable, column: int) -> str:
    longest = max(len(row[column]) for row in table.rows)
    return BAR * max(bool(bar), round(len(bar) * min(1.0, width / longest)))


def _blocks(table: TextTable, width: int) -> list[RenderableType]:
    """Each row as its first cell and, below it, the others that are known, with their
    heads; a first column without a head stands before the second."""
    from rich.padding import Padding
    from rich.text import Text

    parts: list[RenderableType] = []
    first = 0 if table.header[0] else 1
    for row in table.rows:
        mark = f"{row[0]:1} " if first else ""
        lead = (f"{table.header[first]} ", "bright_black")
        parts.append(Text.assemble(mark, lead, (row[first], "bold")))
        line = Text()
        rest = slice(first + 1, None)
        for head, cell in zip(table.header[rest], row[rest], strict=True):
            if cell in ("", "?"):
                continue
            pair = Text.assemble((head, "bright_black"), " ", (cell, _style(cell)))
            if line and line.cell_len + 3 + pair.cell_len > width - _GAP:
                parts.append(Padding(line, (0, 0, 0, _GAP)))
                line = Text()
            line = Text.assemble(line, " \N{MIDDLE DOT} ", pair) if line else pair
        if line:
            parts.append(Padding(line, (0, 0, 0, _GAP)))
    return parts


_STYLES = (
    ("better", "green"), ("worse", "red"), ("passed", "green"), ("broken", "red"),
    ("unknown", "yellow"), (BAR, "cyan"),
)  # fmt: skip


def _style(cell: str) -> str:
    return next((style for word, style in _STYLES if cell.endswith(word)), "")
