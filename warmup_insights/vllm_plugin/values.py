"""Plain values out of an engine's objects."""

from __future__ import annotations

from numbers import Integral
from typing import Any


def whole(value: Any) -> int | None:
    """A whole number, numpy's included; None for anything else.

    A tensor is anything else: to read it would wait for the device.
    """
    return int(value) if isinstance(value, Integral) else None


def bytes_of(holder: Any, name: str) -> int | None:
    """An attribute that holds a size in bytes; None where it is no number."""
    value = getattr(holder, name, None)
    return int(value) if isinstance(value, int | float) else None
