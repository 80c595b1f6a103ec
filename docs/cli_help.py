"""The output of `--help` as Markdown: cog puts it into README.md and docs/cli.md.

`make docs` renews both; a test compares them.
"""

from __future__ import annotations

from collections.abc import Iterator

import click

from warmup_insights.cli import COMMANDS, cli

WIDTH = 90
NAME = "warmup-insights"


def overview() -> str:
    """A table of the commands, each with its line of help."""
    rows = (f"| `{name}` | {about} |" for name, about in COMMANDS.items())
    return "\n".join(["", "| command | what it does |", "|---|---|", *rows, ""])


def reference() -> str:
    """The help of the program, of every command and every sub-command."""
    return "\n".join(_sections(cli, NAME, 2))


def _sections(command: click.Command, name: str, level: int) -> Iterator[str]:
    context = click.Context(
        command, info_name=name, terminal_width=WIDTH, max_content_width=WIDTH
    )
    yield f"\n{'#' * level} {name}\n"
    yield f"```text\n{command.get_help(context)}\n```"
    if isinstance(command, click.Group):
        for part in command.list_commands(context):
            found = command.get_command(context, part)
            if found is not None:
                yield from _sections(found, f"{name} {part}", level + 1)
