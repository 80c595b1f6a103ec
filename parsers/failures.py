"""Which kind of failure a line tells of."""

from __future__ import annotations

from parsers.signals import FailureLine, Origin
from warmup_insights.model.events import Failure
from warmup_insights.secrets import mask_text

_MEMORY_WORDS = (
    "out of memory", "Out of memory", "OutOfMemory", "DEVMEM Allocation failed",
    "less than desired GPU memory utilization",
)  # fmt: skip
_NO_CACHE_WORDS = (
    "No available memory for the cache blocks", "larger than the available KV cache",
    "larger than the maximum number of tokens that can be stored",
)  # fmt: skip


def failure_of(made: FailureLine, origin: Origin) -> Failure:
    """The failure that a line tells of."""
    kind = made.kind or "error"
    if any(word in made.message for word in _MEMORY_WORDS):
        kind = "out_of_memory"
    elif any(word in made.message for word in _NO_CACHE_WORDS):
        kind = "no_kv_cache"
    return Failure(
        failure=kind, message=mask_text(made.message)[:2000],
        time=origin.time, rank=origin.rank, line=origin.line,
    )  # fmt: skip
