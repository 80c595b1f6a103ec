"""Configuration objects for tests that need no engine."""

from __future__ import annotations

from types import SimpleNamespace


def config_of(*, world_size=1, data_parallel_rank=0, index=None, **sections):
    """Something like a `VllmConfig` with the given sections; `index` of the engine as
    newer versions have it."""
    parallel = SimpleNamespace(
        world_size=world_size, data_parallel_rank=data_parallel_rank
    )
    if index is not None:
        parallel.data_parallel_index = index
    return SimpleNamespace(parallel_config=parallel, **sections)
