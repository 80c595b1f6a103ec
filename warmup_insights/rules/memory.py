"""From free memory to KV blocks: pure arithmetic.

Source: `determine_num_available_blocks` (vllm-fork 1.17, `habana_worker.py`) and
`determine_available_memory` (vllm-gaudi, `hpu_worker.py`).
"""

from __future__ import annotations

from dataclasses import dataclass

from warmup_insights.errors import DeviceError, SettingError
from warmup_insights.units import format_bytes


@dataclass(frozen=True)
class CacheLayout:
    """Blocks as the engine counts them.

    `num_blocks` is what the engine reports. The padding block is the last one, which
    is not counted (V1 engines), or block 0, which is (V0 engines).
    """

    num_blocks: int
    block_size: int
    has_own_padding: bool = True

    @property
    def num_allocated(self) -> int:
        """Blocks that exist."""
        return self.num_blocks + 1 if self.has_own_padding else self.num_blocks

    @property
    def padding_block(self) -> int:
        """The block that padding is written to."""
        return self.num_blocks if self.has_own_padding else 0

    @property
    def usable_ids(self) -> range:
        """Blocks that sequences may get."""
        return range(0 if self.has_own_padding else 1, self.num_blocks)

    def blocks_for(self, num_tokens: int) -> int:
        """Blocks that hold that many tokens."""
        return -(-num_tokens // self.block_size)


@dataclass(frozen=True)
class MemoryBudget:
    """Free memory after the profiling run, divided; all in bytes.

    `kv_cache_bytes` is what the engine states: with a padding block of its own that
    block is already taken off, and stated as `padding_bytes`.
    """

    total_bytes: int
    free_bytes: int
    gpu_memory_utilization: float
    graph_reserved_fraction: float
    block_bytes: int
    has_own_padding: bool

    def __post_init__(self) -> None:
        check_fraction("gpu_memory_utilization", self.gpu_memory_utilization)
        check_fraction("VLLM_GRAPH_RESERVED_MEM", self.graph_reserved_fraction)

    @property
    def usable_bytes(self) -> int:
        """Free memory times the allowed utilisation."""
        return int(self.free_bytes * self.gpu_memory_utilization)

    @property
    def margin_bytes(self) -> int:
        """What stays free for good."""
        return int(self.free_bytes * (1 - self.gpu_memory_utilization))

    @property
    def graph_reserved_bytes(self) -> int:
        """Set aside for graphs."""
        return int(self.usable_bytes * self.graph_reserved_fraction)

    @property
    def padding_bytes(self) -> int:
        """The padding block, where it is not one of the counted ones."""
        return self.block_bytes if self.has_own_padding else 0

    @property
    def kv_cache_bytes(self) -> int:
        """What is left for usable blocks; negative when it is not enough for one."""
        return self.usable_bytes - self.graph_reserved_bytes - self.padding_bytes

    @property
    def num_blocks(self) -> int:
        """Whole blocks that fit; never negative."""
        return max(0, self.kv_cache_bytes // self.block_bytes)


def profile_shape(max_model_len: int, max_num_batched_tokens: int) -> tuple[int, int]:
    """Rows and query length of the profiling run: as many rows of the longest query as the
    token budget allows."""
    query_len = min(max_model_len, max_num_batched_tokens)
    return max(1, max_num_batched_tokens // query_len), query_len


def check_fraction(name: str, value: float) -> None:
    """Raise SettingError unless the value is a share, from 0 to 1."""
    if not 0 <= value <= 1:
        raise SettingError(f"{name}={value:g} is not a share; use a value from 0 to 1")


def make_layout(
    budget: MemoryBudget, block_size: int, *, max_model_len: int
) -> CacheLayout:
    """The layout of the cache that the budget pays for.

    Raises:
        DeviceError: not one sequence of `max_model_len` tokens fits.
    """
    layout = CacheLayout(budget.num_blocks, block_size, budget.has_own_padding)
    needed = layout.blocks_for(max_model_len)
    if len(layout.usable_ids) >= needed:
        return layout
    raise NoCacheRoom(
        f"no room for the KV cache: {format_bytes(budget.free_bytes)} are free, "
        f"{format_bytes(max(0, budget.kv_cache_bytes))} of them are for the cache, which "
        f"holds {len(layout.usable_ids)} blocks of {format_bytes(budget.block_bytes)}, "
        f"and one sequence of {max_model_len} tokens needs {needed}; raise "
        "--gpu-memory-utilization, lower VLLM_GRAPH_RESERVED_MEM or --max-model-len, or "
        "choose a smaller model"
    )


class NoCacheRoom(DeviceError):
    """The memory left for the KV cache holds no whole sequence."""
