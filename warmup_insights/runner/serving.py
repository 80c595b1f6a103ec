"""Serving a workload with continuous batching: one step after the other."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from warmup_insights.bucketing.base import Phase
from warmup_insights.model.events import (
    BenchmarkResult,
    Bucket,
    BucketMiss,
    BucketUsed,
    DefragRan,
)
from warmup_insights.runner.batch import decode_blocks_needed
from warmup_insights.runner.buckets import Buckets
from warmup_insights.runner.defragmenter import plan_swaps
from warmup_insights.runner.engine import Emitter, Engine
from warmup_insights.runner.graphs import Place
from warmup_insights.runner.metrics import RequestTimes, benchmark_values
from warmup_insights.runner.scheduler import RunningRequest, Scheduler, Step
from warmup_insights.runner.settings import RunSettings
from warmup_insights.runner.warmup import Warmup
from warmup_insights.runner.workload import Request


@dataclass
class Served:
    """What serving gave: the tokens of each request, and the benchmark's figures."""

    tokens: dict[int, list[int]] = field(default_factory=dict)
    times: list[RequestTimes] = field(default_factory=list)
    num_preempted: int = 0


class Server:
    """Runs requests on an engine that is ready."""

    def __init__(self, warmup: Warmup, emitter: Emitter, model: str) -> None:
        self.engine: Engine = warmup.engine
        self.settings: RunSettings = warmup.settings
        self.buckets: Buckets = warmup.buckets
        self.place: Place = warmup.place
        self._layout = warmup.layout
        self._graphs = warmup.graphs
        self._emitter = emitter
        self._model = model
        self._rows_before: list[int] = []
        self.scheduler = Scheduler(
            warmup.layout,
            max_num_seqs=self.settings.max_num_seqs,
            max_prefill_seqs=max((b[0] for b in self.buckets.of("prompt")), default=1),
            max_num_batched_tokens=self.settings.max_num_batched_tokens,
            can_split=self.settings.bucket_dimensions == 3,
        )

    def serve(self, requests: Sequence[Request], *, request_rate: float) -> Served:
        """Run every request to its end, and emit the benchmark's result."""
        served = Served()
        with self._emitter.phase("serving"):
            started = self._emitter.now()
            self._run(requests, started, served)
            duration = self._emitter.now() - started
        served.num_preempted = self.scheduler.num_preempted
        values = benchmark_values(
            served.times,
            duration_s=duration,
            request_rate=request_rate,
            model=self._model,
        )
        self._emitter.emit(BenchmarkResult(values=values))
        return served

    def _run(self, requests: Sequence[Request], started: float, served: Served) -> None:
        arriving = list(requests)[::-1]
        while arriving or self.scheduler.has_work:
            now = self._emitter.now() - started
            while arriving and arriving[-1].arrival_s <= now:
                self.scheduler.add(arriving.pop())
            if not self.scheduler.has_work:
                self.engine.device.wait(arriving[-1].arrival_s - now)
                self.scheduler.add(arriving.pop())
            self._step(started, served)

    def _step(self, started: float, served: Served) -> None:
        step = self.scheduler.next_step()
        self._defragment()
        tokens = self._execute(step)
        self.scheduler.finish_step(step, tokens, self._emitter.now())
        for sequence, _ in step.parts:
            if sequence.is_finished:
                _keep(sequence, started, served)

    def _execute(self, step: Step) -> list[int]:
        phase: Phase = "prompt" if step.phase == "prompt" else "decode"
        rows = step.rows
        shape = self._shape(phase, step)
        bucket = self._find(phase, shape)
        self.place.move(phase, bucket)
        self._graphs.before_step(phase, bucket)
        ids = [sequence.request.request_id for sequence, _ in step.parts]
        began = self._emitter.now()
        tokens = self.engine.step(
            phase,
            bucket,
            rows,
            [sequence.request.sampling for sequence, _ in step.parts],
            batch_changed=ids != self._rows_before,
        )
        self._rows_before = ids
        self._emitter.emit(
            BucketUsed(
                phase=phase,
                shape=shape,
                bucket=bucket,
                duration_s=self._emitter.now() - began,
                time=began,
            )
        )
        return tokens

    def _shape(self, phase: Phase, step: Step) -> Bucket:
        """What the step needs, in the dimensions of the buckets."""
        rows = step.rows
        longest = max(len(row.token_ids) for row in rows)
        if self.settings.bucket_dimensions == 2:
            length = longest if phase == "prompt" else max(row.length for row in rows)
            return len(rows), length
        if phase == "prompt":
            context = max(self._layout.blocks_for(row.num_computed) for row in rows)
            return len(rows), longest, context
        blocks = decode_blocks_needed(
            rows, self._layout, contiguous=self.buckets.contiguous
        )
        return len(rows), 1, blocks

    def _find(self, phase: Phase, shape: Bucket) -> Bucket:
        found = self.buckets.find(phase, shape)
        if not found.is_hit:
            self._emitter.emit(
                BucketMiss(phase=phase, shape=shape, fallback=found.bucket)
            )
        return found.bucket

    def _defragment(self) -> None:
        if not self.settings.defrag:
            return
        pool = self.scheduler.pool
        plan = plan_swaps(
            pool.used, self.settings.defrag_threshold, self._layout.usable_ids
        )
        if plan is None:
            return
        began = self._emitter.now()
        graphs = self.settings.defrag_with_graphs and not self.settings.enforce_eager
        self.engine.swap_blocks(plan.pairs, plan.padded, with_graph=graphs)
        self.engine.device.synchronize()
        self.scheduler.apply_swaps(plan.pairs)
        self._emitter.emit(
            DefragRan(
                swapped=len(plan.pairs),
                padded=plan.padded,
                max_id_before=plan.max_id_before,
                max_id_after=plan.max_id_after,
                num_used=len(pool.used),
                duration_s=self._emitter.now() - began,
                time=began,
            )
        )


def _keep(sequence: RunningRequest, started: float, served: Served) -> None:
    request = sequence.request
    served.tokens[request.request_id] = sequence.tokens[len(request.prompt) :]
    served.times.append(
        RequestTimes(
            input_len=len(request.prompt),
            output_len=sequence.num_generated,
            arrived_at=started + request.arrival_s,
            token_times=tuple(sequence.token_times),
        )
    )
