"""Advice on the start around the warm-up: its largest part, imports, kernels, the profile run."""

from __future__ import annotations

import re
from collections.abc import Iterator
from statistics import median

from warmup_insights.analysis.advice.change import Value, Way
from warmup_insights.analysis.advice.facts import (
    GAUDI,
    LEAST_S,
    RunFacts,
    Start,
    weights_bytes,
    words_of,
)
from warmup_insights.analysis.advice.finding import (
    Finding,
    rule,
    severity_of,
    start_rule,
)
from warmup_insights.analysis.advice.rules_compile import recipe_setting
from warmup_insights.analysis.advice.rules_weights import is_quick_read
from warmup_insights.analysis.advice.ways import allows_step
from warmup_insights.analysis.sentences import shortened, without_hint
from warmup_insights.analysis.summary.compilation import RECIPES
from warmup_insights.bucketing.base import GPUS
from warmup_insights.model.summary import RunSummary
from warmup_insights.rules.setting_lives import has_setting
from warmup_insights.units import format_bytes, format_duration

_SHOWN_BY = {
    "configure": ("PYTHONPROFILEIMPORTTIME", "PYTHONPROFILEIMPORTTIME=1 prints each import"),
    "import": ("PYTHONPROFILEIMPORTTIME", "PYTHONPROFILEIMPORTTIME=1 prints each import"),
    "distributed_init": ("NCCL_DEBUG", "NCCL_DEBUG=INFO prints what the ranks wait for"),
}  # fmt: skip
_ENDED = ("failed", "finished", "skipped")
"""States of a start that came to its end by itself."""
_REFERENCE = ("device", "another device (--device)")
_CONVERTED = (
    "quantization",
    "a checkpoint that is quantised as the kernels want it: after reading, weights are "
    "converted, packed or laid out anew at each start",
    "no figure: the log does not divide it",
)
_PERSISTENCE = (
    "persistence mode",
    "`nvidia-smi -pm 1` on the host, or nvidia-persistenced, where `nvidia-smi` shows persistence "
    "mode off: the driver sets up its devices anew for each process that comes first; "
    "`py-spy dump` of the worker shows what else it waits for",
    "no figure: the log does not divide it",
)
_PINNED = (
    "kv_transfer_config",
    "a smaller cpu_bytes_to_use of the connector, or --kv-offloading-size, as far as it is not used",
    "its time follows its size: each page of it is made and pinned",
)
LONG_S = 20.0
"""Kept graphs are read from a local disk in less (3 to 10 s on real starts)."""
_DEBUG = ("VLLM_LOGGING_LEVEL", "VLLM_LOGGING_LEVEL=DEBUG prints its steps")
_RECORDER = (
    "warmup-insights vllm",
    "`warmup-insights vllm serve ...` records every step of it with its time",
)
_RECORDED = frozenset({
    "prompt_warmup", "decode_warmup", "prompt_graphs", "decode_graphs", "graph_capture",
    "unified_warmup", "sampler_warmup", "defrag_warmup",
})  # fmt: skip


@start_rule(
    "no other rule treats the phase that took longest",
    "its phases",
    formula="the seconds of the phase, as a share of the time from the first line to "
    "ready",
    margin="no finding where the first line is not the first of a start, or half of the time "
    "is in no line, and below 10 s",
    source="the engine's own lines at the beginning and the end of each phase",
    example="hpu_plugin start of Qwen3-MoE: initialising the device 88 of 116 s",
)
def largest_part(facts: RunFacts, start: Start) -> Iterator[Finding]:
    """The phase that took longest, where no other rule treats it."""
    phase = start.dominant
    seconds, words = start.seconds[phase], words_of(phase)
    is_read_well = phase == "load_weights" and is_quick_read(facts.summary, seconds)
    if seconds < LEAST_S or is_read_well:
        return
    setting, shown = _RECORDER if phase in _RECORDED else _SHOWN_BY.get(phase, _DEBUG)
    if facts.summary.engine.name == "reference":
        setting, shown = _REFERENCE
    effect = "no figure without that"
    known = _known(facts.summary, start, phase)
    if known is not None:
        setting, shown, effect = known
    else:
        shown += "; nothing in this run states what it consists of"
    others = sorted(start.seconds.items(), key=lambda item: -item[1])[1:4]
    yield Finding(
        "low",
        f"{words[0].upper()}{words[1:]} took {start.of_all(seconds)}, more than any other "
        "part.",
        {"part_s": seconds, "start_s": start.wall_s, "share": start.share(seconds)},
        setting,
        shown,
        effect,
        tuple(f"then {words_of(name)}: {start.of_all(own)}" for name, own in others),
        phase=phase,
        part_s=seconds,
    )


