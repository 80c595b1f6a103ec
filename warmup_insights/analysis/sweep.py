"""An experiment over many settings: which points it has, which are done, what is left."""

from __future__ import annotations

import hashlib
import itertools
import math
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from statistics import fmean

from warmup_insights.errors import SettingError
from warmup_insights.rules import VARIABLES

MAX_POINTS = 10_000

ALIASES = {
    **{name: text for name, text in VARIABLES.items() if name.startswith("graph_")},
    "prompt_ratio": VARIABLES["graph_prompt_ratio"],
    "bucketing_strategy": "VLLM_BUCKETING_STRATEGY",
}
"""Short names of settings that follow an environment variable."""
_OPTION = re.compile(r"[a-z][a-z0-9_]{0,60}")
_VARIABLE = re.compile(r"(?:VLLM|PT_HPU)_[A-Z0-9_]{1,80}")


@dataclass(frozen=True)
class Point:
    """One combination of settings: engine option or environment variable to text."""

    settings: tuple[tuple[str, str], ...]

    @property
    def text(self) -> str:
        """The settings in one line."""
        return " ".join(f"{name}={value}" for name, value in self.settings)


@dataclass(frozen=True)
class Experiment:
    """A named set of points over one base: the engine and everything that is fixed."""

    name: str
    points: tuple[Point, ...]
    engine: str
    base: tuple[str, ...]

    def label(self, point: Point) -> str:
        """The label of the run of a point."""
        return f"{self.name}: {point.text}"

    @property
    def base_digest(self) -> str:
        """Eight digits that stand for the engine and the fixed arguments."""
        text = "\0".join((self.engine, *self.base))
        return hashlib.sha256(text.encode()).hexdigest()[:8]

    @property
    def note(self) -> str:
        """What is noted on each of its runs."""
        return f"sweep {self.name}, base {self.base_digest}"


def make_experiment(
    name: str | None,
    grid: Mapping[str, Sequence[str]],
    points: Iterable[Mapping[str, str]],
    *,
    engine: str,
    base: Sequence[str],
) -> Experiment:
    """The experiment of a grid, of single points, or of both.

    Without a name it gets one that depends on the engine, the base and the settings'
    names, so that the same command finds its own runs again.

    Raises:
        SettingError: there is no point, too many, or a name is none of an engine.
    """
    combined = [*_grid_points(grid), *(_point(settings) for settings in points)]
    unique = tuple(dict.fromkeys(combined))
    if not unique:
        raise SettingError(
            "There is nothing to sweep; give values such as "
            "--gpu-memory-utilization 0.5,0.7,0.9"
        )
    _limit(len(unique))
    if name is None:
        names = sorted({key for point in unique for key, _ in point.settings})
        text = "\0".join((engine, *base, "", *names))
        name = f"sweep-{hashlib.sha256(text.encode()).hexdigest()[:6]}"
    return Experiment(name, unique, engine, tuple(base))


def _grid_points(grid: Mapping[str, Sequence[str]]) -> Iterable[Point]:
    if not grid:
        return
    names = list(grid)
    empty = next((name for name in names if not grid[name]), None)
    if empty is not None:
        raise SettingError(f"{empty} has no value; give one or more, such as 0.5,0.7")
    _limit(math.prod(map(len, grid.values())))
    for values in itertools.product(*grid.values()):
        yield _point(dict(zip(names, values, strict=True)))


def _limit(points: int) -> None:
    if points > MAX_POINTS:
        raise SettingError(
            f"These are {points} combinations; a sweep has {MAX_POINTS} at most"
        )


def _point(settings: Mapping[str, str]) -> Point:
    return Point(
        tuple((setting_name(name), value.strip()) for name, value in settings.items())
    )


def setting_name(text: str) -> str:
    """The engine's name of a setting. Raises SettingError when it cannot be one."""
    name = text.strip().removeprefix("--")
    option = name.replace("-", "_")
    if option in ALIASES:
        return ALIASES[option]
    if _OPTION.fullmatch(option):
        return option
    if _VARIABLE.fullmatch(name):
        return name
    raise SettingError(
        f"{text[:60]!r} is no setting; use an engine option, such as "
        "max_num_seqs, or an engine variable, such as VLLM_GRAPH_RESERVED_MEM"
    )


def is_variable(name: str) -> bool:
    """Whether a setting is an environment variable."""
    return _VARIABLE.fullmatch(name) is not None


def time_left_s(durations_s: Sequence[float], num_left: int) -> float | None:
    """What the remaining points may take, at the mean of those done; None before one."""
    return fmean(durations_s) * num_left if durations_s else None
