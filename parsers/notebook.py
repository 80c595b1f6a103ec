"""Logs kept in the outputs of a notebook."""

from __future__ import annotations

import json

MAX_BYTES = 64 << 20


def looks_like_notebook(block: bytes) -> bool:
    """Whether a file that begins with this block is a notebook."""
    return block.lstrip()[:1] == b"{" and b'"cells"' in block[:200_000]


def text_of(data: bytes) -> str | None:
    """The text of all outputs, cell by cell; None when it is no whole notebook."""
    try:
        book = json.loads(data)
    except (ValueError, RecursionError):
        return None
    cells = book.get("cells") if isinstance(book, dict) else None
    if not isinstance(cells, list):
        return None
    parts: list[str] = []
    for cell in cells:
        outputs = cell.get("outputs") if isinstance(cell, dict) else None
        parts += map(_text, outputs if isinstance(outputs, list) else [])
    return "\n".join(parts)


def _text(output: object) -> str:
    if not isinstance(output, dict):
        return ""
    text = output.get("text")
    if text is None and isinstance(output.get("data"), dict):
        text = output["data"].get("text/plain")
    if isinstance(text, list):
        return "".join(str(part) for part in text)
    return text if isinstance(text, str) else ""