def _known(
    summary: RunSummary, start: Start, phase: str
) -> tuple[str, str, str] | None:
    """What a phase consists of, and what makes it shorter, where the run shows it."""
    if phase == "compile":
        return _loaded_words(summary)
    if phase == "kv_cache" and summary.engine.name == "reference":
        size = summary.memory.kv_cache_allocated_bytes if summary.memory else None
        return (
            "gpu_memory_utilization",
            "a smaller --gpu-memory-utilization, or --memory on the CPU: the cache is allocated "
            "whole",
            f"its time follows its size, {format_bytes(size)} here, and so do its blocks",
        )
    if phase == "init_worker" and summary.device.kind == "cuda":
        return _PERSISTENCE
    if phase == "kv_offload":
        return _PINNED
    is_quantized = str(summary.config.get("quantization")) != "None"
    if phase == "load_model" and "load_weights" in start.seconds and is_quantized:
        return _CONVERTED
    return None


def _loaded_words(summary: RunSummary) -> tuple[str, str, str] | None:
    """Of a compilation whose graphs came from the cache: what is left of it."""
    compiled = summary.compile
    if compiled is None or compiled.cache != "hit":
        return None
    dynamo = [
        part.duration_s or 0.0 for part in compiled.parts if part.what == "dynamo"
    ]
    spent = f" (Dynamo {format_duration(max(dynamo))})" if dynamo else ""
    reading = sum(part.duration_s or 0.0 for part in compiled.parts if part.from_cache)
    if reading > max([LONG_S, *dynamo]):
        return (
            "VLLM_CACHE_ROOT",
            "VLLM_CACHE_ROOT on a local disk of each host, with a copy of what is kept",
            f"reading the graphs that are kept took {format_duration(reading)}; no figure: the log "
            "does not name the file system they lie on",
        )
    return (
        "VLLM_CACHE_ROOT",
        "nothing: the graphs came from the cache; keep it",
        f"tracing runs again at each start{spent}; versions that keep the whole function "
        "load it instead",
    )


SLOW_IMPORTS_S, SLOW_IMPORTS_SHARE = 20.0, 0.2
MUCH_S = 45.0
"""Of imports: less is what two processes take that read from a disk for the first time."""
_WAITED = re.compile(r"specs for (\d{1,6}) seconds")
_IMPORTING = ("import", "configure", "start_engine", "start_workers")
"""Phases that are mostly imports: each new process does them again."""


@start_rule(
    "importing and starting processes took 20 s and a fifth of the start or more",
    "phases before the engine loads anything",
    formula="seconds less the median of other starts of the same model, version and "
    "device",
    margin="no gain without two other starts",
    source="vLLM entrypoints; CPython -X importtime",
    example="tensor parallel start on a simulated device: 39 of 55 s",
)
def slow_imports(facts: RunFacts, start: Start) -> Iterator[Finding]:
    """Python imports, in each process, before the engine does anything."""
    # On TPU the engine's process makes its devices known before it names a stage.
    left_out = {"start_engine"} if facts.summary.device.kind == "tpu" else set()
    if any(note.topic == "ray_wait" for note in facts.summary.notes):
        left_out.add("start_workers")
    phases = [n for n in _IMPORTING if n in start.seconds and n not in left_out]
    seconds = sum(start.seconds[name] for name in phases)
    if seconds < SLOW_IMPORTS_S or start.share(seconds) < SLOW_IMPORTS_SHARE:
        return
    warm = facts.others_s(*phases)
    typical = median(warm) if len(warm) >= 2 else None
    gain = (0.0, seconds - typical) if typical and typical < seconds else None
    longest = max(phases, key=lambda name: start.seconds[name])
    yield Finding(
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
        ways=tuple(_without_hub(facts.summary, longest)),
        phase=longest,
        part_s=seconds,
    )


