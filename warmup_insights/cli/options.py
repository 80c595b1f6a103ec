"""Options that several commands share."""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import Any, TypeVar

import click

from warmup_insights.storage.location import default_database

Command = TypeVar("Command", bound=Callable[..., Any])


def _resolve(ctx: click.Context, param: click.Parameter, value: str | None) -> str:
    return default_database(value, os.environ)


def db_option(command: Command) -> Command:
    """Add `--db`; the command gets `db`, which is always a path or a URL."""
    option = click.option(
        "--db",
        metavar="DATABASE",
        callback=_resolve,
        help="Database file or postgresql:// URL. Without it: WARMUP_INSIGHTS_DB, "
        "else warmup_insights.db in the current folder.",
    )
    return option(command)


def json_option(command: Command) -> Command:
    """Add `--json`; the command gets `as_json`."""
    option = click.option(
        "--json", "as_json", is_flag=True, help="Print the result as JSON."
    )
    return option(command)
