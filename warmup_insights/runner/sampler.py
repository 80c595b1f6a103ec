"""From logits to tokens: greedy, temperature, top-k, top-p; and its warm-up."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from warmup_insights.model.events import SamplerConfig, SamplerStep, SamplerWarmup
from warmup_insights.runner.engine import Emitter, Engine, SamplingParams

# Source: `warmup_sampler` of vllm-gaudi (`hpu_model_runner.py`): six settings, first
# with a changed batch, then with the same one.
WARMUP_PARAMS = (
    SamplingParams(0.0, 1.0, 0),
    SamplingParams(1.0, 1.0, 0),
    SamplingParams(0.7, 0.9, 50),
    SamplingParams(0.3, 0.95, 20),
    SamplingParams(1.2, 0.8, 100),
    SamplingParams(0.8, 0.85, 0),
)
WARMUP_CONFIGS = tuple(
    (params, changed) for changed in (True, False) for params in WARMUP_PARAMS
)


def sampler_batch_sizes(decode_batch_sizes: Iterable[int]) -> list[int]:
    """0 and 1, then the other batch sizes of the decode buckets, rising."""
    return [0, 1, *sorted(set(decode_batch_sizes) - {0, 1})]


def warm_up_sampler(
    engine: Engine, decode_batch_sizes: Iterable[int], emitter: Emitter
) -> None:
    """Sample with every configuration at every batch size, each step an event."""
    with emitter.phase("sampler_warmup"):
        started = emitter.now()
        sizes = sampler_batch_sizes(decode_batch_sizes)
        emitter.emit(SamplerWarmup(status="started", batch_sizes=sizes))
        for params, changed in WARMUP_CONFIGS:
            emitter.emit(_config_event(params, changed))
        for size in sizes:
            for params, changed in WARMUP_CONFIGS:
                emitter.emit(_warm_up_step(engine, size, params, changed))
        took = emitter.now() - started
        emitter.emit(
            SamplerWarmup(status="completed", batch_sizes=sizes, duration_s=took)
        )


def _config_event(params: SamplingParams, changed: bool) -> SamplerConfig:
    return SamplerConfig(
        temperature=params.temperature,
        top_p=params.top_p,
        top_k=params.top_k,
        batch_changed=changed,
    )


def _warm_up_step(
    engine: Engine, size: int, params: SamplingParams, changed: bool
) -> SamplerStep:
    device = engine.device
    began = device.now()
    engine.warm_sampler(size, params, batch_changed=changed)
    device.synchronize()
    return SamplerStep(
        batch_size=size,
        temperature=params.temperature,
        top_p=params.top_p,
        top_k=params.top_k,
        batch_changed=changed,
        duration_s=device.now() - began,
        time=began,
    )


def pad_params(params: Sequence[SamplingParams], size: int) -> list[SamplingParams]:
    """The settings of a batch, padded with greedy ones."""
    return [*params, *[SamplingParams()] * (size - len(params))]
