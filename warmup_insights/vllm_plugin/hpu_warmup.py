"""The warm-up of vllm-gaudi and vllm-fork: the whole, its passes and its buckets.

Source: `v1/worker/hpu_model_runner.py` (`warmup_model`, `warmup_graphs`,
`_prepare_dummy_scenario`, `_check_config`), `extension/profiler.py`.
"""

from __future__ import annotations

import time
from typing import Any

from warmup_insights.events import (
    CaptureSummary,
    GraphBudgetSet,
    GraphCaptured,
    GraphSkipped,
    Note,
    WarmupFinished,
    WarmupStep,
)
from warmup_insights.vllm_plugin import device
from warmup_insights.vllm_plugin.collector import Freeze
from warmup_insights.vllm_plugin.hooks import Call, Outcome, Watch
from warmup_insights.vllm_plugin.hpu_shapes import (
    bucket_of,
    buckets_of,
    checked_shape,
    phase_of,
    scenario_bucket,
    whole,
)
from warmup_insights.vllm_plugin.session import Session
from warmup_insights.vllm_plugin.state import Pass, Step, Warmup


def warmup_model(session: Session, call: Call) -> Watch:
    """`warmup_model`: the whole; a second call for the same runner is the same one.

    `HPUWorker.initialize_from_config` calls it, and later the executor again.
    """
    state = session.state
    if state.warmup is not None:
        return
    warmup = state.warmup = Warmup(is_repeat=state.remember_warmed(call.owner))
    state.stages.append([])
    session.collector.switch_on()
    if not warmup.is_repeat:
        session.begin_phase("warmup")
    freeze = _freeze(session) if session.settings.freezes_gc else None
    outcome = yield
    if freeze is not None:
        _lift(session, freeze)
    session.collector.switch_off()
    state.stages.pop()
    state.warmup = None
    session.note_failure(outcome, phase="warmup")
    if not warmup.is_repeat:
        session.wait_if_asked()
        _finish(session, warmup, outcome)
        session.end_phase("warmup")
    session.report_lost()


def _finish(session: Session, warmup: Warmup, outcome: Outcome) -> None:
    if outcome.error is not None:
        return
    if len(warmup.readings) < 2:
        # The engine reads the used memory when it begins and when it is done; where
        # it says that it skips the warm-up, or buckets are off, it does neither.
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
    )


def _freeze(session: Session) -> Freeze:
    freeze = Freeze()
    started = time.perf_counter()
    freeze.begin()
    session.emit(
        Note,
        topic="gc_freeze",
        text="old objects are kept from the garbage collector during warm-up",
        values={
            "objects": freeze.num_objects,
            "duration_s": time.perf_counter() - started,
        },
    )
    return freeze


def _lift(session: Session, freeze: Freeze) -> None:
    lifted = freeze.lift()
    text = (
        "old objects are given back to the garbage collector"
        if lifted
        else "objects stay frozen: the program had frozen some before warm-up"
    )
    session.emit(Note, topic="gc_unfreeze", text=text)


def memory_read(session: Session, call: Call) -> Watch:
    """`HabanaMemoryProfiler.current_device_memory_usage`, called by `warmup_model`.

    The first and the last call are the engine's own begin and end of the warm-up.
    """
    state = session.state
    if state.warmup is None or state.measurements or state.current is not None:
        return
    outcome = yield
    used = whole(outcome.result)
    if used is None and isinstance(outcome.result, float):
        used = int(outcome.result)
    if used is not None:
        state.warmup.readings.append((time.perf_counter(), used))


def warmup_pass(session: Session, call: Call) -> Watch:
    """`warmup_graphs`: one pass over the buckets of a phase.

    A second pass of a phase within one warm-up is vllm-gaudi's validation: it repeats
    buckets, so it counts as time and not as warm-up. In vllm-fork up to 1.21 a pass
    has a strategy, captures what fits, and may be repeated for what is left.
    """
    mode = "graph" if _has_budget(call) else None
    yield from _watch_pass(session, call, phase_of(call.arg("is_prompt")), mode)


def plain_pass(session: Session, call: Call) -> Watch:
    """`warmup_all_buckets` of vllm-fork up to 1.21: without graphs."""
    yield from _watch_pass(session, call, phase_of(call.arg("is_prompt")), "eager")


