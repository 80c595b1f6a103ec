"""The output of `--help` as Markdown: cog puts it into README.md and docs/cli.md.

`make docs` renews both; a test compares them.
"""

from __future__ import annotations

import textwrap
from collections.abc import Iterator
from pathlib import Path

import click
from click.testing import CliRunner

from warmup_insights.cli import COMMANDS, cli

ROOT = Path(__file__).resolve().parents[1]
WIDTH = 90
ROWS = {"Where the time went": 5, "Memory": 8}
"""Rows of the tables that the example of README.md has."""
NAME = "warmup-insights"


def overview() -> str:
    """A table of the commands, each with its line of help."""
    rows = (f"| `{name}` | {about} |" for name, about in COMMANDS.items())
    return "\n".join(["", "| command | what it does |", "|---|---|", *rows, ""])


def example(log: str) -> str:
    """The answer of `show` about a log, and the head of its tables of time and memory."""
    answer, *rest = (
        CliRunner().invoke(cli, ["show", str(ROOT / log)]).stdout.split("\n")
    )
    shown = [f"$ {NAME} show {log}", *textwrap.wrap(answer, WIDTH)]
    for title, count in ROWS.items():
        start = next(n for n, line in enumerate(rest) if line.startswith(title))
        shown += [
            "",
            *(line.rstrip() for line in rest[start : start + count + 1]),
            "...",
        ]
    text = "\n".join(shown)
    return f"\n```console\n{text}\n```\n"


def reference() -> str:
    """The help of the program, of every command and every sub-command."""
    return "\n".join(_sections(cli, NAME, 2))


def _sections(command: click.Command, name: str, level: int) -> Iterator[str]:
    context = click.Context(
        command, info_name=name, terminal_width=WIDTH, max_content_width=WIDTH,
        help_option_names=cli.context_settings["help_option_names"],
    )  # fmt: skip
    yield f"\n{'#' * level} {name}\n"
    yield f"```text\n{command.get_help(context)}\n```"
    if isinstance(command, click.Group):
        for part in command.list_commands(context):
            found = command.get_command(context, part)
            if found is not None:
                yield from _sections(found, f"{name} {part}", level + 1)
