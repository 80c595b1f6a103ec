"""What was compiled before requests were served, and what came from earlier starts.

Source of the kind of a start: vLLM `compilation/decorators.py`, `v1/worker/startup_plan.py`,
`model_executor/model_loader/weight_cache/ipc_loader.py`, `model_executor/warmup/
kernel_warmup.py`; flashinfer `autotuner.py` `autotune`: results of earlier starts are
read before tuning begins, and those that were just saved are read again by every rank.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from statistics import median
from typing import NamedTuple

from msgspec.structs import replace

from warmup_insights.analysis.summary.rank_time import STAMP_S
from warmup_insights.analysis.summary.ranks import (
    MAX_ROWS,
    Routes,
    copied,
    leading,
    rank_of,
)
from warmup_insights.model.events import (
    CompileFinished,
    EngineInitialized,
    Event,
    Note,
    PhaseMarked,
    RecipeCompiled,
    ServerReady,
)
from warmup_insights.model.summary import (
    BucketRow,
    CompileFacts,
    CompilePart,
    RecipeFacts,
    RecipePart,
    Setting,
    StartFacts,
    StepCost,
)

RECIPES = "PT_HPU_RECIPE_CACHE_CONFIG"
_TRUE = ("1", "true")
_PLAN = ("saved", "applied", "refused")
"""Outcomes of a start-up plan; of several ranks' the last of these counts."""


class Compilation:
    """What was compiled before the server was ready, what came from a cache, and which
    kind of start that makes it."""

    def __init__(self) -> None:
        kinds = (CompileFinished, EngineInitialized, Note, PhaseMarked, ServerReady)
        self.routes: Routes = dict.fromkeys(kinds, self.add)
        self._parts: dict[int, list[CompilePart]] = {}
        self._stated_s: float | None = None
        self._directory: str | None = None
        self._saved_to: str | None = None
        self._key: dict[str, str] = {}
        self._factors: dict[str, str] = {}
        self._is_compile_off = False
        self._is_aot_refused = False
        self._aot_reason: str | None = None
        self._autotune: str | None = None
        self._weights: str | None = None
        self._weights_reason: str | None = None
        self._plan: str | None = None
        self._is_ready = False

    def add(self, event: Event) -> None:
        """Take an event, in the order of the run; those after ready change nothing."""
        self._is_ready = self._is_ready or isinstance(event, ServerReady)
        if self._is_ready:
            return
        if isinstance(event, PhaseMarked):
            if event.name == "compile" and event.edge == "start":
                self._directory = self._directory or event.path
            elif event.name == "compile":
                self._saved_to = self._saved_to or event.path
        elif isinstance(event, Note):
            self._noted(event)
        elif isinstance(event, EngineInitialized):
            if event.compile_s is not None:
                self._stated_s = event.compile_s
        elif isinstance(event, CompileFinished):
            parts = self._parts.setdefault(rank_of(event), [])
            if len(parts) < MAX_ROWS:
                parts.append(copied(event, CompilePart))

    def result(self) -> CompileFacts | None:
        """The section; None when no event mentions a compilation."""
        parts = leading(self._parts) or []
        known = (
            parts, self._directory, self._saved_to, self._key, self._factors,
        )  # fmt: skip
        if not any(known) and self._stated_s is None:
            return None
        loaded = [part for part in parts if part.from_cache]
        made = [
            part
            for part in parts
            if part.from_cache is False and not part.what.startswith("total")
        ]
        cache = None
        if loaded:
            graphs = [part for part in made if part.what not in ("dynamo", "aot")]
            cache = "partial" if graphs else "hit"
        elif made:
            cache = "miss"
        return CompileFacts(
            seconds=self._seconds(parts), cache=cache, parts=parts,
            directory=self._directory, saved_to=self._saved_to, key=self._key,
            factors=self._factors,
        )  # fmt: skip

    def _noted(self, event: Note) -> None:
        """What a note states about results of earlier starts."""
        outcome = event.values.get("outcome")
        if event.topic == "compile_cache_key":
            # Of the first model: each model of several has its own.
            self._key = self._key or dict(event.values.get("hashes", {}))
            self._factors = self._factors or dict(event.values.get("factors", {}))
        elif event.topic == "compile":
            self._is_compile_off = self._is_compile_off or outcome == "off"
            self._is_aot_refused = self._is_aot_refused or outcome == "refused"
            self._aot_reason = self._aot_reason or event.values.get("reason")
        elif event.topic == "autotune":
            self._tuned(event)
        elif event.topic == "weight_cache" and self._weights != "fell back":
            # One rank that reads from the disk keeps all of them waiting.
            self._weights = str(outcome)
            self._weights_reason = event.values.get("reason")
        elif event.topic == "startup_plan" and outcome in _PLAN:
            # A rank without its plan is profiled; the start takes as long as that.
            known = -1 if self._plan is None else _PLAN.index(self._plan)
            self._plan = _PLAN[max(known, _PLAN.index(str(outcome)))]

    def _seconds(self, parts: Iterable[CompilePart]) -> float | None:
        """As the engine sums it up; else its totals; else the parts.

        `total_with_profile_run` is more than compilation and is left out.
        """
        if self._stated_s is not None:
            return self._stated_s
        timed = [
            part
            for part in parts
            if part.duration_s is not None and part.what != "total_with_profile_run"
        ]
        totals = [part for part in timed if part.what == "total"]
        # A function that was compiled as a whole holds its graphs.
        whole = [part for part in timed if part.what == "aot" and not part.from_cache]
        known = [part.duration_s or 0.0 for part in totals or whole or timed]
        return sum(known) if known else None

    def _tuned(self, event: Note) -> None:
        values = event.values
        if values.get("outcome") == "off":
            self._autotune = "off"
        elif "loaded" in values and self._autotune is None:
            self._autotune = "hit"
        elif values.get("new"):
            found = self._autotune == "hit" or values.get("previous")
            self._autotune = "partial" if found else "missed"

    def start(
        self,
        compiled: CompileFacts | None,
        config: Mapping[str, Setting],
        device_kind: str | None,
        *,
        is_skipped: bool,
        is_woken: bool,
        is_restored: bool = False,
    ) -> StartFacts:
        """The section; `is_woken` where nothing but a wake-up is known of the start."""
        caches = {
            "torch_compile": self._compile_state(compiled, config),
            "aot": self._aot_state(compiled),
            "flashinfer_autotune": "off"
            if _is_on(config, "VLLM_DISABLE_FLASHINFER_AUTOTUNE_CACHE")
            else self._autotune,
            "hpu_recipes": _recipe_state(config) if device_kind == "hpu" else None,
        }
        known = {name: state for name, state in caches.items() if state is not None}
        kind = _kind(set(known.values()))
        if is_restored:
            kind = "restored"
        elif is_skipped:
            kind = "skipped"
        elif kind is None and is_woken:
            kind = "woken"
        return StartFacts(
            kind=kind,
            caches=known,
            aot_reason=self._aot_reason,
            weights=self._weights,
            weights_reason=self._weights_reason,
            plan=self._plan,
        )

    def _compile_state(
        self, compiled: CompileFacts | None, config: Mapping[str, Setting]
    ) -> str | None:
        if self._is_compile_off or _is_on(config, "VLLM_DISABLE_COMPILE_CACHE"):
            return "off"
        graphs = [p for p in (compiled.parts if compiled else []) if p.what == "graph"]
        loaded = [part for part in graphs if part.from_cache]
        if not graphs:
            return "off" if _is_on(config, "enforce_eager") else None
        if not loaded:
            return "missed"
        return "hit" if len(loaded) == len(graphs) else "partial"

    def _aot_state(self, compiled: CompileFacts | None) -> str | None:
        parts = compiled.parts if compiled is not None else []
        is_loaded = any(p.what == "aot" and p.from_cache for p in parts)
        is_saved = compiled is not None and compiled.saved_to is not None
        is_saved = is_saved or any(p.what == "aot" and not p.from_cache for p in parts)
        is_made = is_saved or self._is_aot_refused
        if is_loaded:
            return "partial" if is_made else "hit"
        return "missed" if is_made else None


