"""The words for stages and phases of a start-up, the same wherever they are shown."""

from __future__ import annotations

from warmup_insights.model.summary import OF_OTHER_RANK, PHASES

_WORDS = {
    "buckets": "warming buckets", "unlogged": "unlogged time", "warmup": "warm-up",
    "warmed_up": "warmed up, not ready yet",
    "import": "importing modules", "configure": "configuring the engine",
    "start_workers": "starting workers", "start_engine": "starting the engine",
    "init_worker": "initialising workers", "init_device": "initialising the device",
    "init_model": "initialising the model", "load_model": "loading the model",
    "distributed_init": "connecting the ranks", "load_weights": "loading weights",
    "download": "downloading weights", "quantize": "quantising weights",
    "reload_weights": "loading weights again", "partition_model": "partitioning the model",
    "prepare_model": "preparing the model", "model_switch": "switching the model",
    "profile_run": "the profiling run",
    "graph_memory_profile": "estimating graph memory",
    "kv_cache": "allocating the KV cache", "compile": "compilation",
    "kv_offload": "allocating host memory for the KV cache",
    "kv_connector": "making the KV connector",
    "kernel_build": "building kernels",
    "encoder_graph_capture": "capturing graphs of the encoder",
    "decoder_graph_capture": "capturing graphs of the audio decoder",
    "compile_warmup": "warming compiled sizes",
    "kernel_warmup": "warming kernels", "model_warmup": "warming the model",
    "graph_capture": "capturing graphs", "bucket_generation": "generating buckets",
    "sampler_warmup": "warming the sampler", "prompt": "prompt buckets",
    "decode": "decode buckets", "unified": "unified buckets", "mixed": "mixed batches",
    "multimodal": "multi-modal inputs",
    "defrag_warmup": "warming the defragmenter", "pooler_warmup": "warming the pooler",
    "encoder_profile": "profiling the encoder", "server_start": "preparing for requests",
    "multimodal_warmup": "warming multi-modal inputs",
    "speech_warmup": "warming the transcription of speech",
    "chat_template_warmup": "warming the chat template",
    "validation_warmup": "the validation of the warm-up",
}  # fmt: skip

_BUCKETED = (*PHASES, "unified", "mixed")
"""Phases whose warm-up goes through buckets."""


def phase_words(name: str) -> str:
    """A phase of the start-up in a sentence; that of another rank is marked."""
    own = name.removesuffix(OF_OTHER_RANK)
    return _words(own) + name[len(own) :]


def _words(name: str) -> str:
    if name in _WORDS:
        return _WORDS[name]
    kind, _, what = name.rpartition("_")
    if kind and what == "warmup":
        return f"warming {kind.replace('_', ' ')}{' buckets' * (kind in _BUCKETED)}"
    if kind and what == "graphs":
        return f"capturing graphs of {kind.replace('_', ' ')} buckets"
    return name.replace("_", " ")
