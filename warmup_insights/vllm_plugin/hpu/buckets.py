"""Shapes, bucket ranges, bucket lists and misses in vllm-gaudi and vllm-fork.

Source: `extension/bucketing/` (`common.py` and one file per strategy).
"""

from __future__ import annotations

from collections.abc import Iterable
from functools import partial
from typing import Any

from warmup_insights.model.events import (
    Bucket,
    BucketMiss,
    BucketRangesConfigured,
    BucketsGenerated,
    BucketsOmitted,
)
from warmup_insights.vllm_plugin.calls import Call, Watch, whole
from warmup_insights.vllm_plugin.session import Session
from warmup_insights.vllm_plugin.state import Lookup


def bucket_of(values: Iterable[Any]) -> Bucket | None:
    """A bucket from whole numbers; None when one is not a whole number."""
    numbers = [whole(value) for value in values]
    known = tuple(number for number in numbers if number is not None)
    return known if known and len(known) == len(numbers) else None


def buckets_of(values: Iterable[Any]) -> list[Bucket]:
    """The buckets of an engine's list."""
    found = (bucket_of(value) for value in values if isinstance(value, list | tuple))
    return [bucket for bucket in found if bucket is not None]


def phase_of(is_prompt: Any) -> str:
    """`prompt` or `decode`."""
    return "prompt" if is_prompt else "decode"


def scenario_bucket(call: Call) -> tuple[str, Bucket | None] | None:
    """Phase and bucket of a dummy run; None when it is of no phase.

    vllm-gaudi since v0.11.2: `_prepare_dummy_scenario(prompt_cfg, decode_cfg)`, and
    for unified attention `_prepare_dummy_unified_scenario(unified_cfg)`.
    vllm-gaudi v0.10 and vllm-fork: `warmup_scenario(batch_size, seq_len or
    seq_or_block, [num_blocks or ctx], is_prompt, ...)`.
    """
    if call.arg("batch_size") is not None:
        return phase_of(call.arg("is_prompt")), _shape_of(call)
    for phase in ("prompt", "decode", "unified"):
        configured = call.arg(f"{phase}_cfg")
        if configured:
            return phase, bucket_of(configured)
    return None


def checked_shape(call: Call) -> tuple[str, Bucket | None]:
    """Phase and shape that `_check_config` is called with: what is really executed.

    vllm-fork up to 1.21 has no third number; `is_prompt` became `attn_metadata`.
    """
    metadata = call.arg("attn_metadata")
    is_prompt = call.arg("is_prompt", default=getattr(metadata, "is_prompt", False))
    return phase_of(is_prompt), _shape_of(call)


def _shape_of(call: Call) -> Bucket | None:
    """The shape that a call names by two or three arguments."""
    sizes = [call.arg("batch_size"), call.arg("seq_len", "seq_or_block")]
    context = call.arg("num_blocks", "ctx")
    return bucket_of(sizes if context is None else [*sizes, context])


DIMENSIONS = ["bs", "query", "num_blocks"]
_PARAMETERS = {
    3: ["min", "step", "max"],
    4: ["min", "step", "max", "limit"],
    5: ["min", "step", "max", "pad_max", "pad_percent"],
}
_STRATEGIES = {
    "ExponentialBucketingStrategy": "exponential",
    "LinearBucketingStrategy": "linear",
    "PaddingAwareBucketingStrategy": "padding_aware",
    "FileBucketingStrategy": "file",
    "UnifiedBucketingStrategy": "unified",
}


def strategy(session: Session, call: Call) -> Watch:
    """`get_bucketing_strategy`: which one is used."""
    outcome = yield
    name = type(outcome.result).__name__
    session.state.strategy = _STRATEGIES.get(name, name)


def read_file(session: Session, call: Call) -> Watch:
    """`read_from_file`: buckets come from a file."""
    session.state.strategy = "file"
    yield


