"""A watched call of an engine: its arguments, how it ended, plain values out of it."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Generator, Sequence
from dataclasses import dataclass
from numbers import Integral
from typing import Any


@dataclass(slots=True)  # a frozen one takes three times as long, in each served step
class Outcome:
    """How a watched call ended: with a result, or with the error it raised."""

    result: Any = None
    error: BaseException | None = None


class Call:
    """The arguments of a watched call, by name; nothing is copied or formatted."""

    __slots__ = ("_args", "_kwargs", "_names")

    def __init__(
        self, names: Sequence[str], args: tuple[Any, ...], kwargs: dict[str, Any]
    ) -> None:
        self._names = names
        self._args = args
        self._kwargs = kwargs

    @property
    def owner(self) -> Any:
        """The object whose method is called."""
        return self._args[0]

    def arg(self, *names: str, default: Any = None) -> Any:
        """The first argument of one of these names: names change between versions."""
        for name in names:
            if name in self._kwargs:
                return self._kwargs[name]
            if name in self._names:
                index = self._names.index(name)
                if index < len(self._args):
                    return self._args[index]
        return default


Watch = Generator[None, Outcome, None]
"""What a probe is: it runs to its `yield` before the call, and on after it."""


def parameter_names(function: Callable[..., Any]) -> tuple[str, ...]:
    """Names of the positional parameters of a function, `self` included."""
    try:
        parameters = inspect.signature(function).parameters.values()
    except (TypeError, ValueError):
        return ()
    kinds = (inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD)
    return tuple(p.name for p in parameters if p.kind in kinds)


def whole(value: Any) -> int | None:
    """A whole number, numpy's included; None for anything else.

    A tensor is anything else: to read it would wait for the device.
    """
    if type(value) is int:  # mostly, and the other test takes five times as long
        return value
    return int(value) if isinstance(value, Integral) else None


def size(value: Any) -> int | None:
    """Bytes, which an engine may have with a fraction; None for what is no number."""
    return int(value) if isinstance(value, float) else whole(value)


def attribute(holder: Any, path: str, default: Any = None) -> Any:
    """What a path of names with dots leads to; the default where one is missing."""
    *parents, last = path.split(".")
    for name in parents:
        holder = getattr(holder, name, None)
    return getattr(holder, last, default)


def bytes_of(holder: Any, path: str) -> int | None:
    """The size in bytes that a path leads to; None where it is no number."""
    return size(attribute(holder, path))
