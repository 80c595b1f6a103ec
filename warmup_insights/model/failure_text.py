"""The kind and the figures of an error, from its text, printed or raised."""

from __future__ import annotations

import re
from collections.abc import Mapping

from warmup_insights.units import GIB, parse_bytes

MAX_TEXT = 3000
MAX_SIZE = 1 << 50
"""Bytes: no device has more, and what a text states beyond it is no size."""

_NO_CACHE_WORDS = (
    "no available memory for the cache blocks", "larger than the available kv cache",
    "larger than the maximum number of tokens that can be stored",
    "cannot auto-fit max_model_len",
    # What the worker of a CPU takes is more than its share (`v1/worker/cpu_worker.py`).
    "less than requested memory for kv (-",
    "of cpu memory reserved for it",
    # tpu-inference `runner/kv_cache_manager.py`, of models with state space layers;
    # `worker/tpu_worker.py determine_available_memory`.
    "cannot fit both kv pools", "exceeds total_hbm_limit_cap_gb",
)  # fmt: skip
_MEMORY_WORDS = (
    "out of memory", "outofmemory", "out_of_memory", "resource_exhausted",
    "allocation failed for size",
    # The Gaudi bridge, of the memory that recipes work in (`synapse_helpers/device.cpp`).
    "workspace allocation of size",
    # vLLM `v1/worker/utils.py request_memory`, `v1/worker/cpu_worker.py`,
    # `v1/worker/gpu_model_runner.py load_model`, `v1/worker/tpu_model_runner.py`.
    "less than desired gpu memory utilization", "less than desired cpu memory utilization",
    "exceed the desired gpu memory utilization", "is less than the engine's budget",
    "on kv cache allocation is less than requested",
    "not enough gpu memory", "too large for the current device's hbm memory",
    # torch on CPU and XPU, cuBLAS, the C++ library and the kernel.
    "can't allocate memory", "cannot allocate memory", "out_of_device_memory",
    "out_of_host_memory", "cublas_status_alloc_failed", "std::bad_alloc",
)  # fmt: skip
CRASH = re.compile(
    r"\bSIG(?:SEGV|ABRT|BUS|ILL|FPE)\b|Fatal Python error|Segmentation fault|Segfault encountered"
)
"""Native code ended the process."""
CARRIERS = (
    r"torch/(?!_inductor/(?!standalone_|compile_fx)|_dynamo/(?!aot_))|triton/(?:runtime|compiler)/|"
    r"uvicorn/|uvloop/|starlette/|fastapi/|zmq/|cloudpickle/"
)
"""Folders of packages that run what others give them, or carry it: no file of theirs names
what failed, in a traceback that is printed or raised. For a pattern."""
_ON_CHIP = re.compile(r"memory space [sv]mem\b")
"""XLA, of memory that a kernel works in on the chip of a TPU: not the device's."""
_KILLED = re.compile(
    r"Failed core proc\(s\): \{(?:'[^']{1,80}': -9(?:, )?){1,99}\}|"
    r"died unexpectedly \(exit code: -9\)"
)
"""Exit codes of the engine cores (vLLM `v1/engine/utils.py wait_for_engine_startup`), and of
a worker (`v1/executor/multiproc_executor.py monitor_workers`)."""
_REFUSED = re.compile(r'"aten::(?:new_)?empty\w{0,20}".{0,200} API call failed')
"""torch's stable ABI drops the text of the allocator (`stable/ops.h`)."""

