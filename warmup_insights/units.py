"""The only place that parses and formats bytes, durations and times.

Memory text of the HPU engines comes from `format_bytes`
(vllm-gaudi `extension/profiler.py`): four significant digits, a blank, a binary unit.
Upstream vLLM prints GiB with two decimals, and in a few older lines `GB` for 2**30.
"""

from __future__ import annotations

import math
import re
from datetime import datetime, timezone
from functools import lru_cache

KIB = 1024
MIB = 1024**2
GIB = 1024**3
TIB = 1024**4

_FACTORS = {
    "": 1, "ki": KIB, "mi": MIB, "gi": GIB, "ti": TIB,
    "k": KIB, "m": MIB, "g": GIB, "t": TIB,
    "pi": 1024**5, "p": 1024**5, "ei": 1024**6, "e": 1024**6,
}  # fmt: skip
_PRINTED = {"GiB": GIB, "MiB": MIB, "KiB": KIB, "TiB": TIB}
_SIZE = re.compile(
    r"\s{0,4}(-?[0-9]{1,18}(?:\.[0-9]{1,18})?)\s{0,4}([kmgtpe]i?)?(?:b|bytes)?\s{0,4}",
    re.I,
)
_DURATION = re.compile(
    r"\s{0,4}(-?[0-9]{1,12}(?:\.[0-9]{1,12})?)\s{0,4}"
    r"(ms|milliseconds?|s|secs?|seconds?|m|mins?|minutes?|h|hours?)?\s{0,4}",
    re.I,
)  # fmt: skip
_CLOCK = re.compile(r"(?:([0-9]{1,4}):)?([0-9]{1,4}):([0-9]{2})")


@lru_cache(maxsize=8192)
def parse_bytes(text: str) -> int:
    """Bytes in a size such as `14.97 GiB`, `504 MiB`, `-252 KiB` or `0 B`.

    `GB` means 2**30 here, as it does in the engines. Raises ValueError.
    """
    number, _, unit = text.partition(" ")
    whole, _, rest = number.partition(".")
    is_number = whole.isdigit() and rest.isdigit() and number.isascii()
    if unit in _PRINTED and is_number and len(number) < 19:
        # As `format_bytes` prints it.
        return round(float(number) * _PRINTED[unit])
    match = _SIZE.fullmatch(text)
    if match is None:
        raise ValueError(f"{text[:40]!r} is not a size; write it like 5GiB")
    return round(float(match[1]) * _FACTORS[(match[2] or "").lower()])


def parse_size(text: str) -> int:
    """Bytes in a size that a user writes, such as `12GiB`; without a unit only 0.

    Raises ValueError: `12` would be 12 bytes, where 12 GiB are meant.
    """
    size = parse_bytes(text)
    if size and not text.rstrip()[-1].isalpha():
        raise ValueError(f"{text[:40]!r} has no unit; write it like {text.strip()}GiB")
    return size


def gib(value: float | str) -> int:
    """Bytes in a number of GiB."""
    return round(float(value) * GIB)


def mib(value: float | str) -> int:
    """Bytes in a number of MiB."""
    return round(float(value) * MIB)


def parse_duration(text: str) -> float:
    """Seconds in a duration such as `3.55 s`, `350 ms`, `2 min`, `49 secs` or `90`.

    Raises ValueError.
    """
    match = _DURATION.fullmatch(text)
    if match is None:
        raise ValueError(f"{text[:40]!r} is not a duration; write it like 90s or 30m")
    unit = (match[2] or "s").lower()
    if unit.startswith("ms") or unit.startswith("milli"):
        factor = 0.001
    else:
        factor = {"s": 1.0, "m": 60.0, "h": 3600.0}[unit[0]]
    return float(match[1]) * factor


def parse_clock(text: str) -> float:
    """Seconds in the elapsed time of a progress bar, `MM:SS` or `H:MM:SS`.

    Raises ValueError.
    """
    match = _CLOCK.fullmatch(text)
    if match is None:
        raise ValueError(f"not an elapsed time: {text[:40]!r}")
    return int(match[1] or 0) * 3600.0 + int(match[2]) * 60.0 + int(match[3])


