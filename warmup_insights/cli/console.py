"""The console that commands print to."""

from __future__ import annotations

import sys
from typing import TextIO

from rich.console import Console

PLAIN_WIDTH = 130
"""Columns when the output goes to a file or a pipe."""


def stdout_console(file: TextIO | None = None) -> Console:
    """A console on standard output that never colours what it does not know."""
    stream = file or sys.stdout
    width = None if stream.isatty() else PLAIN_WIDTH
    return Console(file=stream, highlight=False, width=width)
