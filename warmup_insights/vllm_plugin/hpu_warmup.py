"""The whole warm-up of vllm-gaudi and vllm-fork.

Source: `v1/worker/hpu_model_runner.py` (`warmup_model`), `extension/profiler.py`.
"""

from __future__ import annotations

import time

from warmup_insights.model.events import Note, WarmupFinished
from warmup_insights.vllm_plugin.calls import Call, Outcome, Watch
from warmup_insights.vllm_plugin.collector import Freeze
from warmup_insights.vllm_plugin.session import Session
from warmup_insights.vllm_plugin.state import Warmup
from warmup_insights.vllm_plugin.values import whole


def warmup_model(session: Session, call: Call) -> Watch:
    """`warmup_model`: the whole.

    `HPUWorker.initialize_from_config` calls it, and later the executor again. A second
    call for the same runner is time that passes, and no second warm-up.
    """
    state = session.state
    if state.warmup is not None:
        return
    if state.remember_warmed(call.owner):
        yield from _watch_repeat(session)
        return
    warmup = state.warmup = Warmup()
    state.captured.clear()
    state.stages.append([])
    session.collector.switch_on()
    session.begin_phase("warmup")
    freeze = _freeze(session) if session.settings.freezes_gc else None
    warmup.collector_s = session.collector.total_s
    outcome = yield
    if freeze is not None:
        _lift(session, freeze)
    session.collector.switch_off()
    state.stages.pop()
    state.warmup = None
    session.note_failure(outcome, phase="warmup")
    session.wait_if_asked()
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
        gc_s=session.collector.total_s - warmup.collector_s,
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
    session.emit(Note, topic="gc_unfreeze", text=text, values={"lifted": lifted})


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