def engine_bytes(value: float | None) -> str:
    """A size with four significant digits, as the HPU engines print it; `?` for None."""
    return "?" if value is None else _with_unit(float(value), 0.0)


def format_bytes(value: float | None, step: float = 0.0) -> str:
    """A size for people, `?` for None: four significant digits, none of them below `step`.

    A step that is not given is that of a log with two decimals of GiB, where only such a
    log gives this very size: 0.66 GiB are not 675.8 MiB.
    """
    if value is None:
        return "?"
    size = float(value)
    if not step and abs(size) < GIB and size % MIB and is_of_hundredths(size):
        step = _HUNDREDTH
    return _with_unit(size, step)


_HUNDREDTH = 0.01 * GIB
_ROUNDING = 8
"""Bytes that a sum of printed sizes, each a whole number of bytes, may be off."""


def is_of_hundredths(size: float) -> bool:
    """Whether a size is one of two decimals of GiB, and not nearly none."""
    off = abs(size) % _HUNDREDTH
    return abs(size) > _ROUNDING and min(off, _HUNDREDTH - off) <= _ROUNDING


def _with_unit(size: float, step: float) -> str:
    """In a unit in which the size is below 1,024 and the step not above 1."""
    for unit in ("B", "KiB", "MiB", "GiB", "TiB", "PiB", "EiB"):
        digits = f"{round_to(size, step):.4g}"
        if not size or (abs(float(digits)) < KIB and step <= 1) or unit == "EiB":
            return f"{digits} {unit}"
        size, step = size / KIB, step / KIB
    raise AssertionError("unreachable")


def round_to(value: float, step: float) -> float:
    """A value without the digits whose place is below a step; as it is for 0."""
    if step <= 0:
        return value
    place = 10.0 ** math.ceil(math.log10(step) - 1e-9)
    return round(value / place) * place


def format_duration(seconds: float | None) -> str:
    """A duration for people: `350 ms`, `4.2 s`, `2 min 05 s`, `1 h 02 min`."""
    if seconds is None:
        return "?"
    if seconds < 0:
        return "-" + format_duration(-seconds)
    if 0 < seconds < 0.0995:
        return f"{seconds * 1000:.3g} ms"
    if seconds < 60:
        return f"{seconds:.3g} s"
    whole = round(seconds)
    if whole < 3600:
        return f"{whole // 60} min {whole % 60:02d} s"
    return f"{whole // 3600} h {whole % 3600 // 60:02d} min"


def format_count(value: float | None) -> str:
    """A count with thousands separators; `?` for None."""
    return "?" if value is None else f"{value:,}"


def format_percent(value: float | None) -> str:
    """A percentage with one decimal; `?` for None."""
    return "?" if value is None or math.isnan(value) else f"{value:.1f} %"


def format_time(epoch_s: float | None) -> str:
    """A UTC time to the second; `?` for None."""
    moment = _moment(epoch_s)
    return "?" if moment is None else moment.strftime("%Y-%m-%d %H:%M:%S")


def parse_isoformat(text: str | None) -> float | None:
    """Seconds since the epoch of what `isoformat` wrote; None stays None."""
    if text is None:
        return None
    return datetime.fromisoformat(text.replace("Z", "+00:00")).timestamp()


def isoformat(epoch_s: float | None) -> str | None:
    """ISO 8601 in UTC with a `Z`; None stays None, and is what no calendar has."""
    moment = _moment(epoch_s)
    return None if moment is None else moment.isoformat().replace("+00:00", "Z")


def _moment(epoch_s: float | None) -> datetime | None:
    """A time of the calendar; None for one before the year 1 or after 9999, such as that
    of a log that states a longer duration."""
    if epoch_s is None:
        return None
    try:
        return datetime.fromtimestamp(epoch_s, timezone.utc)
    except (ValueError, OverflowError, OSError):
        return None
