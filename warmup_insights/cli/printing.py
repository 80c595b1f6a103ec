"""Tables and notes on standard output."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

import click

if TYPE_CHECKING:
    from warmup_insights.export.tables import TextTable


def print_tables(tables: Iterable[TextTable]) -> None:
    """Each table with its title, a blank line between two."""
    from warmup_insights.cli.console import printable, stdout_console
    from warmup_insights.export.tables import rich_table

    console = stdout_console()
    for table in tables:
        console.print(rich_table(table))
        if table.note:
            click.echo(printable(table.note))
        console.print()


def print_notes(notes: Iterable[str]) -> None:
    """Each note on a line of its own."""
    from warmup_insights.cli.console import printable

    for note in notes:
        click.echo(f"Note: {printable(note)}")
