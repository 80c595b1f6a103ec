"""Secrets are masked before anything is stored: by the name of a key, or by the text."""

from __future__ import annotations

import re
from collections.abc import Sequence
from functools import lru_cache
from typing import Any

MASK = "***"
VALUE_LIMIT = 2000
"""Characters that are kept of a value that is no plain text."""

_SECRET_WORDS = frozenset(
    {"apikey", "apikeys", "token", "auth", "authorization", "secret", "password",
     "passwd", "pwd", "passphrase", "credential", "credentials", "bearer", "cookie"}
)  # fmt: skip
_SECRET_ENDS = ("password", "passwd", "apikey")
_SECRET_PAIRS = frozenset(
    {("api", "key"), ("api", "keys"), ("private", "key"), ("access", "key")}
)
_TOKEN_FIGURES = frozenset({"id", "ids", "count", "limit", "budget", "length"})
"""What follows the word token where it is a piece of text."""
_WORD = re.compile(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+|\d+")

# Every repetition has a bound, so no text takes more than linear time.
_NAME = (
    r"(?:api[_-]?keys?|token|secret|password|passwd|pwd|passphrase|credentials?"
    r"|private[_-]?key|access[_-]?key|authorization|cookie|signature"
    r"|(?<![a-z])(?:auth|sig|bearer))"
)
_NO_SECRET = r"(?!(?:None|null|True|False|[\d.,]{1,30})(?:[\s'\",;&)\]}]|$)|\*\*\*)"
_NAMED = re.compile(
    rf"({_NAME}['\"]?\s{{0,3}}[:=]\s{{0,3}}|(?<![\w-])--[\w-]{{0,60}}?{_NAME}\s{{1,3}}"
    rf"|Bearer\s{{1,3}})(['\"\[]?){_NO_SECRET}(?:(?<=\[)[^\]]{{1,2000}}"
    rf"|(?<=')[^']{{1,2000}}|(?<=\")[^\"]{{1,2000}}"
    rf"|(?:(?:Bearer|Basic|Token)\s{{1,3}})?[^\s'\",;&)\]}}\[]{{1,2000}})",
    re.I,
)
_URL_LOGIN = re.compile(
    r"(://)(?:[^/\s:@'\"]{0,200}:[^/\s@'\"]{1,200}|[^/\s:@'\"]{16,200})@"
)
_SECRET_TEXT = re.compile(
    r"\b(?:hf_[A-Za-z0-9]{16,80}|sk-[A-Za-z0-9_-]{16,200}|A[KS]IA[A-Z0-9]{16}"
    r"|gh[pousr]_[A-Za-z0-9]{20,80}|github_pat_[A-Za-z0-9_]{20,100}"
    r"|glpat-[A-Za-z0-9_-]{16,80}|xox[abeprs]-[A-Za-z0-9-]{10,200}"
    r"|AIza[A-Za-z0-9_-]{30,60}|nvapi-[A-Za-z0-9_-]{16,100}"
    r"|eyJ[\w-]{10,400}\.[\w-]{10,400}\.[\w-]{5,400})"
)
# These are in every text that the patterns change; looking for them is quicker, and
# quickest for the words alone, which most lines of a log hold none of.
_PARTS = ("key", "token", "secret", "pass", "pwd", "credential", "auth", "cookie",
          "sig")  # fmt: skip
_NAMES = (*_PARTS, "bearer")
_PART = f"(?:{'|'.join(_PARTS)})"
_IS_NAMED = re.compile(
    rf"{_PART}\w{{0,12}}['\"]?\s{{0,3}}[:=]|bearer|--[\w-]{{0,60}}{_PART}"
)
_STARTS = ("hf_", "sk-", "IA", "gh", "github_pat_", "glpat-", "xox", "AIza", "nvapi-",
           "eyJ")  # fmt: skip


def mask_text(text: str) -> str:
    """The text without logins in URLs, named secrets and well-known kinds of keys."""
    if "://" in text:
        text = _URL_LOGIN.sub(rf"\1{MASK}@", text)
    if _holds_any(_STARTS, text):
        text = _SECRET_TEXT.sub(MASK, text)
    folded = text.casefold()
    if _holds_any(_NAMES, folded) and _IS_NAMED.search(folded):
        text = _NAMED.sub(rf"\1\2{MASK}", text)
    return text


TOGETHER = 16
"""So many texts are looked at together: most hold nothing to mask."""


def mask_texts(texts: Sequence[str]) -> list[str]:
    """Each text as `mask_text` gives it."""
    masked: list[str] = []
    for start in range(0, len(texts), TOGETHER):
        some = texts[start : start + TOGETHER]
        text = "\n".join(some)
        marks = "://" in text or _holds_any(_STARTS, text)
        may_hold = marks or _holds_any(_NAMES, text.casefold())
        masked += map(mask_text, some) if may_hold else some
    return masked


def _holds_any(words: tuple[str, ...], text: str) -> bool:
    for word in words:  # noqa: SIM110 - a generator takes three times as long
        if word in text:
            return True
    return False


def mask(key: str, value: Any) -> Any:
    """The value, or `***` when its key is that of a secret."""
    if isinstance(value, dict):
        return {str(inner): mask(str(inner), item) for inner, item in value.items()}
    if value is None or value == "" or isinstance(value, bool | int | float):
        return value
    if _is_secret(key):
        return MASK
    if isinstance(value, str):
        return mask_text(value)
    if isinstance(value, list | tuple):
        return [mask("", item) for item in value]
    return mask_text(str(value)[:VALUE_LIMIT])


@lru_cache(maxsize=4096)
def _is_secret(key: str) -> bool:
    """Whether the words of a key, in any spelling, name a secret."""
    words = [word.lower() for word in _WORD.findall(key[:200])]
    for word, following in zip(words, [*words[1:], ""], strict=False):
        if word == "token" and following in _TOKEN_FIGURES:
            continue
        if word in _SECRET_WORDS or word.endswith(_SECRET_ENDS):
            return True
        if (word, following) in _SECRET_PAIRS:
            return True
    return False
