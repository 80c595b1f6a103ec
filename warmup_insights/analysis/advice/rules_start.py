"""Advice on the start around the warm-up: imports, profile run, kernels, the rest."""

from __future__ import annotations

from collections.abc import Iterator
from statistics import median

from warmup_insights.analysis.advice.facts import RunFacts
from warmup_insights.analysis.advice.finding import Finding, Rule, Value, severity_of
from warmup_insights.analysis.advice.history import RECIPES, is_same_model
from warmup_insights.analysis.advice.rules_compile import recipe_setting
from warmup_insights.analysis.advice.setting_lives import knows
from warmup_insights.analysis.advice.start import (
    phase_s,
    weights_bytes,
    words_of,
)
from warmup_insights.units import format_bytes, format_duration

GAUDI = ("vllm-gaudi", "vllm-fork")
SLOW_IMPORTS_S, SLOW_IMPORTS_SHARE = 20.0, 0.2
MUCH_S = 45.0
"""Of imports: less is what two processes take that read from a disk nobody had read yet."""
_IMPORTING = ("import", "configure", "start_engine", "start_workers")
"""Phases that are mostly imports: each new process does them again."""


def slow_imports(facts: RunFacts) -> Iterator[Finding]:
    """Python imports, in each process, before the engine does anything."""
    start = facts.start
    if start is None:
        return
    phases = [name for name in _IMPORTING if name in start.seconds]
    seconds = sum(start.seconds[name] for name in phases)
    if seconds < SLOW_IMPORTS_S or start.share(seconds) < SLOW_IMPORTS_SHARE:
        return
    warm = [
        own
        for other in facts.history
        if is_same_model(facts.summary, other)
        and (own := sum(phase_s(other, name) for name in phases))
    ]
    typical = median(warm) if len(warm) >= 2 else None
    gain = (0.0, seconds - typical) if typical and typical < seconds else None
    yield Finding(
        "slow_imports",
        severity_of(start.share(seconds)) if seconds >= MUCH_S else "low",
        f"Importing and starting processes took {start.of_all(seconds)}.",
        {"imports_s": seconds, "start_s": start.wall_s},
        "PYTHONPROFILEIMPORTTIME",
        "image layers on a local disk, and bytecode compiled into the image (`python -m "
        "compileall`)",
        f"the median of other starts of this model is {format_duration(typical)}"
        if typical
        else "PYTHONPROFILEIMPORTTIME=1 prints which import takes it; each process "
        "imports anew",
        tuple(
            f"{words_of(name)}: {start.of_all(start.seconds[name])}" for name in phases
        ),
        gain_s=gain,
        price="a larger image",
        phase=max(phases, key=lambda name: start.seconds[name]),
        part_s=seconds,
    )


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
        for other in facts.history
        if is_same_model(facts.summary, other)
        and (own := phase_s(other, "profile_run"))
        and own < seconds
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


def kernel_autotune(facts: RunFacts) -> Iterator[Finding]:
    """Kernels were tuned at this start, and nothing came from an earlier one."""
    start, tuned = facts.start, facts.summary.autotune
    seconds = start.worth("kernel_warmup") if start is not None else None
    if start is None or seconds is None or facts.summary.engine.name != "vllm":
        return
    if tuned is None or tuned.previous or not tuned.new:
        return
    yield Finding(
        "kernel_autotune",
        severity_of(start.share(seconds)),
        f"Tuning kernels took {start.of_all(seconds)}: {tuned.new} configurations, none "
        "of them known before.",
        {"kernel_warmup_s": seconds, "num_configs": tuned.new},
        "VLLM_CACHE_ROOT",
        f"keep {tuned.path}",
        "the next start with the same versions and shapes loads them",
        gain_s=(0.8 * seconds, seconds),
        price="none; where the directory is kept already, nothing has to be changed",
        phase="kernel_warmup",
        part_s=seconds,
    )