def _without_hub(summary: RunSummary, longest: str) -> Iterator[Way]:
    """No requests to the hub while the engine is configured: it fetches the configuration and
    the tokenizer then, and tries again where the hub does not answer (vLLM
    `transformers_utils/config.py`)."""
    model = summary.model or ""
    is_of_hub = (
        "/" in model and not model.startswith(("/", ".", "~")) and "://" not in model
    )
    is_off = str(summary.config.get("HF_HUB_OFFLINE")) == "1"
    if longest == "configure" and is_of_hub and not is_off:
        yield Way(
            "HF_HUB_OFFLINE=1 with the files in the cache, or the model as a folder, where the "
            "hub answers slowly or not at all",
            "no newer files of the model",
        )


@rule(
    "the engine printed that it waits for a placement group of Ray, or Ray that no node has what was "
    "requested",
    "those lines; whether the start came to its end",
    formula="the seconds that the last of the lines states",
    margin="no finding where the error itself names the placement group",
    source="vLLM v1/executor/ray_utils.py _wait_until_pg_ready; PG_WAIT_TIMEOUT is 1800 s",
    example="vLLM 0.8.5 with four GPUs requested of Ray: 150 s, then stopped by a person",
)
def ray_wait(facts: RunFacts) -> Iterator[Finding]:
    """Ray had no place for all ranks, and the engine waited for it."""
    texts = [n.text for n in facts.summary.notes if n.topic == "ray_wait"]
    waits = [int(m[1]) for text in texts if (m := _WAITED.search(text))]
    failure = facts.summary.failure
    if not texts or (failure is not None and "placement" in failure.message):
        return
    seconds, is_ready = float(max(waits, default=0)), facts.summary.status == "finished"
    if is_ready and not waits:
        return
    title = f"The engine waited {format_duration(seconds)} at least for Ray to place its ranks"
    if not waits:
        title = "Ray has no node with what the engine requested of it"
    yield Finding(
        "medium" if is_ready else "high",
        f"{title}{'' if is_ready else ', and the log holds no end of it'}.",
        {"waited_s": seconds} if waits else {"rule": "ray_wait"},
        "tensor_parallel_size",
        "`ray status`: all nodes joined, as many GPUs free as tensor times pipeline parallel size, "
        "no placement group of an engine that ended; a `node:` in the specs is an address that "
        "`ray list nodes` has (VLLM_HOST_IP)",
        "ranks start as soon as all have a GPU; Ray gives up after 1800 s",
        price="none; on one node --distributed-executor-backend mp needs no Ray",
        phase="start_workers",
        part_s=seconds if is_ready else None,
    )


@rule(
    "the log ends before the start does, and all other starts of the same model that ended failed "
    "with one error, two or more of them",
    "the starts of the same log, or of the store, with model and version",
    formula="none: the number of starts that failed alike",
    margin="no finding where one of them was ready, or failed with another error",
    source="the failures of those starts",
    example="a container that was started again and again: 5 of 5 starts failed with one KeyError",
)
def others_failed(facts: RunFacts) -> Iterator[Finding]:
    """The starts before one that is cut all failed with one error."""
    version = facts.summary.engine.version
    others = [other for other in facts.history if other.engine.version == version]
    ended = [other for other in others if other.status in _ENDED]
    texts = {other.failure.message if other.failure else None for other in ended}
    text = next(iter(texts), None)
    if (
        facts.summary.status != "unknown"
        or len(ended) < 2
        or len(texts) > 1
        or not text
    ):
        return
    count = len(ended)
    yield Finding(
        "high",
        f"{count} of {count} other starts of this model failed: {shortened(without_hint(text))}; "
        "this one has no end in the log.",
        {"num_failed": count},
        "failure",
        "`warmup-insights advise` of one of those, such as FILE#1: what it states removes the error",
        "this start most likely ends in the same way",
    )


@start_rule(
    "FlashInfer tuned kernels at this start and found none of an earlier one",
    "phase kernel_warmup; configurations saved",
    formula="the seconds of the phase; a fifth of them may stay",
    margin="only where the log states that configurations were saved, and none was known",
    source="vLLM model_executor/warmup/flashinfer_autotune_cache.py",
    example="vLLM 0.25.1: 84 configurations, 102 of 1,478 s",
)
def kernel_autotune(facts: RunFacts, start: Start) -> Iterator[Finding]:
    """Kernels were tuned at this start, and nothing came from an earlier one."""
    tuned = facts.summary.autotune
    seconds = start.worth("kernel_warmup")
    if seconds is None or facts.summary.engine.name != "vllm":
        return
    if tuned is None or tuned.previous or not tuned.new:
        return
    yield Finding(
        severity_of(start.share(seconds)),
        f"Tuning kernels took {start.of_all(seconds)}: {tuned.new} configurations, none "
        "of them known before.",
        {"kernel_warmup_s": seconds, "num_configs": tuned.new},
        "VLLM_CACHE_ROOT",
        f"keep {tuned.path}",
        "the next start with the same versions and shapes loads them",
        gain_s=(0.8 * seconds, seconds),
        price="none; where the directory is kept already, nothing has to be changed",
        ways=tuple(_untuned(facts.summary)),
        phase="kernel_warmup",
        part_s=seconds,
    )


