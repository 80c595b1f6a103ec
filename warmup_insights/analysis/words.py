"""Stages, caches and the pod of a start-up as a sentence names them."""

from __future__ import annotations

from warmup_insights.analysis.remaining import Remaining
from warmup_insights.model.summary import Progress, RunSummary
from warmup_insights.units import format_count, format_duration

BUCKETS = "buckets"
"""The stretches in which buckets run or get graphs, as one."""
_WORDS = {
    "import": "importing modules", "configure": "configuring the engine",
    "start_workers": "starting workers", "start_engine": "starting the engine",
    "init_worker": "initialising workers", "load_model": "loading the model",
    "distributed_init": "connecting the ranks", "load_weights": "loading weights",
    "download": "downloading weights", "profile_run": "the profiling run",
    "graph_memory_profile": "estimating graph memory",
    "kv_cache": "allocating the KV cache", "compile": "compilation",
    "kernel_build": "building kernels",
    "kernel_warmup": "warming kernels", "model_warmup": "warming the model",
    "graph_capture": "capturing graphs", "bucket_generation": "generating buckets",
    "sampler_warmup": "warming the sampler", "prompt": "prompt buckets",
    "decode": "decode buckets",
    "defrag_warmup": "warming the defragmenter",
}  # fmt: skip

_CACHES = {
    "torch_compile": "torch.compile cache", "aot": "whole compiled functions (AOT)",
    "flashinfer_autotune": "FlashInfer autotune cache", "hpu_recipes": "recipe cache",
}  # fmt: skip


def phase_words(name: str) -> str:
    """A phase of the start-up in a sentence."""
    if name == BUCKETS:
        return "warming buckets"
    if name in _WORDS:
        return _WORDS[name]
    kind, _, what = name.rpartition("_")
    if kind and what == "warmup":
        return f"warming {kind.replace('_', ' ')} buckets"
    if kind and what == "graphs":
        return f"capturing graphs of {kind.replace('_', ' ')} buckets"
    return name.replace("_", " ")


_STAGES = {"warmed up": "warmed up, not ready yet"}


def progress_text(here: Progress) -> str:
    """What is going on, and the step of how many where that is known."""
    name = here.stage.replace("warm-up", "warmup").replace(" ", "_")
    words = _STAGES.get(here.stage) or phase_words(name)
    if here.total is None or here.index is None:
        return words
    what = "step"
    if here.phase is not None:
        what = "bucket"
    elif here.stage == "graph capture":
        what = "graph"
    elif here.stage == "load weights":
        what = "file"
    return f"{words}, {what} {format_count(here.index)} of {format_count(here.total)}"


def time_left_text(left: Remaining) -> str:
    """What is left of a start-up or of its stage."""
    until = "until ready" if left.basis == "earlier run" else "of this stage"
    return f"{format_duration(left.seconds)} left {until}"


def cache_text(summary: RunSummary) -> str | None:
    """What each cache of earlier starts gave; None where nothing is known of any."""
    start = summary.start
    found = [f"{_CACHES[name]} {state}" for name, state in start.caches.items()]
    if start.aot_reason is not None:
        found.append(f"saved by an earlier start and not loaded: {start.aot_reason}")
    if start.weights is not None:
        reason = f" ({start.weights_reason})" if start.weights_reason else ""
        found.append(f"preloaded weights {start.weights}{reason}")
    if start.plan is not None:
        found.append(f"start-up plan {start.plan}")
    return ", ".join(found) or None


def pod_text(summary: RunSummary) -> str | None:
    """The pod of a run, its restarts and what is known of why; None without one."""
    pod = summary.pod
    if pod is None:
        return None
    names = [pod.namespace, pod.pod, pod.container]
    text = f"pod {'/'.join(name for name in names if name)}"
    text += f" on {pod.node}" if pod.node else ""
    text += f", restart {pod.restart}" if pod.restart else ""
    if pod.num_restarts:
        text += f", {pod.num_restarts:,} restart{'s' * (pod.num_restarts > 1)} so far"
    return text + (f" ({'; '.join(pod.reasons[:3])})" if pod.reasons else "")
