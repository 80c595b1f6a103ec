"""Who ran, how it was configured, how far the start-up came, and how it and serving ended."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from warmup_insights.analysis.summary.rank_time import PHASE_OF, is_before
from warmup_insights.analysis.summary.ranks import Routes
from warmup_insights.bucketing.base import GPUS
from warmup_insights.model.events import (
    SERVER_START,
    CaptureProgress,
    CompileFinished,
    ConfigRecorded,
    DefragWarmup,
    EngineInitialized,
    Event,
    Failure,
    GapSeen,
    GraphBudgetSet,
    GraphCaptured,
    GraphsCaptured,
    KVCacheAllocated,
    MemoryBudgetSet,
    MemoryMeasured,
    PhaseMarked,
    RunFinished,
    RunStarted,
    RuntimeCompile,
    SamplerWarmup,
    ServerReady,
    ServingFailure,
    ShutdownRequested,
    SleepModeChanged,
    WarmupFinished,
    WarmupStep,
)
from warmup_insights.model.summary import (
    FailureFacts,
    FailureFigures,
    Progress,
    ServingEnd,
    Setting,
)
from warmup_insights.rules import is_bucketing_off
from warmup_insights.rules.setting_lives import default_utilization

MAX_CONFIG = 1000
_ENGINES = "data_parallel_size"
"""Each engine of a dense model is configured as the only one (vLLM `config/parallel.py`,
`reconfigure_for_independent_dp_rank`)."""


def _is_behind(event: Event, other: Event) -> bool:
    """Whether an event came after another one, as far as both have a time."""
    if event.time is None or other.time is None:
        return False
    return event.time > other.time


class Identity:
    """Collects engine, model, device, settings, status and failure of a run.

    The first failure counts, unless it was vague and a later one names a cause. One after
    the server was ready ends serving, and the start-up stays as it was; one of the server's
    own start shows that it was not.
    """

    def __init__(self) -> None:
        stated = (RunStarted, ConfigRecorded, MemoryBudgetSet, GraphBudgetSet)
        ends = (
            WarmupFinished,
            EngineInitialized,
            ServerReady,
            GraphsCaptured,
            RunFinished,
            RuntimeCompile,
            SleepModeChanged,
        )
        self.routes: Routes = {
            **dict.fromkeys(stated, self._stated),
            **dict.fromkeys(ends, self._ended),
            **dict.fromkeys((Failure, ServingFailure), self._failed),
            ShutdownRequested: self._ordered,
        }
        self.engine: str | None = None
        self.version: str | None = None
        self.model: str | None = None
        self.device_kind: str | None = None
        self.device_name: str | None = None
        self.synthetic = False
        self._config: dict[str, Setting] = {}
        self._printed: dict[str, Setting] = {}
        self.beside = ConfigRecorded()
        """What stands beside the lines of the engine: what was installed."""
        self.arguments: list[str] | None = None
        """Those that were set, where a line lists them all."""
        self._defaults: dict[str, bool] = {}
        """Setting to whether it is the engine's own, as it was printed last."""
        self._failure: Failure | None = None
        self.num_ranks: int | None = None
        """As stated, or as many as printed anything; None when neither is known, 0 when
        only the first of several printed anything."""
        self._year_from: str | None = None
        self._is_device_guessed = self._are_ranks_guessed = False
        self.serving_end: ServingEnd | None = None
        """What ended serving; None while nothing states an end."""
        self.ended_at: float | None = None
        self.stop: str | None = None
        """What was printed of an order to stop before the engine was ready."""
        self._finished: str | None = None
        self._is_serving = False
        self._is_ready = False
        self._is_skipped = False
        self._is_warm = False

    def _stated(self, event: Event) -> None:
        match event:
            case RunStarted():
                self._describe(event)
                self.synthetic = self.synthetic or event.synthetic
                self._year_from = event.year_from or self._year_from
            case ConfigRecorded() if event.fills:
                self.beside = event
            case ConfigRecorded():
                self._describe(event)
                if event.num_ranks is not None:
                    self.num_ranks = event.num_ranks or self.num_ranks or 0
                self._is_device_guessed = (
                    self._is_device_guessed or event.device_guessed
                )
                self._are_ranks_guessed |= event.ranks_guessed
                if event.arguments is not None:
                    self.arguments = event.arguments
                self._settings(event.settings)
                self._settings(event.environment)
                for name in (*event.settings, *event.environment):
                    # What was set may equal the default that is printed with it later.
                    is_own = name in event.defaults
                    self._defaults[name] = is_own and self._defaults.get(name, True)
            case MemoryBudgetSet():
                self._print("gpu_memory_utilization", event.gpu_memory_utilization)
                self._print("VLLM_GRAPH_RESERVED_MEM", event.graph_reserved_fraction)
            case GraphBudgetSet():
                self._print("VLLM_GRAPH_PROMPT_RATIO", event.prompt_ratio)

    def guessed(self) -> list[str]:
        """Figures and facts that rest on a guess."""
        guesses = {
            "time.started_at": self._year_from in ("file", "release"),
            "device.kind": self._is_device_guessed,
            # Lines that show neither an engine nor a device show no number of ranks.
            "ranks": self._are_ranks_guessed
            or (self.num_ranks, self.engine, self.device_kind) == (None, None, None),
        }
        return [name for name, is_guess in guesses.items() if is_guess]

    def _ended(self, event: Event) -> None:
        match event:
            case WarmupFinished():
                self._is_skipped = event.skipped or self._is_skipped
                self._is_warm = self._is_warm or not event.skipped
            case EngineInitialized() | RuntimeCompile() | SleepModeChanged():
                self._is_ready = True
            case ServerReady():
                self._is_ready = self._is_serving = True
                if event.line is None:
                    self.stop = None  # recorded before it, the order ended nothing
            case GraphsCaptured():
                self._is_warm = True
            case RunFinished() if event.status != "stopped":
                self._finished = event.status

    def _ordered(self, event: ShutdownRequested) -> None:
        """An order to stop, in the start or after it."""
        if event.in_start and not self._is_serving:
            self.stop = self.stop or event.message
            known = self._failure
            if event.line is None and known is not None and _is_behind(known, event):
                # A recorder in the program could not foresee that it is the stop.
                self._failure = None
        elif self.serving_end is None:
            self._stopped(event, "shutdown")

    def _failed(self, event: Failure | ServingFailure) -> None:
        known = self._failure
        if isinstance(event, ServingFailure):
            self._is_ready = True  # whether or not its lines are in the log
            self._stopped(event, event.failure)
        elif self._is_serving and event.phase != SERVER_START:
            self._stopped(event, event.failure)
        elif known is None or (known.failure == "error" and event.failure != "error"):
            self._failure = event
            if event.phase == SERVER_START:
                self.serving_end = self.ended_at = None  # it stopped its engine

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
            elif name == _ENGINES and value == 1 and name in self._config:
                continue  # below a server that states how many there are
            elif name == "architecture" and name in self._config:
                continue  # that of a draft model, which is looked at second
            elif len(self._config) < MAX_CONFIG:
                self._config[name] = value

    def _print(self, name: str, value: float | None) -> None:
        if value is not None:
            self._printed[name] = value

    def config(self) -> dict[str, Setting]:
        """Flat settings; those printed with a result fill in what was not listed."""
        beside = {**self.beside.settings, **self.beside.environment}
        return {**self._unset(), **beside, **self._printed, **self._config}

    def _unset(self) -> dict[str, Setting]:
        """What has its default, as the engine lists all arguments that were set without it."""
        name = "gpu_memory_utilization"
        share = default_utilization(self.engine, self.version)
        is_listed = self.arguments is None or name in self.arguments
        if is_listed or share is None or self.device_kind not in (*GPUS, "hpu"):
            return {}
        return {name: share}

    def defaults(self) -> list[str]:
        """Settings that the engine printed as its own, or did not print as set."""
        own = [name for name, is_own in self._defaults.items() if is_own]
        stated = {**self._printed, **self._config}
        return [*own, *(name for name in self._unset() if name not in stated)]

    def status(self, *, is_recorded: bool) -> str:
        """Of the start-up: `finished`, `running`, `failed`, `stopped`, `skipped` or
        `unknown`."""
        if self._finished not in (None, "unknown") and not self._is_serving:
            return str(self._finished)
        if self._failure is not None:
            return "failed"
        if self.stop is not None:
            return "stopped"
        is_off = self._is_ready and is_bucketing_off(self._config)
        is_skipped = self._is_skipped or is_off
        if is_skipped and not self._is_warm:
            return "skipped"
        if self._is_ready or self._is_warm:
            return "finished"
        return "running" if is_recorded and self._finished is None else "unknown"

    def failure(self, progress: ProgressFold) -> FailureFacts | None:
        """What ended the start-up, and the bucket that was running when it did."""
        failure = self._failure
        if failure is None:
            return None
        step = progress.step_of(failure.rank)
        free = failure.free_bytes
        if free is None and step is not None:
            free = step.free_before_bytes
        return FailureFacts(
            kind=failure.failure,
            phase=failure.phase or (step.phase if step is not None else None),
            bucket=failure.bucket or (step.bucket if step is not None else None),
            free_bytes=free,
            needed_bytes=failure.needed_bytes,
            message=failure.message,
            line=failure.line,
            artifact=failure.artifact,
            module=failure.module,
            stated=_figures(failure),
        )

    def _stopped(
        self, event: ShutdownRequested | ServingFailure | Failure, kind: str
    ) -> None:
        """Serving ended; the first end counts, unless it was vague."""
        known = self.serving_end
        if known is not None and (
            known.kind != "error" or kind in ("error", "shutdown")
        ):
            return
        self.ended_at = event.time
        self.serving_end = ServingEnd(
            kind=kind,
            message=event.message,
            line=event.line,
            free_bytes=getattr(event, "free_bytes", None),
            needed_bytes=getattr(event, "needed_bytes", None),
            module=getattr(event, "module", None),
            stated=_figures(event),
        )


