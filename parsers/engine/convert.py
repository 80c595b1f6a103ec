"""From text to values: named groups by the name of their field, and lists of settings."""

from __future__ import annotations

import ast
import math
import re
from collections.abc import Callable
from functools import cache, lru_cache, partial
from typing import Any

from warmup_insights.model.events import Bucket
from warmup_insights.model.summary import top_level_parts
from warmup_insights.secrets import VALUE_LIMIT, mask, mask_text
from warmup_insights.units import gib, mib, parse_bytes, parse_clock

CUT_WORD = "\N{HORIZONTAL ELLIPSIS}"
"""It stands for the last word of a line that was cut."""
MAX_BUCKETS = 200_000
"""More tuples than this in one line are not read; the engines stop far below."""

_TUPLE = re.compile(r"\(\s?(-?\d{1,12}(?:,\s?-?\d{1,12}){1,5}),?\s?\)")
_INT = re.compile(r"-?\d{1,18}")
_NUMPY = re.compile(r"np\.\w{1,10}\((-?\d{1,18})\)")
"""How numpy 2 prints one of its numbers."""
_SHORT = 19
"""No number of a shorter text is too long for a column."""

_PHASES = {
    "prompt": "prompt",
    "prefill": "prompt",
    "graph/prompt": "prompt",
    "decode": "decode",
    "graph/decode": "decode",
    "prefix_prefill": "prefix_prefill",
    "spec decode": "spec_decode",
    "unified": "unified",
}


@lru_cache(maxsize=256)
def phase_of(text: str) -> str:
    """Our word for a phase as an engine writes it."""
    word = text.strip().strip("'\"").lower()
    if "multimodal" in word:
        return "multimodal"
    return _PHASES.get(word, word.replace(" ", "_"))


def int_of(text: str) -> int:
    """An integer with or without thousands separators."""
    return int(text if text.isdecimal() else text.replace(",", ""))


def buckets_of(text: str) -> list[Bucket]:
    """Every whole tuple in a list; a cut or elided list gives what it has."""
    found: list[Bucket] = []
    text = _plain_numbers(text)
    for match in _TUPLE.finditer(text):
        found.append(tuple(int(number) for number in match[1].split(",")))
        if len(found) >= MAX_BUCKETS:
            break
    return found


def _plain_numbers(text: str) -> str:
    return _NUMPY.sub(r"\1", text) if "np." in text else text


@lru_cache(maxsize=16_384)
def bucket_of(text: str) -> Bucket:
    """The numbers in the text of one tuple."""
    if len(text) < _SHORT and "_" not in text:
        try:
            numbers = tuple(map(int, text.strip("()").split(",")))
        except ValueError:
            pass  # not as simple as nearly all of them
        else:
            return numbers[:6]
    return tuple(int(number) for number in _INT.findall(_plain_numbers(text))[:6])


def ints_of(text: str) -> list[int]:
    """The integers in the text of a list."""
    return [int(number) for number in _INT.findall(text)]


def names_of(text: str) -> list[str]:
    """The names between commas."""
    return [name.strip() for name in text.split(",")]


def words_of(text: str) -> list[str]:
    """The words in the repr of a set or a tuple of texts."""
    return re.findall(r"\w{1,40}", text)


_SUFFIXES: tuple[tuple[str, str, Callable[[str], Any]], ...] = (
    ("_gib", "_bytes", gib),
    ("_mib", "_bytes", mib),
    ("_clock", "_s", parse_clock),
    ("_bytes", "_bytes", parse_bytes),
    ("_s", "_s", float),
)
_BY_NAME: dict[str, Callable[[str], Any]] = {
    "phase": phase_of,
    "bucket": bucket_of,
    "shape": bucket_of,
    "fallback": bucket_of,
    "buckets": buckets_of,
    "dimensions": names_of,
    "tags": words_of,
    "batch_sizes": ints_of,
    "thresholds": ints_of,
    "gpu_memory_utilization": float,
    "graph_reserved_fraction": float,
    "prompt_ratio": float,
    "percent_reported": float,
    "usage_percent": float,
    "max_concurrency": float,
    "temperature": float,
    "top_p": float,
    "batch_changed": lambda text: text == "True",
}
_TEXT = frozenset(
    {"name", "stage", "message", "model", "version", "text", "reason", "what", "detail",
     "engine", "part", "condition", "key", "value", "mode", "strategy", "path", "request",
     "filesystem"}
)  # fmt: skip


