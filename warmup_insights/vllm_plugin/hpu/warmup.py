"""The whole warm-up of vllm-gaudi and vllm-fork, and each pass over the buckets of a phase.

Source: `v1/worker/hpu_model_runner.py` (`warmup_model`, `warmup_graphs`,
`warmup_unified_graphs`), `extension/profiler.py`, vllm-fork `worker/hpu_model_runner.py`
(`warmup_all_buckets`, `warmup_graphs`).
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
    GraphSkipped,
    Note,
    WarmupFinished,
)
from warmup_insights.vllm_plugin.calls import Call, Outcome, Watch, whole
from warmup_insights.vllm_plugin.hpu import bridge
from warmup_insights.vllm_plugin.hpu.buckets import buckets_of, phase_of
from warmup_insights.vllm_plugin.session import Session
from warmup_insights.vllm_plugin.state import Pass, Warmup


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
    state.stages.append([])
    session.collector.switch_on()
    session.begin_phase("warmup")
    had_frozen = freeze(session) if session.settings.freezes_gc else None
    warmup.collector_s = session.collector.total_s
    outcome = yield
    if had_frozen is not None:
        lift(session, had_frozen)
    session.collector.switch_off()
    state.stages.pop()
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
    state.stages.append([])
    outcome = yield
    state.stages.pop()
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


def freeze(session: Session) -> bool:
    """Keep objects that exist now out of later collections; whether some were already.

    vllm-gaudi's `HabanaMemoryProfiler` (`extension/profiler.py`) collects when it is
    entered and when it is left, which is twice for every bucket, and each time the
    garbage collector visits every object of the process.
    """
    had_frozen, started = gc.get_freeze_count() > 0, time.perf_counter()
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
    used = whole(outcome.result)
    if used is None and isinstance(outcome.result, float):
        used = int(outcome.result)
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


plain_pass = partial(warmup_pass, mode="eager")
"""`warmup_all_buckets` of vllm-fork up to 1.21: without graphs."""
unified_pass = partial(warmup_pass, phase="unified")
"""`warmup_unified_graphs` of vllm-gaudi v0.11.2 to v0.16."""


def _new_pass(session: Session, call: Call, phase: str, mode: str | None) -> Pass:
    buckets = buckets_of(call.arg("buckets") or ())
    total = len(buckets)
    found = getattr(call.owner, "graphed_buckets", None)
    marks: AbstractSet[Any] = found if isinstance(found, AbstractSet) else frozenset()
    current = Pass(
        phase=phase,
        mode=mode,
        total=total,
        places={bucket: total - index for index, bucket in enumerate(buckets)},
        marks=marks,
        marked_before=frozenset(marks),
        waiting=reversed(buckets),
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
