"""Request lengths: how many tokens, how often; measured or assumed."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Literal

from warmup_insights.errors import InputError

Assumption = Literal["uniform", "log-uniform"]

MAX_LINES = 1_000_000
_NUM_POINTS = 512


@dataclass(frozen=True)
class LengthDistribution:
    """Lengths in tokens with weights; `name` says where they come from.

    `is_assumed` is true for a shape that nobody measured; say so wherever it is shown.
    """

    name: str
    weights: tuple[tuple[int, float], ...]
    is_assumed: bool


def parse_lengths(lines: Iterable[str], name: str) -> LengthDistribution:
    """Lengths from lines `LENGTH` or `LENGTH COUNT`; `#` starts a comment.

    Raises:
        InputError: a line holds something else, or there is no length at all.
    """
    counts: Counter[int] = Counter()
    for number, line in enumerate(lines, 1):
        if number > MAX_LINES:
            raise InputError(f"{name} has more than {MAX_LINES} lines; use counts.")
        words = line.split("#", 1)[0].replace(",", " ").split()
        if not words:
            continue
        if len(words) > 2 or not all(
            word.isascii() and word.isdigit() and len(word) < 10 for word in words
        ):
            raise InputError(
                f"{name}:{number}: expected a length in tokens, or a length and a "
                f"count, found {line.strip()[:40]!r}."
            )
        length = int(words[0])
        if length < 1:
            raise InputError(f"{name}:{number}: the length {length} is not above 0.")
        counts[length] += int(words[1]) if len(words) == 2 else 1
    weights = tuple((length, float(count)) for length, count in sorted(counts.items()))
    if not any(weight for _, weight in weights):
        raise InputError(f"{name} holds no length; write one number of tokens a line.")
    return LengthDistribution(name, weights, is_assumed=False)


def assume_lengths(assumption: Assumption, longest: int) -> LengthDistribution:
    """Lengths from 1 to `longest`, each equally likely or each magnitude equally likely.

    At most 512 lengths stand for all of them, evenly spaced or evenly in proportion.
    """
    if assumption == "uniform":
        count = min(_NUM_POINTS, longest)
        points = {max(1, longest * index // count) for index in range(1, count + 1)}
    else:
        points = {
            round(longest ** (index / (_NUM_POINTS - 1)))
            for index in range(_NUM_POINTS)
        }
    ordered = sorted(points)
    if assumption == "uniform":
        weights = tuple((length, 1.0) for length in ordered)
    else:
        # Small lengths stand for fewer points; the weight of 1 / length evens it out.
        gaps = [
            length - before
            for before, length in zip([0, *ordered[:-1]], ordered, strict=True)
        ]
        weights = tuple(
            (length, gap / length) for length, gap in zip(ordered, gaps, strict=True)
        )
    return LengthDistribution(
        f"{assumption} from 1 to {longest} (assumed)", weights, is_assumed=True
    )
