"""The console that commands print to."""

from __future__ import annotations

import re
import sys
from collections.abc import Iterable
from typing import TextIO

from rich.console import Console, ConsoleOptions, RenderableType
from rich.segment import Segment

PLAIN_WIDTH = 130
"""Columns when the output goes to a file or a pipe."""
_ACTING = re.compile(
    "[\x00-\x08\x0b-\x1f\x7f-\x9f\u061c\u200e\u200f\u202a-\u202e\u2066-\u2069]"
)
"""Characters that a terminal obeys instead of showing them; names may hold some."""


def printable(text: str) -> str:
    """The text with a mark in place of each character that would steer a terminal."""
    return _ACTING.sub("\ufffd", text)


class _Console(Console):
    """Shows what names and log lines hold, and none of it steers the terminal."""

    def render(
        self, renderable: RenderableType, options: ConsoleOptions | None = None
    ) -> Iterable[Segment]:
        """The pieces to print; colours are no part of their text."""
        for segment in super().render(renderable, options):
            if segment.control or _ACTING.search(segment.text) is None:
                yield segment
            else:
                yield Segment(printable(segment.text), segment.style)


def stdout_console(file: TextIO | None = None) -> Console:
    """A console on standard output that never guesses colours."""
    stream = file or sys.stdout
    width = None if stream.isatty() else PLAIN_WIDTH
    return _Console(file=stream, highlight=False, width=width)
