"""The KV cache under other settings, where what graphs cost is unknown or does not change.

HPU: the cache gets what was free after profiling, times utilisation, less the reserve for
graphs (vllm-gaudi `hpu_worker.py determine_available_memory`), so it scales with both.
Other devices: it gets a share of the whole device less what everything else takes, which
does not depend on that share (vLLM `gpu_worker.py determine_available_memory`).

A block of the cache holds `block_size` tokens, so its bytes are proportional to it
(`kv_cache_interface.py AttentionSpec.page_size_bytes`), but for models whose layers are of
several kinds. What the profiling run of other limits takes is not known, nor therefore
the cache, unless it takes nothing. On GPUs it is measured anew by every start, as what the
worker's process takes is on CPUs, so the cache of other settings comes with the range in which
equal starts differ.

What is captured and compiled follows from every setting that is planned here, but for the
share of the memory on GPUs and CPUs: there it is the same whatever the cache holds, while
blocks make the buckets on HPU and the shapes that tpu-inference compiles.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass, replace
from typing import Any

from warmup_insights.analysis.plan.memory import (
    divide_memory,
    has_no_cache,
    has_one_kind,
    is_profile_kept,
    longest_request,
    refuse_contradictions,
    stated_capacity,
    with_cache_of_error,
)
from warmup_insights.analysis.plan.planning import PlanSettings, planned_buckets
from warmup_insights.analysis.plan.regenerate import bucketing_inputs, rules_version
from warmup_insights.analysis.summary.memory import BLOCK_STEP
from warmup_insights.bucketing.base import GPUS
from warmup_insights.errors import InputError, SettingError
from warmup_insights.model.figures import (
    BY_NAME,
    bytes_step,
    first_known,
    kv_cache_bytes,
)
from warmup_insights.model.summary import SCHEMA, RunSummary, is_true
from warmup_insights.rules.setting_lives import read_version
from warmup_insights.units import format_bytes, format_count

UTILIZATIONS = (0.8, 0.85, 0.9, 0.95)
_BYTES = {
    "float32": 4, "float": 4, "bfloat16": 2, "float16": 2, "half": 2, "fp8": 1,
    "fp8_e4m3": 1, "fp8_e5m2": 1, "fp8_inc": 1,
}  # fmt: skip
KV_CACHE_DTYPES = tuple(_BYTES)
SPREAD = 0.01
"""Of the device: by as much equal starts differ where both compile, or neither does."""
_MEASURED_ANEW = (*GPUS, "cpu")
"""Kinds of devices where every start measures what is taken beside the cache: by a profiling
run, on a CPU by the memory of the worker's process (vLLM `v1/worker/cpu_worker.py`)."""
_DIVIDED_BY_RULE = {*GPUS, "cpu", "tpu", "ascend", None}
"""Kinds of devices, beside HPU, whose engines are known to divide memory as written above."""
_PACKED = ("DeepseekV32", "DeepseekV4", "GlmMoeDsa")
"""Beginnings of architectures with sparse attention. There 8-bit values of a token take 656
bytes, not half of 1,152, and the profiling run sets memory aside for requests of full length
(vLLM `mla_attention.py get_kv_cache_spec`, `flashmla_sparse.py
get_prefill_workspace_size`)."""
_MAY_TAKE_VIDEO = re.compile(r"ForConditionalGeneration|VL|Omni")
_RECURRENT = re.compile(
    r"Mamba|Jamba|Bamba|Zamba|Nemotron_?H|Hybrid|FalconH1|Qwen3_?5|Qwen3Next|Lfm2|"
    r"KimiLinear|MiniMax(?:Text01|M1)|Plamo2"
)
"""In the name of an architecture with recurrent layers. Each request of a graph takes a block
of theirs: too few of them cut the graphs (vLLM 0.18 and 0.19 `compilation.py
adjust_cudagraph_sizes_for_mamba_cache`), and end the start since 0.20
(`resolve_cudagraph_mode_and_sizes`)."""
_V1_SINCE = (0, 8)
_UTILIZATION_STEP, _MOST_OFF = 1e-4, 0.1
_NOMINAL_OFF = 0.02
"""By which share a device has less memory than its name states."""
_OF_PROFILE = {"max_num_batched_tokens", "max_num_seqs"}
"""What the profiling run's tokens, and the logits of its requests, follow from."""
OF_HPU = (
    "engine_version", "graph_prompt_ratio", "graph_prompt_strategy",
    "graph_decode_strategy",
)  # fmt: skip
"""What only the engines on HPU have."""
_NEEDED = frozenset(
    {"kv_cache_bytes", "kv_cache_tokens", "num_kv_blocks", "gpu_memory_utilization",
     "graph_reserved_bytes", "free_bytes", "total_bytes", "usable_bytes"}
)  # fmt: skip