def _is_on(config: Mapping[str, Setting], name: str) -> bool:
    return str(config.get(name, "")).lower() in _TRUE


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
        self._by_rank: dict[int, RecipeFacts] = {}

    def add(self, event: RecipeCompiled) -> None:
        """Take a recipe."""
        rank = rank_of(event)
        own = self._by_rank.get(rank) or RecipeFacts()
        is_outside = event.bucket is None
        slowest = own.slowest
        last = slowest[-1].duration_s or 0.0 if len(slowest) == MAX_SLOWEST else -1.0
        if (event.duration_s or 0.0) > last:
            ranked = [*slowest, copied(event, RecipePart)]
            ranked.sort(key=lambda part: -(part.duration_s or 0.0))
            slowest = ranked[:MAX_SLOWEST]
        self._by_rank[rank] = RecipeFacts(
            count=own.count + 1,
            seconds=_added(own.seconds, event.duration_s),
            outside=own.outside + is_outside,
            outside_s=_added(own.outside_s, event.duration_s if is_outside else None),
            slowest=slowest,
        )

    def result(self) -> RecipeFacts | None:
        """The section; None without a recipe."""
        return leading(self._by_rank)


def _added(total: float | None, more: float | None) -> float | None:
    """A sum in which unknown parts are left out; None without a known one."""
    return total if more is None else (total or 0.0) + more


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
                    *timed[place + 1 :][:_SIDE],
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
