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
    from rich.table import Table

MAX_CELL = 400
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


def rich_table(table: TextTable) -> Table:
    """The table for a terminal, without its note; texts are never read as markup."""
    from rich.markup import escape
    from rich.table import Table as RichTable

    result = RichTable(
        title=escape(table.title) or None,
        title_style="bold",
        title_justify="left",
        box=None,
        pad_edge=False,
        header_style="bright_black",
        show_header=any(table.header),
    )
    for index, name in enumerate(table.header):
        justify = "right" if index in table.right else "left"
        result.add_column(escape(name), justify=justify, overflow="fold")  # type: ignore[arg-type]
    for row in table.rows:
        result.add_row(*(_styled(cell) for cell in row))
    return result


_STYLES = (
    ("better", "green"), ("worse", "red"), ("passed", "green"), ("broken", "red"),
    ("unknown", "yellow"), ("█", "cyan"),
)  # fmt: skip


def _styled(cell: str) -> str:
    from rich.markup import escape

    style = next((s for word, s in _STYLES if cell.endswith(word)), None)
    return f"[{style}]{escape(cell)}[/]" if style else escape(cell)
