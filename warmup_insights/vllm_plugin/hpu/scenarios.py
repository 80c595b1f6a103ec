"""One bucket of a pass: what was declared, what was executed, what it took.

Source: `v1/worker/hpu_model_runner.py` (`_prepare_dummy_scenario`, `_check_config`,
`_use_graphs`), before v0.11.2 and in vllm-fork `warmup_scenario`.
"""

from __future__ import annotations

import time

from warmup_insights.model.events import GraphCaptured, WarmupStep
from warmup_insights.vllm_plugin import device
from warmup_insights.vllm_plugin.calls import Call, Outcome, Watch
from warmup_insights.vllm_plugin.device import Compiled
from warmup_insights.vllm_plugin.hpu.buckets import (
    bucket_of,
    checked_shape,
    scenario_bucket,
)
from warmup_insights.vllm_plugin.session import Session
from warmup_insights.vllm_plugin.state import Pass, Step


def scenario(session: Session, call: Call) -> Watch:
    """A dummy run of one bucket; outside of a pass it is no step.

    The step began when the memory profiler around it was entered, so that the
    garbage collector's time is in it.
    """
    state = session.state
    found = scenario_bucket(call)
    if state.current is None or found is None:
        return
    owns_step = state.step is None
    step = state.step if state.step is not None else begin_step(session)
    if found != (step.phase, step.bucket):
        step.phase, step.bucket = found
        _note_beginning(session, state.current, step)
    outcome = yield
    if outcome.error is not None:
        session.note_failure(outcome, phase=step.phase, bucket=step.bucket)
    if owns_step:
        end_step(session, outcome)


def _note_beginning(session: Session, current: Pass, step: Step) -> None:
    """Record the step that begins: a process that is killed in it leaves nothing else.

    It is handed over before the bucket runs, and with it what waits of those before.
    """
    if step.bucket is None or current.is_validation:
        return
    session.emit(
        WarmupStep,
        phase=step.phase or current.phase,
        mode=current.mode,
        bucket=step.bucket,
        index=current.places.get(step.bucket),
        total=current.total,
        is_finished=False,
        time=step.began,
    )
    session.hand_over()


def begin_step(session: Session) -> Step:
    """A step of the pass in progress begins now.

    Its bucket is known where the engine has marked it; before it runs, garbage is
    collected for a good part of the step.
    """
    step = session.state.step = new_step(session)
    current = session.state.current
    marked = current.take_marked() if current is not None else None
    if current is not None and marked is not None:
        step.phase, step.bucket = current.phase, marked
        _note_beginning(session, current, step)
    return step


def new_step(session: Session) -> Step:
    """A step that begins now, with the readings that it is measured against."""
    return Step(collector_s=session.collector.total_s, compiled=device.compiled())


def end_step(
    session: Session,
    outcome: Outcome,
    *,
    used: tuple[int, int] | None = None,
    total_bytes: int | None = None,
) -> None:
    """Record the step that is open; `used` are device bytes before and after it."""
    state, step = session.state, session.state.step
    state.step = None
    if step is None or step.bucket is None or state.current is None:
        return
    session.wait_for_device()
    duration = time.perf_counter() - step.started
    current = state.current
    current.num_steps += 1
    current.seen.add(step.bucket)
    if current.is_validation:
        return
    taken = used[1] - used[0] if used else None
    compiled = compiled_since(step)
    phase = step.phase or current.phase
    session.emit(
        WarmupStep,
        phase=phase,
        mode=current.mode or _graph_mode(step),
        bucket=step.bucket,
        index=current.places.get(step.bucket),
        total=current.total,
        duration_s=duration,
        free_before_bytes=total_bytes - used[0] if used and total_bytes else None,
        free_after_bytes=total_bytes - used[1] if used and total_bytes else None,
        memory_bytes=taken,
        executed=step.executed,
        is_finished=outcome.error is None,
        gc_s=session.collector.total_s - step.collector_s,
        compiled=compiled.count if compiled else None,
        compile_s=compiled.duration_s if compiled else None,
        time=step.began,
    )
    graph = phase, step.executed or step.bucket
    is_new = graph not in state.captured and _made_graph(step)
    if outcome.error is None and is_new:
        state.captured.add(graph)
        session.emit(
            GraphCaptured,
            phase=phase,
            bucket=step.bucket,
            executed=step.executed,
            index=current.places.get(step.bucket),
            total=current.total,
            duration_s=duration,
            memory_bytes=taken,
            time=step.began,
        )


def compiled_since(step: Step) -> Compiled | None:
    """What was compiled since a step began; None where nothing counts it."""
    now = device.compiled()
    if now is None or step.compiled is None:
        return None
    return Compiled(
        now.count - step.compiled.count, now.duration_s - step.compiled.duration_s
    )


def _graph_mode(step: Step) -> str | None:
    if step.uses_graph is None:
        return None
    return "graph" if step.uses_graph else "eager"


def _made_graph(step: Step) -> bool:
    """Evidence that a graph exists now that did not exist before.

    In lazy mode the engine requests a graph (`_use_graphs`), and one is recorded when
    the shape runs for the first time, whether its recipes are compiled now or come from
    a cache on disk. With `torch.compile` nothing is recorded as a graph, so nothing is
    captured; what a step compiled is counted in it.
    """
    return bool(step.uses_graph) and step.is_first_seen is not False


def executed_shape(session: Session, call: Call) -> Watch:
    """`_check_config` during a step: the shape that is really executed.

    The first forward pass of a step counts.
    """
    step = session.state.step
    if step is None or step.executed is not None:
        return
    known = getattr(call.owner, "seen_configs", ())
    before = len(known)
    _, step.executed = checked_shape(call)
    yield
    step.is_first_seen = len(known) > before


def executed_unified(session: Session, call: Call) -> Watch:
    """`_get_unified_config`: flags, query length, shared and unique blocks, logits."""
    step = session.state.step
    if step is None or step.executed is not None:
        return
    outcome = yield
    flags, *numbers, _ = outcome.result
    step.executed = bucket_of([*numbers, "c" in flags])


def use_graphs(session: Session, call: Call) -> Watch:
    """`_use_graphs`: whether this forward pass is captured as a graph."""
    if session.state.step is None:
        return
    outcome = yield
    if session.state.step is not None and isinstance(outcome.result, bool):
        session.state.step.uses_graph = outcome.result
