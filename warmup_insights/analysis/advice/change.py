"""One change of a start: what to set, in words and values, and what it costs."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal

Value = float | int | str


@dataclass(frozen=True)
class Way:
    """One of several changes, each of which is enough by itself."""

    suggestion: str
    """The change in words."""
    price: str = "none"
    """What it costs, or why it does not help."""
    changes: Mapping[str, Value] = field(default_factory=dict)
    """Setting to value, by the engine's own name; empty when the way does not help."""
    where: Mapping[str, Value] = field(default_factory=dict)
    """Settings that it is for, to the value that each must have; True for any that is on."""
    devices: tuple[str, ...] = ()
    """Kinds of device that it is for; empty for any."""
    kind: Literal["remedy", "look", "no help"] = "remedy"
    """What it is: `look` only shows more of the cause, `no help` is named because it is a usual
    remedy."""

    @classmethod
    def that_sets(cls, price: str, more: str = "", **changes: Value) -> Way:
        """The way that only sets these, in the words of `as_set`, with `more` behind."""
        return cls(f"{as_set(changes)}{more}", price, changes)


def as_set(changes: Mapping[str, Value]) -> str:
    """Settings as they are given: variables with `=`, others as options, which stand alone
    where the value is True."""
    texts = {n: f"{v:g}" if isinstance(v, float) else v for n, v in changes.items()}
    return " ".join(
        f"{name}={text}"
        if name.isupper()
        else as_option(name) + ("" if text is True else f" {text}")
        for name, text in texts.items()
    )


def as_option(name: str) -> str:
    """A setting as it is named on the command line; variables as they are."""
    return name if name.isupper() else f"--{name.replace('_', '-')}"