def _figures(event: Event) -> FailureFigures:
    """The figures in the text of a failure; all unknown for an ordered end."""
    names = FailureFigures.__struct_fields__
    return FailureFigures(**{name: getattr(event, name, None) for name in names})


_BEFORE_IMPORTS = (
    "starting", "import", "configure", "start_engine", "start_workers", "init_worker",
    "distributed_init", "download",
)  # fmt: skip
"""Stages in which a process may import what it runs; one that does so later is a child."""
_STAGES: dict[type[Event], str] = {
    **PHASE_OF,
    WarmupFinished: "warmed_up",
    ServerReady: "ready",
}
"""What an event names as the stage."""
_TAKE_MEMORY = (
    CaptureProgress,
    DefragWarmup,
    GraphsCaptured,
    KVCacheAllocated,
    SamplerWarmup,
)
"""What takes memory and states none in use: what was stated before it is out of date."""


class ProgressFold:
    """Follows the leading rank and the processes without one until the server is ready.

    The stage is the one that the last event names. A bar that is not full where a log ends
    is an event after all others, and counts by its line.
    """

    def __init__(self) -> None:
        self._stage = "starting"
        self._line = 0
        """The last line that names a stage."""
        self._step: WarmupStep | None = None
        self._last_steps: dict[int | None, WarmupStep | None] = {}
        """The last step of each rank; None for one that did something else after it."""
        self._done: int | None = None
        self._total: int | None = None
        self._timed = (0, 0.0)
        """Steps of the stage whose time is known, and their seconds."""
        self._last: float | None = None
        self._silence = 0.0
        self._finished: float | None = None
        self._is_ready = False
        self._total_bytes: int | None = None
        self._used_bytes: int | None = None

    def add(self, event: Event) -> None:
        """Take an event, in the order of the run."""
        if isinstance(event, Failure) and event.phase == SERVER_START:
            self._is_ready, self._stage = False, SERVER_START
        self._keep_step(event)
        if event.rank not in (None, 0) or isinstance(event, GapSeen) or self._is_ready:
            return
        if event.time is not None:
            self._seen(event.time)
        if isinstance(event, WarmupStep):
            self._stepped(event)
        elif isinstance(event, GraphCaptured) and event.time is not None:
            self._seen(event.time + (event.duration_s or 0.0))
        elif isinstance(event, (MemoryMeasured, MemoryBudgetSet)):
            self._total_bytes = event.total_bytes or self._total_bytes
            if isinstance(event, MemoryMeasured):
                used = self._used(event.used_bytes, event.free_bytes)
                self._used_bytes = used if used is not None else self._used_bytes
                if event.stage == "weights" and is_before(self._stage, "load_model"):
                    # The line that loading began is missing.
                    self._named(event, "load_model")
        else:
            self._staged(event)

    def step_of(self, rank: int | None) -> WarmupStep | None:
        """The step that had begun in a rank and not ended.

        Where no line shows which of several ranks it was, all must be in the same step; a
        rank alone may have a number in its traceback only.
        """
        steps = self._last_steps
        own = steps.get(rank)
        if rank not in steps and (rank is None or len(steps) == 1):
            alike = {s and (s.phase, s.mode, s.bucket) for s in steps.values()}
            own = next(iter(steps.values())) if len(alike) == 1 else None
        return None if own is None or own.is_finished else own

    def _keep_step(self, event: Event) -> None:
        """Keep the last step of a rank until it does something else."""
        if isinstance(event, WarmupStep):
            self._last_steps[event.rank] = event
        elif type(event) in _STAGES or (
            isinstance(event, PhaseMarked) and event.name != "import"
        ):
            ended = self._last_steps if event.rank is None else (event.rank,)
            self._last_steps.update(dict.fromkeys(ended))
        elif event.rank is not None and not isinstance(event, Failure):
            self._last_steps.setdefault(event.rank)

    def _staged(self, event: Event) -> None:
        """An event of a stage; the last one of all is that the server is ready."""
        if self._finished is None and self._takes_memory(event):
            self._used_bytes = None
        if isinstance(event, (WarmupFinished, ServerReady)):
            self._finished = event.time or self._last
            self._is_ready = isinstance(event, ServerReady)
        if isinstance(event, PhaseMarked):
            is_child = event.name == "import" and self._stage not in _BEFORE_IMPORTS
            # A full bar of an earlier stage is one that Ray repeats late.
            is_late = (event.time, event.edge) == (None, "end") and (
                is_before(event.name, self._stage)
            )
            if not (is_child or is_late):
                self._named(event, event.name, event.done, event.total)
        elif isinstance(event, CaptureProgress):
            self._named(event, "graph_capture", event.captured, event.total)
        elif isinstance(event, CompileFinished) and event.what == "module":
            self._named(event, "compile")
        elif isinstance(event, KVCacheAllocated) and self._finished is not None:
            return  # vllm-gaudi prints its size once more when warm-up is over
        elif type(event) in _STAGES:
            self._named(event, _STAGES[type(event)])

    def _takes_memory(self, event: Event) -> bool:
        """Whether more is in use than was stated before this event."""
        if isinstance(event, WarmupFinished):
            has_read = self._step and self._step.free_after_bytes is not None
            return not (event.skipped or has_read)
        return isinstance(event, _TAKE_MEMORY)

    def _named(
        self,
        event: Event,
        stage: str,
        done: int | None = None,
        total: int | None = None,
    ) -> None:
        """An event that names a stage, and how far its bar is."""
        line = event.line or self._line
        if line < self._line:
            return
        self._line, self._stage, self._step = line, stage, None
        self._done, self._total = done, total
        self._timed = (done or 0, getattr(event, "duration_s", None) or 0.0)

    def _seen(self, time: float) -> None:
        if self._last is None:
            self._last = time
            return
        self._silence = max(self._silence, time - self._last)
        self._last = max(self._last, time)

    def _used(self, used: int | None, free: int | None) -> int | None:
        if used is None and free is not None and self._total_bytes is not None:
            return self._total_bytes - free
        return used

    def _stepped(self, event: WarmupStep) -> None:
        last = self._step
        if last is None or (event.phase, event.mode) != (last.phase, last.mode):
            self._timed = (0, 0.0)
        self._step = event
        self._line = event.line or self._line
        self._done, self._total = event.index, event.total
        free = event.free_after_bytes
        self._used_bytes = self._used(
            None, event.free_before_bytes if free is None else free
        )
        self._stage = f"{event.phase}_{'graphs' if event.mode == 'graph' else 'warmup'}"
        took = event.duration_s if event.group_size is None else event.group_duration_s
        if took is not None:
            count, seconds = self._timed
            self._timed = (count + (event.group_size or 1), seconds + took)
        if event.time is not None and event.duration_s is not None:
            self._seen(event.time + event.duration_s)

    def result(self) -> Progress:
        """The section."""
        step = self._step
        count, seconds = self._timed
        return Progress(
            stage=self._stage,
            phase=step.phase if step else None,
            mode=step.mode if step else None,
            bucket=step.bucket if step else None,
            is_in_step=step is not None and not step.is_finished,
            index=self._done,
            total=self._total,
            step_s=seconds / count if count and seconds else None,
            free_bytes=step.free_before_bytes if step else None,
            used_bytes=self._used_bytes,
            last_at=self._last,
            finished_at=self._finished,
            longest_silence_s=self._silence,
        )
