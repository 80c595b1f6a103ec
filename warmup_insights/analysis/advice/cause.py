"""What ended a start-up or an engine that served: one cause, and the rule for it.

The kind of the failure comes first, then the figures that its text states; no cause is
taken from what is merely likely.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable

from warmup_insights.analysis.advice.facts import Failed, RunFacts
from warmup_insights.analysis.advice.finding import Finding, Rule
from warmup_insights.analysis.advice.remedies import is_of_models_code, known_error
from warmup_insights.model.summary import RunSummary

FULL_SHARE = 0.85
"""Share of a device that weights may take: the rest is for activations and the cache."""
RUNTIME_SHARE = 0.05
"""Of a device, what a process takes beside its allocator at most: context, communication."""
STEP_PROFILING = "Step profiling finished"
DELIBERATE = ("Finished profiling", STEP_PROFILING)
"""Texts with which an engine on Gaudi ends after a profile that a setting gives."""
AHEAD = ("import", "configure", "start_engine", "start_workers", "init_worker")
"""Stages in which only weights can have been allocated, once memory is full."""
AFTER_CACHE = ("kernel_warmup", "model_warmup", "graph_capture", "sampler", "pooler")
"""Stages that follow the allocation of the KV cache."""
_SIGNAL = re.compile(
    r"exit ?code:? ?-(?:9|15)\b|exited with (?:signal|code) -?(?:9|15)\b"
)
"""How a parent reports that a child got SIGKILL or SIGTERM."""
_ENGINE_FAILED = re.compile(
    r"(?:RuntimeError: )?Engine core initialization failed|"
    r"EngineCore (?:failed to start|hit an exception)"
)
"""What states that an engine did not start, above or below what ended it."""
_OF_SWITCHES = re.compile(r"\bNVLS\b")
"""NCCL, of memory for multicasts."""
_OF_A_SHARE = re.compile(r"Externally held weights|external process's weights")
"""vLLM, of weights that another process keeps on the device: no allocation failed."""
_IN_PIECES = "That was not possible. There are "
"""XLA, of memory of which what is free is stated: more than was wanted lies in pieces."""
_MISMATCH = re.compile(
    r"(?:^|[\s.])(?:KeyError|AttributeError|TypeError|ImportError|NameError|UnboundLocalError):"
)


_PLUGINS = (
    "vllm-gaudi", "vllm-ascend", "tpu-inference", "vllm-neuron", "vllm-spyre", "vllm-metal",
    "vllm-rbln",
)  # fmt: skip
"""Plugins of vLLM for devices, as packages are called."""
OfFailure = Callable[[RunFacts, Failed], Iterable[Finding]]


def failure_rule(
    applies_when: str, needs: str, *, name: str = "", **texts: str
) -> Callable[[OfFailure], Rule]:
    """The rule for one cause of failures, named as the function where no name is given;
    the function gets the failure."""

    def made(decide: OfFailure) -> Rule:
        own = name or decide.__name__

        def of_facts(facts: RunFacts) -> Iterable[Finding]:
            found = explained(facts, own)
            return () if found is None else decide(facts, found)

        return Rule(own, applies_when, needs, of_facts, **texts)

    return made


def explained(facts: RunFacts, rule: str) -> Failed | None:
    """The failure where this rule is the one for it; else None."""
    found = facts.failed
    return found if found is not None and _rule_of(facts, found) == rule else None


def _rule_of(facts: RunFacts, found: Failed) -> str:
    """The one rule that explains a failure."""
    name = _rule_before_texts(facts, found)
    if name is not None:
        return name
    if facts.statement is not None:
        return facts.statement.rule
    is_program = _MISMATCH.search(found.message) is not None
    is_asserted = is_of_models_code(found.message, found.module or "")
    is_unfit = is_asserted and plugin_of(facts, found) is not None
    return "program_error" if is_program or is_unfit else "failure_unexplained"


def plugin_of(facts: RunFacts, found: Failed) -> str | None:
    """The plugin of vLLM for a device that the run has: by the frame of the failure, or by the
    engine that printed the log."""
    package = (found.module or "").partition("/")[0]
    named = package.replace("_", "-")
    names = (named, facts.summary.engine.name)
    return next((name for name in names if name in _PLUGINS), None)


def _rule_before_texts(facts: RunFacts, found: Failed) -> str | None:
    """The rule of a failure by its kind and figures; None where its text decides."""
    if any(text in found.message for text in DELIBERATE):
        return "deliberate_stop"
    if found.kind == "killed":
        return "killed"
    if found.kind == "error":
        return _rule_of_error(facts, found)
    if _is_elsewhere(facts, found):
        return None
    if found.is_serving:
        return "wake_up_failed" if _was_waking(facts) else "out_of_memory_serving"
    stated = found.stated
    if (
        stated.wanted_utilization
        and stated.total_bytes
        and found.free_bytes is not None
    ):
        return "memory_taken"
    if found.kind == "no_kv_cache":
        return _rule_of_no_cache(found)
    if found.free_bytes and found.needed_bytes is not None:
        part = 1.0 if _IN_PIECES in found.message else 0.5
        if found.needed_bytes < part * found.free_bytes and not _is_used_by_its_bucket(
            facts, found
        ):
            return "allocation_refused"
    return "weights_too_large" if _is_full_of_weights(facts, found) else "out_of_memory"


def _rule_of_no_cache(found: Failed) -> str | None:
    if found.is_cache_too_small:
        return "kv_cache_too_small"
    # The text of tpu-inference states the share that would be enough.
    known = known_error(found.message)
    is_setting = known is not None and known.rule == "setting_refused"
    return None if is_setting else "no_room_for_cache"


def _is_used_by_its_bucket(facts: RunFacts, found: Failed) -> bool:
    """Whether the run of the bucket that failed may have taken what was free before it: no
    more than half of the device."""
    total = facts.figure("total_bytes")
    is_most = total is not None and (found.free_bytes or 0) > total / 2
    return is_free_before(facts, found) and not is_most


def is_free_before(facts: RunFacts, found: Failed) -> bool:
    """Whether what is known as free was free before the bucket that failed."""
    progress = facts.summary.progress
    return progress.is_in_step and progress.free_bytes == found.free_bytes


def poisoned_by(summary: RunSummary) -> bool:
    """Whether an error was raised in a compiled artefact, and one had been loaded."""
    failure, caches = summary.failure, summary.start.caches
    if failure is None or failure.kind != "error":
        return False
    is_loaded = {caches.get("aot"), caches.get("torch_compile")} & {"hit", "partial"}
    is_stated = "corrupted compilation artifact" in failure.message
    return bool(is_loaded) and (failure.artifact is not None or is_stated)


def _rule_of_error(facts: RunFacts, found: Failed) -> str | None:
    if poisoned_by(facts.summary):
        return "poisoned_cache"
    if _found_no_room(facts, found):
        return "no_room_for_cache"
    return "killed" if _SIGNAL.search(found.message) else None


def _found_no_room(facts: RunFacts, found: Failed) -> bool:
    """Whether an engine failed for which the log states no cause, and that less than nothing
    is left for the KV cache (vLLM `v1/core/kv_cache_utils.py check_enough_kv_cache_memory`
    raises then)."""
    cache = facts.figure("kv_cache_bytes")
    is_announced = _ENGINE_FAILED.match(found.message) is not None
    return is_announced and not found.is_serving and cache is not None and cache <= 0


def _is_elsewhere(facts: RunFacts, found: Failed) -> bool:
    """Whether the memory that ran out is the host's, which an engine on a CPU shares, that of
    the switches between devices, or a share that was set."""
    if found.kind == "out_of_memory" and facts.summary.device.kind == "cpu":
        return False
    is_of_host = facts.statement is not None and facts.statement.rule == "host_limit"
    others = (_OF_SWITCHES, _OF_A_SHARE)
    return is_of_host or any(text.search(found.message) for text in others)


def _was_waking(facts: RunFacts) -> bool:
    """Whether the engine slept when memory ran out: waking maps what sleeping freed."""
    serving = facts.summary.serving
    slept = [s for s in serving.sleeps if s.action != "discard"] if serving else []
    return bool(slept) and slept[-1].action == "sleep"


_OF_A_PROGRAM = ("HLO temporaries", "Error loading program")
"""XLA: what one compiled program takes while it runs or is loaded, beside all weights."""


def _is_full_of_weights(facts: RunFacts, found: Failed) -> bool:
    """Whether weights alone take most of the device, or were still being loaded."""
    if facts.stage.startswith(AFTER_CACHE) and has_cache(facts):
        return False
    capacity = facts.device_bytes
    weights = facts.figure("weights_bytes")
    if weights is not None:
        # One process has the weights of several devices of a TPU.
        is_of_one = facts.summary.device.kind != "tpu" and bool(capacity)
        return is_of_one and weights > FULL_SHARE * (capacity or 0)
    others = held_by_others(found)
    if others is not None and capacity and others > (1 - FULL_SHARE) * capacity:
        return False
    if any(text in found.message for text in _OF_A_PROGRAM) or has_cache(facts):
        return False
    stage = facts.stage
    held = found.stated.allocated_bytes
    is_full = bool(held and capacity and held > FULL_SHARE * capacity)
    return stage.startswith("load") or (stage in AHEAD and is_full)


def has_cache(facts: RunFacts) -> bool:
    """Whether the run states a KV cache, which follows the weights."""
    memory = facts.summary.memory_or_none
    known = memory.num_kv_blocks or memory.kv_cache_bytes or memory.kv_cache_tokens
    return bool(known)


def held_by_others(found: Failed) -> float | None:
    """What neither this process holds nor is free, where the message states all three.

    Where it states only what the allocator held, at least so much: the runtime of the
    process takes memory besides.
    """
    stated, held = found.stated, found.stated.process_bytes
    if stated.total_bytes is None or found.free_bytes is None:
        return None
    if held is None and stated.reserved_bytes is not None:
        held = round(stated.reserved_bytes + RUNTIME_SHARE * stated.total_bytes)
    return None if held is None else stated.total_bytes - held - found.free_bytes
