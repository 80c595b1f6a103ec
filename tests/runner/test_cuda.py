"""The reference engine on a CUDA device; skipped where there is none."""

from __future__ import annotations

import pytest
import torch

from tests.runner.dense import dense_greedy, dense_logits
from tests.runner.helpers import BLOCK, SHAPE, of_kind, weights_of
from warmup_insights.model.events import DefragRan, GraphCaptured
from warmup_insights.rules.memory import CacheLayout
from warmup_insights.runner.batch import Row
from warmup_insights.runner.session import Session
from warmup_insights.runner.settings import RunSettings
from warmup_insights.runner.torch_engine import TorchEngine
from warmup_insights.runner.workload import WorkloadSettings

pytestmark = [
    pytest.mark.gpu,
    pytest.mark.skipif(not torch.cuda.is_available(), reason="no CUDA device here"),
]


@pytest.fixture
def engine():
    from warmup_insights.devices.cuda import CudaDevice

    # Full float32, so that the tolerance of the CPU tests holds.
    torch.backends.cuda.matmul.allow_tf32 = False
    engine = TorchEngine(CudaDevice(), SHAPE, block_size=BLOCK, dtype="float32")
    engine.load_model()
    engine.allocate_kv_cache(CacheLayout(32, BLOCK))
    return engine


@pytest.mark.parametrize("with_graph", [False, True], ids=["eager", "graph"])
def test_forwards_equal_the_dense_decoder(engine, with_graph):
    weights = {name: value.cpu() for name, value in weights_of(engine).items()}
    prompts = [[5, 11, 90, 3], [1, 2, 3, 4, 5, 6, 7]]
    for bucket in ((4, 8, 0), (4, 8, 2)):
        if with_graph:
            engine.capture_bucket("prompt", bucket)
        rows = [Row(p, 0, [4 * i, 4 * i + 1]) for i, p in enumerate(prompts)]
        logits = engine.logits("prompt", bucket, rows).cpu()
        for row, prompt in zip(logits, prompts, strict=False):
            expected = dense_logits(weights, SHAPE, prompt)[-1]
            assert torch.allclose(row.double(), expected, atol=1e-3, rtol=0)


def test_graphs_decode_the_tokens_of_the_dense_decoder(engine):
    weights = {name: value.cpu() for name, value in weights_of(engine).items()}
    prompt, blocks = [5, 11, 90, 3, 3, 17, 60], [4, 9, 1, 0, 20]
    engine.capture_bucket("prompt", (1, 8, 0))
    engine.capture_bucket("decode", (2, 1, 6))
    tokens = [
        int(engine.logits("prompt", (1, 8, 0), [Row(prompt, 0, blocks)]).argmax())
    ]
    while len(tokens) < 12:
        row = Row(tokens[-1:], len(prompt) + len(tokens) - 1, blocks)
        tokens.append(int(engine.logits("decode", (2, 1, 6), [row])[0].argmax()))
    assert tokens == dense_greedy(weights, SHAPE, prompt, 12)


def test_a_whole_run_serves_with_graphs_and_defragmentation():
    from warmup_insights.devices.cuda import CudaDevice

    events = []
    settings = RunSettings(
        gpu_memory_utilization=0.01, defrag_threshold=4, defrag_with_graphs=True
    )
    session = Session(
        CudaDevice(), settings, events.append, WorkloadSettings(num_prompts=20)
    )
    assert session.run().status == "finished"
    assert of_kind(events, GraphCaptured)
    assert of_kind(events, DefragRan)
    assert len(session.tokens) == 20
