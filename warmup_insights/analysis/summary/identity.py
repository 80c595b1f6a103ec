"""Who ran, how it was configured, how the start-up ended and how serving did."""

from __future__ import annotations

from collections.abc import Mapping
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
    ServingFailure,
    ShutdownRequested,
    WarmupFinished,
)
from warmup_insights.model.summary import (
    FailureFacts,
    FailureFigures,
    Progress,
    ServingEnd,
    Setting,
)

MAX_CONFIG = 1000
KINDS = (
    RunStarted, ConfigRecorded, MemoryBudgetSet, GraphBudgetSet, WarmupFinished,
    EngineInitialized, ServerReady, GraphsCaptured, Failure, RunFinished,
    ServingFailure, ShutdownRequested,
)  # fmt: skip
"""Kinds of events that `Identity` takes."""


class Identity:
    """Collects engine, model, device, settings, status and failure of a run.

    A failure after the server was ready ends serving; the start-up stays as it was.
    """

    def __init__(self) -> None:
        self.engine: str | None = None
        self.version: str | None = None
        self.model: str | None = None
        self.device_kind: str | None = None
        self.device_name: str | None = None
        self.synthetic = False
        self._config: dict[str, Setting] = {}
        self._printed: dict[str, Setting] = {}
        self._beside = ConfigRecorded()
        self._defaults: dict[str, bool] = {}
        """Setting to whether nobody set it, as it was printed last."""
        self._failure: Failure | None = None
        self.num_ranks: int | None = None
        """As stated, or as many as printed anything; None when neither is known."""
        self._year_from: str | None = None
        self._is_device_guessed = False
        self._serving_end: ServingEnd | None = None
        self.ended_at: float | None = None
        self._finished: str | None = None
        self._is_serving = False
        self._is_ready = False
        self._is_skipped = False
        self._is_warm = False

    def add(self, event: Event) -> None:
        """Take an event, in the order of the run."""
        match event:
            case RunStarted():
                self._describe(event)
                self.synthetic = self.synthetic or event.synthetic
                self._year_from = event.year_from or self._year_from
            case ConfigRecorded() if event.fills:
                self._beside = event
            case ConfigRecorded():
                self._describe(event)
                self.num_ranks = event.num_ranks or self.num_ranks
                self._is_device_guessed = (
                    self._is_device_guessed or event.device_guessed
                )
                self._settings(event.settings)
                self._settings(event.environment)
                for name in event.environment:
                    self._defaults[name] = name in event.defaults
            case MemoryBudgetSet():
                self._print("gpu_memory_utilization", event.gpu_memory_utilization)
                self._print("VLLM_GRAPH_RESERVED_MEM", event.graph_reserved_fraction)
            case GraphBudgetSet():
                self._print("VLLM_GRAPH_PROMPT_RATIO", event.prompt_ratio)
            case _:
                self._ended(event)

    def guessed(self) -> list[str]:
        """Figures and facts that rest on a guess."""
        guesses = {
            "time.started_at": self._year_from in ("file", "release"),
            "device.kind": self._is_device_guessed,
        }
        return [name for name, is_guess in guesses.items() if is_guess]

    def _ended(self, event: Event) -> None:
        match event:
            case WarmupFinished():
                self._is_skipped = event.skipped or self._is_skipped
                self._is_warm = self._is_warm or not event.skipped
            case EngineInitialized():
                self._is_ready = True
            case ServerReady():
                self._is_ready = self._is_serving = True
            case GraphsCaptured():
                self._is_warm = True
            case ShutdownRequested() if self._serving_end is None:
                self._stopped(event, "shutdown")
            case ServingFailure():
                self._stopped(event, event.failure)
            case Failure() if self._is_serving:
                self._stopped(event, event.failure)
            case Failure():
                self._failure = _better(self._failure, event)
            case RunFinished():
                self._finished = event.status

    def _describe(self, event: RunStarted | ConfigRecorded) -> None:
        self.engine = event.engine or self.engine
        self.version = event.version or self.version
        self.model = event.model or self.model
        self.device_kind = event.device_kind or self.device_kind
        self.device_name = event.device_name or self.device_name

    def _settings(self, settings: Mapping[str, Any], prefix: str = "") -> None:
        for key, value in settings.items():
            name = f"{prefix}{key}"
            if isinstance(value, dict) and value:
                self._settings(value, f"{name}.")
            elif len(self._config) < MAX_CONFIG:
                self._config[name] = value

    def _print(self, name: str, value: float | None) -> None:
        if value is not None:
            self._printed[name] = value

    @property
    def version_or_beside(self) -> str | None:
        """The engine's version as it states it, else as it was installed."""
        return self.version or self._beside.version

    def config(self) -> dict[str, Setting]:
        """Flat settings; those printed with a result fill in what was not listed."""
        beside = {**self._beside.settings, **self._beside.environment}
        return {**beside, **self._printed, **self._config}

    def defaults(self) -> list[str]:
        """Settings that the engine printed as its own."""
        return [name for name, is_own in self._defaults.items() if is_own]

    def status(self, *, is_recorded: bool) -> str:
        """Of the start-up: `finished`, `running`, `failed`, `skipped` or `unknown`."""
        if self._finished is not None and not self._is_serving:
            return self._finished
        if self._failure is not None:
            return "failed"
        if self._is_skipped and not self._is_warm:
            return "skipped"
        if self._is_ready or self._is_warm:
            return "finished"
        return "running" if is_recorded and self._finished is None else "unknown"

    def failure(self, progress: Progress) -> FailureFacts | None:
        """What ended the start-up, and the bucket that was running when it did."""
        failure = self._failure
        if failure is None:
            return None
        in_step = progress.is_in_step
        free = failure.free_bytes
        if free is None and in_step:
            free = progress.free_bytes
        return FailureFacts(
            kind=failure.failure,
            phase=failure.phase or (progress.phase if in_step else None),
            bucket=failure.bucket or (progress.bucket if in_step else None),
            free_bytes=free,
            needed_bytes=failure.needed_bytes,
            message=failure.message,
            line=failure.line,
            artifact=failure.artifact,
            stated=_stated(failure),
        )

    def _stopped(
        self, event: ShutdownRequested | ServingFailure | Failure, kind: str
    ) -> None:
        """Serving ended; the first end counts, unless it was vague."""
        known = self._serving_end
        if known is not None and (
            known.kind != "error" or kind in ("error", "shutdown")
        ):
            return
        self.ended_at = event.time
        self._serving_end = ServingEnd(
            kind=kind,
            message=event.message,
            line=event.line,
            free_bytes=getattr(event, "free_bytes", None),
            needed_bytes=getattr(event, "needed_bytes", None),
            stated=_stated(event),
        )

    def serving_end(self) -> ServingEnd | None:
        """What ended serving; None while nothing states an end."""
        return self._serving_end


def _stated(event: Event) -> FailureFigures:
    """The figures in the text of a failure; all unknown for an ordered end."""
    names = FailureFigures.__struct_fields__
    return FailureFigures(**{name: getattr(event, name, None) for name in names})


def _better(old: Failure | None, new: Failure) -> Failure:
    """The first failure counts, unless it was vague and a later one names a cause."""
    if old is None or (old.failure == "error" and new.failure != "error"):
        return new
    return old
