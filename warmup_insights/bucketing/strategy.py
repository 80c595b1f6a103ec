"""What a strategy is: range parameters from settings, and values from parameters."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import NamedTuple

from warmup_insights.bucketing.settings import BucketingSettings


class PhaseParameters(NamedTuple):
    """The range parameters of the three dimensions of one phase."""

    batch_size: tuple[int, ...]
    query_len: tuple[int, ...]
    num_blocks: tuple[int, ...]
    notes: tuple[str, ...] = ()


@dataclass(frozen=True)
class Strategy:
    """A way to choose buckets, as three pure functions.

    `prompt` and `decode` derive the range parameters from the settings; `values`
    expands the parameters of one dimension, whose variables begin with a name, to a
    sorted list and raises SettingError where they cannot be used.
    """

    name: str
    title: str
    parameter_names: tuple[str, ...]
    prompt: Callable[[BucketingSettings], PhaseParameters]
    decode: Callable[[BucketingSettings], PhaseParameters]
    values: Callable[[BucketingSettings, tuple[int, ...], str], list[int]]


def fit_decode_blocks(
    settings: BucketingSettings,
    parameters: tuple[int, ...],
    *,
    ends_at_cache: bool,
    most: int | None = None,
) -> tuple[tuple[int, ...], tuple[str, ...]]:
    """Decode block parameters that the cache can hold, and what was changed.

    The maximum ends at the cache if it is to, and a minimum above `most`, else above
    the maximum, moves one step below it.
    Source: `linear.py` and `padding_aware.py`, `get_decode_cfgs`, of vllm-gaudi.
    """
    cache_blocks = settings.num_kv_blocks
    smallest, step, largest, *rest = parameters
    notes = []
    if ends_at_cache and largest > cache_blocks:
        notes.append(
            f"VLLM_DECODE_BLOCK_BUCKET_MAX={largest} is lowered to the "
            f"{cache_blocks} blocks of the KV cache."
        )
        largest = cache_blocks
    bound = largest if most is None else most
    if smallest > bound:
        moved = max(1, bound - step)
        notes.append(
            f"VLLM_DECODE_BLOCK_BUCKET_MIN={smallest} is above {bound} blocks and "
            f"becomes {moved}."
        )
        smallest = moved
    return (smallest, step, largest, *rest), tuple(notes)
