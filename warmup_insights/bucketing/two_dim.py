"""The older scheme of two dimensions: (batch_size, seq_len), of vllm-fork for Gaudi 1.17.

Later ones count the blocks of a decode batch, and 1.16 had no buckets.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from itertools import product
from typing import Any, NamedTuple

from warmup_insights.bucketing.base import Phase
from warmup_insights.bucketing.linear import linear_range
from warmup_insights.bucketing.ranges import (
    check_range,
    range_name,
    resolve_parameters,
)
from warmup_insights.bucketing.settings import read_overrides
from warmup_insights.errors import SettingError

_MAX_PROMPT_BATCH = 64
_MAX_PROMPT_LEN = 1024
_MAX_DECODE_LEN = 2048
_BUDGET = "batch_size * seq_len <= max_num_batched_tokens"


class Bucket2D(NamedTuple):
    """A padded shape of V0: sequences and tokens of each sequence."""

    batch_size: int
    seq_len: int


class DroppedBucket2D(NamedTuple):
    """A candidate that is not warmed up, and the condition that it does not meet."""

    phase: Phase
    bucket: Bucket2D
    condition: str


@dataclass(frozen=True, kw_only=True)
class TwoDimSettings:
    """(min, step, max) of each range, tokens of a block, and the token budget of prompts.

    Only the reference engine has a budget, and drops prompt buckets above it.
    """

    block_size: int
    prompt_batch_size: tuple[int, int, int]
    prompt_seq_len: tuple[int, int, int]
    decode_batch_size: tuple[int, int, int]
    decode_seq_len: tuple[int, int, int]
    max_num_batched_tokens: int | None = None

    def parameters(self, phase: Phase) -> tuple[tuple[int, int, int], ...]:
        """(min, step, max) of batch size and sequence length of one phase."""
        if phase == "prompt":
            return self.prompt_batch_size, self.prompt_seq_len
        return self.decode_batch_size, self.decode_seq_len


@dataclass(frozen=True)
class GeneratedBuckets2D:
    """Both lists, sorted, with what was dropped and sentences for a person."""

    prompt: tuple[Bucket2D, ...]
    decode: tuple[Bucket2D, ...]
    dropped: tuple[DroppedBucket2D, ...]
    notes: tuple[str, ...]


def two_dim_settings(
    inputs: Mapping[str, Any], env: Mapping[str, str]
) -> TwoDimSettings:
    """The V0 settings of an engine with these limits and this environment.

    `inputs` needs max_num_seqs and block_size; max_num_batched_tokens is the budget of
    the reference engine, where it is given. Overrides are VLLM_{PROMPT|DECODE}_{BS|SEQ}_BUCKET_{MIN|STEP|MAX}.
    Source: `habana_model_runner.py`, `_setup_buckets`, of HabanaAI/vllm-fork for
    Gaudi 1.17.

    Raises:
        SettingError: an input is missing, or a range is impossible.
    """
    num_seqs = _read_limit(inputs, "max_num_seqs")
    block_size = _read_limit(inputs, "block_size")
    budget = inputs.get("max_num_batched_tokens")
    overrides = read_overrides(env)

    def resolve(phase: Phase, dimension: str, *defaults: int) -> tuple[int, int, int]:
        found = resolve_parameters(overrides, phase, dimension, *defaults)
        name = range_name(phase, dimension)
        check_range(found, name)
        smallest, step, largest = found
        if smallest == 0:
            raise SettingError(
                f"{name}_MIN=0 never ends in this version; use 1 or more"
            )
        return smallest, step, largest

    most_prompts = min(num_seqs, _MAX_PROMPT_BATCH)
    return TwoDimSettings(
        block_size=block_size,
        prompt_batch_size=resolve("prompt", "bs", 1, 32, most_prompts),
        prompt_seq_len=resolve(
            "prompt", "seq", block_size, block_size, _MAX_PROMPT_LEN
        ),
        decode_batch_size=resolve("decode", "bs", 1, 128, num_seqs),
        decode_seq_len=resolve(
            "decode", "seq", block_size, block_size, _MAX_DECODE_LEN
        ),
        max_num_batched_tokens=(
            None if budget is None else _read_limit(inputs, "max_num_batched_tokens")
        ),
    )


def generate_two_dim(settings: TwoDimSettings) -> GeneratedBuckets2D:
    """All buckets of V0: the product of two linear ranges, within a token budget if any.

    A budget that no prompt bucket meets is ignored, with a note.
    Source: `habana_model_runner.py`, `warmup_buckets`; the budget is that of
    `generate_prompt_buckets` of later ones.

    Raises:
        SettingError: a range is impossible.
    """
    candidates = _product(settings, "prompt")
    decode = _product(settings, "decode")
    budget = settings.max_num_batched_tokens
    prompt = tuple(
        bucket
        for bucket in candidates
        if budget is None or bucket.batch_size * bucket.seq_len <= budget
    )
    if not prompt:
        smallest = min(bucket.batch_size * bucket.seq_len for bucket in candidates)
        note = (
            f"max_num_batched_tokens={budget} is below the {smallest} tokens of the "
            "smallest prompt bucket and is ignored; raise it, or lower a minimum."
        )
        return GeneratedBuckets2D(candidates, decode, (), (note,))
    kept = set(prompt)
    dropped = tuple(
        DroppedBucket2D("prompt", bucket, _BUDGET)
        for bucket in candidates
        if bucket not in kept
    )
    return GeneratedBuckets2D(prompt, decode, dropped, ())


def warmup_order(buckets: Iterable[Bucket2D]) -> list[Bucket2D]:
    """The order in which V0 warms up: most tokens first, then the longer sequence."""
    return sorted(
        buckets,
        key=lambda bucket: (
            bucket.batch_size * bucket.seq_len,
            bucket.seq_len,
            bucket.batch_size,
        ),
        reverse=True,
    )


def find_two_dim(
    settings: TwoDimSettings, phase: Phase, batch_size: int, seq_len: int
) -> Bucket2D:
    """The bucket of a shape; one beyond the ranges was not warmed up.

    Sequences and the tokens of a prompt are rounded up by the step of their range, whatever
    its minimum; a prompt is a block long at least, and a decode as long as whole blocks.
    Source: `habana_model_runner.py`, `prepare_input_tensors`, `_prepare_prompt` and
    `_seq_len`.
    """
    block_size = settings.block_size
    batch_range, len_range = settings.parameters(phase)
    if phase == "prompt":
        length = max(round_up(seq_len, len_range[1]), block_size)
    else:
        length = -(-seq_len // block_size) * block_size
    return Bucket2D(round_up(batch_size, batch_range[1]), length)


def round_up(value: int, step: int) -> int:
    """The smallest multiple of a step that is not below a value; below the step the
    smallest power of 2, at most the step.

    Source: `habana_model_runner.py`, `find_bucket`, of HabanaAI/vllm-fork for Gaudi 1.17.
    """
    if value >= step:
        return -(-value // step) * step
    power = 1 << max(0, value - 1).bit_length()
    return min(power, step)


def _product(settings: TwoDimSettings, phase: Phase) -> tuple[Bucket2D, ...]:
    values = [
        _range(*parameters, name=range_name(phase, dimension))
        for dimension, parameters in zip(
            ("bs", "seq"), settings.parameters(phase), strict=True
        )
    ]
    return tuple(Bucket2D(*pair) for pair in product(*values))


def _range(smallest: int, step: int, largest: int, *, name: str) -> list[int]:
    """The values of a range: multiples of the step below the minimum are values, too.

    Source: `habana_model_runner.py`, `warmup_range`, of HabanaAI/vllm-fork for Gaudi 1.17.
    """
    return linear_range(min(smallest, step), step, largest, name=name)


def _read_limit(inputs: Mapping[str, Any], name: str) -> int:
    value = inputs.get(name)
    if not isinstance(value, int) or isinstance(value, bool) or value < 1:
        raise SettingError(f"{name}={value!r} is no whole number; use 1 or more")
    return value
