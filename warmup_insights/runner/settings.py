"""Everything that one run of the reference engine depends on."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from types import MappingProxyType
from typing import Annotated, Any

from warmup_insights.bucketing.settings import read_features
from warmup_insights.bucketing.versions import NEWEST_RELEASE, rules_of
from warmup_insights.errors import SettingError
from warmup_insights.rules import VARIABLES
from warmup_insights.rules.capture import (
    DECODE_STRATEGY,
    GRAPH_STRATEGIES,
    PROMPT_RATIO,
    PROMPT_STRATEGY,
)
from warmup_insights.rules.memory import check_fraction
from warmup_insights.rules.model_shape import DTYPE_BYTES
from warmup_insights.runner.scheduler import DEFAULT_TRIGGER

CAPTURE_STRATEGIES = ("startup", "delayed", "lazy", "none")

_LIMITS = (
    "block_size", "max_model_len", "max_num_seqs", "max_num_batched_tokens",
)  # fmt: skip


@dataclass(frozen=True, kw_only=True)
class RunSettings:
    """Limits, memory shares, graph rules and switches; lengths in tokens.

    `environment` holds the bucketing variables as the engine would find them.
    `bucket_dimensions` is 3, or 2 for the scheme of the V0 engines, whose padding
    block is block 0 and whose budgets have no block of their own for it.
    `bucketing_version` is the vllm-gaudi whose bucketing rules are used.

    Raises:
        SettingError: a value cannot be used; the message names it.
    """

    model: Annotated[str, "Shape preset, or folder with a config.json"] = "tiny"
    dtype: Annotated[str, "float32, bfloat16 or float16"] = "float32"
    seed: Annotated[int, "Seed of the weights and of the requests"] = 0
    block_size: Annotated[int, "Tokens per KV block"] = 32
    max_model_len: Annotated[int, "Tokens per request at most"] = 512
    max_num_seqs: Annotated[int, "Requests per step at most"] = 8
    max_num_batched_tokens: Annotated[int, "Prompt tokens per step at most"] = 512
    gpu_memory_utilization: Annotated[
        float, "Share of the memory that is free after the profiling run"
    ] = 0.9
    graph_reserved_mem: Annotated[
        float, "Share of usable memory that is kept for graphs"
    ] = 0.1
    graph_prompt_ratio: Annotated[float, "Share of graph memory for prompt graphs"] = (
        PROMPT_RATIO
    )
    graph_prompt_strategy: Annotated[
        str, "Order of prompt graphs: min_tokens or max_bs"
    ] = PROMPT_STRATEGY
    graph_decode_strategy: Annotated[
        str, "Order of decode graphs: min_tokens or max_bs"
    ] = DECODE_STRATEGY
    capture_strategy: Annotated[
        str,
        "When graphs are captured: all before the server is ready; the largest and "
        "then one per step; only those needed; or none",
    ] = "startup"
    enforce_eager: Annotated[bool, "No graphs, no sampler warm-up"] = False
    skip_warmup: Annotated[bool, "Be ready without any warm-up"] = False
    defrag: Annotated[bool, "Whether the KV cache is defragmented while serving"] = True
    defrag_threshold: Annotated[
        int,
        "Defragment when the highest block lies this far above the number of blocks "
        "in use",
    ] = DEFAULT_TRIGGER
    defrag_with_graphs: Annotated[bool, "Swap blocks through graphs"] = False
    bucket_dimensions: Annotated[
        int, "Buckets of vllm-gaudi (3), or (batch, length) of the V0 engines (2)"
    ] = 3
    bucketing_version: str = NEWEST_RELEASE
    environment: Mapping[str, str] = field(default_factory=lambda: MappingProxyType({}))

    def __post_init__(self) -> None:
        for name, limit in self.limits.items():
            if limit < 1:
                raise SettingError(f"{name}={limit} is too small; use 1+")
        check_fraction("gpu_memory_utilization", self.gpu_memory_utilization)
        check_fraction("VLLM_GRAPH_RESERVED_MEM", self.graph_reserved_mem)
        check_fraction("VLLM_GRAPH_PROMPT_RATIO", self.graph_prompt_ratio)
        _check_choice("dtype", self.dtype, DTYPE_BYTES)
        _check_choice("capture strategy", self.capture_strategy, CAPTURE_STRATEGIES)
        for strategy in (self.graph_prompt_strategy, self.graph_decode_strategy):
            _check_choice("graph strategy", strategy, GRAPH_STRATEGIES)
        if self.bucket_dimensions not in (2, 3):
            raise SettingError(
                f"Buckets of {self.bucket_dimensions} dimensions do not exist; use 2 or 3"
            )
        if self.defrag_threshold < 0:
            raise SettingError(
                f"VLLM_DEFRAG_THRESHOLD={self.defrag_threshold} is negative; use 0 or more"
            )

    @property
    def limits(self) -> dict[str, int]:
        """What buckets are generated within."""
        return {name: getattr(self, name) for name in _LIMITS}

    @property
    def uses_graphs(self) -> bool:
        """Whether graphs are captured at any time."""
        return not self.enforce_eager and self.capture_strategy != "none"

    @property
    def swaps_with_graphs(self) -> bool:
        """Whether blocks change places through graphs."""
        return self.defrag_with_graphs and not self.enforce_eager

    @property
    def contiguous_pa(self) -> bool:
        """Whether decodes read the cache from its start instead of block by block."""
        return (
            self.bucket_dimensions == 3
            and read_features(self.environment, rules_of(self.bucketing_version))[
                "use_contiguous_pa"
            ]
        )

    @property
    def reserved_fraction(self) -> float:
        """The share kept for graphs: nothing when the engine runs eagerly."""
        return 0.0 if self.enforce_eager else self.graph_reserved_mem

    def as_config(self) -> dict[str, Any]:
        """The settings as a flat mapping, named as the engines name them."""
        names = [item.name for item in fields(self) if item.name != "environment"]
        return {VARIABLES.get(name, name): getattr(self, name) for name in names}


def _check_choice(what: str, value: str, known: Any) -> None:
    if value not in known:
        raise SettingError(f"Unknown {what} {value!r}; use one of {', '.join(known)}")