def _note_ranges(session: Session, call: Call, *, phase: str) -> Watch:
    """The query length of decodes is always 1.

    The exponential strategy calls the last dimension of decodes `block`, the others
    `blocks`.
    """
    outcome = yield
    names = ("bs", "query", "blocks")
    if phase == "decode":
        is_exponential = session.state.strategy == "exponential"
        names = ("bs", "", "block" if is_exponential else "blocks")
    if not isinstance(outcome.result, tuple):
        return
    ranges = {
        name: list(numbers)
        for name, values in zip(names, outcome.result, strict=False)
        if name and (numbers := bucket_of(values)) is not None
    }
    longest = max(map(len, ranges.values()), default=0)
    session.emit(
        BucketRangesConfigured,
        phase=phase,
        ranges=ranges,
        parameters=_PARAMETERS.get(longest, []),
    )


prompt_ranges = partial(_note_ranges, phase="prompt")
"""`get_prompt_cfgs` of a strategy."""
decode_ranges = partial(_note_ranges, phase="decode")
"""`get_decode_cfgs` of a strategy."""


def omitted_buckets(session: Session, call: Call) -> Watch:
    """The function `generate_prompt_buckets` of vllm-hpu-extension before 1.22.

    It returns the buckets, and those that exceed the token budget.
    """
    outcome = yield
    if isinstance(outcome.result, tuple) and len(outcome.result) == 2:
        omitted = sorted(buckets_of(outcome.result[1]))
        session.emit(
            BucketsOmitted,
            phase="prompt",
            count=len(omitted),
            reason="exceeded token budget",
            buckets=omitted,
        )


def _generated(session: Session, call: Call, *, phase: str) -> Watch:
    session.begin_phase("bucket_generation")
    outcome = yield
    session.note_failure(outcome, phase=phase)
    session.end_phase("bucket_generation")
    if outcome.error is not None:
        return
    buckets = buckets_of(getattr(call.owner, f"{phase}_buckets", None) or ())
    width = len(buckets[0]) if buckets else 0
    session.emit(
        BucketsGenerated,
        phase=phase,
        count=len(buckets),
        buckets=buckets,
        strategy=session.state.strategy,
        dimensions=DIMENSIONS if width == 3 and phase != "unified" else [],
    )


prompt_buckets = partial(_generated, phase="prompt")
"""`generate_prompt_buckets`."""
decode_buckets = partial(_generated, phase="decode")
"""`generate_decode_buckets`; may add those of speculative decoding."""
unified_buckets = partial(_generated, phase="unified")
"""`generate_unified_buckets` of vllm-gaudi v0.11.2 to v0.16."""


def speculative_buckets(session: Session, call: Call) -> Watch:
    """`generate_spec_decode_buckets`: what speculative decoding adds."""
    seeds = set(buckets_of(call.arg("seed_decode_buckets") or ()))
    outcome = yield
    if outcome.error is None:
        added = [b for b in buckets_of(outcome.result or ()) if b not in seeds]
        session.emit(
            BucketsGenerated,
            phase="spec_decode",
            count=len(added),
            buckets=added,
            dimensions=DIMENSIONS,
        )


def find_prompt_bucket(session: Session, call: Call) -> Watch:
    """`find_prompt_bucket`: a bucket that is added is a miss."""
    shape = bucket_of(
        (call.arg("batch_size"), call.arg("seq_len"), call.arg("ctx", default=0))
    )
    yield from _found(session, call.owner, "prompt", shape)


def find_decode_bucket(session: Session, call: Call) -> Watch:
    """`find_decode_bucket`: a bucket that is added is a miss.

    The engine caps the blocks first, at the largest prepared number.
    """
    blocks = whole(call.arg("num_blocks"))
    limit = whole(getattr(call.owner, "_fallback_max_ctx", 0)) or 0
    if blocks is not None and limit > 0:
        blocks = min(blocks, limit)
    shape = bucket_of((call.arg("batch_size"), 1, blocks))
    yield from _found(session, call.owner, "decode", shape)


def _found(session: Session, owner: Any, phase: str, shape: Bucket | None) -> Watch:
    prepared = getattr(owner, f"{phase}_buckets", ())
    before = len(prepared)
    outcome = yield
    bucket = bucket_of(outcome.result or ())
    if bucket is None or shape is None:
        return
    serving = session.state.serving
    if serving.is_in_step:
        serving.lookups[phase].append(Lookup(shape, bucket))
    if len(prepared) > before:
        session.emit(BucketMiss, phase=phase, shape=shape, fallback=bucket)
