"""Sampler, defragmenter and multimodal warm-up of vllm-gaudi, step by step.

Source: `v1/worker/hpu_model_runner.py` (`warmup_sampler`, `_run_sampling`,
`warmup_multimodal_graphs`, `warmup_pooler`, before v0.17.1 `warmup_defragmenter`),
`extension/defragmentation.py`.
"""

from __future__ import annotations

import time
from functools import partial
from typing import Any

from warmup_insights.model.events import (
    DefragRan,
    DefragStep,
    DefragWarmup,
    SamplerConfig,
    SamplerStep,
    SamplerWarmup,
    WarmupStep,
)
from warmup_insights.vllm_plugin.calls import Call, Watch, whole
from warmup_insights.vllm_plugin.hpu.warmup import new_step, readings_since
from warmup_insights.vllm_plugin.session import Session
from warmup_insights.vllm_plugin.state import Defragmenting, Sampling
from warmup_insights.vllm_plugin.workers import phase


def warmup_sampler(session: Session, call: Call) -> Watch:
    """`warmup_sampler`: every configuration at every batch size."""
    session.begin_phase("sampler_warmup")
    session.emit(SamplerWarmup, status="started")
    sampling = session.state.sampling = Sampling()
    outcome = yield
    session.state.sampling = None
    duration = session.finish_phase("sampler_warmup", outcome)
    if outcome.error is None:
        session.emit(
            SamplerWarmup,
            status="completed",
            batch_sizes=sampling.batch_sizes,
            duration_s=duration,
        )


def run_sampling(session: Session, call: Call) -> Watch:
    """`_run_sampling` during the sampler warm-up.

    A step lasts from the end of the one before, so that what prepares it is in it.
    """
    sampling = session.state.sampling
    requests = call.arg("request_ids")
    if sampling is None or not requests:
        return
    parameters = call.owner.requests[requests[0]].sampling_params
    is_changed = bool(call.arg("batch_changed"))
    config = (
        float(parameters.temperature),
        float(parameters.top_p),
        int(parameters.top_k),
        is_changed,
    )
    names = ("temperature", "top_p", "top_k", "batch_changed")
    named: dict[str, Any] = dict(zip(names, config, strict=True))
    if config not in sampling.configs:
        sampling.configs.add(config)
        session.emit(SamplerConfig, **named)
    yield
    session.wait_for_device()
    now = time.perf_counter()
    duration, sampling.last = now - sampling.last, now
    size = len(requests)
    if size not in sampling.batch_sizes:
        sampling.batch_sizes.append(size)
    session.emit(SamplerStep, batch_size=size, duration_s=duration, **named)


def warmup_defragmenter(session: Session, call: Call) -> Watch:
    """`OnlineDefragmenter.warmup`; before v0.17.1 a method of the model runner."""
    defragmenter = getattr(call.owner, "defragmenter", call.owner)
    if not getattr(defragmenter, "enabled", False):
        session.emit(DefragWarmup, status="skipped", reason="disabled")
        return
    block_size = getattr(call.owner, "block_size", 0)
    thresholds = [int(n) for n in getattr(defragmenter, "to_swap_pad_thresholds", ())]
    session.begin_phase("defrag_warmup")
    session.emit(DefragWarmup, status="started", thresholds=thresholds)
    swapping = session.state.defragmenting = Defragmenting(is_warmup=True)
    outcome = yield
    session.state.defragmenting = None
    duration = session.finish_phase("defrag_warmup", outcome)
    if outcome.error is not None:
        return
    if swapping.num_swaps:
        session.emit(DefragWarmup, status="completed", duration_s=duration)
    else:
        blocks = _num_blocks(defragmenter, block_size)
        session.emit(
            DefragWarmup, status="skipped", reason=f"insufficient blocks ({blocks})"
        )


def _num_blocks(defragmenter: Any, block_size: int) -> int:
    holder = getattr(defragmenter, "cache_utils", None)
    caches = getattr(defragmenter, "kv_caches", None) or getattr(
        holder, "kv_caches", None
    )
    try:
        return int(caches[0][0].shape[0]) // block_size  # type: ignore[index]
    except (TypeError, IndexError, AttributeError, ZeroDivisionError):
        return 0


def swap(session: Session, call: Call) -> Watch:
    """`_swap(to_swap, threshold)`: blocks are moved, padded to a threshold."""
    swapping = session.state.defragmenting
    pairs, threshold = call.arg("to_swap"), whole(call.arg("threshold"))
    if swapping is None or threshold is None:
        return
    swapping.num_swaps += 1
    if not swapping.is_warmup:
        # The pairs come in order of falling block number.
        swapping.swapped, swapping.padded = len(pairs), threshold
        swapping.highest = whole(pairs[0][0])
        return
    yield
    session.wait_for_device()
    now = time.perf_counter()
    duration, swapping.last = now - swapping.last, now
    session.emit(DefragStep, threshold=threshold, duration_s=duration)


def defragment(session: Session, call: Call) -> Watch:
    """`OnlineDefragmenter.defragment`, before every step that is served."""
    if not getattr(call.owner, "enabled", False):
        return
    swapping = session.state.defragmenting = Defragmenting()
    outcome = yield
    session.state.defragmenting = None
    session.note_failure(outcome, phase="defragmentation")
    if swapping.swapped is None or outcome.error is not None:
        return
    session.wait_for_device()
    used = getattr(call.owner, "used_blocks", None) or {}
    session.emit(
        DefragRan,
        swapped=swapping.swapped,
        padded=swapping.padded,
        max_id_before=swapping.highest,
        max_id_after=max(used, default=None),
        num_used=len(used),
        duration_s=time.perf_counter() - swapping.last,
    )


def warmup_multimodal(session: Session, call: Call) -> Watch:
    """`warmup_multimodal_graphs`: the image and video encoders."""
    session.state.multimodal = new_step(session)
    yield from session.watch_phase("multimodal_warmup")
    session.state.multimodal = None


def _modality(phase: object) -> str | None:
    """The kind of input in `Graph/Multimodal(image)`; None where it names none."""
    _, _, kind = str(phase).partition("(")
    return kind.rstrip(")") or None


def multimodal_step(session: Session, call: Call) -> Watch:
    """`log_warmup_multimodal`, called when a shape is done; `img_args` until v0.13."""
    step = session.state.multimodal
    if step is None:
        return
    yield
    session.wait_for_device()
    session.state.multimodal = new_step(session)
    names = ("img_args", "w", "h")
    sizes = [size for name in names if (size := whole(call.arg(name))) is not None]
    items = whole(call.arg("batch_size"))
    if len(sizes) > 1 and items is not None:
        sizes.append(items)
    index = whole(call.arg("i"))
    session.emit(
        WarmupStep,
        phase="multimodal",
        modality=_modality(call.arg("phase")),
        bucket=tuple(sizes) or None,
        index=index + 1 if index is not None else None,
        total=whole(call.arg("max_i")),
        duration_s=time.perf_counter() - step.started,
        time=step.began,
        **readings_since(session, step),
    )


warmup_pooler = partial(phase, name="pooler_warmup")
"""`warmup_pooler`: one forward pass per prompt bucket, in one call."""
