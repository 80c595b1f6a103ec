"""The warm-up of vllm-gaudi and vllm-fork: the whole, each pass over the buckets of a phase,
and each bucket of a pass: what was declared, what was executed, what it took.

Source: `v1/worker/hpu_model_runner.py` (`warmup_model`, `warmup_graphs`,
`warmup_unified_graphs`, `_prepare_dummy_scenario`, `_check_config`, `_use_graphs`), before
v0.11.2 and in vllm-fork `warmup_scenario`; `extension/profiler.py`; vllm-fork
`worker/hpu_model_runner.py` (`warmup_all_buckets`, `warmup_graphs`).
"""

from __future__ import annotations

import gc
import time
from collections.abc import Set as AbstractSet
from functools import partial
from typing import Any

from warmup_insights.model.events import (
    CaptureSummary,
    GraphBudgetSet,
    GraphCaptured,
    GraphSkipped,
    Note,
    WarmupFinished,
    WarmupStep,
)
from warmup_insights.vllm_plugin import device
from warmup_insights.vllm_plugin.calls import Call, Outcome, Watch, size
from warmup_insights.vllm_plugin.hpu import bridge
from warmup_insights.vllm_plugin.hpu.buckets import (
    bucket_of,
    buckets_of,
    checked_shape,
    phase_of,
    scenario_bucket,
)
from warmup_insights.vllm_plugin.session import Session
from warmup_insights.vllm_plugin.state import Pass, Step, Warmup

_MODES = {True: "graph", False: "eager", None: None}
"""Whether a step uses a graph to its mode."""


def warmup_model(session: Session, call: Call) -> Watch:
    """`warmup_model`: the whole.

    `HPUWorker.initialize_from_config` calls it, and later the executor again. A second
    call for the same runner is time that passes, and no second warm-up.
    """
    state = session.state
    if state.warmup is not None:
        return
    if state.keep_warmed(call.owner):
        yield from _watch_repeat(session)
        return
    warmup = state.warmup = Warmup()
    state.captured.clear()
    session.collector.switch_on()
    session.begin_phase("warmup")
    had_frozen = freeze(session) if session.settings.freezes_gc else None
    warmup.collector_s = session.collector.total_s
    with state.naming():
        outcome = yield
    if had_frozen is not None:
        lift(session, had_frozen)
    session.collector.switch_off()
    state.warmup = None
    session.note_failure(outcome, phase="warmup")
    session.wait_for_device()
    _finish(session, warmup, outcome)
    session.end_phase("warmup")
    session.report_lost()


def _watch_repeat(session: Session) -> Watch:
    state = session.state
    session.begin_phase("repeated_warmup")
    state.warmup, state.is_muted = Warmup(), True
    with state.naming():
        outcome = yield
    state.warmup, state.is_muted = None, False
    session.note_failure(outcome, phase="repeated_warmup")
    session.end_phase("repeated_warmup")


def _finish(session: Session, warmup: Warmup, outcome: Outcome) -> None:
    if outcome.error is not None:
        return
    if len(warmup.readings) < 2:
        # The engine reads the used memory when it begins and when it is done; where
        # it logs that it skips the warm-up, or buckets are off, it does neither.
        session.state.is_skipped = True
        session.emit(WarmupFinished, skipped=True)
        return
    (started, used_before), (ended, used_after) = (
        warmup.readings[0],
        warmup.readings[-1],
    )
    session.emit(
        WarmupFinished,
        duration_s=ended - started,
        allocated_bytes=used_after - used_before,
        gc_s=session.collector.total_s - warmup.collector_s,
    )
    bridge.note_metrics(session, "by the end of the warm-up")


_OF_PYTHON = 2000
"""More objects than Python itself freezes when it starts: 375 in 3.12, none in 3.11. A
program that freezes what it has made has tens of thousands."""


def freeze(session: Session) -> bool:
    """Keep objects that exist now out of later collections; whether some were already.

    vllm-gaudi's `HabanaMemoryProfiler` (`extension/profiler.py`) collects when it is
    entered and when it is left, which is twice for every bucket, and each time the
    garbage collector visits every object of the process.
    """
    had_frozen, started = gc.get_freeze_count() > _OF_PYTHON, time.perf_counter()
    gc.collect()  # so that no garbage is kept
    gc.freeze()
    session.emit(
        Note,
        topic="gc_freeze",
        text="old objects are kept from the garbage collector during warm-up",
        values={
            "objects": gc.get_freeze_count(),
            "duration_s": time.perf_counter() - started,
        },
    )
    return had_frozen


def lift(session: Session, had_frozen: bool) -> None:
    """Unfreeze, unless the program had frozen objects of its own before.

    The garbage collector has only one set of frozen objects: lifting ours would lift
    theirs.
    """
    text = "objects stay frozen: the program had frozen some before warm-up"
    if not had_frozen:
        gc.unfreeze()
        text = "old objects are given back to the garbage collector"
    values = {"lifted": not had_frozen}
    session.emit(Note, topic="gc_unfreeze", text=text, values=values)


