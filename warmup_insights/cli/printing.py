"""What commands print or write to files: tables, notes, JSON, results."""

from __future__ import annotations

import json
import os
import re
import stat
import sys
from collections.abc import Iterable
from pathlib import Path
from typing import Any, TextIO

import click

from warmup_insights.errors import InputError, cannot_write
from warmup_insights.export.tables import TextTable, plain_width, rich_table

_ACTING = re.compile(
    "[\x00-\x08\x0b-\x1f\x7f-\x9f\u061c\u200e\u200f\u202a-\u202e\u2066-\u2069]"
)
"""Characters that a terminal obeys instead of showing them; names may hold some."""


def printable(text: str) -> str:
    """The text with a mark in place of each character that would steer a terminal."""
    return _ACTING.sub("\ufffd", text)


def print_tables(tables: Iterable[TextTable]) -> None:
    """Each table with its title and its note, a blank line after each.

    Nothing in a `TextTable` steers a terminal.
    """
    from rich.console import Console  # no command without a table needs it

    is_terminal = sys.stdout.isatty()
    for table in tables:
        width = None if is_terminal else plain_width(table)
        console = Console(file=sys.stdout, highlight=False, width=width)
        with console.capture() as text:  # it handles a closed pipe in its own way
            console.print(rich_table(table, console.width))
        sys.stdout.write(text.get())
        sys.stdout.flush()
        if table.note:
            click.echo(table.note)
        click.echo()


def print_notes(notes: Iterable[str], *, err: bool = False) -> None:
    """Each note on a line of its own."""
    for note in notes:
        click.echo(f"Note: {printable(note)}", err=err)


def print_json(value: Any) -> None:
    """The answer of `--json`."""
    click.echo(json.dumps(value, indent=2))


def open_result(path: str | Path, *, force: bool) -> TextIO:
    """A new file to write a result to.

    Raises:
        InputError: the file exists and `force` is off, or it cannot be written.
    """
    refuse_existing(path, force=force)
    try:
        return open(path, "w" if force else "x", encoding="utf-8")
    except OSError as error:
        raise cannot_write(path, error) from error


def refuse_existing(path: str | Path, *, force: bool) -> None:
    """Raise InputError for a file that `open_result` would refuse, before the work."""
    try:
        mode = os.stat(path).st_mode
    except (FileNotFoundError, NotADirectoryError) as error:
        if not Path(path).parent.is_dir():
            raise cannot_write(path, error) from error
        return
    except OSError as error:
        raise cannot_write(path, error) from error
    if stat.S_ISDIR(mode):
        raise InputError(f"{path} is a folder; name a file in it")
    if not force:
        raise InputError(f"{path} exists; use --force to overwrite it")


def write_result(path: str, text: str, *, force: bool) -> None:
    """Write a file, or standard output for `-`.

    Raises:
        InputError: the file exists and `force` is off, or it cannot be written.
    """
    if path == "-":
        click.echo(text, nl=False)
        return
    try:
        with open_result(path, force=force) as stream:
            stream.write(text)
    except OSError as error:
        raise cannot_write(path, error) from error
    click.echo(f"Wrote {path}", err=True)
