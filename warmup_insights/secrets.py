"""Secrets are masked before anything is stored: by the name of a key, or by the text."""

from __future__ import annotations

import re
from typing import Any

MASK = "***"
VALUE_LIMIT = 2000
"""Characters that are kept of a value that is no plain text."""

_SECRET_KEY = re.compile(
    r"(?:^|[_.-])(?:api_?keys?|token|auth|secret|password|passwd|pwd|credentials?"
    r"|private_?key|access_?key)(?:$|[_.-])",
    re.I,
)
_URL_LOGIN = re.compile(r"(://)[^/\s:@'\"]{0,200}:[^/\s@'\"]{1,200}@")
_SECRET_TEXT = re.compile(
    r"\b(?:hf_[A-Za-z0-9]{16,80}|sk-[A-Za-z0-9_-]{16,200}|AKIA[A-Z0-9]{16}"
    r"|gh[pousr]_[A-Za-z0-9]{20,80}|eyJ[\w-]{10,400}\.[\w-]{10,400}\.[\w-]{5,400})"
)


def mask_text(text: str) -> str:
    """The text without logins in URLs and without well-known kinds of keys."""
    return _SECRET_TEXT.sub(MASK, _URL_LOGIN.sub(rf"\1{MASK}@", text))


def mask(key: str, value: Any) -> Any:
    """The value, or `***` when its key says that it is a secret."""
    if isinstance(value, dict):
        return {str(inner): mask(str(inner), item) for inner, item in value.items()}
    if value is None or value == "" or isinstance(value, bool | int | float):
        return value
    if _SECRET_KEY.search(key):
        return MASK
    if isinstance(value, str):
        return mask_text(value)
    if isinstance(value, list | tuple):
        return [mask("", item) for item in value]
    return mask_text(str(value)[:VALUE_LIMIT])
