"""Whose progress bar it is, where several ranks draw and a line has no name."""

from __future__ import annotations

from collections.abc import Mapping

from parsers.engine.signals import BarUpdate, Origin
from parsers.engine.steps import RankState


def drawn_by(ranks: Mapping[int | None, RankState], made: BarUpdate) -> int | None:
    """The only rank whose bar over graphs this goes on from, its name having been pushed
    off the line by another process; None when it is of none or of several.
    """
    key = f"{made.name}/{made.total}"
    drawn = {
        rank: state.captures[key][0]
        for rank, state in ranks.items()
        if rank is not None and key in state.captures
    }
    if len(drawn) != 1:
        return None
    ((rank, bar),) = drawn.items()
    goes_on = bar.done < made.done and bar.elapsed_s <= made.elapsed_s
    return rank if goes_on else None


def is_redraw(
    ranks: Mapping[int | None, RankState], made: BarUpdate, phase: str | None
) -> bool:
    """A bar without an owner, where others draw it with their name."""
    others = [state for rank, state in ranks.items() if rank is not None]
    if phase is not None:
        return any(phase in state.clocks for state in others)
    return any(key.startswith(f"{made.name}/") for s in others for key in s.captures)


def give_bars_to_first_rank(ranks: Mapping[int | None, RankState]) -> None:
    """A capture bar without a name is the first rank's: the others draw none."""
    nameless, ranked = ranks.get(None), [rank for rank in ranks if rank is not None]
    if nameless is None or not nameless.captures or not ranked:
        return
    first = ranks[min(ranked)]
    if any(state.captures for state in ranks.values() if state is not nameless):
        return
    first.captures, nameless.captures = nameless.captures, {}
    first.capture_states = nameless.capture_states
    for key, (bar, origin) in first.captures.items():
        origin = Origin(origin.time, min(ranked), origin.line)
        first.captures[key] = (bar, origin)
