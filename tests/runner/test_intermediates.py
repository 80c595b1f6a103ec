"""The estimate of intermediates against what forwards really take."""

from __future__ import annotations

import pytest
import torch

from tests.runner.helpers import SHAPE
from warmup_insights.devices.cpu import CpuDevice
from warmup_insights.devices.recorded import PeakCounter
from warmup_insights.rules.memory import CacheLayout
from warmup_insights.rules.model_shape import PRESETS
from warmup_insights.runner.batch import dummy_rows
from warmup_insights.runner.costs import peak_bytes
from warmup_insights.runner.torch_engine import TorchEngine
from warmup_insights.units import MIB

BUCKETS = [
    ("prompt", (1, 512, 0)),
    ("prompt", (4, 128, 0)),
    ("prompt", (1, 512, 15)),
    ("prompt", (2, 64, 8)),
    ("prompt", (1, 32, 15)),
    ("prompt", (1, 32, 0)),
    ("decode", (8, 1, 128)),
    ("decode", (1, 1, 200)),
    ("decode", (64, 1, 64)),
    ("decode", (1, 1, 1)),
]


@pytest.fixture(scope="module", params=["float32", "bfloat16"])
def engine(request):
    device = CpuDevice(256 * MIB)
    engine = TorchEngine(device, PRESETS["tiny"], block_size=32, dtype=request.param)
    engine.load_model()
    engine.allocate_kv_cache(CacheLayout(210, 32))
    yield engine
    device.close()


@pytest.mark.parametrize(("phase", "bucket"), BUCKETS)
def test_the_estimate_is_an_upper_bound_and_not_twice_too_high(engine, phase, bucket):
    inputs = engine._inputs(phase, bucket, dummy_rows(phase, bucket, engine._layout))
    with torch.inference_mode(), PeakCounter() as counter:
        engine._forward(inputs, engine.caches)
    estimate = peak_bytes(engine.shape, engine._dtype, bucket, 32)
    assert counter.peak_bytes <= estimate <= 2 * counter.peak_bytes


def test_more_of_anything_needs_more():
    base = peak_bytes(SHAPE, "float32", (2, 16, 2), 4)
    for bucket in ((3, 16, 2), (2, 17, 2), (2, 16, 3)):
        assert peak_bytes(SHAPE, "float32", bucket, 4) > base
