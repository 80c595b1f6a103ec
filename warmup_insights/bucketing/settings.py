"""Everything that decides which buckets an engine generates, as one frozen object."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Annotated

from warmup_insights.bucketing.base import StrategyName
from warmup_insights.bucketing.file import MAX_VALUE, BucketFile
from warmup_insights.bucketing.versions import (
    NEWEST_RELEASE,
    Rules,
    rules_of,
    version_name,
)
from warmup_insights.errors import SettingError

LONG_CONTEXT_TOKENS = 8192
"""From this max_model_len on, prompt contexts get the longest one per query length."""

_NO_OVERRIDES: Mapping[str, int] = MappingProxyType({})

_SMALLEST = {
    "max_num_seqs": 1,
    "max_num_prefill_seqs": 1,
    "block_size": 1,
    "max_num_batched_tokens": 1,
    "max_model_len": 1,
    "num_kv_blocks": 1,
    "num_speculative_tokens": 0,
    "mamba_chunk_size": 0,
}


@dataclass(frozen=True)
class SlidingWindow:
    """Attention in slices: long prompts without context must be whole slices.

    Both in tokens. Source: PT_HPU_SDPA_BC_FACTOR and VLLM_FUSEDSDPA_SLIDE_THLD.
    """

    slice_size: int = 1024
    threshold: int = 8192

    def __post_init__(self) -> None:
        if self.slice_size < 1:
            raise SettingError(
                f"PT_HPU_SDPA_BC_FACTOR={self.slice_size} is too small; "
                "it must be at least 1"
            )
        if self.threshold < 0:
            raise SettingError(
                f"VLLM_FUSEDSDPA_SLIDE_THLD={self.threshold} is negative; use 0 or more"
            )


@dataclass(frozen=True, kw_only=True)
class BucketingSettings:
    """The engine's limits, the features that change the rules, and the user's overrides.

    Lengths are in tokens, `num_kv_blocks` in KV cache blocks of `block_size` tokens
    (what vllm-gaudi calls num_hpu_blocks). `overrides` maps names such as
    VLLM_PROMPT_BS_BUCKET_MIN to numbers. With a `bucket_file` no strategy is used.
    `engine_version` is the vllm-gaudi whose rules are used, as v0.26.0 or main.

    Raises:
        SettingError: a limit is too small, not a whole number, or contradicts another.
    """

    max_num_seqs: Annotated[int, "Most sequences of one step"]
    max_num_prefill_seqs: Annotated[
        int, "Most sequences of one prefill; else as the engine sets it"
    ]
    block_size: Annotated[int, "Tokens of a KV cache block"]
    max_num_batched_tokens: Annotated[int, "Most tokens of one step"]
    max_model_len: Annotated[int, "Most tokens of a sequence"]
    num_kv_blocks: Annotated[int, "Blocks of the KV cache"]
    num_speculative_tokens: Annotated[
        int, "Tokens that speculative decoding proposes"
    ] = 0
    mamba_chunk_size: int = 0
    mamba_chunk_size_is_explicit: bool = False
    skip_decode_block_clamp: bool = False
    strategy: StrategyName = "exp"
    use_bucketing: bool = True
    use_contiguous_pa: bool = False
    prefix_caching: bool = True
    merged_prefill: bool = False
    sliding_window: SlidingWindow | None = None
    overrides: Mapping[str, int] = field(default_factory=lambda: _NO_OVERRIDES)
    bucket_file: BucketFile | None = None
    notes: tuple[str, ...] = ()
    engine_version: str = NEWEST_RELEASE

    def __post_init__(self) -> None:
        object.__setattr__(self, "engine_version", version_name(self.engine_version))
        for name, smallest in _SMALLEST.items():
            _check_limit(name, getattr(self, name), smallest)
        if self.strategy not in ("exp", "lin", "pad"):
            raise SettingError(
                f"VLLM_BUCKETING_STRATEGY={self.strategy!r} is unknown; use exp, lin or pad"
            )
        chunk = self.mamba_chunk_size
        is_checked = chunk and self.rules.checks_chunks
        if is_checked and self.max_num_batched_tokens % chunk:
            raise SettingError(
                f"max_num_batched_tokens={self.max_num_batched_tokens} is no multiple of "
                f"mamba_chunk_size={chunk}; change one of them"
            )

    @property
    def rules(self) -> Rules:
        """What differs in this version of the engine."""
        return rules_of(self.engine_version)

    @property
    def is_long_context(self) -> bool:
        """Whether max_model_len is long enough for the rules of long contexts."""
        return self.max_model_len >= LONG_CONTEXT_TOKENS

    @property
    def has_edge_contexts(self) -> bool:
        """Whether the largest prompt context is the longest of each query length."""
        rule = self.rules.long_context
        if rule == "like short":
            return False
        return self.is_long_context or rule == "edge for short too"

    @property
    def blocks_per_seq(self) -> int:
        """The KV blocks of one sequence filled to max_model_len."""
        return -(-self.max_model_len // self.block_size)

    @property
    def lowered_blocks_per_seq(self) -> int | None:
        """The blocks of a sequence that decode buckets are lowered to; None for none.

        Source: `common.py`, `generate_buckets`, get_corrector, of vllm-gaudi.
        """
        if self.mamba_chunk_size and self.rules.floors_mamba_blocks:
            return self.max_model_len // self.block_size
        is_kept = self.use_contiguous_pa or self.rules.early
        return None if is_kept else self.blocks_per_seq

    @property
    def max_prompt_blocks(self) -> int:
        """The most context blocks of a prompt that still has one token to compute."""
        return -(-(self.max_model_len - 1) // self.block_size)


def _check_limit(name: str, value: object, smallest: int) -> None:
    if not isinstance(value, int) or isinstance(value, bool):
        raise SettingError(
            f"{name}={value!r} is no whole number; use {smallest} or more"
        )
    if value < smallest:
        raise SettingError(f"{name}={value} is too small; use {smallest} or more")
    if value > MAX_VALUE:
        raise SettingError(f"{name}={value} is too large; use at most {MAX_VALUE}")
