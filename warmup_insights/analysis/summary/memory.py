"""The memory section of a run summary: from the whole device to blocks of the KV cache.

The HPU engines divide what is free after the profiling run: usable is a share of it
(vllm-gaudi `hpu_worker.py`, `determine_available_memory`; vllm-fork `habana_worker.py`,
`determine_num_available_blocks`). Upstream vLLM divides the whole device: usable is a
share of the total, and weights, activations, other allocations and the estimate for
graphs come out of it (`gpu_worker.py`, `determine_available_memory`). What was in use
when its worker began comes out of the rest, as the engine's `unrequested_memory` does.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping

import msgspec

from warmup_insights.analysis.summary.ranks import Routes, copied, leading, rank_of
from warmup_insights.model.events import (
    Event,
    GraphBudgetSet,
    KVCacheAllocated,
    MemoryBudgetSet,
    MemoryMeasured,
    Note,
    WarmupFinished,
)
from warmup_insights.model.figures import bytes_step, least_known, number
from warmup_insights.model.summary import (
    GraphBudgetFacts,
    GraphFacts,
    MemoryFacts,
    MemoryPart,
    MemoryReading,
    Setting,
)

MAX_READINGS = 1000
_SHARES = 3.0
"""Bytes that the rest of a budget may be off, each of whose shares was rounded down."""
TOLERANCE = 0.005
"""Share of the device below which a rest is rounding, not memory."""

_BUDGET = (
    "total_bytes", "free_bytes", "usable_bytes", "graph_reserved_bytes",
    "kv_cache_bytes", "gpu_memory_utilization", "graph_reserved_fraction",
    "non_torch_bytes", "consumed_bytes", "padding_bytes", "suggested_kv_cache_bytes",
)  # fmt: skip
_CACHE = {
    "num_blocks": "num_kv_blocks",
    "block_size": "block_size",
    "num_tokens": "kv_cache_tokens",
    "max_concurrency": "max_concurrency",
    "allocated_bytes": "kv_cache_allocated_bytes",
    "num_padding_blocks": "num_padding_blocks",
}
_STAGES = {"profile_run": "profile_bytes", "kv_cache": "kv_cache_allocated_bytes"}
SAME = 0.02
"""Share by which the weights of two ranks of a model differ at most."""
_AFTER_WEIGHTS = ("quantization", "drafter_weights")
_PER_WORKER = ("kv_cache_tokens", "max_concurrency")
_TOGETHER_S = 5.0
_WHOLE = ("num_kv_blocks", "block_size", "kv_cache_tokens")

Facts = dict[str, float]


class Memory:
    """Collects what events state about memory; `result` gives the section."""

    def __init__(self) -> None:
        kinds = (
            MemoryMeasured,
            MemoryBudgetSet,
            KVCacheAllocated,
            WarmupFinished,
            Note,
        )
        self.routes: Routes = dict.fromkeys(kinds, self.add)
        self._by_rank: dict[int, Facts] = {}
        self._lines: dict[int, dict[str, int]] = {}
        self._readings: dict[int, list[MemoryReading]] = {}
        self._loaded: dict[int, list[tuple[str, int]]] = {}
        self._is_mixed = False
        """Lines of several engines are mixed."""
        self._printed: dict[tuple[int, str], float | None] = {}
        """When each of `_PER_WORKER` was printed last."""
        self._worker: int | None = None
        """Whose `_PER_WORKER` count, where those of the first rank are of another engine."""

    def add(self, event: Event) -> None:
        """Take an event, in the order of the run."""
        match event:
            case MemoryBudgetSet():
                for name in _BUDGET:
                    self._put(event, name, getattr(event, name))
                self._put(event, "weights_bytes", event.weights_bytes, first=True)
                peak = event.activation_bytes
                known = self._by_rank.get(rank_of(event), {})
                if event.torch_peak_bytes is not None and "weights_bytes" in known:
                    peak = event.torch_peak_bytes - int(known["weights_bytes"])
                self._put(event, "profile_bytes", peak, first=True)
            case MemoryMeasured():
                self._measured(event)
            case KVCacheAllocated():
                for name, figure in _CACHE.items():
                    value = getattr(event, name)
                    if figure in _PER_WORKER and self._is_larger(event, figure, value):
                        continue
                    self._put(event, figure, value)
            case Note():
                self._is_mixed |= event.topic == "mixed"
            case WarmupFinished():
                self._put(event, "warmup_allocated_bytes", event.allocated_bytes)

    def _put(
        self, event: Event, name: str, value: float | None, *, first: bool = False
    ) -> None:
        """Keep a figure of a rank; a later one replaces it, unless the first counts."""
        if value is None:
            return
        rank = rank_of(event)
        facts = self._by_rank.setdefault(rank, {})
        if first and name in facts:
            return
        facts[name] = value
        if event.line is not None:
            self._lines.setdefault(rank, {})[name] = event.line

    def _is_larger(self, event: Event, name: str, value: float | None) -> bool:
        """Whether it is of another worker than the one whose cache all of them get.

        The engine core prints what each worker could have, one after the other, and
        takes the fewest blocks (vLLM `v1/core/kv_cache_utils.py get_kv_cache_configs`).
        """
        rank = rank_of(event)
        known = self._by_rank.get(rank, {}).get(name)
        before = self._printed.get((rank, name))
        self._printed[rank, name] = event.time
        if known is None or value is None or value <= known:
            return False
        if before is None or event.time is None:
            return True
        return abs(event.time - before) <= _TOGETHER_S

    def _measured(self, event: MemoryMeasured) -> None:
        if event.stage == "cpu_offload":
            self._put(event, "host_weights_bytes", event.host_delta_bytes)
        else:
            self._read(event)
            self._took(event)

    def _read(self, event: MemoryMeasured) -> None:
        """Keep what is in use of the device, and free."""
        free = event.free_bytes
        if free is None and event.total_bytes and event.used_bytes is not None:
            free = event.total_bytes - event.used_bytes
        readings = self._readings.setdefault(rank_of(event), [])
        if len(readings) < MAX_READINGS:
            reading = copied(event, MemoryReading)
            readings.append(msgspec.structs.replace(reading, free_bytes=free))
        self._put(event, "total_bytes", event.total_bytes, first=True)
        if event.stage == "kv_cache":
            self._put(event, "free_after_kv_cache_bytes", free)

    def _took(self, event: MemoryMeasured) -> None:
        """Keep what a stage took of the device."""
        rank, delta = rank_of(event), event.delta_bytes
        if delta is None:
            return
        if event.stage == "weights" or self._adds_weights(rank, event.stage):
            # A draft model counts as well; a line that is printed once more does not, nor
            # does that of another rank of which no name is known.
            loaded = self._loaded.setdefault(rank, [])
            if any(
                stage == event.stage and abs(delta - size) <= SAME * abs(size)
                for stage, size in loaded
            ):
                return
            if loaded and self._is_mixed:
                return  # of another engine
            loaded.append((event.stage, delta))
            self._put(event, "weights_bytes", sum(size for _, size in loaded))
        elif event.stage == "preload_weights" and rank not in self._loaded:
            self._put(event, "weights_bytes", delta)
        elif event.stage in _STAGES:
            self._put(event, _STAGES[event.stage], delta)

    def _adds_weights(self, rank: int, stage: str) -> bool:
        """Whether a stage changes what the weights take, as stated before it.

        In V1 the Gaudi engines quantise and load a draft model after the weights, which
        may be on the host until then (vllm-gaudi `hpu_model_runner.py load_model`). V0
        states a part of them first, and all in the end (vllm-fork).
        """
        if stage not in _AFTER_WEIGHTS or rank not in self._loaded:
            return False
        return all(
            reading.stage != "preload_weights" for reading in self._readings[rank]
        )

    def _ranks(self) -> list[int]:
        """Ranks in the order in which their figures count: the lowest that states both what
        it has for the KV cache and its blocks, then by number. Another one may be of an
        engine that has no blocks yet."""
        whole = {"kv_cache_bytes", "num_kv_blocks"}
        ranks = sorted(self._by_rank)
        leading = (rank for rank in ranks if whole <= self._by_rank[rank].keys())
        lead = next(leading, None)
        return sorted(ranks, key=lambda rank: rank != lead)

    def _first(self, name: str) -> float | None:
        """The figure of the rank whose it is."""
        rank = self._rank_of(name)
        return None if rank is None else self._by_rank[rank].get(name)

    def _rank_of(self, name: str) -> int | None:
        """The first rank that has a figure; of a setting, which is for all ranks, the one that
        suggests the smallest."""
        if name in _PER_WORKER and self._worker is not None:
            return self._worker
        having = [rank for rank in self._ranks() if name in self._by_rank[rank]]
        if name == "suggested_kv_cache_bytes":
            return min(having, key=lambda rank: self._by_rank[rank][name], default=None)
        return next(iter(having), None)

    def lines(self) -> dict[str, int]:
        """Figure to the line that states it, for figures that a line states."""
        found: dict[str, int] = {}
        names = (name for figures in self._by_rank.values() for name in figures)
        for name in dict.fromkeys(names):
            rank = self._rank_of(name)
            if rank is not None and name in self._lines.get(rank, {}):
                found[f"memory.{name}"] = self._lines[rank][name]
        return found

    def result(
        self,
        config: Mapping[str, Setting],
        engine: str | None,
        *,
        is_log: bool,
        graph_budget: GraphBudgetSet | None,
        graphs: GraphFacts | None,
    ) -> MemoryFacts | None:
        """The section; None when no event states anything about memory."""
        names = [name for name in MemoryFacts.__struct_fields__ if name not in _DERIVED]
        known = {name: self._first(name) for name in names}
        if all(value is None for value in known.values()):
            return None
        is_hybrid = self._is_hybrid(known)
        for name in ("gpu_memory_utilization", "block_size"):
            if known[name] is None and not (is_hybrid and name == "block_size"):
                known[name] = number(config.get(name))
        if known["block_size"] is None and engine == "vllm-fork":
            length = number(config.get("max_model_len"))
            known["block_size"] = _block_size(known, length)
        blocks, size = known["num_kv_blocks"], known["block_size"]
        fit = self._blocks_that_fit(size)
        if blocks and fit and 0 < blocks - fit < _shards(config):
            blocks = known["num_kv_blocks"] = fit  # the others make all shards equal
        if blocks and size and known["kv_cache_tokens"] != blocks * size:
            self._worker = self._of_same_engine(blocks * size)
            known |= {name: self._first(name) for name in _PER_WORKER}
        is_derived = known["kv_cache_tokens"] is None and not is_hybrid
        if is_derived and blocks is not None and size is not None:
            known["kv_cache_tokens"] = blocks * size
        for name in _WHOLE:
            value = known[name]
            known[name] = int(value) if value is not None else None
        facts = msgspec.convert(known, MemoryFacts)
        is_overridden = number(config.get("num_gpu_blocks_override")) is not None
        facts = self._with_block(facts, config, engine, is_log, is_overridden)
        facts = msgspec.structs.replace(facts, at_start_bytes=_at_start(facts))
        return msgspec.structs.replace(
            facts,
            graph_budget=graph_budget and copied(graph_budget, GraphBudgetFacts),
            readings=leading(self._readings) or [],
            parts=budget_parts(facts, graphs, is_overridden=is_overridden),
        )

    def _is_hybrid(self, known: Mapping[str, float | None]) -> bool:
        """Whether groups of layers have blocks of their own, so that a token takes several:
        the padding block, of all layers, is larger than one of the budget's."""
        padding, blocks = self._first("padding_bytes"), known["num_kv_blocks"]
        budget = known["kv_cache_bytes"]
        if not padding or not budget or not blocks:
            return False
        return padding > 1.1 * budget / blocks

    def _of_same_engine(self, tokens: float) -> int | None:
        """The rank whose engine has blocks of so many tokens. Of several that share nothing it
        may be another than that of the first rank: workers do not name theirs (vLLM
        `v1/engine/core.py run_engine_core`)."""
        own = (
            rank for rank, figures in sorted(self._by_rank.items())
            if figures.get("kv_cache_tokens") == tokens
        )  # fmt: skip
        return next(own, None)

    def _blocks_that_fit(self, block_size: float | None) -> int | None:
        """Blocks that the tokens take which the engine states; None where they are of layers
        of several kinds, or not stated."""
        tokens = self._first("kv_cache_tokens")
        if not tokens or not block_size or tokens % block_size:
            return None
        return int(tokens // block_size)

    def _with_block(
        self,
        facts: MemoryFacts,
        config: Mapping[str, Setting],
        engine: str | None,
        is_log: bool,
        is_overridden: bool,
    ) -> MemoryFacts:
        """The section with the size of a KV block, as far as the evidence goes.

        `is_overridden`: a setting, and not the memory, decides the number of blocks.
        """
        padding = self._first("padding_bytes")
        if padding is None and not is_log:
            padding = _padding(facts)
        stated = self._first("num_padding_blocks")
        num_padding = int(stated) if stated is not None else None
        if num_padding is None and (padding or engine == "vllm-gaudi"):
            num_padding = 1
        elif num_padding is None and engine == "vllm-fork":
            # Its V0 counts blocks, and the first of them is the padding block.
            num_padding = 0 if self._first("kv_cache_tokens") is None else None
        # Layers with a recurrent state take memory of the KV cache that does not grow with
        # its blocks (tpu-inference `kv_cache_manager.py`).
        has_state_slots = number(config.get("mamba_num_blocks")) is not None
        is_open = is_overridden or has_state_slots
        budgets = [known.get("kv_cache_bytes") for known in self._by_rank.values()]
        engines = number(config.get("data_parallel_size")) or 1
        shown = sum(budget is not None for budget in budgets)
        # On TPU one process has all devices.
        wanted = 1 if engine == "tpu-inference" else _num_workers(config)
        bounds = _block_range(
            facts, engine, padding, is_log, is_open, least_known(budgets),
            is_alone=engines <= 1, are_all=shown >= wanted,
        )  # fmt: skip
        if bounds is None and facts.kv_cache_allocated_bytes and facts.num_kv_blocks:
            total = facts.num_kv_blocks + (num_padding or 0)
            if facts.kv_cache_allocated_bytes % total == 0:
                size = facts.kv_cache_allocated_bytes // total
                bounds = (size, size)
        # Latents have no heads that devices could share: how many of them hold a block is
        # not stated (tpu-inference `runner/kv_cache.py get_kv_cache_shape_with_mesh`).
        if bounds is None or (engine == "tpu-inference" and config.get("use_mla")):
            return msgspec.structs.replace(facts, num_padding_blocks=num_padding)
        fit = self._blocks_that_fit(facts.block_size)
        low, high = _of_a_shard(bounds, facts.num_kv_blocks, fit, _shards(config))
        return msgspec.structs.replace(
            facts,
            num_padding_blocks=num_padding,
            block_bytes=roundest(low, high) if high <= low * _ONE_SIZE else None,
            block_bytes_range=(float(low), float(high)),
        )


_ONE_SIZE = 1.01
"""Between sizes that are farther apart lie those of other numbers of layers."""
BLOCK_STEP = 16
"""Blocks have a multiple of so many tokens."""
_DERIVED = (
    "parts", "readings", "graph_budget", "block_bytes", "block_bytes_range",
    "num_padding_blocks", "at_start_bytes",
)  # fmt: skip


def _block_size(
    known: Mapping[str, float | None], length: float | None
) -> float | None:
    """Tokens of a block, from the requests of full length that fit: V0 divides its blocks by
    those of one (`executor_base.py initialize_cache`). None unless one size alone fits."""
    blocks, requests = known["num_kv_blocks"], known["max_concurrency"]
    if not blocks or not requests or not length:
        return None
    least, most = ((requests + off) * length / blocks for off in (-0.005, 0.005))
    size = BLOCK_STEP * math.floor(most / BLOCK_STEP)
    return size if least <= size < least + BLOCK_STEP and size > 0 else None


def _padding(facts: MemoryFacts) -> int | None:
    """What was taken off the KV cache's budget: the padding block of the V1 engines."""
    known = (facts.usable_bytes, facts.graph_reserved_bytes, facts.kv_cache_bytes)
    if known[0] is None or known[1] is None or known[2] is None:
        return None
    rest = known[0] - known[1] - known[2]
    return rest if rest > 0 else None


def _block_range(
    facts: MemoryFacts,
    engine: str | None,
    padding: float | None,
    is_log: bool,
    is_open: bool,
    least: float | None,
    *,
    is_alone: bool,
    are_all: bool,
) -> tuple[float, float] | None:
    """The bytes that a block can have; None when the evidence leaves it open.

    The padding block is one block. The cache's budget holds `num_kv_blocks` whole blocks
    and not one more, unless `is_open`: it does not decide their number, or holds more than
    them. All ranks of an engine have as many blocks as the budget of the one with the
    `least` holds; where the engine is not alone, that may be one of another engine with
    fewer blocks, and where not all of its ranks state one it may be larger than the least.
    A padding block that the budget holds less often is of all layers where
    groups of them share a block: attention beside recurrent layers (vllm-gaudi
    `hpu_worker.py determine_available_memory`).
    """
    lowest, highest = 1.0, math.inf
    if padding:
        # Stated by a log, or the rest of three shares that were each rounded down.
        slack = bytes_step(engine, padding) / 2 if is_log else _SHARES
        lowest, highest = padding - slack, padding + slack
    budget, blocks = facts.kv_cache_bytes, facts.num_kv_blocks
    if budget and budget > 0 and blocks and not is_open:
        slack = bytes_step(engine, budget) / 2 if is_log else 0.0
        low = ((least or budget) - slack) / (blocks + 1) if are_all else 1.0
        held = least if least and is_alone else budget
        high = (held + slack) / blocks
        if lowest > high:
            return low, high
        if low <= highest:
            lowest, highest = max(low, lowest), min(high, highest)
    return None if highest == math.inf else (lowest, highest)


def _of_a_shard(
    bounds: tuple[float, float], blocks: int | None, fit: int | None, shards: int
) -> tuple[float, float]:
    """The bytes of a block on the device that holds it, where each data parallel shard has
    its own. Those that fit into the budget are as many as the tokens that the engine states
    take, or up to a block for each shard more or less than there are: their number is rounded
    down, until 2025-11 up, so that all shards have as many (tpu-inference
    `kv_cache_manager.py initialize_kv_cache`)."""
    low, high = bounds
    if not blocks or not 1 < shards <= blocks:
        return bounds
    fewest, most = blocks - shards + 1, blocks + shards - 1
    if fit is not None and fewest <= fit <= most:
        fewest = most = fit
    return low * shards * (blocks + 1) / (most + 1), high * shards * blocks / fewest


def _num_workers(config: Mapping[str, Setting]) -> int:
    """Ranks of one engine, by its settings; 1 where they are unknown."""
    sizes = ("tensor_parallel_size", "pipeline_parallel_size")
    return math.prod(int(number(config.get(size)) or 1) for size in sizes)


def _shards(config: Mapping[str, Setting]) -> int:
    """Into how many parts, one for each data parallel rank, one engine divides its blocks."""
    return int(number(config.get("total_dp_size")) or 1)


def roundest(lowest: float, highest: float) -> int:
    """The integer between the two that the largest power of two divides.

    A block is a product of powers of two and a small number of layers.
    """
    if lowest == highest:
        return round(lowest)
    power = 1 << max(0, int(highest).bit_length())
    while power > 1:
        multiple = math.ceil(lowest / power) * power
        if 0 < multiple <= highest:
            return multiple
        power //= 2
    return max(1, round((lowest + highest) / 2))


def budget_parts(
    memory: MemoryFacts, graphs: GraphFacts | None, *, is_overridden: bool = False
) -> list[MemoryPart]:
    """The parts that the device's memory was divided into; they add up to its total.

    Empty when too little is known, when what is known exceeds the device, and where it is
    not divided yet: what is free at that moment belongs to no part.
    """
    total = memory.total_bytes
    shares = (_cache(memory), memory.usable_bytes, memory.graph_reserved_bytes)
    if not total or shares == (None, None, None):
        return []
    known = [
        *(
            _parts_of_total(memory, graphs)
            if divides_total(memory)
            else _parts_of_free(memory)
        ),
        *_cache_parts(memory, is_overridden),
    ]
    if len(known) < 2:
        return []
    rest = total - sum(part.bytes for part in known)
    if rest < -TOLERANCE * total:
        return []
    if rest > TOLERANCE * total:
        place = next(
            (i for i, part in enumerate(known) if part.name in ("margin", "kv_cache")),
            len(known),
        )
        if divides_total(memory):
            place = len(known) - (known[-1].name == "kv_cache")
        known[place:place] = _listed(("other", "not accounted for", rest))
    return known


def divides_total(memory: MemoryFacts) -> bool:
    """Whether usable is a share of the whole device, as upstream vLLM divides it."""
    total, usable = memory.total_bytes, memory.usable_bytes
    share = memory.gpu_memory_utilization
    if memory.graph_reserved_bytes is not None or not total:
        return False  # only the HPU engines set memory aside for graphs
    if usable is None:
        return False
    if share is None:
        # tpu-inference states both sums, and the share only where a user gave one.
        return memory.consumed_bytes is not None and usable <= total
    return abs(usable - total * share) < 2 * TOLERANCE * total


def _at_start(memory: MemoryFacts) -> int | None:
    """What others and the driver held when the worker began, where it divides the total.

    The engine does not start where less is free than the utilisation takes.
    """
    total, free = memory.total_bytes, memory.free_bytes
    if not total or free is None or not divides_total(memory):
        return None
    if free < (memory.usable_bytes or 0) - TOLERANCE * total:
        return None
    return max(0, total - free)


def _listed(*parts: tuple[str, str, float | None]) -> Iterator[MemoryPart]:
    for name, label, size in parts:
        if size is not None and size > 0:
            yield MemoryPart(name=name, label=label, bytes=round(size))


def _cache(memory: MemoryFacts) -> int | None:
    if memory.kv_cache_bytes is not None:
        return memory.kv_cache_bytes
    return memory.kv_cache_allocated_bytes


def _cache_parts(memory: MemoryFacts, is_overridden: bool) -> Iterator[MemoryPart]:
    """The budget of the KV cache; what allocating took, where that is less.

    All ranks of an HPU have as many blocks as the one with the least memory, or as a
    setting gives. Nothing where a setting gives them and no line states their size, as
    on CUDA.
    """
    budget, taken = memory.kv_cache_bytes, memory.kv_cache_allocated_bytes
    if taken == 0 and memory.num_kv_blocks:
        taken = None  # blocks take memory: it was not measured
    if is_overridden and taken is None:
        return
    left = None
    if budget is not None and taken is not None:
        left = budget - taken
    is_on_hpu = memory.graph_reserved_bytes is not None
    is_less = is_on_hpu and (left or 0) > TOLERANCE * (memory.total_bytes or 0)
    if is_overridden or is_less:
        yield from _listed(("unused", "left of the KV cache's budget", left))
        yield from _listed(("kv_cache", "KV cache", taken))
    else:
        yield from _listed(("kv_cache", "KV cache", _cache(memory)))


def _parts_of_free(memory: MemoryFacts) -> Iterator[MemoryPart]:
    free, usable = memory.free_bytes, memory.usable_bytes
    has_budget = free is not None and memory.graph_reserved_bytes is not None
    margin = free - usable if has_budget and free and usable is not None else None
    return _listed(
        ("weights", "weights", memory.weights_bytes),
        ("profiling", "profiling run", memory.profile_bytes),
        ("non_torch", "outside of PyTorch", memory.non_torch_bytes),
        ("margin", "margin, never used", margin),
        ("graphs", "reserved for graphs", memory.graph_reserved_bytes),
    )


def _parts_of_total(
    memory: MemoryFacts, graphs: GraphFacts | None
) -> Iterator[MemoryPart]:
    assert memory.total_bytes is not None, "checked by divides_total"
    assert memory.usable_bytes is not None, "checked by divides_total"
    at_start, beyond = memory.at_start_bytes, "outside of the utilisation"
    margin = memory.total_bytes - memory.usable_bytes - (at_start or 0)
    size = _reserved_graphs(memory, graphs)
    taken = graphs.memory_bytes if graphs is not None else None
    # Since vLLM 0.27 the peak of activations contains the estimate for graphs.
    is_in_peak = (
        graphs is not None
        and graphs.is_reserved is True
        and memory.consumed_bytes is not None
    )
    # Where nothing or too little is set aside for them, captures take from the margin.
    aside = graphs.estimated_bytes if graphs is not None and is_in_peak else size
    out_of_margin = (taken or 0) - (aside or 0)
    if not 0 < out_of_margin <= margin:
        out_of_margin = 0
    margin -= out_of_margin
    weights, outside = memory.weights_bytes, memory.non_torch_bytes
    in_use = None
    if memory.consumed_bytes is not None and outside is None:
        rest = memory.consumed_bytes - (weights or 0)
        # What another device's shares are rounded to is no memory of this one; beside a
        # peak, which a worker states of its own device, it is (vLLM `gpu_worker.py`).
        is_own = memory.profile_bytes is not None and rest > 0
        in_use = rest if is_own or rest > TOLERANCE * memory.total_bytes else 0
    peak = "peak activations"
    return _listed(
        ("at_start", "in use at the start", at_start),
        ("graphs", "graphs, out of the margin", out_of_margin),
        ("margin", beyond if at_start is None else "margin, never used", margin),
        ("weights", "weights", weights),
        ("profiling", f"{peak} and graphs, as estimated" if is_in_peak else peak,
         memory.profile_bytes),
        ("non_torch", "outside of PyTorch", outside),
        ("other", f"{'' if weights else 'weights and '}other memory in use", in_use),
        ("graphs", "graphs, as estimated", size),
    )  # fmt: skip


def _reserved_graphs(memory: MemoryFacts, graphs: GraphFacts | None) -> int | None:
    """The estimate for graphs where it is a part of usable memory; else None.

    Since vLLM 0.27 the peak of activations contains it. Where the log does not state
    whether it was taken off, it was if the other parts leave room for it.
    """
    if graphs is None or graphs.estimated_bytes is None:
        return None
    if memory.consumed_bytes is not None or graphs.is_reserved is False:
        return None
    if graphs.is_reserved is None:
        known = (memory.weights_bytes, memory.profile_bytes, memory.non_torch_bytes)
        rest = (memory.usable_bytes or 0) - sum(size or 0 for size in known)
        if rest - (_cache(memory) or 0) < 0.9 * graphs.estimated_bytes:
            return None
    return graphs.estimated_bytes
