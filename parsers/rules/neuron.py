"""vLLM on AWS Neuron: compilation, weights and warm-up of NxD Inference.

Source: vLLM 0.6 to 0.9 `model_executor/model_loader/neuronx_distributed.py`; vllm-neuron
`worker/neuronx_distributed_model_loader.py`; neuronx-distributed-inference
`models/application_base.py`; neuronx-distributed `trace/model_builder.py`. The last two
log without vLLM's prefix, most often as `INFO:Neuron:` and without a time; libneuronxla
`neuron_cc_wrapper.py` logs each module with one.
"""

from __future__ import annotations

import re

from parsers.base import LineRule, Made, Sample, line_rule, phase_end, phase_start
from warmup_insights.model.events import CompileFinished

_OWN = r"(?:[A-Z]{4,8}:Neuron:|\[[^\]\n]{1,160}\] )?"
_SECONDS = r"(?P<duration_s>[\d.]{1,24})(?: seconds|$)"


_HLOS = {
    "Generated all HLOs": "trace",
    "Done compilation for the priority HLO": "priority hlo",
    "Finished Compilation for all HLOs": "hlo",
}


def _compiled(match: re.Match[str]) -> Made:
    what, seconds = _HLOS[match["words"]], float(match["duration_s"])
    return CompileFinished(what=what, from_cache=None, duration_s=seconds)


def _module_compiled(match: re.Match[str]) -> Made:
    return CompileFinished(what="module", from_cache=match["cached"] is not None)


NEURON_RULES: tuple[LineRule, ...] = (
    phase_start(
        "neuron_compile_started",
        (
            " Recompiling...",
            "Generating HLOs for the following models",
            "Compiling and saving model to",
        ),
        r"(?:Failed to load the model from|Unable to find precompiled artifacts from) "
        r"\S{1,300} Recompiling\.\.\.|\s{0,4}Compiling and saving model to \S{1,300}|"
        rf"{_OWN}Generating HLOs for the following models: ",
        "compile",
        "WARNING 09-11 14:09:14 [neuronx_distributed.py:250] Failed to load the model "
        "from /tmp/cache. Recompiling...",
        "WARNING 06-11 14:09:14 [neuronx_distributed.py:186] Failed to load the model "
        "from /tmp/cache, Recompiling...",
        "INFO:Neuron:Generating HLOs for the following models: "
        "['context_encoding_model', 'token_generation_model']",
    ),
    line_rule(
        "neuron_compiled",
        tuple(_HLOS),
        rf"{_OWN}(?P<words>{'|'.join(_HLOS)}) in {_SECONDS}",
        _compiled,
        Sample(
            "INFO:Neuron:Generated all HLOs in 12.25 seconds",
            {"what": "trace", "duration_s": 12.25},
        ),
        Sample(
            "INFO:Neuron:Done compilation for the priority HLO in 10.5 seconds",
            {"what": "priority hlo", "duration_s": 10.5},
        ),
        device="neuron",
    ),
    line_rule(
        "neuron_module_compiled",
        ("Compilation Successfully Completed for ", "Using a cached neff at "),
        r"Compilation Successfully Completed for \S{1,300}|"
        r"(?P<cached>Using a cached neff) at \S{1,500}",
        _module_compiled,
        Sample(
            "2026-06-27 01:29:07.000841:  263  [INFO]: Compilation Successfully Completed "
            "for model.MODULE_f5fa77216a0c6f33a515+ada15cd3.hlo_module.pb",
            {"what": "module", "from_cache": False},
        ),
        Sample(
            "2026-06-27 01:40:22.000172:  259  [INFO]: Using a cached neff at "
            "/var/tmp/neuron-compile-cache/MODULE_f5fa77216a0c6f33a515+ada15cd3/model.neff",
            {"what": "module", "from_cache": True},
        ),
    ),
    phase_end(
        "neuron_built",
        ("Finished building model in", "Successfully compiled and saved the model in"),
        rf"{_OWN}Finished building model in {_SECONDS}|"
        r"Successfully compiled and saved the model in \S{1,300}",
        "compile",
        Sample(
            "INFO:Neuron:Finished building model in 205.5 seconds",
            {"duration_s": 205.5},
        ),
    ),
    phase_end(
        "neuron_weights",
        "Finished weights loading in",
        rf"{_OWN}Finished weights loading in {_SECONDS}",
        "load_weights",
        Sample(
            "INFO:Neuron:Finished weights loading in 31.5 seconds", {"duration_s": 31.5}
        ),
    ),
    phase_start(
        "neuron_warmup_started",
        "Neuron:Warming up the model.",
        rf"{_OWN}Warming up the model\.\s*$",
        "model_warmup",
        "INFO:Neuron:Warming up the model.",
    ),
    phase_end(
        "neuron_warmup_took",
        "Neuron:Warmup completed in",
        rf"{_OWN}Warmup completed in {_SECONDS}",
        "model_warmup",
        Sample(
            "INFO:Neuron:Warmup completed in 0.4088766574859619 seconds.",
            {"duration_s": 0.4088766574859619},
        ),
    ),
    phase_end(
        "neuron_loaded",
        (
            "Successfully loaded precompiled model",
            "Successfully loaded pre-compiled model",
        ),
        r"Successfully loaded pre-?compiled model artifacts from \S{1,300}",
        "load_model",
        "INFO 09-11 14:13:21 [neuronx_distributed.py:244] Successfully loaded "
        "precompiled model artifacts from /shared/model/cache",
    ),
)
