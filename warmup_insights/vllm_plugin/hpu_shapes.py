"""Shapes in the calls of vllm-gaudi and vllm-fork; their arguments changed over time."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from warmup_insights.model.events import Bucket
from warmup_insights.vllm_plugin.calls import Call
from warmup_insights.vllm_plugin.values import whole


def bucket_of(values: Iterable[Any]) -> Bucket | None:
    """A bucket from whole numbers; None when one of them is something else."""
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
        sizes = [call.arg("batch_size"), call.arg("seq_len", "seq_or_block")]
        context = call.arg("num_blocks", "ctx")
        if context is not None:
            sizes.append(context)
        return phase_of(call.arg("is_prompt")), bucket_of(sizes)
    for phase in ("prompt", "decode", "unified"):
        configured = call.arg(f"{phase}_cfg")
        if configured:
            return phase, bucket_of(configured)
    return None


def checked_shape(call: Call) -> tuple[str, Bucket | None]:
    """Phase and shape that `_check_config` is asked about: what is really executed.

    vllm-fork up to 1.21 has no third number; `is_prompt` became `attn_metadata`.
    """
    metadata = call.arg("attn_metadata")
    is_prompt = call.arg("is_prompt", default=getattr(metadata, "is_prompt", False))
    sizes = [call.arg("batch_size"), call.arg("seq_len")]
    context = call.arg("num_blocks", "ctx")
    if context is not None:
        sizes.append(context)
    return phase_of(is_prompt), bucket_of(sizes)
