"""Settings as engines print them: a dict's repr, or `key=value` joined by commas.

Values hold nested brackets, quoted text and things like `<CompilationMode.X: 3>`, so
the text is cut at top-level commas and only plain literals are converted.
"""

from __future__ import annotations

import ast
import math
import re
from collections.abc import Iterator
from typing import Any

from warmup_insights.secrets import MASK, VALUE_LIMIT, mask, mask_text

__all__ = ["MASK", "mask", "mask_text", "settings_of"]

LIMIT = 200_000
"""Characters of a settings line that are read."""
MAX_KEYS = 500

_OPEN, _CLOSE = "([{<", ")]}>"
_TELLING = re.compile(r"[\\'\"(\[{<)\]}>,]")
_KEY = re.compile(r"\s{0,8}['\"]?(\w[\w.-]{0,80})['\"]?\s{0,2}([:=])\s?")


def settings_of(text: str) -> dict[str, Any]:
    """Keys and values of a settings text; secrets masked, cut values left out."""
    text = text[:LIMIT].strip().removeprefix("{")
    settings: dict[str, Any] = {}
    for part in _top_level_parts(text):
        match = _KEY.match(part)
        if match is None or len(settings) >= MAX_KEYS:
            continue
        key = match[1]
        settings[key] = mask(key, _value(part[match.end() :].strip()))
    return settings


def _value(text: str) -> Any:
    if len(text) > VALUE_LIMIT:
        return text[:VALUE_LIMIT]
    try:
        value = ast.literal_eval(text)
    except (ValueError, SyntaxError, RecursionError, MemoryError, TypeError):
        return text
    return value if _is_plain(value) else text


def _is_plain(value: Any) -> bool:
    """Whether a value can be written as JSON."""
    if isinstance(value, dict):
        return all(isinstance(k, str) and _is_plain(v) for k, v in value.items())
    if isinstance(value, list | tuple):
        return all(_is_plain(item) for item in value)
    if isinstance(value, float):
        return math.isfinite(value)
    return value is None or isinstance(value, str | bool | int)


def _top_level_parts(text: str) -> Iterator[str]:
    """The text between commas that stand outside brackets and quotes; linear."""
    depth, start, quote, escaped = 0, 0, "", -1
    for match in _TELLING.finditer(text):
        char, index = match[0], match.start()
        if quote:
            if char == "\\" and index != escaped:
                escaped = index + 1
            elif char == quote and index != escaped:
                quote = ""
        elif char in "'\"" and (index == 0 or not text[index - 1].isalnum()):
            quote = char
        elif char in _OPEN:
            depth += 1
        elif char in _CLOSE:
            depth -= 1
            if depth < 0:
                yield text[start:index]
                return
        elif char == "," and depth == 0:
            yield text[start:index]
            start = index + 1
    yield text[start:]
