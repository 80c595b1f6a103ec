"""What was compiled before requests were served, and what came from earlier starts.

Source of the kind of a start: vLLM `compilation/decorators.py`, `v1/worker/startup_plan.py`,
`model_executor/model_loader/weight_cache/ipc_loader.py`, `model_executor/warmup/
kernel_warmup.py`; `config/vllm.py`: `enforce_eager` is compilation mode `NONE`; flashinfer
`autotuner.py` `autotune`: results of earlier starts are read before tuning begins, and
those that were just saved are read again by every rank.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from statistics import median
from typing import Any, NamedTuple

from msgspec.structs import replace

from warmup_insights.analysis.summary.rank_time import STAMP_S
from warmup_insights.analysis.summary.ranks import (
    KeptEvents,
    Routes,
    copied,
    rank_of,
)
from warmup_insights.model.events import (
    CompileFinished,
    EngineInitialized,
    Note,
    PhaseMarked,
    RecipeCompiled,
)
from warmup_insights.model.figures import sum_known
from warmup_insights.model.summary import (
    BucketRow,
    CompileFacts,
    CompilePart,
    RecipeFacts,
    RecipePart,
    Setting,
    StartFacts,
    StepCost,
    is_true,
)

RECIPES = "PT_HPU_RECIPE_CACHE_CONFIG"
_TRUE = ("1", "true")
_PLAN = ("saved", "applied", "refused")
"""Outcomes of a start-up plan; of several ranks' the last of these counts."""


OF_BUILD = (CompileFinished, EngineInitialized, Note, PhaseMarked)
"""What states before the server is ready what was compiled or came from a cache."""


def compiled(built: KeptEvents) -> CompileFacts | None:
    """The section; None when no event mentions a compilation."""
    found = _each_module_once(built.of(CompileFinished))
    parts = [copied(event, CompilePart) for event in found]
    marks = [mark for mark in built.all(PhaseMarked) if mark.name == "compile"]
    directory = _first(mark.path for mark in marks if mark.edge == "start")
    saved_to = _first(mark.path for mark in marks if mark.edge != "start")
    # Of the first model: each model of several has its own.
    keys = built.values("compile_cache_key")
    key = _first(values.get("hashes") for values in keys)
    factors = _first(values.get("factors") for values in keys)
    seconds = _seconds(built, parts)
    if not any((parts, directory, saved_to, key, factors)) and seconds is None:
        return None
    # The bytecode is transformed anew where the graphs come from a cache, too.
    made = [
        part
        for part in parts
        if part.from_cache is False
        and part.what != "dynamo"
        and not part.what.startswith("total")
    ]
    cache = "miss" if made else None
    if any(part.from_cache for part in parts):
        cache = "partial" if any(part.what != "aot" for part in made) else "hit"
    return CompileFacts(
        seconds=seconds, cache=cache, parts=parts, directory=directory,
        saved_to=saved_to, key=dict(key or {}), factors=dict(factors or {}),
    )  # fmt: skip


def _each_module_once(events: Iterable[CompileFinished]) -> list[CompileFinished]:
    """Without what a compiler states right above the line that names its module (AWS Neuron):
    that has a time, and its own has none."""
    found: list[CompileFinished] = []
    for event in events:
        before = found[-1] if found else event
        is_named = before.what == event.what == "module" and event.time is not None
        is_next = (event.line or 0) - (before.line or 0) == 1
        if is_named and is_next and before.time is None and not event.from_cache:
            found.pop()
        found.append(event)
    return found


def _first(values: Iterable[Any]) -> Any:
    """The first that is neither None nor empty."""
    return next((value for value in values if value), None)


def _seconds(built: KeptEvents, parts: Sequence[CompilePart]) -> float | None:
    """As the engine sums it up; else its totals; else the parts, unless some of them were
    compiled at the same time, or no graph was.

    `total_with_profile_run` is more than compilation and is left out.
    """
    stated: float | None = built.last(EngineInitialized, "compile_s")
    if stated is not None:
        return stated
    if all(part.what == "dynamo" for part in parts):
        return None  # what follows the transformation of the bytecode did not end
    timed = [
        part
        for part in parts
        if part.duration_s is not None and part.what != "total_with_profile_run"
    ]
    totals = [part for part in timed if part.what == "total"]
    # A function that was compiled as a whole holds its graphs.
    whole = [part for part in timed if part.what == "aot" and not part.from_cache]
    found = built.of(CompileFinished)
    if not (totals or whole) and _overlap(
        event for event in found if event.what != "total_with_profile_run"
    ):
        return None
    seconds: float | None = sum_known(
        part.duration_s for part in totals or whole or timed
    )
    return seconds


