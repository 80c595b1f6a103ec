"""Advice on the start around the warm-up: imports, profile run, kernels, the rest."""

from __future__ import annotations

import re
from collections.abc import Iterator
from statistics import median

from warmup_insights.analysis.advice.facts import RunFacts
from warmup_insights.analysis.advice.finding import Finding, Rule, severity_of
from warmup_insights.analysis.advice.start import (
    GAUDI,
    phase_s,
    words_of,
)
from warmup_insights.rules.setting_lives import knows
from warmup_insights.units import format_duration

SLOW_IMPORTS_S, SLOW_IMPORTS_SHARE = 20.0, 0.2
MUCH_S = 45.0
"""Of imports: less is what two processes take that read from a disk nobody had read yet."""
_WAITED = re.compile(r"specs for (\d{1,6}) seconds")
_IMPORTING = ("import", "configure", "start_engine", "start_workers")
"""Phases that are mostly imports: each new process does them again."""


def slow_imports(facts: RunFacts) -> Iterator[Finding]:
    """Python imports, in each process, before the engine does anything."""
    start = facts.start
    if start is None:
        return
    # On TPU the engine's process makes its devices known before it names a stage.
    left_out = {"start_engine"} if facts.summary.device.kind == "tpu" else set()
    if any(note.topic == "ray_wait" for note in facts.summary.notes):
        left_out.add("start_workers")
    phases = [n for n in _IMPORTING if n in start.seconds and n not in left_out]
    seconds = sum(start.seconds[name] for name in phases)
    if seconds < SLOW_IMPORTS_S or start.share(seconds) < SLOW_IMPORTS_SHARE:
        return
    warm = [
        own
        for other in facts.same_model
        if (own := sum(phase_s(other, name) for name in phases))
    ]
    typical = median(warm) if len(warm) >= 2 else None
    gain = (0.0, seconds - typical) if typical and typical < seconds else None
    yield Finding(
        "slow_imports",
        severity_of(start.share(seconds)) if seconds >= MUCH_S else "low",
        f"Importing and starting processes took {start.of_all(seconds)}.",
        {"imports_s": seconds, "start_s": start.wall_s},
        "PYTHONPROFILEIMPORTTIME",
        "the Python environment (layers of the image, in a container) on a local disk, with "
        "its bytecode compiled beforehand (`python -m compileall`)",
        f"the median of other starts of this model is {format_duration(typical)}"
        if typical
        else "PYTHONPROFILEIMPORTTIME=1 prints which import takes it; each process "
        "imports anew",
        tuple(
            f"{words_of(name)}: {start.of_all(start.seconds[name])}" for name in phases
        ),
        gain_s=gain,
        price="disk",
        phase=max(phases, key=lambda name: start.seconds[name]),
        part_s=seconds,
    )


def ray_wait(facts: RunFacts) -> Iterator[Finding]:
    """Ray had no place for all ranks, and the engine waited for it."""
    texts = [n.text for n in facts.summary.notes if n.topic == "ray_wait"]
    waits = [int(m[1]) for text in texts if (m := _WAITED.search(text))]
    failure = facts.summary.failure
    if not waits or (failure is not None and "placement" in failure.message):
        return
    seconds, is_ready = float(max(waits)), facts.summary.status == "finished"
    yield Finding(
        "ray_wait",
        "medium" if is_ready else "high",
        f"The engine waited {format_duration(seconds)} at least for Ray to place its ranks"
        f"{'' if is_ready else ', and the log holds no end of it'}.",
        {"waited_s": seconds},
        "tensor_parallel_size",
        "`ray status`: all nodes joined, as many GPUs free as tensor times pipeline parallel size, "
        "no placement group of an engine that ended",
        "ranks start as soon as all have a GPU; Ray gives up after 1800 s",
        price="none; on one node --distributed-executor-backend mp needs no Ray",
        phase="start_workers",
        part_s=seconds if is_ready else None,
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
        "ray_wait",
        "the engine printed that it waits for a placement group of Ray",
        "those lines; whether the start came to its end",
        ray_wait,
        formula="the seconds that the last of the lines states",
        margin="silent where the error itself names the placement group",
        source="vLLM v1/executor/ray_utils.py _wait_until_pg_ready; PG_WAIT_TIMEOUT is 1800 s",
        example="vLLM 0.8.5 with four GPUs asked of Ray: 150 s, then stopped by a person",
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
