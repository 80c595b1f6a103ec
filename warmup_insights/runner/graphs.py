"""Capturing the graphs of an engine: at start-up by the rule, later one at a time."""

from __future__ import annotations

from contextlib import ExitStack
from dataclasses import dataclass, field

from warmup_insights.devices.base import DeviceOutOfMemory
from warmup_insights.model.events import (
    Bucket,
    CaptureSummary,
    GraphBudgetSet,
    GraphCaptured,
    GraphsCaptured,
    GraphSkipped,
    LazyCapture,
    Note,
    WarmupStep,
)
from warmup_insights.rules.capture import (
    Candidate,
    GraphBudget,
    PhaseBucket,
    PhaseCaptures,
    RuntimeCapture,
    capture_graphs,
    num_tokens,
)
from warmup_insights.rules.memory import MemoryBudget
from warmup_insights.runner.buckets import Buckets
from warmup_insights.runner.engine import Emitter, Engine, Measured, measure
from warmup_insights.runner.settings import RunSettings
from warmup_insights.units import format_bytes


@dataclass
class GraphCapture:
    """The graphs of one engine, and the events about them."""

    engine: Engine
    settings: RunSettings
    emitter: Emitter
    runtime: RuntimeCapture | None = field(default=None, init=False)

    def capture(self, budget: MemoryBudget, buckets: Buckets) -> None:
        """Do what the capture strategy does before the server is ready."""
        divided = self._divide(budget)
        if self.settings.capture_strategy == "startup":
            self._capture_all(divided, buckets)
            return
        candidates = [
            (phase, bucket)
            for phase in ("prompt", "decode")
            for bucket in buckets.of(phase)
        ]
        strategy = self.settings.capture_strategy
        self.runtime = RuntimeCapture(strategy, candidates, divided.total_bytes)
        first = self.runtime.largest()
        if first is not None:
            self._capture_first(self.runtime, first)

    def before_step(self, phase: str, bucket: Bucket) -> None:
        """Capture what the strategy captures before a step in this bucket."""
        runtime = self.runtime
        item = runtime.choose(phase, bucket) if runtime is not None else None
        if runtime is None or item is None:
            return
        estimate = runtime.estimate_bytes(item)
        if estimate >= runtime.budget_bytes:
            self._give_up(runtime, item, "the estimate exceeds what is left")
        else:
            try:
                captured = self._capture(*item, estimate)
            except DeviceOutOfMemory as error:
                # Serving goes on without the graph, as it would without the strategy.
                self._give_up(runtime, item, str(error))
            else:
                self.emitter.emit(
                    LazyCapture,
                    num_tokens=num_tokens(item[1]),
                    duration_s=captured.duration_s,
                    memory_bytes=captured.used_bytes,
                    time=captured.began,
                )
                runtime.captured(item, captured.used_bytes)
        if not runtime.is_enabled:
            left = (
                "no memory is left for graphs" if runtime.missing else "nothing is left"
            )
            self.emitter.emit(
                Note,
                topic="graph_capture_off",
                text=f"Capturing while serving is switched off: {left}.",
            )

    def _divide(self, budget: MemoryBudget) -> GraphBudget:
        free = self.engine.device.memory().free_bytes
        divided = GraphBudget(
            free_bytes=free,
            total_bytes=free - budget.margin_bytes,
            prompt_ratio=self.settings.graph_prompt_ratio,
        )
        self.emitter.emit(
            GraphBudgetSet,
            total_bytes=int(divided.total_bytes),
            free_bytes=free,
            prompt_bytes=int(divided.prompt_bytes),
            decode_bytes=int(divided.decode_bytes),
            prompt_ratio=divided.prompt_ratio,
        )
        return divided

    def _capture_all(self, budget: GraphBudget, buckets: Buckets) -> None:
        began = self.emitter.now()
        phase = ""
        with ExitStack() as marked:

            def capture(candidate: Candidate) -> int:
                nonlocal phase
                if candidate.phase != phase:
                    marked.close()  # ends the phase before
                    phase = candidate.phase
                    marked.enter_context(self.emitter.phase(f"{phase}_graphs"))
                return self._capture_candidate(candidate)

            outcome = capture_graphs(
                buckets.of("prompt"),
                buckets.of("decode"),
                budget,
                capture,
                prompt_strategy=self.settings.graph_prompt_strategy,
                decode_strategy=self.settings.graph_decode_strategy,
            )
        self._report(outcome, began)

    def _capture_candidate(self, candidate: Candidate) -> int:
        captured = self._capture(
            candidate.phase,
            candidate.bucket,
            candidate.estimate_bytes,
            index=candidate.index,
            total=candidate.total,
        )
        self.emitter.emit(
            WarmupStep,
            phase=candidate.phase,
            mode="graph",
            bucket=candidate.bucket,
            index=candidate.index,
            total=candidate.total,
            duration_s=captured.duration_s,
            free_before_bytes=captured.before.free_bytes,
            free_after_bytes=captured.after.free_bytes,
            memory_bytes=captured.used_bytes,
            executed=candidate.bucket,
            time=captured.began,
        )
        return captured.used_bytes

    def _capture(
        self,
        phase: str,
        bucket: Bucket,
        estimate_bytes: int,
        *,
        index: int | None = None,
        total: int | None = None,
    ) -> Measured:
        """Capture a graph, replay it once, and record what both took."""

        def work() -> None:
            self.engine.capture_bucket(phase, bucket)
            self.engine.run_bucket(phase, bucket)

        self.emitter.move(phase, bucket)
        captured = measure(self.engine.device, work)
        self.emitter.emit(
            GraphCaptured,
            phase=phase,
            bucket=bucket,
            index=index,
            total=total,
            duration_s=captured.duration_s,
            memory_bytes=captured.used_bytes,
            estimate_bytes=estimate_bytes,
            time=captured.began,
        )
        return captured

    def _report(
        self, outcome: tuple[PhaseCaptures, PhaseCaptures], began: float
    ) -> None:
        took = self.emitter.now() - began
        for captures in outcome:
            for candidate in captures.skipped:
                self.emitter.emit(
                    GraphSkipped,
                    phase=candidate.phase,
                    bucket=candidate.bucket,
                    reason="the estimate is not below what is left",
                    estimate_bytes=candidate.estimate_bytes,
                    available_bytes=candidate.available_bytes,
                )
            count = len(captures.captured)
            total = count + len(captures.skipped)
            self.emitter.emit(
                CaptureSummary,
                phase=captures.phase,
                captured_reported=count,
                percent_reported=100 * count / total if total else None,
                used_bytes=captures.used_bytes,
                buckets=captures.buckets,
            )
        self.emitter.emit(
            GraphsCaptured,
            count=sum(len(captures.captured) for captures in outcome),
            duration_s=took,
            memory_bytes=sum(captures.used_bytes for captures in outcome),
        )

    def _capture_first(self, runtime: RuntimeCapture, item: PhaseBucket) -> None:
        with self.emitter.phase("graph_capture"):
            captured = self._capture(*item, 0)
            runtime.captured(item, captured.used_bytes)
        expected = runtime.missing_bytes()
        if expected > runtime.budget_bytes:
            self.emitter.emit(
                Note,
                topic="graph_memory",
                text=f"The missing graphs are expected to take "
                f"{format_bytes(expected)}, but only "
                f"{format_bytes(runtime.budget_bytes)} are left for them: some will "
                "not be captured.",
                values={
                    "expected_bytes": expected,
                    "left_bytes": int(runtime.budget_bytes),
                },
            )

    def _give_up(self, runtime: RuntimeCapture, item: PhaseBucket, reason: str) -> None:
        self.emitter.emit(
            GraphSkipped,
            phase=item[0],
            bucket=item[1],
            reason=reason,
            estimate_bytes=runtime.estimate_bytes(item),
            available_bytes=int(runtime.budget_bytes),
        )
        runtime.missing.remove(item)