_TRITON = "TRITON_CACHE_DIR"
_CUDA_CACHES = (
    _TRITON,
    "keep what Triton compiles, and FlashInfer and DeepGEMM where they are in use: "
    "TRITON_CACHE_DIR, FLASHINFER_WORKSPACE_BASE and VLLM_CACHE_ROOT with folders on a volume",
)
_CACHES = {
    "rocm": (
        "AITER_JIT_DIR",
        "keep what AITER and Triton compile: AITER_JIT_DIR and TRITON_CACHE_DIR with folders "
        "on a volume",
    ),
    "xpu": (
        _TRITON,
        "keep what Triton compiles: TRITON_CACHE_DIR with a folder on a volume",
    ),
}
"""By kind of device: the setting of the folder, and what to keep of what is compiled at
first use."""


def kernel_caches(summary: RunSummary) -> tuple[str, str]:
    """The setting of the folder, and what to keep of what is compiled at first use."""
    return _CACHES.get(summary.device.kind or "", _CUDA_CACHES)


def _without_deep_gemm(summary: RunSummary) -> Iterator[Way]:
    """No warm-up of DeepGEMM, whose kernels are for weights of 8 bits (vLLM
    `model_executor/warmup/kernel_warmup.py`)."""
    config = summary.config
    is_fp8 = "fp8" in str(config.get("quantization") or "").lower()
    is_off = config.get("VLLM_DEEP_GEMM_WARMUP") == "skip" or (
        str(config.get("VLLM_USE_DEEP_GEMM")) == "0"
    )
    has_setting_of_it = has_setting(summary, "VLLM_DEEP_GEMM_WARMUP=skip")
    if is_fp8 and not is_off and has_setting_of_it and summary.device.kind == "cuda":
        yield Way.that_sets(
            "a request waits for each kernel that it is the first to need",
            ", where the bars are those of DeepGEMM",
            VLLM_DEEP_GEMM_WARMUP="skip",
        )


def _untuned(summary: RunSummary) -> Iterator[Way]:
    """No tuning of FlashInfer's kernels (vLLM `model_executor/warmup/kernel_warmup.py`)."""
    is_off = summary.start.caches.get("flashinfer_autotune") == "off"
    has_option = has_setting(summary, "enable_flashinfer_autotune")
    if has_option and not is_off and summary.device.kind == "cuda":
        yield Way(
            "--no-enable-flashinfer-autotune, where the lines are those of its autotuner",
            "slower kernels: those that FlashInfer takes without tuning",
            {"enable_flashinfer_autotune": False},
        )


@start_rule(
    "kernel warm-up is the largest part, and no kernel was tuned (vLLM)",
    "phase kernel_warmup",
    formula="the seconds of the phase, without a gain",
    margin="no gain without another start: what is compiled at first use is kept, what "
    "only runs is not",
    source="vLLM model_executor/warmup/kernel_warmup.py; FlashInfer jit",
    example="vLLM 0.25.1: 2 min 23 s of 5 min 25 s between two lines of FlashInfer",
)
def kernels_built(facts: RunFacts, start: Start) -> Iterator[Finding]:
    """Kernels that are compiled at first use took most of the start, and none was tuned."""
    tuned = facts.summary.autotune
    if start.dominant != "kernel_warmup":
        return
    if facts.summary.engine.name != "vllm" or (tuned is not None and tuned.new):
        return
    seconds = start.seconds["kernel_warmup"]
    setting, kept = kernel_caches(facts.summary)
    if kept == _CUDA_CACHES[1]:
        kept += ", or kernels built already in the image (flashinfer-jit-cache)"
    yield Finding(
        severity_of(start.share(seconds)),
        f"Kernel warm-up took {start.of_all(seconds)}.",
        {"kernel_warmup_s": seconds, "start_s": start.wall_s},
        setting,
        kept,
        "no figure without a second start: kernels that are compiled at first use are kept",
        price="disk for the caches",
        ways=(*_without_deep_gemm(facts.summary), *_untuned(facts.summary)),
        phase="kernel_warmup",
        part_s=seconds,
    )


