"""Names of vLLM's own OpenTelemetry spans, and the stages of a start-up that they are.

Source: the names that `vllm/tracing` decorates functions with, vLLM 0.19 to 0.33.
"""

from __future__ import annotations

ROOT_SPAN = "Overall Loading"
"""From the front end's call until the engine core answers (`v1/engine/core_client.py`)."""

STAGE_OF_SPAN: dict[str, str] = {
    "API server setup": "configure",
    ROOT_SPAN: "start_engine",
    "AsyncMPClient init": "start_engine",
    "SyncMPClient init": "start_engine",
    "EngineCoreProc init": "start_engine",
    "Executor init": "start_workers",
    "Worker init": "init_worker",
    "Init device": "init_worker",
    "Load model": "load_model",
    "Loading (GPU)": "load_model",
    "Loading (CPU)": "load_model",
    "Initialize model": "init_model",
    "Download weights - HF": "download",
    "Load weights": "load_weights",
    "Prepare model": "prepare_model",
    "Compile graph": "compile",
    "Inductor compilation": "compile",
    "Dynamo bytecode transform": "compile",
    "Allocate KV cache": "kv_cache",
    "Warmup (GPU)": "model_warmup",
    "Warmup (CPU)": "model_warmup",
    "Capture model": "graph_capture",
    "DeepGemm warmup": "kernel_warmup",
    "CuTeDSL warmup": "kernel_warmup",
    "MiniMax M3 MSA warmup": "kernel_warmup",
    "DeepSeek V4 mHC warmup": "kernel_warmup",
}
"""Spans lie inside each other: a moment belongs to the innermost. `prepare_model` is what
no inner span covers of profile run, KV cache and warm-up: mostly the profile run."""

_SPAN_OF_STAGE = {
    "load_model": "Load model",
    "load_weights": "Load weights",
    "init_model": "Initialize model",
    "download": "Download weights - HF",
    "compile": "Compile graph",
    "kv_cache": "Allocate KV cache",
    "graph_capture": "Capture model",
}
"""The stages that are the same stretch of time as a span of vLLM."""


def span_of_stage(stage: str) -> str:
    """vLLM's name for a stage (or its words) where it has one, else the words."""
    words = stage.replace("_", " ")
    return _SPAN_OF_STAGE.get(
        words.replace(" ", "_"), f"{words[:1].upper()}{words[1:]}"
    )