@dataclass(frozen=True, kw_only=True)
class CachePlan:
    """A prediction of the KV cache; None is unknown.

    `outcome` is `fits`, `no_kv_cache` (a request of full length does not fit),
    `out_of_memory` (more than was free when the worker started), `ran_out` (as the run did,
    with as much for its cache or less) or None.
    """

    settings: dict[str, Any]
    is_own: bool
    """Whether these are the settings of the run."""
    kv_cache_bytes: int | None
    kv_cache_bytes_off: float
    """By how much they may be off; 0 where nothing was rounded or is measured anew."""
    num_kv_blocks: int | None
    num_kv_blocks_range: tuple[int, int] | None
    """The fewest and the most that there may be; None as `num_kv_blocks`."""
    kv_cache_tokens: int | None
    kv_cache_tokens_step: float
    """How exactly the sizes of a log give them; 0 where nothing rounds."""
    kv_cache_tokens_off: float
    """By how much they may be off, as `kv_cache_bytes_off`."""
    max_concurrency: float | None
    buckets: dict[str, int] | None
    """How many there are, by phase; None where no rule gives them."""
    graphs_captured: float | None
    graph_memory_bytes: float | None
    warmup_s: float | None
    outcome: str | None
    notes: tuple[str, ...]
    rule: str = "memory only"

    def as_dict(self) -> dict[str, Any]:
        """Plain values; what `--json` prints."""
        return {"schema": SCHEMA, **asdict(self)}


