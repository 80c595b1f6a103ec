"""Untrusted text made harmless: log lines, model names, labels, paths.

A terminal escape, a direction override or a stray control character is shown as what
it is (`\\x1b`, `\\u202e`) instead of acting on the page.
"""

from __future__ import annotations

import html
import re

LIMIT = 1000
"""Characters of one text that a page shows."""
WHOLE = 4000
"""Of what a visitor wrote, a setting, or the message of a failure."""
NAME = 40
"""Of the name of a run where it is one of several."""

_INVISIBLE = re.compile(
    "[\x00-\x08\x0b-\x1f\x7f-\x9f\xad\u061c\u180e\u200b-\u200f\u2028-\u202e"
    "\u2060-\u206f\ufeff\ufff9-\ufffb]"
)
_NUMBER_AND_UNIT = re.compile(r"(?<=\d) (?=[A-Za-z%])")
_CODE = re.compile(r"`([^`]{1,200})`")
_MARKUP = re.compile(r"([\\`*_{}\[\]()#+\-.!|~$:<>&^=\"'@/])")


def visible(text: object, limit: int = LIMIT) -> str:
    """A text whose every character is seen and does nothing, cut at `limit`."""
    shown = _INVISIBLE.sub(_name_of, str(text)[: limit + 1])
    return shown if len(shown) <= limit else shown[: limit - 1] + "\u2026"


def short_name(text: object) -> str:
    """A name as `visible`, cut in the middle: names differ at their ends."""
    shown = visible(text, WHOLE)
    if len(shown) <= NAME:
        return shown
    front = (NAME - 1) // 2
    return f"{shown[:front]}\u2026{shown[len(shown) - (NAME - 1 - front) :]}"


def _name_of(match: re.Match[str]) -> str:
    code = ord(match[0])
    return f"\\x{code:02x}" if code < 0x100 else f"\\u{code:04x}"


def markdown(text: object) -> str:
    """A text for a Markdown field that reads the same and is no markup."""
    return _MARKUP.sub(r"\\\1", visible(text).replace("\n", " "))


def sentence(text: object) -> str:
    """A message of this program for a Markdown field; what it has in backticks is code."""
    parts = _CODE.split(visible(text).replace("\n", " "))
    return "".join(
        f"`{part}`" if number % 2 else markdown(part)
        for number, part in enumerate(parts)
    )


def kept_together(text: str) -> str:
    """A text whose numbers stay on one line with their units."""
    return _NUMBER_AND_UNIT.sub("\u00a0", text)


def figure_text(text: object) -> str:
    """A text for a figure, whose labels understand a little HTML."""
    return html.escape(visible(text), quote=False)