_SIZE = r"-?[\d.]{1,16} ?[KMGT]?i?[Bb](?:ytes)?"
_BARE = r"[\d.]{1,16}[KMGT]"
_GIB = r"(-?[\d.]{1,16})"
_TEXTS: dict[str, tuple[str, ...]] = {
    # torch `CUDACachingAllocator.cpp` (CUDA, HIP, XPU), the HPU bridge, jax and XLA.
    "needed_bytes": (
        rf"Tried to allocate ({_SIZE})", r"Allocation failed for size::(\d{1,16})(?!\d|$)",
        r"workspace Allocation of size ::(\d{1,16})",
        rf"Attempting to (?:allocate|reserve) ({_BARE})",
        rf"Used ({_BARE}) of {_BARE} hbm", rf"HLO temporaries \(({_BARE})\) exceeds",
    ),
    "free_bytes": (
        rf"of which ({_SIZE}) is free",
        # torch_npu `NPUCachingAllocator.cpp` has one more part.
        rf"already allocated; (?:{_SIZE} current active; )?({_SIZE}) free",
        rf"There are ({_BARE}) free",
    ),
    "total_bytes": (
        rf"total capacity of ({_SIZE})", rf"; ({_SIZE}) total capacity",
        rf"\([GNX]PU \d{{1,4}}; ({_SIZE}) total", rf"Used {_BARE} of ({_BARE}) hbm",
        rf"exceeds available HBM \(({_BARE})\)",
    ),
    "process_bytes": (rf"this process has ({_SIZE}) memory in use",),
    "allocated_bytes": (
        rf"Of the allocated memory ({_SIZE}) is allocated", rf"; ({_SIZE}) already allocated",
    ),
    "reserved_bytes": (rf"free; ({_SIZE}) reserved in total by PyTorch",),
    "unallocated_bytes": (rf"and ({_SIZE}) is reserved by PyTorch but unallocated",),
}  # fmt: skip
_IN_GIB: dict[str, tuple[str, ...]] = {
    # vLLM `v1/worker/utils.py request_memory`, `v1/core/kv_cache_utils.py
    # check_enough_kv_cache_memory`, `v1/worker/cpu_worker.py`.
    "needed_bytes": (
        rf"[CG]PU memory utilization \([\d.]{{1,8}}, {_GIB} GiB\)",
        rf"external process's weights \([\d.]{{1,8}}, {_GIB} GiB\)",
        rf"(?<![\d.-]){_GIB} Gi?B KV cache is needed",
        rf"requested memory for kv \({_GIB}[ /]",
    ),
    "free_bytes": (
        rf"Free memory on device(?: \S{{1,20}})? \({_GIB}/",
        rf"available KV cache memory \({_GIB} Gi?B",
        rf"Available memory on node \d{{1,5}} \({_GIB}/",
    ),
    "total_bytes": (
        rf"Free memory on device(?: \S{{1,20}})? \([\d.]{{1,16}}/{_GIB} GiB",
        rf"Available memory on node \d{{1,5}} \([\d.]{{1,16}}/{_GIB} GiB",
    ),
}  # fmt: skip
_PLAIN: dict[str, tuple[str, ...]] = {
    "wanted_utilization": (r"[CG]PU memory utilization \((\d\.?\d{0,6}), ",),
    # The V0 engine compares tokens: `worker/worker.py raise_if_cache_size_invalid`.
    "max_model_len": (r"max seq len \((\d{1,12})\)",),
    "estimated_model_len": (
        r"estimated maximum model length is (\d{1,12})",
        r"that can be stored in (?:the )?KV cache \((\d{1,12})\)",
    ),
}


def kind_of_message(message: str) -> str:
    """`out_of_memory`, `no_kv_cache`, `killed` or `error`."""
    lowered = message.lower()
    if any(word in lowered for word in _NO_CACHE_WORDS):
        return "no_kv_cache"
    if _states_short_memory(message) or _REFUSED.search(message):
        return "out_of_memory"
    return "killed" if _KILLED.search(message) else "error"


def _states_short_memory(message: str) -> bool:
    lowered = message.lower()
    is_short = any(word in lowered for word in _MEMORY_WORDS)
    return is_short and not _ON_CHIP.search(message)


def is_likely_memory(message: str) -> bool:
    """Whether a text of `out_of_memory` does not state it: a tensor was refused, and why
    is dropped."""
    return _REFUSED.search(message) is not None and not _states_short_memory(message)


_REFUSALS = {"Value error, ": "ValueError: ", "Assertion failed, ": "AssertionError: "}
"""What pydantic puts before the text of an error that a validator raised."""


def raised_text(name: str, message: str) -> str:
    """The text of an error by its name and message, that of pydantic's about a setting
    without its heading, the value behind it and the module of the error."""
    heading, _, rest = message.partition("\n")
    if " validation error" not in heading or not rest:
        return f"{name}: {message}"
    return refusal(rest, f"{name.rpartition('.')[2]}: ")


def refusal(text: str, name: str = "") -> str:
    """What pydantic prints below `validation error for`, without the value behind it."""
    stated = text.partition(" [type=")[0]
    text = ": ".join(line.strip() for line in stated.splitlines())
    for prefix, error in _REFUSALS.items():
        if text.startswith(prefix):
            return error + text.removeprefix(prefix)
    return name + text


def figures_of(message: str) -> dict[str, float]:
    """The figures that a message states, by the fields of a failure."""
    message = message[:MAX_TEXT]
    found: dict[str, float] = {}
    for texts, scale in ((_TEXTS, 1), (_IN_GIB, GIB)):
        for name, patterns in texts.items():
            size = _size(_first(patterns, message), scale)
            # What is free may be less than nothing, as where a share is used up; no need is.
            if size is not None and (size >= 0 or name == "free_bytes"):
                found.setdefault(name, size)
    for name, patterns in _PLAIN.items():
        text = _first(patterns, message)
        if text is not None:
            is_share = name == "wanted_utilization"
            found[name] = float(text) if is_share else int(text)
    if not _is_of_process(found):
        found.pop("process_bytes", None)
    return found


def _is_of_process(figures: Mapping[str, float]) -> bool:
    """Whether what the driver counts for the process can be true: in a container it does not
    see the process, and states less than the allocator of the process holds, such as 0."""
    held = figures.get("allocated_bytes", 0) + figures.get("unallocated_bytes", 0)
    return max(1, held) <= figures.get("process_bytes", 0)


def _first(patterns: tuple[str, ...], message: str) -> str | None:
    matches = (re.search(pattern, message) for pattern in patterns)
    return next((match[1] for match in matches if match), None)


def _size(text: str | None, scale: int) -> int | None:
    """Bytes in a size with a unit, or in a bare number of `scale` bytes."""
    if text is None:
        return None
    text = text.replace("bytes", "B")
    try:
        size = round(float(text) * scale) if text[-1].isdigit() else parse_bytes(text)
    except ValueError:
        return None
    return size if abs(size) <= MAX_SIZE else None