@start_rule(
    "model runner V2 warmed the model for 10 s and 5 % of the start or more, or most of it "
    "(CUDA, ROCm, XPU)",
    "phase model_warmup; the model runner",
    formula="the seconds of the phase, without a gain",
    margin="no gain: the log does not divide compiling from running; no finding where the "
    "folder is set",
    source="vLLM v1/worker/gpu/warmup.py warmup_kernels; docs/design/torch_compile.md (0.31: a "
    "TRITON_CACHE_DIR that is given is kept); torch _inductor/runtime/triton_heuristics.py",
    example="vLLM 0.26.0 on an H200 and a small model: 14 of 54 s, and 17 s in a warm start "
    "without that folder",
)
def triton_kernels(facts: RunFacts, start: Start) -> Iterator[Finding]:
    """Model runner V2 ran a prompt and a decode step, which compiles kernels of Triton."""
    summary, seconds = facts.summary, start.worth("model_warmup")
    if seconds is None or summary.engine.name != "vllm":
        return
    if summary.config.get("model_runner") != "V2" or _TRITON in summary.config:
        return
    if summary.device.kind not in GPUS:
        return
    seen = [own for own in facts.others_s("model_warmup") if own < seconds]
    shown = "the log does not divide compiling from running"
    if seen:
        shown = f"another start of this model took {format_duration(min(seen))} for it"
    yield Finding(
        severity_of(start.share(seconds)),
        f"Warming the model took {start.of_all(seconds)}: model runner V2 runs prompts and "
        "decodes, so that Triton compiles its kernels.",
        {"model_warmup_s": seconds, "start_s": start.wall_s},
        _TRITON,
        f"{_TRITON} with a folder on a volume that stays",
        "kernels that an earlier start compiled are loaded, whatever its settings; otherwise they "
        f"are beside the graphs of one configuration, or in ~/.triton/cache; {shown}",
        price="disk; the first start with these versions still compiles",
        phase="model_warmup",
        part_s=seconds,
    )


@start_rule(
    "multi-modal warm-up took 10 s and 5 % of the start or more (vLLM, Gaudi)",
    "phase multimodal_warmup; number of buckets (Gaudi)",
    formula="0 to the seconds of the phase",
    margin="only for kinds of input that are not sent; on Gaudi images of other sizes compile "
    "when they come",
    source="vLLM renderers/base.py; vllm-gaudi extension/bucketing/vision.py "
    "(VLLM_MULTIMODAL_BUCKETS from 0.11.2)",
    example="gemma-4-26B in vLLM 0.25.1: 46 of 176 s; vllm-gaudi 0.14.1 and Qwen3-VL-32B: 24 "
    "buckets, 28 s",
)
def multimodal_warmup(facts: RunFacts, start: Start) -> Iterator[Finding]:
    """Warming up for images, video and audio took long: their preprocessing, or buckets."""
    engine, own = facts.summary.engine.name, facts.summary.multimodal
    seconds = start.worth("multimodal_warmup")
    if seconds is None or engine not in ("vllm", *GAUDI):
        return
    setting = "limit_mm_per_prompt"
    change = "--limit-mm-per-prompt with 0 for each kind of input that you do not send, such "
    change += "as '{\"video\": 0}'"
    effect = "the part of the kinds that are left out; the log does not divide it"
    price, of = "requests with such input are refused", ""
    if engine in GAUDI:
        count = (own.warmed or own.generated) if own is not None else None
        effect = "no figure: the number of buckets is not known"
        if count:
            of = f": {count} buckets"
            effect = f"{format_duration(seconds / count)} for each bucket less"
        price = "an image of another size compiles when it comes"
        change = "--limit-mm-per-prompt with the number of images that come"
        if has_setting(facts.summary, "VLLM_MULTIMODAL_BUCKETS"):
            setting = "VLLM_MULTIMODAL_BUCKETS"
            change = f"{setting} with the sizes that your images have"
    yield Finding(
        severity_of(start.share(seconds)),
        f"Multi-modal warm-up took {start.of_all(seconds)}{of}.",
        {"multimodal_s": seconds, "start_s": start.wall_s},
        setting,
        change,
        effect,
        gain_s=(0.0, seconds),
        price=price,
        phase="multimodal_warmup",
        part_s=seconds,
    )


