"""Advice on errors whose text names their cause: one rule for each kind of cause."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial

from warmup_insights.analysis.advice.cause import explained
from warmup_insights.analysis.advice.facts import RunFacts
from warmup_insights.analysis.advice.finding import Finding, Rule, Way
from warmup_insights.analysis.advice.known_errors import known_error
from warmup_insights.analysis.advice.known_texts import AS_STATED
from warmup_insights.analysis.advice.rules_failure import numbers_at, shown_message
from warmup_insights.analysis.advice.ways import finding_of


def known(rule: str, facts: RunFacts) -> Iterator[Finding]:
    """The cause that the text of an error names, and what removes it."""
    found = explained(facts, rule)
    row = known_error(found.message) if found is not None else None
    if found is None or row is None:
        return
    error, match = row
    when = " while it served" if found.is_serving else ""
    yield finding_of(
        rule,
        f"{error.title}{when}: {shown_message(found)}{found.where}.",
        numbers_at(facts, found),
        _not_yet_set(facts, error.filled(match)),
        "the engine keeps serving" if found.is_serving else "the start gets past this error",
    )  # fmt: skip


def _not_yet_set(facts: RunFacts, ways: list[Way]) -> list[Way]:
    """The ways without those that only set what the run has."""
    config = facts.summary.config
    left = [
        way
        for way in ways
        if not way.changes
        or any(
            str(config.get(name)) != str(value) for name, value in way.changes.items()
        )
    ]
    return left or [AS_STATED]


NO_FORMULA = "none: the way out follows from the text"


def _rule(
    name: str, applies_when: str, source: str, example: str, formula: str = NO_FORMULA
) -> Rule:
    return Rule(
        name, applies_when, "the failure", partial(known, name), formula=formula,
        margin="only where the text of the error names it; values are those of the text",
        source=source, example=example,
    )  # fmt: skip


RULES = (
    _rule(
        "setting_refused",
        "the engine refused a setting or a combination, and its message states what fits",
        "vLLM `config/model.py`, `config/scheduler.py`, `config/parallel.py`, `lora/`",
        "28 attention heads and tensor parallel size 8: 7, or 4 with two pipeline stages",
        formula="from the figures of the text: the limit that it states, the largest number of "
        "ranks that divides, the next whole multiple, utilisation x used / allowed",
    ),
    _rule(
        "device_unsupported",
        "the device cannot do what the model, its quantisation or the build needs",
        "vLLM `platforms/cuda.py`, `model_executor/layers/quantization`; Triton "
        "`runtime/errors.py`",
        "bfloat16 on a T4: --dtype half",
    ),
    _rule(
        "memory_changed",
        "more memory of the device was free after profiling than before",
        "vLLM `v1/worker/gpu_worker.py`, `determine_available_memory`",
        "`Error in memory profiling. Initial free memory ..., current free memory ...`",
    ),
    _rule(
        "driver_mismatch",
        "the driver of the host does not fit the image",
        "CUDA error codes 35, 802, 803 and 804",
        "driver 11040 under an image of CUDA 12: a newer driver, or an older image",
    ),
    _rule(
        "device_unreachable",
        "no device is visible, another process holds it, or it failed",
        "torch `cuda/__init__.py`; vLLM `config/device.py`; the Gaudi bridge's device acquire",
        "`Failed to infer device type`: the container was started without its devices",
    ),
    _rule(
        "port_in_use",
        "an address is in use already",
        "errno EADDRINUSE; vLLM `entrypoints/openai/api_server.py create_server_socket`",
        "`[Errno 98] ... ('0.0.0.0', 8000): address already in use`",
    ),
    _rule(
        "shared_memory",
        "shared memory (/dev/shm) is too small",
        "NCCL `misc/shmutils.cc`; torch multiprocessing",
        "64 MiB, which Docker gives: --ipc=host or --shm-size",
    ),
    _rule(
        "disk_full",
        "a file system is full or may not be written, or too many files are open",
        "errno ENOSPC, EDQUOT, EACCES, EROFS and EMFILE",
        "`[Errno 28] No space left on device` while weights are downloaded",
    ),
    _rule(
        "host_limit",
        "memory, threads or the way of starting processes of the host end the start",
        "vLLM `config/cache.py verify_with_parallel_config`, `utils`; torch "
        "`c10/core/CPUAllocator.cpp`",
        "16 GiB of swap space on a host of 15 GiB",
    ),
    _rule(
        "model_access",
        "files of the model are missing, broken or not to be had",
        "huggingface_hub `errors.py`; transformers `utils/hub.py`; safetensors",
        "a gated repository without HF_TOKEN",
    ),
    _rule(
        "model_unsupported",
        "this version does not know the model, its code, tokenizer or quantisation",
        "vLLM `model_executor/models/registry.py`, `config/model.py`; transformers "
        "`configuration_auto.py`",
        "a model type that transformers does not recognise: a newer release",
    ),
    _rule(
        "ranks_not_connected",
        "ranks, nodes or the library between devices failed",
        "torch `distributed`; NCCL `ncclResult_t`; vLLM `v1/executor/ray_utils.py`",
        "3 of 4 clients joined after 600 s: one node does not reach the address",
    ),
    _rule(
        "missing_tool",
        "a compiler, library or package was not found",
        "vLLM `envs.py`; torch `utils/cpp_extension.py`; the dynamic linker",
        "nvcc not found: install it, or VLLM_USE_FLASHINFER_SAMPLER=0",
    ),
    _rule(
        "build_failed",
        "a kernel or graph was not compiled or not captured",
        "Triton `runtime/build.py`; torch `utils/cpp_extension.py`, `_inductor`; FlashInfer "
        "`jit`",
        "`Failed to find C compiler`: gcc in the image",
    ),
    _rule(
        "packages_mismatch",
        "packages were built for other versions of one another",
        "the dynamic linker; NumPy",
        "`undefined symbol` in a kernel library built for another torch",
    ),
)
