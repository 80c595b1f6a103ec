"""Results into files: never over an existing one without `--force`."""

from __future__ import annotations

from pathlib import Path
from typing import TextIO

import click

from warmup_insights.errors import InputError


def open_result(path: str | Path, *, force: bool) -> TextIO:
    """A new file to write a result to.

    Raises:
        InputError: the file exists and `force` is off, or it cannot be written.
    """
    refuse_existing(path, force=force)
    try:
        return open(path, "w" if force else "x", encoding="utf-8")
    except OSError as error:
        raise InputError(f"{path} cannot be written: {error.strerror}") from error


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
        raise InputError(f"{path} cannot be written: {error.strerror}") from error
    click.echo(f"Wrote {path}", err=True)
