"""What the Gaudi bridge publishes of itself: each recipe compiled, CPU fallbacks,
defragmentation of device memory.

Source: bridge 1.19, `torch/utils/event_dispatcher`, `torch/hpu/metrics/metrics.py`,
`backend/synapse_helpers/graph.cpp`, `device_memory.cpp`, `hpu_ops/cpu_fallback.cpp`. A
callback runs in the thread that publishes, which may be one of the compiler, and an
exception in it would end that thread. `CACHE_HIT` and `CACHE_MISS` are published
for every launch of a recipe, while serving as well: their counts are read from the metric.
"""

from __future__ import annotations

import importlib
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

from warmup_insights.model.bridge import METRICS, metric_note, peak_note
from warmup_insights.model.events import Bucket, Note, RecipeCompiled, RuntimeCompile
from warmup_insights.vllm_plugin import device
from warmup_insights.vllm_plugin.session import Session

DISPATCHER = "habana_frameworks.torch.utils.event_dispatcher"
TOPIC = "events of the bridge"
RECIPE_WHILE_SERVING = "Recipe compilation of the Gaudi bridge"
MAX_NAME = 200
MAX_OPERATORS = 200
"""So many operators that fell back to the CPU are recorded by name."""

Parameters = Sequence[tuple[str, str]]


def subscribe(session: Session) -> None:
    """Record what the bridge publishes from now on; once in a process.

    A bridge without a dispatcher, or without one of its events, is recorded as not
    instrumented.
    """
    if session.subscriptions or device.kind() != "hpu":
        return
    watch = _Watch(session)
    topics = {
        "GRAPH_COMPILATION": watch.compiled,
        "CPU_FALLBACK": watch.fell_back,
        "MEMORY_DEFRAGMENTATION": watch.defragmented,
    }
    for name, take in topics.items():
        try:
            module = importlib.import_module(DISPATCHER)
            dispatcher = module.EventDispatcher.instance()
            dispatcher.subscribe(
                getattr(module.EventId, name), partial(watch.guarded, take)
            )
        except Exception as error:  # the bridge is not ours, and may have none of it
            session.lost.setdefault(TOPIC, f"{DISPATCHER}: {name}: {error}")
        else:
            session.subscriptions.add(name)


class _Watch:
    """What is recorded of each event that the bridge publishes."""

    def __init__(self, session: Session) -> None:
        self._session = session
        self._operators: set[str] = set()

    def guarded(
        self,
        take: Callable[[dict[str, str]], None],
        timestamp: Any,
        parameters: Parameters,
    ) -> None:
        """Take what an event states. Nothing is raised."""
        try:
            take(dict(parameters))
        except (
            Exception
        ) as error:  # raised further, it would end a thread of the bridge
            self._session.lost.setdefault(TOPIC, f"{type(error).__name__}: {error}")

    def compiled(self, values: dict[str, str]) -> None:
        recipe = values.get("recipe", "")[:MAX_NAME]
        micros = values.get("duration", "")
        duration_s = int(micros) / 1e6 if micros.isdigit() else None
        serving = self._session.state.serving
        if serving.has_begun:
            self._session.emit(
                RuntimeCompile,
                what=RECIPE_WHILE_SERVING,
                kernel=recipe,
                detail=shape_text(*serving.executed) if serving.executed else None,
                duration_s=duration_s,
            )
            return
        phase, bucket = self._place()
        self._session.emit(
            RecipeCompiled,
            recipe=recipe,
            duration_s=duration_s,
            phase=phase,
            bucket=bucket,
        )

    def fell_back(self, values: dict[str, str]) -> None:
        """The first time of each operator; how often is in the metric."""
        operator = values.get("op_name", "")[:MAX_NAME]
        if operator in self._operators or len(self._operators) >= MAX_OPERATORS:
            return
        self._operators.add(operator)
        phase, bucket = self._place()
        where = f", first in {shape_text(phase, bucket)}" if phase and bucket else ""
        self._session.emit(
            Note,
            topic="cpu_fallback",
            text=f"Operator {operator} falls back to the CPU{where}",
            values={"operator": operator, "phase": phase, "bucket": bucket},
        )

    def defragmented(self, values: dict[str, str]) -> None:
        is_done = values.get("success") == "1"
        millis = values.get("milliseconds", "")
        took = f" in {millis} ms" if is_done and millis.isdigit() else ""
        phase, bucket = self._place()
        self._session.emit(
            Note,
            topic="device_defragmentation",
            text=f"Device memory was defragmented{took}"
            if is_done
            else "Device memory could not be defragmented: not enough of it is free",
            values={
                "successful": is_done,
                "duration_s": int(millis) / 1e3 if took else None,
                "phase": phase,
                "bucket": bucket,
            },
        )

    def _place(self) -> tuple[str | None, Bucket | None]:
        """The bucket that is being executed; None outside of one."""
        state = self._session.state
        step = state.step or state.multimodal
        if step is None:
            return None, None
        phase = step.phase or (state.current.phase if state.current else None)
        return phase, step.bucket


def shape_text(phase: str, shape: Bucket) -> str:
    """Phase and numbers."""
    return f"{phase} {list(shape)}"


def note_metrics(session: Session, when: str) -> None:
    """What the bridge has counted by now, unless it was noted before.

    `when` ends the sentence.
    """
    notes = [metric_note(name, device.metric(name)) for name in METRICS]
    peak = device.pool_peak()
    if peak is not None:
        notes.append(peak_note(peak))
    noted = session.state.noted
    for note in notes:
        if note is not None and noted.get(note.topic) != note.values:
            noted[note.topic] = note.values
            text = f"{note.text}, {when}"
            session.emit(Note, topic=note.topic, text=text, values=note.values)


def is_published(session: Session) -> bool:
    """Whether single recipes are recorded as the bridge compiles them."""
    return "GRAPH_COMPILATION" in session.subscriptions
