"""Small engines and settings for the tests of the runner."""

from __future__ import annotations

import msgspec

from warmup_insights.devices.cpu import CpuDevice
from warmup_insights.devices.simulated import PROFILES, SimulatedDevice
from warmup_insights.rules.memory import CacheLayout
from warmup_insights.rules.model_shape import ModelShape
from warmup_insights.runner.session import Session
from warmup_insights.runner.settings import RunSettings
from warmup_insights.runner.torch_engine import TorchEngine
from warmup_insights.units import MIB

SHAPE = ModelShape(
    name="test",
    vocab_size=97,
    hidden_size=32,
    intermediate_size=56,
    num_hidden_layers=2,
    num_attention_heads=4,
    num_key_value_heads=2,
    head_dim=8,
    max_position_embeddings=512,
    rope_theta=1000.0,
)
BLOCK = 4


def make_engine(
    num_blocks=32, *, shape=SHAPE, own_padding=True, **kwargs
) -> TorchEngine:
    """An engine with weights and a cache on a CPU device of 64 MiB."""
    engine = TorchEngine(
        CpuDevice(64 * MIB), shape, block_size=BLOCK, dtype="float32", **kwargs
    )
    engine.load_model()
    engine.allocate_kv_cache(CacheLayout(num_blocks, BLOCK, own_padding))
    return engine


def weights_of(engine: TorchEngine):
    """Name to tensor."""
    return dict(engine._model.named_parameters(remove_duplicate=False))


def seed_settings(**changes) -> RunSettings:
    """The settings of the start-up log in the warm-up documentation."""
    values = {
        "model": "llama-3-8b",
        "dtype": "bfloat16",
        "block_size": 128,
        "max_model_len": 2048,
        "max_num_seqs": 4,
        "max_num_batched_tokens": 8192,
        "gpu_memory_utilization": 0.5,
        "graph_reserved_mem": 0.4,
        "graph_prompt_ratio": 0.3,
        "bucket_dimensions": 2,
    }
    return RunSettings(**{**values, **changes})


def simulated_device(total_bytes=None, started_at=1_700_000_000.0) -> SimulatedDevice:
    """A Gaudi 2 profile, with another amount of memory if one is given."""
    profile = PROFILES["gaudi2"]
    if total_bytes is not None:
        import dataclasses

        profile = dataclasses.replace(profile, total_bytes=total_bytes)
    return SimulatedDevice(profile, started_at=started_at)


def run_simulated(settings=None, device=None):
    """The outcome and the events of a simulated run."""
    events = []
    device = device or simulated_device()
    outcome = Session(device, settings or seed_settings(), events.append).run()
    return outcome, events


def of_kind(events, *kinds):
    """The events of some classes."""
    return [event for event in events if isinstance(event, kinds)]


def only(events, kind):
    """The single event of a class."""
    (event,) = of_kind(events, kind)
    return event


def known(event):
    """The fields of an event that are known, without its time."""
    fields = msgspec.structs.asdict(event)
    return {k: v for k, v in fields.items() if v is not None and k != "time"}
