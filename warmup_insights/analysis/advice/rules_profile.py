"""Advice on the profile run, which measures how much memory is left for the KV cache."""

from __future__ import annotations

from collections.abc import Iterator

from warmup_insights.analysis.advice.facts import RunFacts
from warmup_insights.analysis.advice.finding import Finding, Rule, Value, severity_of
from warmup_insights.analysis.advice.rules_compile import recipe_setting
from warmup_insights.analysis.advice.start import (
    GAUDI,
    Start,
    phase_s,
    weights_bytes,
)
from warmup_insights.analysis.advice.ways import allows_step
from warmup_insights.analysis.summary.compilation import RECIPES
from warmup_insights.rules.setting_lives import knows
from warmup_insights.units import format_bytes, format_duration


def profile_run(facts: RunFacts) -> Iterator[Finding]:
    """The profile run that measures memory took long (vLLM)."""
    start, engine = facts.start, facts.summary.engine.name
    seconds = start.worth("profile_run") if start is not None else None
    if start is None or seconds is None or engine != "vllm":
        return
    if facts.summary.device.kind not in ("cuda", "rocm", "xpu"):
        return
    compiled = facts.figure("compile_s")
    after = f", after {format_duration(compiled)} of compilation" if compiled else ""
    seen = [
        own
        for other in facts.same_model
        if (own := phase_s(other, "profile_run")) and own < seconds
    ]
    known, size = facts.summary.checkpoint, weights_bytes(facts.summary)
    short = (
        known is not None
        and known.available_bytes is not None
        and size is not None
        and size > known.available_bytes
    )
    yield Finding(
        "profile_run",
        severity_of(start.share(seconds)),
        f"The first pass through the model took {start.of_all(seconds)}{after}.",
        {"profile_s": seconds, "start_s": start.wall_s},
        "FLASHINFER_WORKSPACE_BASE",
        "keep the caches of FlashInfer and Triton (~/.cache/flashinfer, ~/.triton/cache) "
        "on a volume, and watch `vmstat 1` for swapping during this pass",
        f"another start of this model took {format_duration(min(seen))} for it"
        if seen
        else "no figure without a second start: kernels that are compiled at first use "
        "are kept, swapping is not",
        (f"{format_bytes(size)} of weights, {format_bytes(known.available_bytes)} of "
         "host memory available before loading",)
        if short and known is not None and size is not None and known.available_bytes
        else (),
        gain_s=(seconds - min(seen), seconds - min(seen)) if seen else None,
        price="disk for the caches",
        phase="profile_run",
        part_s=seconds,
    )  # fmt: skip


def startup_plan(facts: RunFacts) -> Iterator[Finding]:
    """This version can keep the result of memory profiling for the next start."""
    start, summary = facts.start, facts.summary
    name = "VLLM_ENABLE_STARTUP_PLAN"
    if start is None or not knows(summary, name) or name in summary.config:
        return
    if summary.engine.name != "vllm" or any(
        n.topic == "startup_plan" for n in summary.notes
    ):
        return
    estimate = start.seconds.get("graph_memory_profile", 0.0)
    most = estimate + start.seconds.get("profile_run", 0.0)
    if most < 5.0 or start.share(most) < 0.05:
        return
    yield Finding(
        "startup_plan",
        severity_of(start.share(most)),
        f"Measuring memory took {start.of_all(most)}, and gives the same result at each "
        "start.",
        {"profile_and_estimate_s": most, "estimate_s": estimate},
        name,
        f"{name}=1",
        "the KV cache size of this start is kept and applied, if configuration, versions "
        "and free memory allow it; kernels compiled in the profile run are compiled later",
        changes={name: 1},
        gain_s=(estimate, most),
        price="the first start still measures; VLLM_CACHE_ROOT has to be kept",
        part_s=most,
    )


