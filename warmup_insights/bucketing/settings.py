"""Everything that decides which buckets an engine generates, as one frozen object.

It is made from the names and values that an engine is started with.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Annotated, Any

from warmup_insights.bucketing.base import STRATEGY_NAMES, StrategyName
from warmup_insights.bucketing.file import MAX_VALUE, BucketFile, read_bucket_file
from warmup_insights.bucketing.versions import (
    NEWEST_RELEASE,
    Rules,
    rules_of,
    version_name,
)
from warmup_insights.errors import SettingError

LONG_CONTEXT_TOKENS = 8192
"""From this max_model_len on, prompt contexts get the longest one per query length."""

_REQUIRED = (
    "max_num_seqs", "block_size", "max_num_batched_tokens", "max_model_len",
    "num_kv_blocks",
)  # fmt: skip
_OPTIONAL = (
    "max_num_prefill_seqs", "num_speculative_tokens", "mamba_chunk_size",
    "mamba_chunk_size_is_explicit", "skip_decode_block_clamp",
)  # fmt: skip
_SMALLEST = {
    **dict.fromkeys((*_REQUIRED, "max_num_prefill_seqs"), 1),
    "num_speculative_tokens": 0, "mamba_chunk_size": 0,
}  # fmt: skip


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
    overrides: Mapping[str, int] = field(default_factory=dict)
    bucket_file: BucketFile | None = None
    notes: tuple[str, ...] = ()
    engine_version: str = NEWEST_RELEASE

    def __post_init__(self) -> None:
        object.__setattr__(self, "engine_version", version_name(self.engine_version))
        for name, smallest in _SMALLEST.items():
            _check_limit(name, getattr(self, name), smallest)
        strategy_name(self.strategy)
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


_NAME = re.compile(
    r"VLLM_(PROMPT|DECODE)_(BS|QUERY|SEQ|CTX|BLOCK)_BUCKET_"
    r"(MIN|STEP|MAX|PAD_MAX|PAD_PERCENT)"
)
_LIKE_A_NAME = re.compile(r"VLLM_(?:PROMPT|DECODE)_\w{0,80}BUCKET\w{0,80}")
_SWITCHES = frozenset({
    "VLLM_BUCKETING_STRATEGY", "VLLM_EXPONENTIAL_BUCKETING", "VLLM_BUCKETING_FROM_FILE",
    "VLLM_CONTIGUOUS_PA", "VLLM_PREFIX_CACHING", "VLLM_MERGED_PREFILL",
    "VLLM_ENABLE_BUCKETING", "VLLM_UNIFIED_ATTN", "PT_HPU_SDPA_QKV_SLICE_MODE_FWD",
    "PT_HPU_SDPA_BC_FACTOR", "VLLM_FUSEDSDPA_SLIDE_THLD",
})  # fmt: skip
FIRST_NAMES = ("exponential_bucketing", "linear_bucketing")
"""What VLLM_BUCKETING_STRATEGY may be before it chose anything: `get_features` of v0.19."""
_TRUE = frozenset({"true", "t", "1", "yes", "y", "on"})


def settings_from_mapping(
    inputs: Mapping[str, Any],
    env: Mapping[str, str],
    *,
    engine_version: str = NEWEST_RELEASE,
) -> BucketingSettings:
    """The settings of an engine started with these limits and this environment.

    `inputs` holds max_num_seqs, block_size, max_num_batched_tokens, max_model_len and
    num_kv_blocks (or num_hpu_blocks, the engine's name for it); optional are
    max_num_prefill_seqs, num_speculative_tokens, mamba_chunk_size,
    mamba_chunk_size_is_explicit and skip_decode_block_clamp. Without
    max_num_prefill_seqs it follows from the environment as the engine's runner does
    it. Variables that have nothing to do with bucketing are left alone. `engine_version`
    is the vllm-gaudi whose rules are used.
    Source: `features.py`, `environment.py`, and `hpu_model_runner.py` of vllm-gaudi.

    Raises:
        SettingError: an input is missing or unknown, or a value cannot be used.
        InputError: the bucket file that the environment names cannot be read.
    """
    rules = rules_of(engine_version)
    limits = _read_inputs(inputs)
    overrides = read_overrides(env)
    strategy, notes = read_strategy(env, rules)
    unread = (f"{name} has no effect: no range has it." for name in misspelt_names(env))
    notes = (*notes, *unread)
    features = read_features(env, rules)
    if "max_num_prefill_seqs" not in limits:
        limits["max_num_prefill_seqs"] = (
            1
            if rules.early
            else _prefill_seqs(
                overrides, limits["max_num_seqs"], features["merged_prefill"]
            )
        )
    path = env.get("VLLM_BUCKETING_FROM_FILE")
    if path and rules.early:
        notes = (*notes, f"VLLM_BUCKETING_FROM_FILE={path} has no effect in v0.10.")
    return BucketingSettings(
        **limits,
        **features,
        strategy=strategy,
        sliding_window=None if rules.early else _read_sliding_window(env),
        overrides=overrides,
        bucket_file=read_bucket_file(path) if path and not rules.early else None,
        notes=notes,
        engine_version=engine_version,
    )


def read_boolean(text: str) -> bool:
    """Whether the engine takes a text for true; everything unknown is false.

    Source: `config.py`, `boolean`, of vllm-gaudi.
    """
    return text.lower() in _TRUE


def read_features(env: Mapping[str, str], rules: Rules) -> dict[str, bool]:
    """The features that change the bucketing rules, as the environment sets them.

    Prefix caching is on unless contiguous PA was requested (in the early scheme, always),
    and contiguous PA is on unless prefix caching is; each can be set by itself.
    Source: `environment.py`, `_get_prefix`, and `features.py`, `get_features`.

    Raises:
        SettingError: unified attention is on, in a version that has it.
    """
    if rules.unified_attention and _flag(env, "VLLM_UNIFIED_ATTN"):
        raise SettingError(
            "Unified attention has buckets of its own, which are not generated here; "
            "unset VLLM_UNIFIED_ATTN to see those of the other attention"
        )
    contiguous = _flag(env, "VLLM_CONTIGUOUS_PA")
    prefix_caching = _flag(env, "VLLM_PREFIX_CACHING")
    if prefix_caching is None:
        prefix_caching = rules.early or not contiguous
    if contiguous is None:
        contiguous = not prefix_caching
    use_bucketing = _flag(env, "VLLM_ENABLE_BUCKETING")
    return {
        "use_contiguous_pa": contiguous,
        "prefix_caching": prefix_caching,
        "merged_prefill": _flag(env, "VLLM_MERGED_PREFILL") or False,
        "use_bucketing": use_bucketing is not False,
    }


def read_strategy(
    env: Mapping[str, str], rules: Rules
) -> tuple[StrategyName, tuple[str, ...]]:
    """The strategy, and notes on variables that are deprecated or not read.

    Source: `common.py`, `HPUBucketingManager.get_bucketing_strategy`, of vllm-gaudi.

    Raises:
        SettingError: VLLM_BUCKETING_STRATEGY is not what the version takes.
    """
    chosen = env.get("VLLM_BUCKETING_STRATEGY", "exp")
    exponential = env.get("VLLM_EXPONENTIAL_BUCKETING")
    switched: StrategyName = "lin"
    if exponential is None or read_boolean(exponential):
        switched = "exp"
    if not rules.names_strategies:
        if "VLLM_BUCKETING_STRATEGY" not in env:
            return switched, ()
        advice = "VLLM_EXPONENTIAL_BUCKETING=true or false"
        if chosen not in FIRST_NAMES:
            raise SettingError(
                f"VLLM_BUCKETING_STRATEGY={chosen!r} ends the start before v0.20.0rc0; "
                f"use {advice}"
            )
        note = (
            f"VLLM_BUCKETING_STRATEGY={chosen} has no effect before v0.20.0rc0; use "
            f"{advice} instead."
        )
        return switched, (note,)
    named = strategy_name(chosen)
    if exponential is None:
        return named, ()
    note = (
        f"VLLM_EXPONENTIAL_BUCKETING={exponential} is deprecated and sets the strategy "
        f"to {switched}; use VLLM_BUCKETING_STRATEGY={switched} instead."
    )
    return switched, (note,)


def strategy_name(text: str) -> StrategyName:
    """The strategy of that name. Raises SettingError where there is none."""
    for name in STRATEGY_NAMES:
        if name == text:
            return name
    raise SettingError(
        f"VLLM_BUCKETING_STRATEGY={text[:60]!r} is unknown; use exp, lin or pad"
    )


def _flag(env: Mapping[str, str], name: str) -> bool | None:
    return read_boolean(env[name]) if name in env else None


def _read_inputs(inputs: Mapping[str, Any]) -> dict[str, Any]:
    limits = dict(inputs)
    if "num_hpu_blocks" in limits and "num_kv_blocks" not in limits:
        limits["num_kv_blocks"] = limits.pop("num_hpu_blocks")
    for name in limits:
        if name not in _REQUIRED and name not in _OPTIONAL:
            raise SettingError(
                f"{name}={limits[name]!r} is not an input of bucketing; the inputs are "
                f"{', '.join(_REQUIRED + _OPTIONAL)}"
            )
    for name in _REQUIRED:
        if limits.get(name) is None:
            raise SettingError(
                f"{name} is missing; give it with --{name.replace('_', '-')}, or among the "
                "inputs of --settings"
            )
    return {name: value for name, value in limits.items() if value is not None}


def _prefill_seqs(
    overrides: Mapping[str, int], max_num_seqs: int, is_merged: bool
) -> int:
    """How many sequences one prefill takes, as the model runner sets it."""
    if is_merged:
        return max_num_seqs
    count = overrides.get("VLLM_PROMPT_BS_BUCKET_MAX", 1)
    if count < 1:
        raise SettingError(
            f"VLLM_PROMPT_BS_BUCKET_MAX={count} is too small; a prefill takes at least "
            "1 sequence"
        )
    return count


def _read_sliding_window(env: Mapping[str, str]) -> SlidingWindow | None:
    sizes = {
        field: read_integer(name, env[name])
        for field, name in (
            ("slice_size", "PT_HPU_SDPA_BC_FACTOR"),
            ("threshold", "VLLM_FUSEDSDPA_SLIDE_THLD"),
        )
        if name in env
    }
    window = SlidingWindow(**sizes)
    return window if _flag(env, "PT_HPU_SDPA_QKV_SLICE_MODE_FWD") else None


def read_integer(name: str, text: str) -> int:
    """The integer that a variable holds, by the rules of int().

    Raises:
        SettingError: the text is not a whole number.
    """
    try:
        return int(text)
    except ValueError:
        raise SettingError(
            f"{name}={text[:40]!r} is not a whole number; set it to digits only or unset it"
        ) from None


def read_overrides(env: Mapping[str, str]) -> dict[str, int]:
    """Every range override in a mapping of variables.

    The engine takes any whole number; a strategy refuses what makes no range.

    Raises:
        SettingError: a value is not a whole number.
    """
    return {
        name: read_integer(name, env[name])
        for name in sorted(env)
        if _NAME.fullmatch(name)
    }


def makes_buckets(name: str) -> bool:
    """Whether a variable is one that buckets follow from, in some version."""
    return name in _SWITCHES or _NAME.fullmatch(name) is not None


def misspelt_names(env: Mapping[str, str]) -> list[str]:
    """Names in a mapping of variables that look like those of ranges and are none."""
    return [
        name
        for name in sorted(env)
        if _LIKE_A_NAME.fullmatch(name) and _NAME.fullmatch(name) is None
    ]