def memory_read(session: Session, call: Call) -> Watch:
    """`HabanaMemoryProfiler.current_device_memory_usage`, called by `warmup_model`.

    The first and the last call are the engine's own begin and end of the warm-up.
    """
    state = session.state
    if state.warmup is None or state.measurements or state.current is not None:
        return
    outcome = yield
    used = size(outcome.result)
    if used is not None:
        state.warmup.readings.append((time.perf_counter(), used))


def warmup_pass(
    session: Session, call: Call, *, phase: str | None = None, mode: str | None = None
) -> Watch:
    """`warmup_graphs`: one pass over the buckets of a phase.

    A second pass of a phase within one warm-up is vllm-gaudi's validation: it repeats
    buckets, so it counts as time and not as warm-up. In vllm-fork up to 1.21 a pass
    has a strategy, captures what fits, and may be repeated for what is left.
    """
    state = session.state
    phase = phase or phase_of(call.arg("is_prompt"))
    mode = "graph" if _has_budget(call) else mode
    current = state.current = _new_pass(session, call, phase, mode)
    name = "graph_capture" if _has_budget(call) else f"{phase}_warmup"
    if current.is_validation:
        name = "validation_warmup"
    available = size(
        call.arg("available_mem")
    )  # in vllm-fork up to 1.21: for this pass
    if available is not None:
        session.emit(GraphBudgetSet, **{f"{current.phase}_bytes": available})
    session.begin_phase(name)
    outcome = yield
    session.note_failure(outcome, phase=current.phase)
    session.end_phase(name)
    state.current = None
    if state.warmup is not None:
        state.warmup.passes.add((phase, mode))
    if outcome.error is None and not current.is_validation:
        _summarize(session, call, current, outcome.result)


plain_pass = partial(warmup_pass, mode="eager")
"""`warmup_all_buckets` of vllm-fork up to 1.21: without graphs."""
unified_pass = partial(warmup_pass, phase="unified")
"""`warmup_unified_graphs` of vllm-gaudi v0.11.2 to v0.16."""


def _new_pass(session: Session, call: Call, phase: str, mode: str | None) -> Pass:
    buckets = buckets_of(call.arg("buckets") or ())
    total = len(buckets)
    found = getattr(call.owner, "graphed_buckets", None)
    marks: AbstractSet[Any] = found if isinstance(found, AbstractSet) else frozenset()
    done = session.state.warmup.passes if session.state.warmup else set()
    return Pass(
        phase=phase,
        mode=mode,
        total=total,
        places={bucket: total - index for index, bucket in enumerate(buckets)},
        marks=marks,
        marked_before=frozenset(marks),
        waiting=reversed(buckets),
        is_validation=not _has_budget(call) and (phase, mode) in done,
    )


def _has_budget(call: Call) -> bool:
    return call.arg("strategy") is not None


def _summarize(session: Session, call: Call, current: Pass, result: Any) -> None:
    """Totals of a pass: `warmup_graphs` returns the memory first."""
    if not isinstance(result, tuple) or not result:
        return
    captures_by_budget = _has_budget(call)
    session.emit(
        CaptureSummary,
        phase=current.phase,
        captured_reported=current.num_steps if captures_by_budget else current.total,
        used_bytes=size(result[0]),
    )
    if captures_by_budget and result[-1] is False:
        for bucket in current.places:
            if bucket not in current.seen:
                session.emit(
                    GraphSkipped,
                    phase=current.phase,
                    bucket=bucket,
                    reason="not executed: the estimate exceeds what is left",
                )


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


def readings_since(session: Session, step: Step) -> dict[str, Any]:
    """What the garbage collector took since a step began, and what was compiled, where
    something counts it: fields of the event."""
    found: dict[str, Any] = {"gc_s": session.collector.total_s - step.collector_s}
    now, before = device.compiled(), step.compiled
    if now is not None and before is not None:
        found["compiled"] = now.count - before.count
        found["compile_s"] = now.duration_s - before.duration_s
    return found


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
    phase = step.phase or current.phase
    session.emit(
        WarmupStep,
        phase=phase,
        mode=current.mode or _MODES.get(step.uses_graph),
        bucket=step.bucket,
        index=current.places.get(step.bucket),
        total=current.total,
        duration_s=duration,
        free_before_bytes=total_bytes - used[0] if used and total_bytes else None,
        free_after_bytes=total_bytes - used[1] if used and total_bytes else None,
        memory_bytes=taken,
        executed=step.executed,
        is_finished=outcome.error is None,
        time=step.began,
        **readings_since(session, step),
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
