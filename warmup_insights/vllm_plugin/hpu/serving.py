"""What is seen while vllm-gaudi serves: buckets used, misses, late compilation.

Everything here runs for every step that is served, so it counts and compares numbers,
and records at most once every few seconds unless something happened.
"""

from __future__ import annotations

import threading
import time

from warmup_insights.model.events import (
    Bucket,
    BucketMiss,
    BucketUsed,
    Note,
    RuntimeCompile,
)
from warmup_insights.vllm_plugin import device
from warmup_insights.vllm_plugin.calls import Call, Watch
from warmup_insights.vllm_plugin.hpu import bridge
from warmup_insights.vllm_plugin.hpu.buckets import checked_shape
from warmup_insights.vllm_plugin.hpu.warmup import executed_shape
from warmup_insights.vllm_plugin.session import Session
from warmup_insights.vllm_plugin.state import Lookup, Serving

FLUSH_S = 5.0
"""How often the counts of used buckets are recorded."""
MAX_COUNTED = 1000
"""So many different uses are counted before they are recorded."""
CHECK_S = 1.0
"""How often the compiler's metric is read, unless a step was slow."""
SLOW_STEP_S = 0.1


def check_config(session: Session, call: Call) -> Watch:
    """`_check_config`: the shape of a forward pass, warm-up or not."""
    if session.state.step is not None or call.arg("warmup_mode"):
        yield from executed_shape(session, call)
        return
    known = getattr(call.owner, "seen_configs", ())
    before = len(known)
    phase, shape = checked_shape(call)
    yield
    if shape is None:
        return
    serving = session.state.serving
    serving.executed = (phase, shape)
    if len(known) > before:
        session.emit(BucketMiss, phase=phase, shape=shape)
    lookup = _lookup_of_pass(serving, phase, shape)
    if lookup is not None:
        executed = shape if shape != lookup.bucket else None
        with serving.lock:
            serving.used[phase, lookup.shape, lookup.bucket, executed] += 1
        if len(serving.used) >= MAX_COUNTED:
            flush_used(session)


def _lookup_of_pass(serving: Serving, phase: str, executed: Bucket) -> Lookup | None:
    """What the pass that runs now was looked up with; None when that is not certain.

    Prefill batches run in the order in which they were formed. A step has one decode
    batch: its first lookup is for the requests (`_create_decode_input_data`), and the
    second, for the batch that they are padded to, decides on the blocks
    (`get_habana_paged_attn_buffers`); more are for windows of attention.
    """
    lookups = serving.lookups[phase]
    if phase == "prompt" and serving.formed:
        return serving.formed.popleft()
    if phase == "decode" and lookups:
        requests, blocks = lookups[0], lookups[:2][-1]
        shape = (*requests.shape[:-1], blocks.shape[-1])
        lookups.clear()
        return Lookup(shape, blocks.bucket)
    # Without a hook on what forms batches: where a batch runs before the next one is formed.
    if lookups and lookups[-1].bucket == executed:
        return lookups.pop()
    return None


def form_prefill(session: Session, call: Call) -> Watch:
    """`_form_prefill_batch`: one batch of those that the step is going to run.

    Other lookups find out whether requests fit into one batch, and nothing runs in
    what they find. An empty batch looks nothing up.
    """
    serving = session.state.serving
    if not serving.is_in_step:
        return
    lookups = serving.lookups["prompt"]
    lookups.clear()
    yield
    if lookups:
        serving.formed.append(lookups.pop())


def serve_step(session: Session, call: Call) -> Watch:
    """`execute_model` and, since v0.11.2, `sample_tokens`, where the model runs."""
    state = session.state
    if state.warmup is not None or state.stages or call.arg("warmup_mode"):
        return
    started = time.perf_counter()
    serving = state.serving
    if not serving.has_begun:
        _begin_serving(session)
    serving.begin_step()
    outcome = yield
    serving.is_in_step = False
    session.note_failure(outcome, phase="serving")
    now = time.perf_counter()
    if now - serving.checked >= CHECK_S or now - started >= SLOW_STEP_S:
        serving.checked = now
        _note_compiled(session)
    if serving.used and now - serving.flushed >= FLUSH_S:
        flush_used(session)
    elif serving.used and not serving.is_flush_due:
        _flush_later(session)


def _flush_later(session: Session) -> None:
    """Record the counts also where no step follows: an engine may be idle for long, and is
    killed when its server stops."""
    serving = session.state.serving

    def flush() -> None:
        serving.is_flush_due = False
        if serving is session.state.serving:
            flush_used(session)

    timer = threading.Timer(FLUSH_S, flush)
    timer.daemon = serving.is_flush_due = True
    timer.start()


def _begin_serving(session: Session) -> None:
    session.state.serving.has_begun = True
    session.before_end(lambda: flush_used(session))
    session.before_end(lambda: bridge.note_metrics(session, "by the end of serving"))
    compiled = session.state.serving.compiled = device.compiled()
    if compiled is not None or bridge.is_published(session):
        session.emit(
            Note,
            topic="bridge_monitor",
            text="Recipes that are compiled while serving are recorded",
        )


def _note_compiled(session: Session) -> None:
    """What the metric counted since the last call, where no single recipe is published."""
    serving = session.state.serving
    if bridge.is_published(session):
        return
    now, before = device.compiled(), serving.compiled
    if now is None or before is None:
        return
    count = now.count - before.count
    if count > 0:
        session.emit(
            RuntimeCompile,
            what=bridge.RECIPE_WHILE_SERVING,
            kernel="recipe" if count == 1 else f"{count} recipes",
            detail=bridge.shape_text(*serving.executed) if serving.executed else None,
            duration_s=now.duration_s - before.duration_s,
        )
        serving.compiled = now


def flush_used(session: Session) -> None:
    """Record the counts of used buckets."""
    serving = session.state.serving
    with serving.lock:
        used = list(serving.used.items())
        serving.used.clear()
    serving.flushed = time.perf_counter()
    for (phase, shape, bucket, executed), count in used:
        session.emit(
            BucketUsed,
            phase=phase,
            shape=shape,
            bucket=bucket,
            executed=executed,
            count=count,
        )