@start_rule(
    "the profiling run of an encoder took 10 s and 5 % of the start or more (vLLM)",
    "phase encoder_profile",
    formula="0 to the seconds of the phase",
    margin="only for kinds of input that are not sent, or that come smaller",
    source="vLLM v1/worker/gpu_model_runner.py profile_run; --skip-mm-profiling from "
    "0.10.2",
    example="vLLM 0.9.1 under WSL and a model that reads documents: 273 of 364 s",
)
def encoder_profile(facts: RunFacts, start: Start) -> Iterator[Finding]:
    """Measuring the memory of the encoder, with inputs of the largest size, took long."""
    summary = facts.summary
    seconds = start.worth("encoder_profile")
    if seconds is None or summary.engine.name != "vllm":
        return
    ways = [
        Way("smaller inputs, where the model's processor has a limit "
            "(--mm-processor-kwargs, such as max_pixels)", "detail of large inputs"),
    ]  # fmt: skip
    if (
        has_setting(summary, "skip_mm_profiling")
        and "skip_mm_profiling" not in summary.config
    ):
        price = "what the encoder needs is not measured: leave it room by a lower "
        price += "gpu_memory_utilization, or it is lacking while serving"
        ways.append(Way.that_sets(price, skip_mm_profiling=True))
    yield Finding(
        severity_of(start.share(seconds)),
        f"Profiling the encoder took {start.of_all(seconds)}: inputs of the largest size "
        "run through it, to measure its memory.",
        {"encoder_s": seconds, "start_s": start.wall_s},
        "limit_mm_per_prompt",
        "--limit-mm-per-prompt with 0 for each kind of input that you do not send, such as "
        "'{\"video\": 0}'",
        "the kind with the most tokens is run, so leaving it out saves most; the log does not "
        "divide it",
        gain_s=(0.0, seconds),
        price="requests with such input are refused",
        ways=tuple(ways),
        phase="encoder_profile",
        part_s=seconds,
    )


@start_rule(
    "the profiling run took 10 s and 5 % of the start or more (CUDA, ROCm, XPU)",
    "phase profile_run; another start for the gain",
    formula="0 to seconds less the shortest of other starts of the same model, version and "
    "device",
    margin="no gain without another start, which may have had other settings: kernels compiled at "
    "first use are kept, swapping is not",
    source="vLLM v1/worker/gpu_worker.py determine_available_memory",
    example="vLLM 0.25.1 with 93 GiB of weights and 19 GiB of host memory: 630 of 1,478 s",
)
def profile_run(facts: RunFacts, start: Start) -> Iterator[Finding]:
    """The profile run that measures memory took long (vLLM)."""
    seconds = start.worth("profile_run")
    if seconds is None or facts.summary.engine.name != "vllm":
        return
    if facts.summary.device.kind not in GPUS:
        return
    compiled = facts.figure("compile_s")
    after = f", after {format_duration(compiled)} of compilation" if compiled else ""
    seen = [own for own in facts.others_s("profile_run") if own < seconds]
    known, size = facts.summary.checkpoint, weights_bytes(facts.summary)
    room = known.available_bytes if known is not None else None
    setting, kept = kernel_caches(facts.summary)
    yield Finding(
        severity_of(start.share(seconds)),
        f"The profiling run took {start.of_all(seconds)}{after}.",
        {"profile_s": seconds, "start_s": start.wall_s},
        setting,
        f"{kept}, and watch `vmstat 1` for swapping during it",
        f"another start of this model took {format_duration(min(seen))} for it"
        if seen
        else "no figure without a second start: kernels that are compiled at first use "
        "are kept, swapping is not",
        (f"{format_bytes(size)} of weights, {format_bytes(room)} of host memory available "
         "before loading",) if size and room and size > room else (),
        gain_s=(0.0, seconds - min(seen)) if seen else None,
        price="disk for the caches",
        phase="profile_run",
        part_s=seconds,
    )  # fmt: skip


