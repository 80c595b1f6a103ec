"""Serving a workload with continuous batching, one step after the other, and its figures.

The figures have the keys of `vllm bench serve --save-result`.
"""

from __future__ import annotations

import statistics
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import accumulate
from typing import Any

from warmup_insights.model.events import (
    BenchmarkResult,
    BucketMiss,
    BucketUsed,
    DefragRan,
)
from warmup_insights.runner.buckets import Buckets
from warmup_insights.runner.engine import Engine
from warmup_insights.runner.scheduler import Scheduler, Step, plan_swaps
from warmup_insights.runner.settings import RunSettings
from warmup_insights.runner.warmup import Warmup
from warmup_insights.runner.workload import Request


@dataclass(frozen=True)
class RequestTimes:
    """One finished request: lengths in tokens, and when it came and each token went."""

    input_len: int
    output_len: int
    arrived_at: float
    token_times: tuple[float, ...]

    @property
    def ttft_s(self) -> float:
        """Time to first token."""
        return self.token_times[0] - self.arrived_at

    @property
    def itls_s(self) -> list[float]:
        """Times between tokens."""
        pairs = zip(self.token_times, self.token_times[1:], strict=False)
        return [later - earlier for earlier, later in pairs]

    @property
    def tpot_s(self) -> float | None:
        """Time per output token after the first; None for a single token."""
        if self.output_len < 2:
            return None
        return (self.token_times[-1] - self.token_times[0]) / (self.output_len - 1)


def percentile(values: Sequence[float], percent: float) -> float:
    """The percentile with linear interpolation, as numpy's default."""
    ordered = sorted(values)
    place = (len(ordered) - 1) * percent / 100
    below = int(place)
    above = min(below + 1, len(ordered) - 1)
    return ordered[below] + (ordered[above] - ordered[below]) * (place - below)


def benchmark_values(
    requests: Sequence[RequestTimes],
    *,
    duration_s: float,
    request_rate: float,
    model: str,
) -> dict[str, Any]:
    """The result of a run in which every request finished."""
    inputs = sum(request.input_len for request in requests)
    outputs = sum(request.output_len for request in requests)
    edges = [(request.arrived_at, 1) for request in requests]
    edges += [(request.token_times[-1], -1) for request in requests]
    values: dict[str, Any] = {
        "backend": "reference",
        "model_id": model,
        "num_prompts": len(requests),
        "request_rate": request_rate if request_rate != float("inf") else "inf",
        "burstiness": 1.0,
        "max_concurrency": None,
        "duration": duration_s,
        "completed": len(requests),
        "failed": 0,
        "total_input_tokens": inputs,
        "total_output_tokens": outputs,
        "request_throughput": len(requests) / duration_s,
        "output_throughput": outputs / duration_s,
        "total_token_throughput": (inputs + outputs) / duration_s,
        "max_concurrent_requests": max(accumulate(step for _, step in sorted(edges))),
    }
    values |= _spread("ttft", [request.ttft_s for request in requests])
    tpots = [request.tpot_s for request in requests if request.tpot_s is not None]
    values |= _spread("tpot", tpots)
    values |= _spread("itl", [itl for request in requests for itl in request.itls_s])
    return values


def _spread(name: str, seconds: Sequence[float]) -> dict[str, float]:
    """Mean, median, deviation and P99 in milliseconds; 0 where there is nothing.

    Source: `calculate_metrics` of `vllm bench serve`, which writes 0 for no values.
    """
    found = [value * 1000 for value in seconds] or [0.0]
    return {
        f"mean_{name}_ms": statistics.fmean(found),
        f"median_{name}_ms": statistics.median(found),
        f"std_{name}_ms": statistics.pstdev(found),
        f"p99_{name}_ms": percentile(found, 99),
    }


class Server:
    """Runs requests on an engine that is ready."""

    def __init__(self, warmup: Warmup, model: str) -> None:
        self.engine: Engine = warmup.engine
        self.settings: RunSettings = warmup.settings
        self.buckets: Buckets = warmup.buckets
        self._layout = warmup.layout
        self._graphs = warmup.graphs
        self._emitter = warmup.emitter
        self._model = model
        self._rows_before: list[int] = []
        self.scheduler = Scheduler(
            warmup.layout,
            max_num_seqs=self.settings.max_num_seqs,
            max_prefill_seqs=max((b[0] for b in self.buckets.of("prompt")), default=1),
            max_num_batched_tokens=self.settings.max_num_batched_tokens,
            can_split=self.buckets.splits_prompts,
        )

    def serve(
        self, requests: Sequence[Request], *, request_rate: float
    ) -> dict[int, list[int]]:
        """Run every request to its end, and emit the benchmark's result; the tokens of
        each request, by its id."""
        with self._emitter.phase("serving"):
            started = self._emitter.now()
            self._run(requests, started)
            duration = self._emitter.now() - started
        finished = self.scheduler.finished
        times = [
            RequestTimes(
                input_len=len(each.request.prompt),
                output_len=each.num_generated,
                arrived_at=started + each.request.arrival_s,
                token_times=tuple(each.token_times),
            )
            for each in finished
        ]
        values = benchmark_values(
            times, duration_s=duration, request_rate=request_rate, model=self._model
        )
        self._emitter.emit(BenchmarkResult, values=values)
        return {
            each.request.request_id: each.tokens[len(each.request.prompt) :]
            for each in finished
        }

    def _run(self, requests: Sequence[Request], started: float) -> None:
        arriving = list(requests)[::-1]
        while arriving or self.scheduler.has_work:
            now = self._emitter.now() - started
            while arriving and arriving[-1].arrival_s <= now:
                self.scheduler.add(arriving.pop())
            if not self.scheduler.has_work:
                self.engine.device.wait(arriving[-1].arrival_s - now)
                self.scheduler.add(arriving.pop())
            step = self.scheduler.next_step()
            self._defragment()
            tokens = self._execute(step)
            self.scheduler.finish_step(step, tokens, self._emitter.now())

    def _execute(self, step: Step) -> list[int]:
        phase, rows = step.phase, step.rows
        shape = self.buckets.shape(phase, rows)
        found = self.buckets.find(phase, shape)
        bucket = found.bucket
        if not found.is_hit:
            self._emitter.emit(BucketMiss, phase=phase, shape=shape, fallback=bucket)
        self._emitter.move(phase, bucket)
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
            BucketUsed,
            phase=phase,
            shape=shape,
            bucket=bucket,
            duration_s=self._emitter.now() - began,
            time=began,
        )
        return tokens

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
        self.engine.swap_blocks(
            plan.pairs, plan.padded, with_graph=self.settings.swaps_with_graphs
        )
        self.engine.device.synchronize()
        self.scheduler.apply_swaps(plan.pairs)
        self._emitter.emit(
            DefragRan,
            swapped=len(plan.pairs),
            padded=plan.padded,
            max_id_before=plan.max_id_before,
            max_id_after=plan.max_id_after,
            num_used=len(pool.used),
            duration_s=self._emitter.now() - began,
            time=began,
        )