class CachePlanner:
    """Plans the KV cache from one run.

    `device_bytes` is the memory of the device where the run does not state it.

    Raises:
        InputError: the run does not state what its KV cache holds, or its evidence
            contradicts itself.
    """

    def __init__(self, summary: RunSummary, device_bytes: int | None = None) -> None:
        refuse_contradictions(summary, _NEEDED)
        stated = with_cache_of_error(summary)
        self._is_of_error = stated is not summary
        self.summary = summary = stated
        memory = self._memory = summary.memory_or_none
        if memory.kv_cache_tokens is None and memory.num_kv_blocks is None:
            raise InputError(_without_cache(summary))
        # The reference engine divides memory as those on HPU do, on every device.
        self.is_hpu = (
            summary.device.kind in ("hpu", "simulated")
            or summary.engine.name == "reference"
        )
        own = memory.gpu_memory_utilization
        self.utilization = first_known(own, summary.setting("gpu_memory_utilization"))
        self.reserve = memory.graph_reserved_fraction
        self.length = longest_request(summary)
        size = first_known(memory.block_size, summary.setting("block_size"))
        self.block_size = self._tokens_of_a_block() if size is None else int(size)
        if device_bytes is not None and device_bytes <= (memory.kv_cache_bytes or 0):
            raise SettingError(
                f"A device of {format_bytes(device_bytes)} does not hold the KV cache of "
                "the run; give the memory of its device, such as 96GiB"
            )
        self._total, self._total_off = self._device(device_bytes)
        # Nothing is kept for graphs then, whatever the reserve is (vllm-gaudi
        # `hpu_worker.py determine_available_memory`).
        self._is_eager = is_true(summary.config, "enforce_eager")
        # The setting that gives the size of the cache, whatever the utilisation is.
        given = ("num_gpu_blocks_override", "kv_cache_memory_bytes")
        self._fixed = next((n for n in given if summary.setting(n) is not None), None)
        # The settings that change neither what is captured nor what is compiled.
        is_free = summary.device.kind in (*GPUS, "cpu") or self._fixed is not None
        is_free = is_free and not self.is_hpu
        self._without_effect = {"gpu_memory_utilization"} if is_free else set()
        # The settings of the run, those of buckets included.
        self._own = {
            **bucketing_inputs(summary)[1],
            "engine_version": rules_version(summary),
            **self._chosen(PlanSettings()),
        }

    def _device(self, given: int | None) -> tuple[int | None, float]:
        """Memory of the device, and by which share that may be off."""
        memory, failure = self._memory, self.summary.failure
        of_error = None if failure is None else failure.stated.total_bytes
        if stated := memory.total_bytes or of_error:
            return stated, 0.0
        if given is not None:
            return given, _NOMINAL_OFF
        if memory.usable_bytes and self.utilization:
            return round(memory.usable_bytes / self.utilization), 0.0
        return self._device_of_graphs()

    def grid(self) -> list[PlanSettings]:
        """The settings of the run, and other utilisations where they matter."""
        if self.utilization is None or self._fixed is not None:
            return [PlanSettings()]
        shares = sorted({*UTILIZATIONS, self.utilization})
        return [PlanSettings(gpu_memory_utilization=share) for share in shares]

    def beside_own(self, settings: Sequence[PlanSettings]) -> list[CachePlan]:
        """The plans of settings beside that of the run's own; without any those of `grid`."""
        others = [each for each in settings if each != PlanSettings()]
        plans = [self.plan(each) for each in others or self.grid()]
        if any(plan.is_own for plan in plans):
            return plans
        # What its notes state of other settings is stated by theirs.
        return [replace(self.plan(PlanSettings()), notes=()), *plans]

    def plan(self, settings: PlanSettings) -> CachePlan:
        """What the settings would give; graphs and warm-up only where they are the run's."""
        chosen = self._chosen(settings)
        changed = {n for n, value in chosen.items() if value != self._own.get(n)}
        share = self._share(chosen, changed)
        lacks_states = self._may_lack_states(share)
        is_other = bool(changed - self._without_effect) or lacks_states
        width = self._width(settings)
        part = None if share is None or width is None else share / width
        if self.summary.fixed_blocks is not None:
            part, share = 1.0, self._size_of_a_block(chosen["block_size"], width)
        if self.summary.setting("mamba_num_blocks") is not None:
            # A slot for each request, of another size, takes its part beside the blocks.
            part = 1.0 if part == 1 and "max_num_seqs" not in changed else None
        blocks, tokens = self._blocks_and_tokens(part, chosen["block_size"])
        reach = None if blocks is None else (blocks, blocks)
        is_resized = self.is_hpu and part not in (None, 1.0)
        if is_resized and chosen["block_size"] == self.block_size and blocks:
            blocks, reach = self._resized(part or 0.0, chosen, width)
            each = self._tokens_of_a_block()
            tokens = tokens if each is None else blocks * each
        size = _times(kv_cache_bytes(self.summary), share)
        rounding, off = self._off(chosen, changed, size)
        if blocks and reach == (blocks, blocks):
            few = math.ceil(blocks * off / (size or 1) - 1e-6)
            reach = max(0, blocks - few), blocks + few
        tokens, requests = self._capacity(part, chosen, blocks, tokens)
        step, tokens_off = (
            self._tokens_step(chosen, reach, each / (size or 1), tokens)
            for each in (rounding, off)
        )
        buckets, notes = self._buckets(settings, blocks)
        graphs, memory, warmup_s = (
            None if is_other else BY_NAME[name].trusted(self.summary)
            for name in ("graphs_captured", "graph_memory_bytes", "warmup_s")
        )
        outcome = self._as_seen(
            self._outcome(chosen, part, tokens, requests, tokens_off), changed, part
        )
        return CachePlan(
            settings=chosen, is_own=not changed,
            kv_cache_bytes=size, kv_cache_bytes_off=off,
            num_kv_blocks=blocks, num_kv_blocks_range=reach, kv_cache_tokens=tokens,
            kv_cache_tokens_step=step, kv_cache_tokens_off=tokens_off, max_concurrency=requests, buckets=buckets,
            graphs_captured=graphs, graph_memory_bytes=memory, warmup_s=warmup_s,
            outcome=None if lacks_states and outcome == "fits" else outcome,
            notes=(*notes, *self._notes(settings, changed)),
        )  # fmt: skip

    def _capacity(
        self,
        part: float | None,
        chosen: dict[str, Any],
        blocks: int | None,
        tokens: int | None,
    ) -> tuple[int | None, float | None]:
        """Tokens and requests of full length of so many blocks, or of such a part of the
        run's cache.

        What a request of another length takes is known only where the layers of the model
        are of one kind: those with a window hold less of a long one.
        """
        memory, full = self._memory, self._memory.max_concurrency
        length, size = chosen["max_model_len"], chosen["block_size"]
        is_same = (length, size) == (self.length, self.block_size)
        if part == 1 and is_same:
            return tokens, full
        held = blocks * size if blocks is not None and size else tokens
        is_exact = bool(size) or not is_same or full is None
        if self._is_plain and held is not None and length and is_exact:
            return stated_capacity(self.summary, held, length, size)
        if is_same:
            if blocks is not None and memory.num_kv_blocks:
                part = blocks / memory.num_kv_blocks
            tokens = _times(memory.kv_cache_tokens, part)
            return tokens, None if None in (full, part) else (full or 0) * (part or 0)
        return (tokens if length == self.length else None), None

    def _blocks_and_tokens(
        self, part: float | None, size: int | None
    ) -> tuple[int | None, int | None]:
        """Blocks of so many tokens in such a part of the run's cache, and all tokens."""
        memory, own = self._memory, self.block_size
        blocks = _times(memory.num_kv_blocks, part)
        tokens = _times(memory.kv_cache_tokens, part)
        if size == own:
            whole = self._tokens_of_a_block()
            if whole is not None and tokens is not None and part != 1:
                tokens = tokens - tokens % whole if blocks is None else blocks * whole
            return blocks, tokens
        if tokens is None and blocks is not None and own is not None:
            tokens = blocks * own
        if size is None or own is None or tokens is None or not self._is_plain:
            return None, None
        if self._fixed != "num_gpu_blocks_override":
            padding = memory.num_padding_blocks or 0
            blocks = max(0, (tokens + padding * own) // size - padding)
        return blocks, None if blocks is None else blocks * size

    def _resized(
        self, part: float, chosen: dict[str, Any], width: float | None
    ) -> tuple[int, tuple[int, int]]:
        """Blocks in such a part of the run's memory for them, and how many there may be: what
        the run's own cache leaves of its last block is not stated."""
        use, reserve = (
            chosen["gpu_memory_utilization"],
            chosen["VLLM_GRAPH_RESERVED_MEM"],
        )
        if width == 1.0 and use is not None and reserve is not None:
            with suppress(InputError, SettingError):
                divided = divide_memory(self.summary, utilization=use, reserve=reserve)
                return divided.num_blocks, divided.num_blocks_range
        padding = self._memory.num_padding_blocks or 0
        held = (self._memory.num_kv_blocks or 0) + padding
        low, middle, high = (
            max(0, int((held + rest) * part - padding)) for rest in (0.0, 0.5, 1.0)
        )
        return middle, (low, high)

    @property
    def _is_plain(self) -> bool:
        """Whether the run shows that the layers of its model are of one kind."""
        return self._is_of_error or has_one_kind(
            self.summary, self.block_size, self.length
        )

    def _buckets(
        self, settings: PlanSettings, blocks: int | None
    ) -> tuple[dict[str, int] | None, tuple[str, ...]]:
        """How many buckets the rules give, and notes about them."""
        if not self.is_hpu or not self.summary.buckets or blocks is None:
            return None, ()
        try:
            planned = planned_buckets(self.summary, blocks, settings, {})
        except (InputError, SettingError) as error:
            return None, (f"Buckets are unknown: {error}.",)
        counts = {phase: len(made) for phase, made in planned.lists.items()}
        for phase, made in planned.lists.items():
            own = self.summary.phase(phase)
            if made == own.buckets and own.generated is not None:
                counts[phase] = own.generated  # a list may be cut
        return counts, planned.notes

    def _tokens_of_a_block(self) -> int | None:
        memory = self._memory
        tokens, blocks = memory.kv_cache_tokens, memory.num_kv_blocks
        if tokens and blocks and tokens % (blocks * BLOCK_STEP) == 0:
            return tokens // blocks
        size = memory.block_size
        return size if blocks is None and size and not (tokens or 0) % size else None

    def _tokens_step(
        self,
        chosen: dict[str, Any],
        reach: tuple[int, int] | None,
        off: float,
        tokens: int | None,
    ) -> float:
        """By how many tokens the cache may be off, where its size is by such a share."""
        block, own = chosen["block_size"], self.block_size
        # What the run's cache is beyond its last whole block is not stated.
        rest = float(own) if own and block and block % own else 0.0
        if self.is_hpu and not rest and reach is not None:
            return float((reach[1] - reach[0]) * (self._tokens_of_a_block() or 0))
        return max(rest, off * (tokens or 0))

    def _off(
        self, chosen: dict[str, Any], changed: set[str], planned: int | None
    ) -> tuple[float, float]:
        """By how many bytes a cache of so many may be off, as the figures of a log are rounded,
        and in all: on GPUs what the profiling run takes is measured by every start.

        What a run compiled counts as taken (vLLM `gpu_worker.py
        determine_available_memory`), so another start may take as much more or less.
        """
        size, total, memory = self._memory.kv_cache_bytes, self._total, self._memory
        if not changed or not planned or not size or self._fixed is not None:
            return 0.0, 0.0
        rounding, engine = 0.0, self.summary.engine.name
        if self.summary.is_log and self.is_hpu:
            rounding = bytes_step(engine, size) * planned / size
        elif self.summary.is_log and total is not None:
            use = (chosen["gpu_memory_utilization"] or 0) - (self.utilization or 0)
            off = bytes_step(engine, size) * total / size + bytes_step(engine, total)
            rounding = abs(use) * (off + self._total_off * total)
        if self.is_hpu or self.summary.device.kind not in _MEASURED_ANEW:
            return rounding, rounding
        device = total or (size + (memory.weights_bytes or 0)) / (self.utilization or 1)
        compiled = (memory.profile_bytes or 0) if self._has_compiled else 0
        return rounding, float(rounding + SPREAD * device + compiled)

    def _device_of_graphs(self) -> tuple[int | None, float]:
        """Memory of the device, and by which share that may be off, from what the estimate of
        graphs takes off the utilisation (vLLM `gpu_worker.py determine_available_memory`)."""
        graphs, use = self.summary.graphs, self.utilization
        if graphs is None or not graphs.estimated_bytes or not use:
            return None, 0.0
        taken = use - (graphs.utilization_without or use)
        if taken <= 0:
            return None, 0.0
        size = graphs.estimated_bytes
        off = bytes_step("vllm", size) / 2 / size + _UTILIZATION_STEP / 2 / taken
        return (round(size / taken), off) if off <= _MOST_OFF else (None, 0.0)

    @property
    def _has_compiled(self) -> bool:
        """Whether the run compiled code that later starts may find in a cache."""
        caches = self.summary.start.caches
        states = (caches.get("torch_compile"), caches.get("aot"))
        return "missed" in states or "partial" in states

    def _chosen(self, settings: PlanSettings) -> dict[str, Any]:
        own = {
            "gpu_memory_utilization": self.utilization,
            "max_model_len": self.length,
            "kv_cache_dtype": self.summary.config.get("kv_cache_dtype"),
            "block_size": self.block_size,
            "max_num_batched_tokens": self.summary.setting("max_num_batched_tokens"),
            "max_num_seqs": self.summary.setting("max_num_seqs"),
        }
        chosen = {n: first_known(getattr(settings, n), own[n]) for n in own}
        chosen |= settings.environment
        given = OF_HPU if self.is_hpu else ()
        values = {name: getattr(settings, name) for name in given}
        chosen |= {name: value for name, value in values.items() if value is not None}
        if self.is_hpu:
            reserve = None if self._is_eager else settings.graph_reserved_mem
            chosen["VLLM_GRAPH_RESERVED_MEM"] = first_known(reserve, self.reserve)
        return chosen

    def _share(self, chosen: dict[str, Any], changed: set[str]) -> float | None:
        """Bytes of the cache, as a share of those that the run gave it."""
        use: float | None = chosen["gpu_memory_utilization"]
        own = self.utilization
        if self._fixed is not None:
            return 1.0
        if self._of_profile(chosen, changed):
            return None
        if changed and not self._is_divided_by_rule:
            return None
        if self.is_hpu:
            before: float | None = self.reserve
            reserve: float | None = chosen["VLLM_GRAPH_RESERVED_MEM"]
            is_open = before == 0 and "enforce_eager" not in self.summary.config
            if reserve != before and is_open:
                return None  # with it the reserve stays 0
            kept = 1.0 if reserve == before else None
            if reserve is not None and before is not None and before < 1:
                kept = (1 - reserve) / (1 - before)
            grown = 1.0 if use == own else use / own if use and own else None
            return None if kept is None or grown is None else kept * grown
        if use == own:
            return 1.0
        size = self._memory.kv_cache_bytes
        if not size or size < 0 or own is None or not use or self._total is None:
            return None
        grown = 1 + (use - own) * self._total / size
        return max(0.0, float(grown))

    @property
    def _is_divided_by_rule(self) -> bool:
        return self.is_hpu or self.summary.device.kind in _DIVIDED_BY_RULE

    def _of_profile(self, chosen: dict[str, Any], changed: set[str]) -> set[str]:
        """The changed settings with which the profiling run takes what only a start shows."""
        if is_profile_kept(self.summary):
            return set()
        found = changed & _OF_PROFILE
        if "max_model_len" in changed and not self._is_step_kept(chosen):
            found |= {"max_model_len"}
        return found

    def _is_step_kept(self, chosen: dict[str, Any]) -> bool:
        """Whether the profiling run is known to be the same for requests of another length.

        Where prompts are not taken in chunks, its tokens are by default those of a request
        of full length, and at most those of all requests (vLLM `engine/arg_utils.py
        _set_default_max_num_seqs_and_batched_tokens_args`, before 0.8 `config.py
        SchedulerConfig`); a video has as many frames as fit into a request (`multimodal/
        encoder_budget.py get_mm_max_toks_per_item`).
        """
        summary, config = self.summary, self.summary.config
        if summary.device.kind in ("cpu", "tpu"):
            return True  # nothing is profiled
        if self.is_hpu or self._may_take_video or self._is_packed:
            return False
        if "max_num_batched_tokens" in (summary.arguments or ()):
            return True
        version = read_version(summary.engine.version)
        is_v1 = self._memory.kv_cache_tokens is not None  # V0 states blocks alone
        if not is_v1 if version is None else version < _V1_SINCE:
            return False
        names = ("enable_chunked_prefill", "chunked_prefill_enabled")
        if any(name in config and not is_true(config, name) for name in names):
            return False
        tokens = summary.setting("max_num_batched_tokens")
        requests = summary.setting("max_num_seqs")
        shortest = min(chosen["max_model_len"] or 0, self.length or 0)
        return None in (tokens, requests) or shortest * (requests or 0) >= (tokens or 0)

    def _may_lack_states(self, share: float | None) -> bool:
        """Whether such a part of the cache may have too few blocks for recurrent layers."""
        if share is None or share >= 1 or self._is_eager or self._fixed is not None:
            return False
        if self.summary.device.kind not in GPUS:
            return False
        return _RECURRENT.search(self._architecture) is not None

    @property
    def _architecture(self) -> str:
        return str(self.summary.config.get("architecture") or "")

    @property
    def _is_packed(self) -> bool:
        return self._architecture.startswith(_PACKED)

    @property
    def _may_take_video(self) -> bool:
        """Whether the profiling run may encode a video."""
        config = self.summary.config
        if is_true(config, "language_model_only"):
            return False
        if self.summary.setting("limit_mm_per_prompt.video") == 0:
            return False
        return _MAY_TAKE_VIDEO.search(self._architecture) is not None

    def _width(self, settings: PlanSettings) -> float | None:
        """Bytes of a token in the cache, as a share of those in the run.

        Unknown where layers may be of several kinds: a recurrent state has a type of its
        own, and blocks have the size of it (vLLM `models/config.py`,
        `HybridAttentionMambaModelConfig`).
        """
        if settings.kv_cache_dtype is None:
            return 1.0
        own = str(self.summary.config.get("kv_cache_dtype") or "auto")
        if own == "auto":
            own = str(self.summary.config.get("dtype") or "").removeprefix("torch.")
        if own == settings.kv_cache_dtype:
            return 1.0
        if self._is_packed:
            return None
        new, old = _BYTES.get(settings.kv_cache_dtype), _BYTES.get(own)
        if new is None or old is None or not self._is_plain:
            return None
        return new / old

    def _size_of_a_block(self, size: int | None, width: float | None) -> float | None:
        """Bytes of a block of so many tokens, as a share of those in the run."""
        own = self.block_size
        if size == own or width is None:
            return width
        return width * size / own if size and own and self._is_plain else None

    def _as_seen(
        self, outcome: str | None, changed: set[str], part: float | None
    ) -> str | None:
        """An outcome by the figures, less what the run itself shows to be otherwise."""
        if has_no_cache(self.summary) and outcome != "no_kv_cache":
            return None
        if self.summary.status == "finished" and not changed:
            return "fits"
        if self.summary.status != "failed" or self._is_of_error:
            return outcome
        failure, is_same = self.summary.failure, changed <= {"gpu_memory_utilization"}
        is_short = failure is not None and failure.kind == "out_of_memory"
        if is_short and is_same and (part or 0) >= 1:
            return "ran_out"
        # What it failed of may take as much from a smaller cache.
        return None if outcome == "fits" else outcome

    def _outcome(
        self,
        chosen: dict[str, Any],
        part: float | None,
        tokens: int | None,
        requests: float | None,
        off: float,
    ) -> str | None:
        use, free = chosen["gpu_memory_utilization"], self._memory.free_bytes
        length = chosen["max_model_len"]
        is_share = not self.is_hpu and self._fixed is None
        if is_share and self._total and free and use and use * self._total > free:
            return "out_of_memory"
        if part == 0:
            return None if self._may_be_left(chosen) else "no_kv_cache"
        if length is None or (is_share and self._may_lack_room(use)):
            return None
        if tokens is None:
            # A longer request takes at most as much more as it is longer.
            least = _times(self._memory.kv_cache_tokens, part)
            is_same = chosen["block_size"] == self.block_size
            is_sure = is_same and (least or 0) >= max(length, self.length or 0)
            return "fits" if is_sure else None
        if requests is None or self._is_plain:
            requests = tokens / length
        if abs(requests - 1) * tokens < off * requests:
            return None  # too close to tell
        return "fits" if requests >= 1 else "no_kv_cache"

    def _may_be_left(self, chosen: dict[str, Any]) -> bool:
        """Whether a cache without memory may have some, as far as it may be off."""
        size, total, use = (
            self._memory.kv_cache_bytes,
            self._total,
            chosen["gpu_memory_utilization"],
        )
        if self.is_hpu or not (size and total and use and self.utilization):
            return False
        lacking = (self.utilization - use) * total - size
        return bool(lacking < self._off(chosen, {"gpu_memory_utilization"}, size)[1])

    def _may_lack_room(self, use: float | None) -> bool:
        """Whether a larger share may be more than the other programs of a host leave, which a
        start checks first and a log of one that passed does not state (vLLM
        `v1/worker/cpu_worker.py`)."""
        is_host = self.summary.device.kind == "cpu" and self._memory.free_bytes is None
        return is_host and (use or 0) > (self.utilization or 0)

    def _notes(self, settings: PlanSettings, changed: set[str]) -> Iterator[str]:
        yield from self._notes_on_device(changed)
        chosen = self._chosen(settings)
        if changed and self._fixed is None:
            yield from self._notes_on_spread(chosen, self._share(chosen, changed))
        yield from self._notes_on_graphs(chosen, changed)
        yield from self._notes_on_blocks(settings)
        if settings.graph_reserved_mem is not None and self.is_hpu and self._is_eager:
            yield (
                "VLLM_GRAPH_RESERVED_MEM changes nothing here: with enforce_eager nothing is "
                "kept for graphs."
            )
        if settings.graph_reserved_mem is not None and not self.is_hpu:
            yield (
                "VLLM_GRAPH_RESERVED_MEM changes nothing here: only the engines on HPU "
                "keep memory for graphs by it."
            )
        if self._is_of_error:
            yield (
                "The run ended at its KV cache: tokens follow from the sizes of its error, and "
                "what graphs take was not seen."
            )
        if has_no_cache(self.summary):
            yield "The run states that no memory was left for its KV cache."
        if self.summary.synthetic:
            yield "The run is synthetic: its figures were never measured."

    def _notes_on_device(self, changed: set[str]) -> Iterator[str]:
        if self._fixed is not None:
            yield f"{self._fixed} is set: utilisation does not change the KV cache."
        elif self.utilization is None:
            yield "The run does not state gpu_memory_utilization: others are unknown."
        elif not self.is_hpu and self._total is None:
            yield (
                "The run does not state the memory of its device: other utilisations are "
                "unknown; --device-memory gives it."
            )
        elif self._total_off and self._total and "gpu_memory_utilization" in changed:
            yield (
                f"The device is taken to have {format_bytes(self._total)}, which may be off by "
                f"{100 * self._total_off:.2g} %."
            )

    def _notes_on_spread(
        self, chosen: dict[str, Any], share: float | None
    ) -> Iterator[str]:
        kind = self.summary.device.kind
        if not self._is_divided_by_rule:
            yield f"How memory is divided on {kind} is not known here: other caches are unknown."
        if share is None or self.is_hpu or kind not in _MEASURED_ANEW:
            return
        yield (
            f"The cache of other settings is within {100 * SPREAD:g} % of the device, by which equal "
            "starts differ, if nothing else takes memory of it."
        )
        if self._may_lack_room(chosen["gpu_memory_utilization"]):
            yield "Whether the host has so much free is not known: a larger share may end the start."
        if self._has_compiled:
            yield (
                "The run compiled its code while memory was measured: a start that finds it "
                "cached may have more or less for its cache, in most cases more."
            )

    def _notes_on_graphs(
        self, chosen: dict[str, Any], changed: set[str]
    ) -> Iterator[str]:
        if self.is_hpu:
            yield (
                "Graphs and warm-up of other settings are unknown: they follow from a run "
                "that lists its buckets and states how its memory was divided and what the "
                "graphs of each phase took."
            )
        elif others := changed - self._without_effect:
            names = " and ".join(sorted(others))
            yield f"Graphs and warm-up are unknown: only a start shows them with another {names}."
        elif self._may_lack_states(self._share(chosen, changed)):
            yield (
                "Graphs are unknown, and whether it fits: recurrent layers need a block for each of "
                "max_num_seqs, and with fewer graphs are left out or the start ends."
            )
        elif changed:
            yield "Graphs and warm-up are as in the run: they do not depend on utilisation."
        if self._fixed is None:
            for name in sorted(self._of_profile(chosen, changed)):
                yield f"What the profiling run takes with another {name} only a start shows."

    def _notes_on_blocks(self, settings: PlanSettings) -> Iterator[str]:
        is_other = settings.max_model_len not in (None, self.length)
        if is_other and not self._is_plain:
            yield (
                "The run does not show that all layers of its model are of one kind: how "
                "many requests of another length fit is unknown."
            )
        if settings.kv_cache_dtype is not None and self._is_packed:
            yield (
                "Sparse attention packs values of 8 bits otherwise: what another "
                "kv_cache_dtype gives is unknown."
            )
        elif settings.kv_cache_dtype is not None and not self._is_plain:
            yield (
                "The run does not show that all layers of its model are of one kind: what "
                "another kv_cache_dtype gives is unknown."
            )
        elif settings.kv_cache_dtype is not None:
            yield (
                "Tokens follow from the bytes of a value; scales that a kernel stores "
                "beside them are not counted."
            )
        if settings.block_size is None:
            return
        if self.block_size is None:
            yield "The run does not state its block_size: blocks of another are unknown."
        elif not self._is_plain:
            yield (
                "Layers of this model may be of several kinds, whose blocks do not all grow "
                "with block_size: blocks of another are unknown."
            )
        else:
            yield "Whether the engine takes this block_size for this model is not checked."


def _without_cache(summary: RunSummary) -> str:
    """Why nothing can be planned, with what an error states of the cache."""
    why, remedy = "", "plan from a run that got as far as allocating it"
    failure = summary.failure
    if failure is not None:
        remedy += ", and see `warmup-insights advise` for this one"
        length, fitting = (
            failure.stated.max_model_len,
            failure.stated.estimated_model_len,
        )
        if length and fitting:
            why = (
                f": its error states that a request of {format_count(length)} tokens does "
                f"not fit, and estimates that one of {format_count(fitting)} does"
            )
    return (
        "This run states neither tokens nor blocks of its KV cache, so nothing can be "
        f"planned{why}; {remedy}"
    )


def _times(value: int | None, share: float | None) -> int | None:
    return None if value is None or share is None else int(value * share + 1e-6)
