"""Which kind of start a run is: what came from earlier starts, and what did not.

Source: vLLM `compilation/decorators.py`, `v1/worker/startup_plan.py`,
`model_executor/model_loader/weight_cache/ipc_loader.py`, `model_executor/warmup/
kernel_warmup.py`; flashinfer `autotuner.py` `autotune`: results of earlier starts are
read before tuning begins, and those that were just saved are read again by every rank.
"""

from __future__ import annotations

from collections.abc import Mapping

from warmup_insights.model.events import Note
from warmup_insights.model.summary import CompileFacts, Setting, StartFacts

RECIPES = "PT_HPU_RECIPE_CACHE_CONFIG"
_TRUE = ("1", "true")
_PLAN = ("saved", "applied", "refused")
"""Outcomes of a start-up plan; of several ranks' the last of these counts."""


class StartKind:
    """Collects what the notes of a start state about results of earlier starts."""

    def __init__(self) -> None:
        self._is_compile_off = False
        self._is_aot_refused = False
        self._aot_reason: str | None = None
        self._autotune: str | None = None
        self._weights: str | None = None
        self._weights_reason: str | None = None
        self._plan: str | None = None

    def add(self, event: Note) -> None:
        """Take a note of the start-up, in the order of the run."""
        outcome = event.values.get("outcome")
        if event.topic == "compile":
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

    def _tuned(self, event: Note) -> None:
        values = event.values
        if values.get("outcome") == "off":
            self._autotune = "off"
        elif "loaded" in values and self._autotune is None:
            self._autotune = "hit"
        elif values.get("new"):
            found = self._autotune == "hit" or values.get("previous")
            self._autotune = "partial" if found else "missed"

    def result(
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
            "flashinfer_autotune": self._autotune_state(config),
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

    def _autotune_state(self, config: Mapping[str, Setting]) -> str | None:
        if _is_on(config, "VLLM_DISABLE_FLASHINFER_AUTOTUNE_CACHE"):
            return "off"
        return self._autotune


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