def convert_groups(groups: dict[str, str | None]) -> dict[str, Any]:
    """Fields of an event from the named groups of a match; absent groups are left out.

    Raises ValueError when a number cannot be read.
    """
    fields: dict[str, Any] = {}
    for name, text in groups.items():
        if text is not None:
            key, convert = field_of(name)
            fields[key] = convert(text)
    return fields


@cache
def field_of(name: str) -> tuple[str, Callable[[str], Any]]:
    """The field that a named group fills, and its converter.

    A converter raises ValueError when its text cannot be read.
    """
    if name in _BY_NAME:
        return name, _BY_NAME[name]
    if name in _TEXT:
        return name, text_of
    for suffix, ours, convert in _SUFFIXES:
        if name.endswith(suffix):
            # Sizes and times come from few digits: the same texts come again and again.
            cached = lru_cache(maxsize=1024)(partial(_without_commas, convert))
            return name.removesuffix(suffix) + ours, cached
    return name, int_of


_SNAPSHOT = re.compile(r"(?:^|/)models--([\w.-]{1,200}?)/snapshots/")


def model_of(text: str) -> str:
    """The name of a model; of a path into the hub's cache, the model that it names."""
    match = _SNAPSHOT.search(text[:1000])
    return text_of(match[1].replace("--", "/", 1) if match else text)


def text_of(text: str) -> str:
    """A text without the space around it and without secrets."""
    return mask_text(text.strip())


def _without_commas(convert: Callable[[str], Any], text: str) -> Any:
    return convert(text.replace(",", ""))


SETTINGS_LIMIT = 200_000
"""Characters of a settings line that are read."""
MAX_KEYS = 500

_KEY = re.compile(r"\s{0,8}['\"]?(\w[\w.-]{0,80})['\"]?\s{0,2}([:=])\s?")


def settings_of(text: str) -> dict[str, Any]:
    """Keys and values of a dict's repr, or of `key=value` joined by commas.

    Values hold nested brackets, quoted text and things like `<CompilationMode.X: 3>`, so
    the text is cut at top-level commas and only plain literals are converted. Secrets are
    masked, cut values left out.
    """
    is_cut = len(text) > SETTINGS_LIMIT
    text = text[:SETTINGS_LIMIT].strip()
    is_dict = text.startswith("{")
    settings: dict[str, Any] = {}
    for part in top_level_parts(text.removeprefix("{"), is_closed=is_dict or is_cut):
        match = _KEY.match(part)
        if match is None or len(settings) >= MAX_KEYS:
            continue
        key = match[1]
        settings[key] = mask(key, _value(part[match.end() :].strip()))
    return settings


def _value(text: str) -> Any:
    if len(text) > VALUE_LIMIT:
        return text[:VALUE_LIMIT]
    value = literal_of(text)
    return value if _is_plain(value) else text


def literal_of(text: str) -> Any:
    """What Python printed so: a number, a list, a mapping; another text as it is."""
    try:
        return ast.literal_eval(text)
    except (ValueError, SyntaxError, RecursionError, MemoryError, TypeError):
        return text


def _is_plain(value: Any) -> bool:
    """Whether a value can be written as JSON."""
    if isinstance(value, dict):
        return all(isinstance(k, str) and _is_plain(v) for k, v in value.items())
    if isinstance(value, list | tuple):
        return all(_is_plain(item) for item in value)
    if isinstance(value, float):
        return math.isfinite(value)
    return value is None or isinstance(value, str | bool | int)
