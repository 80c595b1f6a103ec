"""Progress bars: what each state of a bar adds to what is known.

vLLM and vllm-gaudi draw with tqdm. The bars `Prompt warmup processing` and `Decode warmup
processing` are redrawn for every bucket and carry their own clock; their buckets run in
reverse order of the list (vllm-gaudi `hpu_model_runner.py warmup_graphs`).
"""

from __future__ import annotations

from collections.abc import Mapping

from msgspec.structs import replace

from parsers.engine.pending import Average, BarClock, RankState
from parsers.engine.signals import BarUpdate, Origin
from warmup_insights.model.events import (
    Bucket,
    CaptureProgress,
    Event,
    PhaseMarked,
    WarmupStep,
)

STEP_BARS = {
    "Prompt warmup processing": "prompt",
    "Decode warmup processing": "decode",
    "Unified Attention warmup": "unified",
}
_LIST_LIMIT = 5000
_STATES_LIMIT = 1000


def bar_phase(state: RankState) -> str | None:
    """The phase whose bar has begun and not ended; None without one."""
    for phase, clock in state.clocks.items():
        if clock.done < clock.total:
            return phase
    if any(bar.done < bar.total for bar, _ in state.captures.values()):
        return "graph_capture"
    return None


def warmup_bar(
    state: RankState, phase: str, made: BarUpdate, origin: Origin
) -> list[Event]:
    """The steps that ended since the last state of a bar over buckets."""
    clock = state.clocks.get(phase)
    if clock is None or clock.total != made.total or made.done < clock.done:
        clock = state.clocks[phase] = BarClock(total=made.total)
        clock.has_lines = _steps_of(state, phase)
        clock.average = Average() if made.done <= 1 else None
    is_skipping = made.place is not None and made.place > made.done
    if made.done <= clock.done or (made.place == made.done < made.total):
        # Drawn again for the next item: the average is still that of the last update.
        return []
    items = made.done - clock.done
    took, error = _took(clock, made, items)
    first, clock.done, clock.elapsed_s = clock.done + 1, made.done, made.elapsed_s
    step = state.step
    if step is not None and step.signal.phase == phase:
        if step.signal.index == made.done and items == 1:
            step.bar_s, step.bar_error_s = took, error
        return []
    if clock.has_lines or state.is_validating:
        return []
    buckets = [] if is_skipping else state.generated.get(phase, [])
    last = min(made.done, first + _LIST_LIMIT)
    steps: list[Event] = [
        WarmupStep(
            phase=phase, bucket=_reversed_bucket(buckets, index, made.total),
            index=index, total=made.total, rank=origin.rank, line=origin.line,
        )
        for index in range(first, last + 1)
    ]  # fmt: skip
    steps[-1] = replace(
        steps[-1],
        duration_s=took if items == 1 else None,
        group_size=items if items > 1 else None,
        group_duration_s=took if items > 1 else None,
        resolution_s=error,
        time=origin.time if items == 1 else None,
    )
    return steps


def _took(
    clock: BarClock, made: BarUpdate, items: int
) -> tuple[float | None, float | None]:
    """Seconds of the items since the last update, and how far they can be off."""
    whole = made.elapsed_s - clock.elapsed_s
    if clock.average is None or made.item_s is None:
        # A difference of two whole numbers of seconds, both cut off.
        return (whole, 1.0) if items == 1 else (None, None)
    found = clock.average.add(items, made.item_s, made.item_error_s, made.elapsed_s)
    if found is None:
        return None, None
    took, error = found
    # The last state may be the one drawn at the end, with the plain average.
    return round(took, 4), round(1.0 if made.done == made.total else error, 4)


def _steps_of(state: RankState, phase: str) -> bool:
    return state.step is not None and state.step.signal.phase == phase


def _reversed_bucket(buckets: list[Bucket], index: int, total: int) -> Bucket | None:
    """The bucket at a place of the bar; None when the list does not have `total`."""
    return buckets[-index] if len(buckets) == total and index <= total else None


def stage_bar(state: RankState, made: BarUpdate, origin: Origin) -> list[Event]:
    """The end of a stage whose bar is full; the bar has a clock of whole seconds."""
    was_full, state.full_bar = state.full_bar, None
    state.open_bar = None if made.done == made.total else (made, origin)
    if state.open_bar is not None:
        return []
    state.full_bar = made.name
    if was_full == made.name:
        return []  # drawn once more when it is closed
    return [
        PhaseMarked(
            name=_stage_of(made), edge="end", duration_s=made.elapsed_s or None,
            time=origin.time, rank=origin.rank, line=origin.line,
        )
    ]  # fmt: skip


def open_stage(state: RankState) -> list[Event]:
    """How far the bar over a stage is that was not full when the lines were over."""
    if state.open_bar is None:
        return []
    made, origin = state.open_bar
    return [
        PhaseMarked(
            name=_stage_of(made), edge="start", done=made.done, total=made.total,
            duration_s=made.elapsed_s or None,
            time=origin.time, rank=origin.rank, line=origin.line,
        )
    ]  # fmt: skip


def _stage_of(bar: BarUpdate) -> str:
    return "load_weights" if "oading " in bar.name else "kernel_warmup"


def capture_bar(state: RankState, made: BarUpdate, origin: Origin) -> None:
    """Keep the state of a bar over CUDA graphs: the last one, and how it came there."""
    key = f"{made.name}/{made.total}"
    state.captures[key] = (made, origin)
    states = state.capture_states.setdefault(key, [])
    if states and made.done < states[-1][0]:
        states.clear()
    if len(states) < _STATES_LIMIT and (not states or made.done > states[-1][0]):
        states.append((made.done, made.elapsed_s))


def captures_done(state: RankState) -> list[Event]:
    """The last state of every capture bar."""
    return [
        CaptureProgress(
            mode=_capture_mode(bar.name), captured=bar.done, total=bar.total,
            duration_s=bar.elapsed_s, states=state.capture_states.get(key, []),
            time=origin.time, rank=origin.rank, line=origin.line,
        )
        for key, (bar, origin) in state.captures.items()
    ]  # fmt: skip


def _capture_mode(name: str) -> str:
    inside = name.partition("(")[2].rstrip(")")
    if name.startswith(("Capturing prefill", "Capturing decode")):
        return f"{name.split()[1]}, {inside}" if inside else name.split()[1]
    return inside or "graphs"


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