@start_rule(
    "measuring memory took 5 s and 5 % of the start, in a version that can keep "
    "the result",
    "phases profile_run and graph_memory_profile; version",
    formula="the estimate of graph memory for certain, the profile run at most",
    margin="the engine checks a fingerprint and free memory itself, and measures again "
    "where they differ",
    source="vLLM v1/worker/startup_plan.py (from 0.26)",
    example="vLLM 0.27.1 and a model of 51.75 GiB: 102 of 533 s, of which the estimate of graph memory 6 s",
)
def startup_plan(facts: RunFacts, start: Start) -> Iterator[Finding]:
    """This version can keep the result of memory profiling for the next start."""
    summary = facts.summary
    name = "VLLM_ENABLE_STARTUP_PLAN"
    if not has_setting(summary, name) or name in summary.config:
        return
    if summary.engine.name != "vllm" or any(
        n.topic == "startup_plan" for n in summary.notes
    ):
        return
    estimate = start.seconds.get("graph_memory_profile", 0.0)
    profiled = [start.seconds.get(n, 0.0) for n in ("profile_run", "encoder_profile")]
    most = estimate + sum(profiled)
    if most < 5.0 or start.share(most) < 0.05:
        return
    yield Finding(
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


@start_rule(
    "the profile run took 10 s and 5 % of the start, or most of it (Gaudi)",
    "phase profile_run; its shape, or the limits that it follows from",
    formula="0 to seconds x (1 - (longest bucket / tokens)^2), where a line names its shape",
    margin="never below the longest prompt bucket, nor below a prompt that came; no gain "
    "where the shape is not named",
    source="vllm-gaudi v1/worker/hpu_model_runner.py profile_run",
    example="prompt of 32,768 tokens: 38 of 63 s",
)
def profile_shape(facts: RunFacts, start: Start) -> Iterator[Finding]:
    """The profile run compiled a shape that no bucket has."""
    summary = facts.summary
    shape = summary.profile_shape
    seconds = start.worth("profile_run")
    if seconds is None or summary.engine.name not in GAUDI:
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
        why = "prompts of that length come"
        if is_whole:
            why = "without chunked prefill a step takes the longest prompt"
        change, price = f"nothing: {why}", ""
        effect = "no figure: what this run compiled is kept by a recipe cache on disk"
        if recipes is not None:
            changes, name = {RECIPES: recipes}, RECIPES
            change, price = (
                f"{RECIPES}={recipes}",
                "local disk, a directory for each rank",
            )
            effect = f"{why}, so the shape stays; a second start loads it"
    yield Finding(
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
    smaller; vllm-fork as many prompts of the longest bucket as max_num_batched_tokens and
    max_num_seqs allow (`profile_run` of each model runner).
    """
    summary = facts.summary
    value = summary.setting("max_model_len")
    tokens = summary.setting("max_num_batched_tokens")
    name, what = "max_model_len", "the longest request that comes"
    price = "longer requests are refused"
    if summary.engine.name != "vllm-gaudi":
        runs = (
            "as many prompts of the longest bucket as --max-num-batched-tokens and "
            "--max-num-seqs allow"
        )
        what += ", which --max-num-batched-tokens follows where it is not set"
        if tokens and value and tokens > value:
            name, what = "max_num_batched_tokens", f"{value:,.0f} at the least"
            value, price = tokens, "fewer prompts run in one step"
    else:
        runs = "the largest prompt that the limits allow"
        if tokens and value and tokens <= value:
            name, value = "max_num_batched_tokens", tokens
            what = "the longest prompt bucket"
            price = "longer prompts run in chunks, which have a context"
    option = f"--{name.replace('_', '-')}"
    now = f" (now {value:,.0f})" if value else ""
    numbers: dict[str, Value] = {"profile_s": seconds, "start_s": start.wall_s}
    return Finding(
        severity_of(start.share(seconds)),
        f"The profile run took {start.of_all(seconds)}: {runs}.",
        numbers | ({name: int(value)} if value else {}),
        name,
        f"{option}{now} with {what}",
        "no figure: how the time grows with the length is not known; what was compiled is "
        "kept by a recipe cache on disk",
        price=price,
        phase="profile_run",
        part_s=seconds,
    )


RULES = (
    largest_part, slow_imports, ray_wait, others_failed, kernel_autotune, kernels_built,
    triton_kernels, multimodal_warmup, encoder_profile, profile_run, startup_plan, profile_shape,
)  # fmt: skip
