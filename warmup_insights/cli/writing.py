"""Results into files: never over an existing one unless asked to."""

from __future__ import annotations

from pathlib import Path

import click

from warmup_insights.errors import InputError


def write_result(path: str, text: str, *, force: bool) -> None:
    """Write a file, or standard output for `-`.

    Raises:
        InputError: the file exists and `force` is off, or it cannot be written.
    """
    if path == "-":
        click.echo(text, nl=False)
        return
    target = Path(path)
    if target.exists() and not force:
        raise InputError(f"{path} exists; use --force to overwrite it")
    try:
        target.write_text(text, encoding="utf-8")
    except OSError as error:
        raise InputError(f"{path} cannot be written: {error.strerror}") from error
    click.echo(f"Wrote {path}", err=True)
