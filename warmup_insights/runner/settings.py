"""Everything that one run of the reference engine depends on."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from types import MappingProxyType
from typing import Any

from warmup_insights.bucketing.environment import read_features
from warmup_insights.errors import SettingError
from warmup_insights.rules.capture import STRATEGIES
from warmup_insights.rules.memory import check_fraction
from warmup_insights.rules.model_shape import DTYPE_BYTES
from warmup_insights.runner.defragmenter import DEFAULT_TRIGGER

CAPTURE_STRATEGIES = ("startup", "delayed", "lazy", "none")

_VARIABLES = {
    "graph_reserved_mem": "VLLM_GRAPH_RESERVED_MEM",
    "graph_prompt_ratio": "VLLM_GRAPH_PROMPT_RATIO",
    "graph_prompt_strategy": "VLLM_GRAPH_PROMPT_STRATEGY",
    "graph_decode_strategy": "VLLM_GRAPH_DECODE_STRATEGY",
    "defrag_threshold": "VLLM_DEFRAG_THRESHOLD",
    "defrag_with_graphs": "VLLM_DEFRAG_WITH_GRAPHS",
    "skip_warmup": "VLLM_SKIP_WARMUP",
}
_AT_LEAST_ONE = (
    "block_size", "max_model_len", "max_num_seqs", "max_num_batched_tokens",
)  # fmt: skip


@dataclass(frozen=True, kw_only=True)
class RunSettings:
    """Limits, memory shares, graph rules and switches; lengths in tokens.

    `environment` holds the bucketing variables as the engine would find them.
    `bucket_dimensions` is 3, or 2 for the scheme of the V0 engines, whose padding
    block is block 0 and whose budgets have no block of their own for it.

    Raises:
        SettingError: a value cannot be used; the message names it.
    """

    model: str = "tiny"
    dtype: str = "float32"
    seed: int = 0
    block_size: int = 32
    max_model_len: int = 512
    max_num_seqs: int = 8
    max_num_batched_tokens: int = 512
    gpu_memory_utilization: float = 0.9
    graph_reserved_mem: float = 0.1
    graph_prompt_ratio: float = 0.3
    graph_prompt_strategy: str = "min_tokens"
    graph_decode_strategy: str = "max_bs"
    capture_strategy: str = "startup"
    enforce_eager: bool = False
    skip_warmup: bool = False
    defrag: bool = True
    defrag_threshold: int = DEFAULT_TRIGGER
    defrag_with_graphs: bool = False
    bucket_dimensions: int = 3
    environment: Mapping[str, str] = field(default_factory=lambda: MappingProxyType({}))

    def __post_init__(self) -> None:
        for name in _AT_LEAST_ONE:
            if getattr(self, name) < 1:
                raise SettingError(f"{name}={getattr(self, name)} is too small; use 1+")
        check_fraction("gpu_memory_utilization", self.gpu_memory_utilization)
        check_fraction("VLLM_GRAPH_RESERVED_MEM", self.graph_reserved_mem)
        check_fraction("VLLM_GRAPH_PROMPT_RATIO", self.graph_prompt_ratio)
        _check_choice("dtype", self.dtype, DTYPE_BYTES)
        _check_choice("capture strategy", self.capture_strategy, CAPTURE_STRATEGIES)
        for strategy in (self.graph_prompt_strategy, self.graph_decode_strategy):
            _check_choice("graph strategy", strategy, STRATEGIES)
        if self.bucket_dimensions not in (2, 3):
            raise SettingError(
                f"buckets of {self.bucket_dimensions} dimensions do not exist; use 2 or 3"
            )
        if self.defrag_threshold < 0:
            raise SettingError(
                f"VLLM_DEFRAG_THRESHOLD={self.defrag_threshold} is negative; use 0 or more"
            )

    @property
    def uses_graphs(self) -> bool:
        """Whether graphs are captured at any time."""
        return not self.enforce_eager and self.capture_strategy != "none"

    @property
    def contiguous_pa(self) -> bool:
        """Whether decodes read the cache from its start instead of block by block."""
        return (
            self.bucket_dimensions == 3
            and read_features(self.environment)["use_contiguous_pa"]
        )

    @property
    def reserved_fraction(self) -> float:
        """The share kept for graphs: nothing when the engine runs eagerly."""
        return 0.0 if self.enforce_eager else self.graph_reserved_mem

    def as_config(self) -> dict[str, Any]:
        """The settings as a flat mapping, named as the engines name them."""
        names = [item.name for item in fields(self) if item.name != "environment"]
        return {_VARIABLES.get(name, name): getattr(self, name) for name in names}


def _check_choice(what: str, value: str, known: Any) -> None:
    if value not in known:
        raise SettingError(f"unknown {what} {value!r}; use one of {', '.join(known)}")