def _overlap(parts: Iterable[CompileFinished]) -> bool:
    """Whether parts took longer together than from the beginning of the first of them to
    the end of the last one (tpu-inference compiles with several threads)."""
    timed = [
        (part.time, part.duration_s)
        for part in parts
        if part.time is not None and part.duration_s is not None
    ]
    if not timed:
        return False
    lasted = max(end for end, _ in timed) - min(end - took for end, took in timed)
    return sum(took for _, took in timed) > lasted + STAMP_S


def start(
    built: KeptEvents,
    compiled: CompileFacts | None,
    config: Mapping[str, Setting],
    device_kind: str | None,
    *,
    is_skipped: bool,
    is_woken: bool,
    is_restored: bool,
) -> StartFacts:
    """Which kind of start it was; `is_woken` where nothing but a wake-up is known of it."""
    noted = built.values("compile")
    outcomes = [values.get("outcome") for values in noted]
    caches = {
        "torch_compile": _compile_state(compiled, config, is_off="off" in outcomes),
        "neuron_modules": _state_of(compiled, "module"),
        "aot": _aot_state(compiled, is_refused="refused" in outcomes),
        "flashinfer_autotune": _autotune_state(built, config),
        "hpu_recipes": _recipe_state(config) if device_kind == "hpu" else None,
    }
    known = {name: state for name, state in caches.items() if state is not None}
    states = set(known.values())
    # The Gaudi bridge compiles recipes without graphs as well.
    is_eager = device_kind != "hpu" and is_true(config, "enforce_eager")
    kind = "eager" if is_eager and states <= {"off"} else _kind(states)
    if is_restored:
        kind = "restored"
    elif is_skipped:
        kind = "skipped"
    elif kind is None and is_woken:
        kind = "woken"
    # One rank that reads from the disk keeps all of them waiting.
    mapped = built.values("weight_cache")
    fallen = [values for values in mapped if values.get("outcome") == "fell back"]
    weights = next(iter([*fallen, *reversed(mapped)]), None)
    # A rank without its plan is profiled; the start takes as long as that.
    plans = {values.get("outcome") for values in built.values("startup_plan")}
    return StartFacts(
        kind=kind,
        caches=known,
        aot_reason=_first(values.get("reason") for values in noted),
        weights=None if weights is None else str(weights.get("outcome")),
        weights_reason=None if weights is None else weights.get("reason"),
        plan=next((plan for plan in reversed(_PLAN) if plan in plans), None),
    )


def _compile_state(
    compiled: CompileFacts | None, config: Mapping[str, Setting], *, is_off: bool
) -> str | None:
    found = _state_of(compiled, "graph")
    if found is None and is_true(config, "enforce_eager"):
        return None  # there is nothing to keep
    is_off |= is_true(config, "VLLM_DISABLE_COMPILE_CACHE")
    return "off" if is_off else found


def _state_of(compiled: CompileFacts | None, what: str) -> str | None:
    """Whether what was compiled came from a cache; None where nothing was."""
    parts = [p for p in (compiled.parts if compiled else []) if p.what == what]
    if not parts:
        return None
    if not any(part.from_cache for part in parts):
        return "missed"
    is_whole = all(part.from_cache is not False for part in parts)
    return "hit" if is_whole else "partial"


def _aot_state(compiled: CompileFacts | None, *, is_refused: bool) -> str | None:
    whole = [p for p in (compiled.parts if compiled else []) if p.what == "aot"]
    is_saved = compiled is not None and compiled.saved_to is not None
    is_made = is_saved or is_refused or any(not part.from_cache for part in whole)
    if any(part.from_cache for part in whole):
        return "partial" if is_made else "hit"
    return "missed" if is_made else None


def _autotune_state(built: KeptEvents, config: Mapping[str, Setting]) -> str | None:
    if is_true(config, "VLLM_DISABLE_FLASHINFER_AUTOTUNE_CACHE"):
        return "off"
    state = None
    for values in built.values("autotune"):
        if values.get("outcome") == "off":
            state = "off"
        elif "loaded" in values and state is None:
            state = "hit"
        elif values.get("new"):
            found = state == "hit" or values.get("previous")
            state = "partial" if found else "missed"
    return state


