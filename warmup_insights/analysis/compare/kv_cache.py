"""Why the KV cache of one run has another size than that of another, in one sentence."""

from __future__ import annotations

from collections.abc import Iterator

from warmup_insights.model.figures import BY_NAME, contradictory
from warmup_insights.model.summary import MemoryFacts, RunSummary
from warmup_insights.units import GIB, MIB, format_bytes, format_count

LEAST_BYTES = 64 * MIB
"""A smaller difference is that of two readings of the same memory."""
LEAST_SHARE = 0.01
"""Of the whole difference, below which a part is not named."""
_WORDS = {
    "weights": "weights", "profiling": "activations", "non_torch": "memory outside of PyTorch",
    "graphs": "graphs", "margin": "memory outside of the utilisation",
    "other": "memory that no line accounts for",
}  # fmt: skip
_OUT_OF_MARGIN = "graphs, out of the margin"


def kv_sentence(old: RunSummary, new: RunSummary) -> str | None:
    """What took or left the difference, and the setting that restores the old size.

    None where the sizes are equal, unknown or contradictory, or on other devices.
    """
    if {"kv_cache_bytes", "total_bytes"} & (contradictory(old) | contradictory(new)):
        return None
    figure = BY_NAME["kv_cache_bytes"]
    before, after = figure.trusted(old), figure.trusted(new)
    totals = (old.memory_or_none.total_bytes, new.memory_or_none.total_bytes)
    if before is None or after is None or abs(after - before) < LEAST_BYTES:
        return None
    if all(totals) and abs((totals[0] or 0) - (totals[1] or 0)) > GIB:
        return None
    change = after - before
    size = _more(change)
    head = f"The KV cache has {size} ({format_bytes(before)}, {format_bytes(after)}"
    head += f"{_tokens(old, new)})"
    parts = list(_parts(old, new, change))
    why = "; ".join(parts) if parts else "the runs do not state what took it"
    facts = "".join(f"; {text}" for text in _circumstances(old, new))
    restored = _restored(old, new, before) if change < 0 else ""
    return f"{head}: {why}{facts}{restored}."


def _more(change: float) -> str:
    return f"{format_bytes(abs(change))} {'more' if change > 0 else 'less'}"


def _tokens(old: RunSummary, new: RunSummary) -> str:
    counts = [BY_NAME["kv_cache_tokens"].trusted(run) for run in (old, new)]
    if counts[0] is None or counts[1] is None:
        return ""
    return f"; {format_count(counts[0])}, {format_count(counts[1])} tokens"


def _parts(old: RunSummary, new: RunSummary, change: float) -> Iterator[str]:
    """What takes more or less than before, the largest first."""
    first, second = _sizes(old), _sizes(new)
    if not first or not second:
        return
    if _holds_graphs(old.memory_or_none) != _holds_graphs(new.memory_or_none):
        # vLLM since 0.27 states graphs within activations.
        for sizes in (first, second):
            sizes["activations and graphs"] = sizes.pop("profiling", 0) + sizes.pop(
                "graphs", 0
            )
    grown = {
        name: second.get(name, 0) - first.get(name, 0) for name in {**first, **second}
    }
    least = max(LEAST_BYTES / 4, LEAST_SHARE * abs(change))
    for name, size in sorted(grown.items(), key=lambda item: -abs(item[1])):
        if abs(size) >= least:
            yield f"{_WORDS.get(name, name)} {_more(size)}"


def _sizes(run: RunSummary) -> dict[str, int]:
    """Name to bytes of all parts of the device but the KV cache."""
    sizes: dict[str, int] = {}
    for part in run.memory_or_none.parts:
        name = "margin" if part.label == _OUT_OF_MARGIN else part.name
        if name != "kv_cache":
            sizes[name] = sizes.get(name, 0) + part.bytes
    return sizes


def _holds_graphs(memory: MemoryFacts) -> bool:
    return memory.consumed_bytes is not None


def _circumstances(old: RunSummary, new: RunSummary) -> Iterator[str]:
    """What differs in how the engine counts."""
    reserved = [run.graphs.is_reserved if run.graphs else None for run in (old, new)]
    if reserved[1] and not reserved[0]:
        yield (
            "the utilisation now holds the estimate for graphs as well "
            "(vLLM since 0.21)"
        )
    runners = [run.config.get("model_runner") for run in (old, new)]
    if all(runners) and runners[0] != runners[1]:
        yield f"the model runner is {runners[1]} instead of {runners[0]}"
    plans = [run.start.plan == "applied" for run in (old, new)]
    if plans[0] != plans[1]:
        which = "this" if plans[1] else "the first"
        yield f"{which} start took the size from a start-up plan, without profiling"


def _restored(old: RunSummary, new: RunSummary, before: float) -> str:
    """The settings with which the new run has what graphs took, and the old size."""
    graphs, memory = new.graphs, new.memory_or_none
    share, total = memory.gpu_memory_utilization, memory.total_bytes
    offset = ""
    was_reserved = old.graphs is not None and old.graphs.is_reserved
    if graphs is not None and graphs.is_reserved and share and not was_reserved:
        without = graphs.utilization_without
        if without is None and total and graphs.estimated_bytes:
            without = share - graphs.estimated_bytes / total
        if without is not None and 2 * share - without <= 1:
            offset = (
                f"; --gpu-memory-utilization {2 * share - without:.4f} makes up for "
            )
            offset += "the graphs"
    if new.engine.name != "vllm":
        return offset
    return f"{offset}; --kv-cache-memory={int(before)} gives the old size, if it fits"