def kernels_built(facts: RunFacts) -> Iterator[Finding]:
    """Kernels that are compiled at first use took most of the start, and none was tuned."""
    start, tuned = facts.start, facts.summary.autotune
    if start is None or start.dominant != "kernel_warmup":
        return
    if facts.summary.engine.name != "vllm" or (tuned is not None and tuned.new):
        return
    seconds = start.seconds["kernel_warmup"]
    yield Finding(
        "kernels_built",
        severity_of(start.share(seconds)),
        f"Kernel warm-up took {start.of_all(seconds)}.",
        {"kernel_warmup_s": seconds, "start_s": start.wall_s},
        "FLASHINFER_WORKSPACE_BASE",
        "keep what FlashInfer, DeepGEMM and Triton compile (~/.cache/flashinfer, "
        "~/.cache/vllm, ~/.triton/cache) on a volume, or kernels built already in the image "
        "(flashinfer-jit-cache)",
        "no figure without a second start: kernels that are compiled at first use are kept",
        price="disk for the caches",
        phase="kernel_warmup",
        part_s=seconds,
    )


def multimodal_warmup(facts: RunFacts) -> Iterator[Finding]:
    """Warming up the preprocessing of images, video and audio took long (vLLM)."""
    start = facts.start
    seconds = start.worth("multimodal_warmup") if start is not None else None
    if start is None or seconds is None or facts.summary.engine.name != "vllm":
        return
    yield Finding(
        "multimodal_warmup",
        severity_of(start.share(seconds)),
        f"Multi-modal warm-up took {start.of_all(seconds)}.",
        {"multimodal_s": seconds, "start_s": start.wall_s},
        "limit_mm_per_prompt",
        "--limit-mm-per-prompt with 0 for each kind of input that you do not send, such "
        "as '{\"video\": 0}'",
        "the part of the kinds that are left out; the log does not divide it",
        gain_s=(0.0, seconds),
        price="requests with such input are refused",
        phase="multimodal_warmup",
        part_s=seconds,
    )


def profile_shape(facts: RunFacts) -> Iterator[Finding]:
    """The profile run compiled a shape that no bucket has."""
    start, summary = facts.start, facts.summary
    shape = summary.profile_shape
    seconds = start.worth("profile_run") if start is not None else None
    if start is None or seconds is None or shape is None or len(shape) < 2:
        return
    lengths = [b[1] for b in summary.phase("prompt").buckets if len(b) == len(shape)]
    lengths += [m.shape[1] for m in summary.misses if m.phase == "prompt"]
    longest = max(lengths, default=shape[1])
    is_needed = longest > 0.75 * shape[1]
    share = 1 - (longest / shape[1]) ** 2
    name, recipes = "max_num_batched_tokens", recipe_setting(summary)
    changes: dict[str, Value] = {} if is_needed else {name: longest}
    change = f"--max-num-batched-tokens {longest}, the longest prompt bucket"
    effect = (
        "a smaller shape to measure with; what compiling it takes is not known here"
    )
    price = f"prompts above {longest:,} tokens run in chunks, which have a context"
    if is_needed:
        change, price = "nothing: prompts of that length come", ""
        effect = "no figure: what this run compiled is kept by a recipe cache on disk"
    if is_needed and recipes is not None:
        changes, name = {RECIPES: recipes}, RECIPES
        change, price = f"{RECIPES}={recipes}", "local disk, a directory for each rank"
        effect = (
            "prompts of that length come, so the shape stays; a second start loads it"
        )
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


