"""What commands print: tables, notes and JSON, safe for the terminal.

The only place that loads rich for them, when there is something to print.
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from typing import Any

import click

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
