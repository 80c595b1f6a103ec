"""Text from outside, made fit for every database."""

from __future__ import annotations

from typing import Any, overload

import msgspec


@overload
def clean_text(text: str) -> str: ...
@overload
def clean_text(text: str | None) -> str | None: ...
def clean_text(text: str | None) -> str | None:
    """Text without what a database refuses: NUL and halves of surrogate pairs."""
    if text is None or (text.isascii() and "\0" not in text):
        return text
    return text.replace("\0", "\ufffd").encode("utf-8", "replace").decode()


def clean(value: Any) -> Any:
    """A JSON value with every text in it made fit."""
    if isinstance(value, str):
        return clean_text(value)
    if isinstance(value, dict):
        return {clean(key): clean(item) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [clean(item) for item in value]
    return value


def to_json(value: Any) -> str:
    """A value as JSON text; numbers that JSON does not have become null."""
    try:
        return msgspec.json.encode(value).decode()
    except UnicodeEncodeError:
        return msgspec.json.encode(clean(msgspec.to_builtins(value))).decode()


def from_json(text: str) -> Any:
    """The value in a JSON text that the store wrote."""
    return msgspec.json.decode(text)
