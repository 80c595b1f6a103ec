"""What commands print or write to files: tables, notes, JSON, results.

The only place that loads rich for them, when there is something to print.
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from pathlib import Path
from typing import Any, TextIO

import click

from warmup_insights.errors import InputError, cannot_write
from warmup_insights.export.tables import TextTable, rich_table


def print_tables(tables: Iterable[TextTable]) -> None:
    """Each table with its title and its note, a blank line after each."""
    from warmup_insights.cli.console import printable, stdout_console

    console = stdout_console()
    for table in tables:
        console.print(rich_table(table))
        if table.note:
            click.echo(printable(table.note))
        console.print()


def print_notes(notes: Iterable[str], *, err: bool = False) -> None:
    """Each note on a line of its own."""
    from warmup_insights.cli.console import printable

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
    if Path(path).exists() and not force:
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