def unified_pass(session: Session, call: Call) -> Watch:
    """`warmup_unified_graphs` of vllm-gaudi v0.11.2 to v0.16."""
    yield from _watch_pass(session, call, "unified", None)


def _watch_pass(session: Session, call: Call, phase: str, mode: str | None) -> Watch:
    state = session.state
    current = state.current = _new_pass(session, call, phase, mode)
    name = _phase_name(call, current)
    _note_budget(session, call, current)
    session.begin_phase(name)
    outcome = yield
    session.note_failure(outcome, phase=current.phase)
    session.end_phase(name)
    state.current = None
    if state.warmup is not None:
        state.warmup.phases_done.add(_pass_key(current))
    if outcome.error is None and not current.is_validation:
        _summarize(session, call, current, outcome.result)


def _new_pass(session: Session, call: Call, phase: str, mode: str | None) -> Pass:
    buckets = buckets_of(call.arg("buckets") or ())
    total = len(buckets)
    current = Pass(
        phase=phase,
        mode=mode,
        total=total,
        places={bucket: total - index for index, bucket in enumerate(buckets)},
    )
    done = session.state.warmup.phases_done if session.state.warmup else set()
    current.is_validation = not _has_budget(call) and _pass_key(current) in done
    return current


def _phase_name(call: Call, current: Pass) -> str:
    if current.is_validation:
        return "validation_warmup"
    return "graph_capture" if _has_budget(call) else f"{current.phase}_warmup"


def _has_budget(call: Call) -> bool:
    return call.arg("strategy") is not None


def _pass_key(current: Pass) -> str:
    return f"{current.phase} {current.mode}"


def _note_budget(session: Session, call: Call, current: Pass) -> None:
    """vllm-fork up to 1.21 hands each pass what it may take."""
    available = call.arg("available_mem")
    if isinstance(available, int | float):
        session.emit(GraphBudgetSet, **{f"{current.phase}_bytes": int(available)})


def _summarize(session: Session, call: Call, current: Pass, result: Any) -> None:
    """Totals of a pass: `warmup_graphs` returns the memory first."""
    if not isinstance(result, tuple) or not result:
        return
    used = result[0]
    captures_by_budget = _has_budget(call)
    session.emit(
        CaptureSummary,
        phase=current.phase,
        captured_reported=current.num_steps if captures_by_budget else current.total,
        used_bytes=int(used) if isinstance(used, int | float) else None,
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
    collector's time is in it.
    """
    state = session.state
    found = scenario_bucket(call)
    if state.current is None or found is None:
        return
    owns_step = state.step is None
    step = state.step if state.step is not None else begin_step(session)
    step.phase, step.bucket = found
    outcome = yield
    if outcome.error is not None:
        session.note_failure(outcome, phase=step.phase, bucket=step.bucket)
    if owns_step:
        end_step(session, outcome)


def begin_step(session: Session) -> Step:
    """A step begins now."""
    compiled = device.compiled()
    step = Step(
        collector_s=session.collector.total_s,
        num_compiled=compiled.count if compiled else None,
    )
    session.state.step = step
    return step


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
    session.wait_if_asked()
    duration = time.perf_counter() - step.started
    current = state.current
    current.num_steps += 1
    current.seen.add(step.bucket)
    if current.is_validation:
        return
    taken = used[1] - used[0] if used else None
    compiled = _compiled_since(step)
    session.emit(
        WarmupStep,
        phase=step.phase or current.phase,
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
        compiled=compiled,
        time=step.began,
    )
    if outcome.error is None and _made_graph(step, compiled):
        session.emit(
            GraphCaptured,
            phase=step.phase or current.phase,
            bucket=step.executed or step.bucket,
            index=current.places.get(step.bucket),
            total=current.total,
            duration_s=duration,
            memory_bytes=taken,
            time=step.began,
        )


def _compiled_since(step: Step) -> int | None:
    now = device.compiled()
    if now is None or step.num_compiled is None:
        return None
    return now.count - step.num_compiled


def _graph_mode(step: Step) -> str | None:
    if step.uses_graph is None:
        return None
    return "graph" if step.uses_graph else "eager"


def _made_graph(step: Step, compiled: int | None) -> bool:
    """Evidence that a graph exists now that did not exist before.

    Either the bridge compiled something, or the engine asked for a graph of a shape
    that it had not executed before.
    """
    if compiled is not None:
        return compiled > 0 and step.uses_graph is not False
    return bool(step.uses_graph and step.is_first_seen)


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
