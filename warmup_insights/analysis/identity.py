"""Who ran, how it was configured, and how it ended."""

from __future__ import annotations

from typing import Any

from warmup_insights.model.events import (
    ConfigRecorded,
    EngineInitialized,
    Event,
    Failure,
    GraphBudgetSet,
    GraphsCaptured,
    MemoryBudgetSet,
    RunFinished,
    RunStarted,
    ServerReady,
    WarmupFinished,
    WarmupStep,
)

MAX_CONFIG = 1000
KINDS = (
    RunStarted, ConfigRecorded, MemoryBudgetSet, GraphBudgetSet, WarmupFinished,
    EngineInitialized, ServerReady, GraphsCaptured, Failure, RunFinished,
)  # fmt: skip
"""Kinds of events that `Identity` takes notice of."""


class Identity:
    """Collects engine, model, device, settings and status of a run."""

    def __init__(self) -> None:
        self.engine: str | None = None
        self.version: str | None = None
        self.model: str | None = None
        self.device_kind: str | None = None
        self.device_name: str | None = None
        self.synthetic = False
        self._config: dict[str, Any] = {}
        self._printed: dict[str, Any] = {}
        self._failure: Failure | None = None
        self._step_at_failure: bool = False
        self._finished: str | None = None
        self._is_ready = False
        self._is_skipped = False
        self._is_warm = False

    def add(self, event: Event) -> None:
        """Take notice of an event, in the order of the run."""
        match event:
            case RunStarted():
                self._describe(event)
                self.synthetic = self.synthetic or event.synthetic
            case ConfigRecorded():
                self._describe(event)
                self._settings(event.settings)
                self._settings(event.environment)
            case MemoryBudgetSet():
                self._print("gpu_memory_utilization", event.gpu_memory_utilization)
                self._print("VLLM_GRAPH_RESERVED_MEM", event.graph_reserved_fraction)
            case GraphBudgetSet():
                self._print("VLLM_GRAPH_PROMPT_RATIO", event.prompt_ratio)
            case _:
                self._progress(event)

    def _progress(self, event: Event) -> None:
        match event:
            case WarmupFinished():
                self._is_skipped = event.skipped or self._is_skipped
                self._is_warm = self._is_warm or not event.skipped
            case EngineInitialized() | ServerReady():
                self._is_ready = True
            case GraphsCaptured():
                self._is_warm = True
            case Failure():
                if self._failure is None or _is_better(event, self._failure):
                    self._failure = event
            case RunFinished():
                self._finished = event.status

    def _describe(self, event: RunStarted | ConfigRecorded) -> None:
        self.engine = event.engine or self.engine
        self.version = event.version or self.version
        self.model = event.model or self.model
        self.device_kind = event.device_kind or self.device_kind
        self.device_name = event.device_name or self.device_name

    def _settings(self, settings: dict[str, Any], prefix: str = "") -> None:
        for key, value in settings.items():
            name = f"{prefix}{key}"
            if isinstance(value, dict) and value:
                self._settings(value, f"{name}.")
            elif len(self._config) < MAX_CONFIG:
                self._config[name] = value

    def _print(self, name: str, value: float | None) -> None:
        if value is not None:
            self._printed[name] = value

    def config(self) -> dict[str, Any]:
        """Flat settings; those printed with a result fill in what was not listed."""
        return {**self._printed, **self._config}

    def status(self, *, is_recorded: bool) -> str:
        """`finished`, `running`, `failed`, `skipped` or `unknown`."""
        if self._finished is not None:
            return self._finished
        if self._failure is not None:
            return "failed"
        if self._is_skipped and not self._is_warm:
            return "skipped"
        if self._is_ready or self._is_warm:
            return "finished"
        return "running" if is_recorded else "unknown"

    def failure(self, last_step: WarmupStep | None) -> dict[str, Any] | None:
        """What went wrong, and the bucket that was running when it did."""
        failure = self._failure
        if failure is None:
            return None
        in_step = last_step is not None and not last_step.is_finished
        step = last_step if in_step else None
        phase = failure.phase or (step.phase if step else None)
        bucket = failure.bucket or (step.bucket if step else None)
        free = failure.free_bytes
        if free is None and step is not None:
            free = step.free_before_bytes
        return {
            "kind": failure.failure,
            "phase": phase,
            "bucket": list(bucket) if bucket is not None else None,
            "free_bytes": free,
            "needed_bytes": failure.needed_bytes,
            "message": failure.message,
            "line": failure.line,
        }


def _is_better(new: Failure, old: Failure) -> bool:
    """The first failure counts, unless it was vague and a later one names a cause."""
    return old.failure == "error" and new.failure != "error"
