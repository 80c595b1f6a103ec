"""Configuration objects for tests that need no engine."""

from __future__ import annotations

from types import SimpleNamespace


def config_of(*, world_size=1, data_parallel_rank=0, **sections):
    """Something like a `VllmConfig` with the given sections."""
    parallel = SimpleNamespace(
        world_size=world_size, data_parallel_rank=data_parallel_rank
    )
    return SimpleNamespace(parallel_config=parallel, **sections)