def _recipe_state(config: Mapping[str, Setting]) -> str | None:
    """By the setting alone: the bridge prints nothing of what it found in a cache."""
    stated = config.get(RECIPES)
    if not isinstance(stated, str):
        return None
    path, _, rest = stated.partition(",")
    if not path.strip():
        return "off"
    return "missed" if rest.strip().lower().startswith(_TRUE) else None


def _kind(states: set[str]) -> str | None:
    if not states:
        return None
    if "partial" in states or {"hit", "missed"} <= states:
        return "partly warm"
    return "warm" if "hit" in states else "cold"


MAX_SLOWEST = 20
"""Recipes that are kept by name."""


class Recipes:
    """The recipes that the Gaudi bridge compiled before requests were served."""

    def __init__(self) -> None:
        self.routes: Routes = {RecipeCompiled: self.add}
        self.by_rank: dict[int, RecipeFacts] = {}

    def add(self, event: RecipeCompiled) -> None:
        """Take a recipe."""
        rank = rank_of(event)
        known = self.by_rank.get(rank) or RecipeFacts()
        is_outside = event.bucket is None
        slowest = known.slowest
        last = slowest[-1].duration_s or 0.0 if len(slowest) == MAX_SLOWEST else -1.0
        if (event.duration_s or 0.0) > last:
            ranked = [*slowest, copied(event, RecipePart)]
            ranked.sort(key=lambda part: -(part.duration_s or 0.0))
            slowest = ranked[:MAX_SLOWEST]
        self.by_rank[rank] = RecipeFacts(
            count=known.count + 1,
            seconds=sum_known((known.seconds, event.duration_s)),
            outside=known.outside + is_outside,
            outside_s=sum_known(
                (known.outside_s, event.duration_s if is_outside else None)
            ),
            slowest=slowest,
        )


def num_reused(rows: Iterable[BucketRow]) -> int | None:
    """Buckets that ran and compiled nothing; None where nothing counted compilations."""
    known = [row.compiled for row in rows if row.warmed and row.compiled is not None]
    return known.count(0) if known else None


SPIKE_FACTOR = 2.5
"""A spike took so many times the median of its neighbours, at the least."""
_SIDE = 4
"""Neighbours on each side, in the order of the warm-up."""
_FEWEST = 4


class _Timed(NamedTuple):
    position: int
    row: int
    seconds: float
    error: float


def mark_spikes(rows: Sequence[BucketRow]) -> list[BucketRow]:
    """The rows with `is_spike` and `neighbours_s` of their steps, where they follow.

    A spike took a multiple of its neighbours' time: a compilation of its own. What a step
    computes changes little from one bucket to the next in the order of the warm-up, while
    compiling its recipe or kernels takes several times as long as reusing those of a
    neighbour. Nothing in an ordinary log states it; the times do.

    Runs and captures of a phase are compared among themselves. What the resolution of
    the times explains is no spike.
    """
    marked = list(rows)
    for way in ("run", "capture"):
        for phase in {row.phase for row in rows}:
            timed = sorted(
                item
                for index, row in enumerate(rows)
                if row.phase == phase
                and (item := _timed(index, row, getattr(row, way))) is not None
            )
            for place, item in enumerate(timed):
                near = [
                    *timed[max(0, place - _SIDE) : place],
                    *timed[place + 1 : place + 1 + _SIDE],
                ]
                if len(near) >= _FEWEST:
                    cost = _judged(getattr(marked[item.row], way), item, near)
                    marked[item.row] = replace(marked[item.row], **{way: cost})
    return marked


def _timed(index: int, row: BucketRow, cost: StepCost | None) -> _Timed | None:
    if cost is None or cost.duration_s is None:
        return None
    is_whole = cost.duration_s == int(cost.duration_s)
    error = row.resolution_s or (STAMP_S if is_whole else 0.0)
    return _Timed(cost.position, index, cost.duration_s, error)


def _judged(cost: StepCost, item: _Timed, near: Sequence[_Timed]) -> StepCost:
    usual = median(other.seconds for other in near)
    error = median(other.error for other in near)
    is_spike = item.seconds - item.error > SPIKE_FACTOR * (usual + error)
    return replace(cost, is_spike=is_spike, neighbours_s=usual)
