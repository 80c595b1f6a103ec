"""A hook: which call of an engine is watched, and by what."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Generator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from warmup_insights.vllm_plugin.session import Session


@dataclass(frozen=True, slots=True)
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
Probe = Callable[["Session", Call], Watch]
"""Runs to its `yield` before the call, and from there, with the outcome, after it.

A probe that does not yield is not interested in this call.
"""


@dataclass(frozen=True, kw_only=True, slots=True)
class Hook:
    """One row of the table."""

    engine: str
    """`vllm`, `vllm-gaudi` or `vllm-fork`."""
    topic: str
    """What is seen through it, in words; rows of one topic stand in for each other."""
    module: str
    owner: str | None
    """Name of the class; None for a function of the module."""
    name: str
    probe: Probe
    since: str | None = None
    """First version that has it; None for the first that is supported."""
    until: str | None = None
    """First version that does not have it any more."""

    @property
    def target(self) -> str:
        """Module, class and method, with dots."""
        return ".".join(part for part in (self.module, self.owner, self.name) if part)

    def is_expected_in(self, version: tuple[int, ...] | None) -> bool:
        """Whether a version should have the target; an unknown one may have any."""
        if version is None:
            return self.until is None
        since, until = version_of(self.since), version_of(self.until)
        return (since is None or version >= since) and (
            until is None or version < until
        )


def version_of(text: str | None) -> tuple[int, ...] | None:
    """The leading numbers of a version; None when there are none, or only zeros."""
    numbers: list[int] = []
    for part in (text or "").lstrip("v").split("+")[0].split("."):
        if not part.isdigit():
            break
        numbers.append(int(part))
    return tuple(numbers) if any(numbers) else None


def parameter_names(function: Callable[..., Any]) -> tuple[str, ...]:
    """Names of the positional parameters of a function, `self` included."""
    try:
        parameters = inspect.signature(function).parameters.values()
    except (TypeError, ValueError):
        return ()
    kinds = (inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD)
    return tuple(p.name for p in parameters if p.kind in kinds)