def profile_shape(facts: RunFacts) -> Iterator[Finding]:
    """The profile run compiled a shape that no bucket has."""
    start, summary = facts.start, facts.summary
    shape = summary.profile_shape
    seconds = start.worth("profile_run") if start is not None else None
    if start is None or seconds is None or summary.engine.name not in GAUDI:
        return
    if shape is None or len(shape) < 2:
        yield _unnamed_shape(facts, start, seconds)
        return
    lengths = [b[1] for b in summary.phase("prompt").buckets if len(b) == len(shape)]
    lengths += [m.shape[1] for m in summary.misses if m.phase == "prompt"]
    longest = max(lengths, default=shape[1])
    is_whole = not allows_step(facts, longest)
    is_needed = is_whole or longest > 0.75 * shape[1]
    share = 1 - (longest / shape[1]) ** 2
    name, recipes = "max_num_batched_tokens", recipe_setting(summary)
    changes: dict[str, Value] = {} if is_needed else {name: longest}
    change = f"--max-num-batched-tokens {longest}, the longest prompt bucket"
    effect = (
        "a smaller shape to measure with; what compiling it takes is not known here"
    )
    price = f"prompts above {longest:,} tokens run in chunks, which have a context"
    if is_needed:
        why = "without chunked prefill a step takes the longest prompt"
        change, price = "nothing: prompts of that length come", ""
        change = f"nothing: {why}" if is_whole else change
        effect = "no figure: what this run compiled is kept by a recipe cache on disk"
    if is_needed and recipes is not None:
        changes, name = {RECIPES: recipes}, RECIPES
        change, price = f"{RECIPES}={recipes}", "local disk, a directory for each rank"
        why = why if is_whole else "prompts of that length come"
        effect = f"{why}, so the shape stays; a second start loads it"
    yield Finding(
        "profile_shape",
        severity_of(start.share(seconds)),
        f"The profile run took {start.of_all(seconds)}: it compiles {shape}, which is no "
        "bucket.",
        {"profile_s": seconds, "tokens": shape[1], "largest_prompt": longest},
        name,
        change,
        effect,
        changes=changes,
        gain_s=None if is_needed else (0.0, share * seconds),
        price=price,
        phase="profile_run",
        part_s=seconds,
    )


def _unnamed_shape(facts: RunFacts, start: Start, seconds: float) -> Finding:
    """A profile run whose shape no line names: it follows from the limits of the engine.

    vllm-gaudi runs one prompt of max_model_len, or of max_num_batched_tokens where that is
    smaller; vllm-fork the largest prompt bucket (`profile_run` of each model runner).
    """
    length = facts.summary.setting("max_model_len")
    tokens = facts.summary.setting("max_num_batched_tokens")
    name, value, what = "max_model_len", length, "the longest request that comes"
    if (
        facts.summary.engine.name == "vllm-gaudi"
        and tokens
        and length
        and tokens <= length
    ):
        name, value, what = (
            "max_num_batched_tokens",
            tokens,
            "the longest prompt bucket",
        )
    option = f"--{name.replace('_', '-')}"
    now = f" (now {value:,.0f})" if value else ""
    numbers: dict[str, Value] = {"profile_s": seconds, "start_s": start.wall_s}
    return Finding(
        "profile_shape",
        severity_of(start.share(seconds)),
        f"The profile run took {start.of_all(seconds)}: the largest prompt that the limits "
        "allow.",
        numbers | ({name: value} if value else {}),
        name,
        f"{option}{now} with {what}",
        "no figure: how the time grows with the length is not known; what was compiled is "
        "kept by a recipe cache on disk",
        price="longer requests are refused"
        if name == "max_model_len"
        else "longer prompts run in chunks, which have a context",
        phase="profile_run",
        part_s=seconds,
    )


RULES = (
    Rule(
        "profile_run",
        "the first pass through the model took 10 s and 5 % of the start or more "
        "(CUDA, ROCm, XPU)",
        "a log that holds the whole start: phase profile_run; another start for the "
        "gain",
        profile_run,
        formula="seconds less the shortest of other starts of the same model, version and "
        "device",
        margin="no gain without another start: kernels compiled at first use are kept, "
        "swapping is not",
        source="vLLM v1/worker/gpu_worker.py determine_available_memory",
        example="vLLM 0.25.1 with 93 GiB of weights and 19 GiB of host memory: 630 of 1,478 s",
    ),
    Rule(
        "startup_plan",
        "measuring memory took 5 s and 5 % of the start, in a version that can keep "
        "the result",
        "a log that holds the whole start: phases profile_run and "
        "graph_memory_profile; version",
        startup_plan,
        formula="the estimate of graph memory for certain, the profile run at most",
        margin="the engine checks a fingerprint and free memory itself, and measures again "
        "where they differ",
        source="vLLM v1/worker/startup_plan.py (from 0.26)",
        example="vLLM 0.27.1 and a model of 51.75 GiB: 102 of 533 s, of which the estimate of graph memory 6 s",
    ),
    Rule(
        "profile_shape",
        "the profile run took 10 s and 5 % of the start, or most of it (Gaudi)",
        "a log that holds the whole start: phase profile_run; its shape, or the limits that "
        "it follows from",
        profile_shape,
        formula="0 to seconds x (1 - (longest bucket / tokens)^2), where a line names its shape",
        margin="never below the longest prompt bucket, nor below a prompt that came; no gain "
        "where the shape is not named",
        source="vllm-gaudi v1/worker/hpu_model_runner.py profile_run",
        example="prompt of 32,768 tokens: 38 of 63 s",
    ),
)