def multimodal_buckets(facts: RunFacts) -> Iterator[Finding]:
    """Buckets of images took a large share of the start."""
    start, own = facts.start, facts.summary.multimodal
    seconds = start.worth("multimodal_warmup") if start is not None else None
    if start is None or seconds is None or facts.summary.engine.name not in GAUDI:
        return
    count = (own.warmed or own.generated) if own is not None else None
    is_known = knows(facts.summary, "VLLM_MULTIMODAL_BUCKETS")
    yield Finding(
        "multimodal_buckets",
        severity_of(start.share(seconds)),
        f"Multi-modal warm-up took {start.of_all(seconds)}"
        + (f": {count} buckets." if count else "."),
        {"multimodal_s": seconds, "start_s": start.wall_s},
        "VLLM_MULTIMODAL_BUCKETS" if is_known else "limit_mm_per_prompt",
        "VLLM_MULTIMODAL_BUCKETS with the sizes that your images have"
        if is_known
        else "--limit-mm-per-prompt with the number of images that come",
        f"{format_duration(seconds / count)} for each bucket less" if count
        else "no figure: the number of buckets is not known",
        gain_s=(0.0, seconds),
        price="an image of another size compiles when it comes",
        phase="multimodal_warmup",
        part_s=seconds,
    )  # fmt: skip


RULES = (
    Rule(
        "slow_imports",
        "importing and starting processes took 20 s and a fifth of the start or more",
        "a log that holds the whole start: phases before the engine loads anything",
        slow_imports,
        formula="seconds less the median of other starts of the same model, version and "
        "device",
        margin="no gain without two other starts",
        source="vLLM entrypoints; CPython -X importtime",
        example="tensor parallel start on a simulated device: 39 of 55 s",
    ),
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
        "kernel_autotune",
        "FlashInfer tuned kernels at this start and found none of an earlier one",
        "a log that holds the whole start: phase kernel_warmup; configurations saved",
        kernel_autotune,
        formula="the seconds of the phase; a fifth of them may stay",
        margin="only where the log states that configurations were saved, and none was known",
        source="vLLM model_executor/warmup/flashinfer_autotune_cache.py",
        example="vLLM 0.25.1: 84 configurations, 102 of 1,478 s",
    ),
    Rule(
        "kernels_built",
        "kernel warm-up is the largest part, and no kernel was tuned (vLLM)",
        "a log that holds the whole start: phase kernel_warmup",
        kernels_built,
        formula="the seconds of the phase, without a gain",
        margin="no gain without another start: what is compiled at first use is kept, what "
        "only runs is not",
        source="vLLM model_executor/warmup/kernel_warmup.py; FlashInfer jit",
        example="vLLM 0.25.1: 2 min 23 s of 5 min 25 s between two lines of FlashInfer",
    ),
    Rule(
        "multimodal_warmup",
        "multi-modal warm-up took 10 s and 5 % of the start or more (vLLM)",
        "a log that holds the whole start: phase multimodal_warmup",
        multimodal_warmup,
        formula="0 to the seconds of the phase",
        margin="only for kinds of input that are not sent",
        source="vLLM renderers/base.py",
        example="gemma-4-26B in vLLM 0.25.1: 46 of 176 s",
    ),
    Rule(
        "profile_shape",
        "the profile run compiled a shape that no bucket has (Gaudi)",
        "a log that holds the whole start: phase profile_run, its shape",
        profile_shape,
        formula="0 to seconds x (1 - (longest bucket / tokens)^2)",
        margin="never below the longest prompt bucket, nor below a prompt that came",
        source="vllm-gaudi v1/worker/hpu_worker.py determine_available_memory",
        example="prompt of 32,768 tokens: 38 of 63 s",
    ),
    Rule(
        "multimodal_buckets",
        "multi-modal warm-up took 10 s and 5 % of the start or more (Gaudi)",
        "a log that holds the whole start: phase multimodal_warmup, number of buckets",
        multimodal_buckets,
        formula="0 to the seconds of the phase",
        margin="images of other sizes compile when they come",
        source="vllm-gaudi extension/bucketing/vision.py; VLLM_MULTIMODAL_BUCKETS from "
        "0.11.2",
        example="vllm-gaudi 0.14.1 and Qwen3-VL-32B: 24 buckets, 28 s",
    ),
)
