"""Paged, padded, bucketed and graph-replayed forwards equal a plain dense one.

Tolerance: 1e-4 in logits of size about 1, float32 against float64.
"""

from __future__ import annotations

import dataclasses

import pytest
import torch
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from torch.fx.experimental.proxy_tensor import make_fx

from tests.runner.dense import dense_greedy, dense_logits
from tests.runner.helpers import BLOCK, SHAPE, make_engine, weights_of
from warmup_insights.rules.model_shape import RopeScaling
from warmup_insights.runner.batch import Row
from warmup_insights.runner.model import decode_attention

TOLERANCE = 1e-4
PROMPTS = [[5, 11, 90, 3, 3, 17, 60], [1], [42] * 12, list(range(20, 31))]


def blocks_for(tokens, start):
    return list(range(start, start - (-tokens // BLOCK)))


def close(left, right):
    return torch.allclose(left.double(), right.double(), atol=TOLERANCE, rtol=0)


@pytest.fixture(params=[False, True], ids=["eager", "graph"])
def with_graph(request):
    return request.param


def run(engine, phase, bucket, rows, with_graph):
    if with_graph and (phase, bucket) not in engine._graphs:
        engine.capture_bucket(phase, bucket)
    return engine.logits(phase, bucket, rows)


def test_padded_prompts_equal_the_dense_forward(with_graph):
    """Rows of different lengths in a bucket that is larger in both dimensions."""
    engine = make_engine()
    rows = [Row(p, 0, blocks_for(len(p), 6 * i)) for i, p in enumerate(PROMPTS)]
    logits = run(engine, "prompt", (6, 16, 0), rows, with_graph)
    for row, prompt in zip(logits, PROMPTS, strict=False):
        assert close(row, dense_logits(weights_of(engine), SHAPE, prompt)[-1])


def test_a_prompt_in_two_parts_equals_the_dense_forward(with_graph):
    """The second part reads the first from the cache, in more blocks than it needs."""
    engine = make_engine()
    prompt = PROMPTS[3]
    blocks = [9, 2, 30]
    first = Row(prompt[:8], 0, blocks)
    run(engine, "prompt", (1, 8, 0), [first], with_graph)
    second = Row(prompt[8:], 8, blocks)
    logits = run(engine, "prompt", (2, 6, 5), [second], with_graph)
    assert close(logits[0], dense_logits(weights_of(engine), SHAPE, prompt)[-1])


@pytest.mark.parametrize(
    ("bucket", "contiguous"),
    [((6, 1, 24), False), ((6, 1, 40), True), ((5, 16), False)],
    ids=["flat", "contiguous", "two-dimensional"],
)
def test_padded_decodes_equal_the_dense_forward(bucket, contiguous, with_graph):
    engine = make_engine(contiguous=contiguous)
    tables = [[8, 3], [31], [0, 30, 2, 7], [10, 11, 12]]
    prompts = [Row(p, 0, t) for p, t in zip(PROMPTS, tables, strict=True)]
    engine.logits("prompt", (4, 12, 0), prompts)
    rows = [
        Row([70 + i], len(p), t)
        for i, (p, t) in enumerate(zip(PROMPTS, tables, strict=True))
    ]
    logits = run(engine, "decode", bucket, rows, with_graph)
    for index, prompt in enumerate(PROMPTS):
        expected = dense_logits(weights_of(engine), SHAPE, [*prompt, 70 + index])[-1]
        assert close(logits[index], expected)


def test_a_graph_follows_its_inputs():
    """A replay computes what the buffers hold now, not what was recorded."""
    engine = make_engine()
    for prompt in PROMPTS:
        rows = [Row(prompt, 0, blocks_for(len(prompt), 1))]
        logits = run(engine, "prompt", (1, 12, 0), rows, True)
        assert close(logits[0], dense_logits(weights_of(engine), SHAPE, prompt)[-1])


def test_padding_writes_to_the_padding_block_only():
    """A step with more padding than rows leaves every other block as it was."""
    engine = make_engine(num_blocks=8)
    with torch.inference_mode():
        for keys, values in engine.caches:
            keys.fill_(3.0)
            values.fill_(4.0)
    engine.logits("prompt", (4, 12, 2), [Row([1, 2, 3], 0, [5])])
    engine.logits("decode", (4, 1, 16), [Row([7], 3, [5])])
    for keys, values in engine.caches:
        others = [block for block in range(8) if block != 5]
        assert (keys[others] == 3.0).all()
        assert (values[others] == 4.0).all()
        assert (keys[5] != 3.0).any()


def test_what_the_padding_block_holds_changes_nothing():
    """Padding never leaks: rubbish in the padding block leaves the logits alone."""
    engine = make_engine(num_blocks=8)
    row = Row([9], 3, [5])
    engine.logits("prompt", (1, 4, 0), [Row([1, 2, 3], 0, [5])])
    before = engine.logits("decode", (4, 1, 16), [row])[0].clone()
    with torch.inference_mode():
        for keys, values in engine.caches:
            keys[8] = 1e6
            values[8] = -1e6
    assert torch.equal(engine.logits("decode", (4, 1, 16), [row])[0], before)
    again = engine.logits("prompt", (2, 4, 3), [Row([9], 3, [5])])[0]
    assert close(again, before)


def test_rows_of_padding_stay_finite():
    """NaN in a padded row would reach real rows through the padding block."""
    engine = make_engine(num_blocks=8)
    for bucket in ((4, 1, 16), (8, 1, 8)):
        logits = engine.logits("decode", bucket, [Row([7], 3, [5])])
        assert torch.isfinite(logits).all()
    for cache in engine.caches:
        assert all(torch.isfinite(tensor).all() for tensor in cache)


def test_padding_of_the_v0_scheme_is_block_0():
    """Without a padding block of its own, block 0 takes the padding."""
    engine = make_engine(num_blocks=8, own_padding=False)
    assert engine.caches[0][0].shape[0] == 8
    engine.logits("prompt", (4, 12), [Row([1, 2, 3], 0, [5])])
    touched = (engine.caches[0][0] != 0).flatten(1).any(dim=1)
    assert touched.nonzero().flatten().tolist() == [0, 5]


def test_greedy_tokens_equal_the_dense_ones(with_graph):
    """Twelve tokens, each from the cache that the ones before left behind."""
    engine = make_engine()
    prompt, blocks = PROMPTS[0], [4, 9, 1, 0, 20]
    tokens = [
        int(
            run(
                engine, "prompt", (1, 8, 0), [Row(prompt, 0, blocks)], with_graph
            ).argmax()
        )
    ]
    while len(tokens) < 12:
        row = Row(tokens[-1:], len(prompt) + len(tokens) - 1, blocks)
        tokens.append(
            int(run(engine, "decode", (2, 1, 6), [row], with_graph)[0].argmax())
        )
    assert tokens == dense_greedy(weights_of(engine), SHAPE, prompt, 12)


@settings(max_examples=25, suppress_health_check=list(HealthCheck))
@given(data=st.data())
def test_any_batch_in_any_bucket_equals_the_dense_forward(data):
    """Random prompts, split anywhere, random blocks, random room in the bucket."""
    engine = _shared_engine()
    lengths = data.draw(st.lists(st.integers(1, 14), min_size=1, max_size=3))
    ids = data.draw(st.permutations(range(32)))
    rows, parts, expected = [], [], []
    for index, length in enumerate(lengths):
        prompt = data.draw(
            st.lists(st.integers(0, 96), min_size=length, max_size=length)
        )
        blocks = ids[index * 5 : index * 5 + 5]
        cut = data.draw(st.integers(0, length - 1))
        parts += [Row(prompt[:cut], 0, blocks)] if cut else []
        rows.append(Row(prompt[cut:], cut, blocks))
        expected.append(dense_logits(weights_of(engine), SHAPE, prompt)[-1])
    if parts:
        engine.logits("prompt", (3, 14, 0), parts)
    query_len = max(len(row.token_ids) for row in rows) + data.draw(st.integers(0, 3))
    context = max(-(-row.num_computed // BLOCK) for row in rows) + data.draw(
        st.integers(0, 2)
    )
    bucket = (len(rows) + data.draw(st.integers(0, 2)), query_len, context)
    logits = engine.logits("prompt", bucket, rows)
    for row, reference in zip(logits, expected, strict=False):
        assert close(row, reference)


_ENGINES = []


def _shared_engine():
    if not _ENGINES:
        _ENGINES.append(make_engine())
    return _ENGINES[0]


def test_tied_embeddings_share_one_tensor():
    engine = make_engine(shape=dataclasses.replace(SHAPE, tie_word_embeddings=True))
    model = engine._model
    assert model.lm_head.weight.data_ptr() == model.embed_tokens.weight.data_ptr()
    logits = engine.logits("prompt", (1, 8, 0), [Row(PROMPTS[0], 0, [1, 2])])
    assert close(logits[0], dense_logits(weights_of(engine), SHAPE, PROMPTS[0])[-1])


def test_llama3_scaling_keeps_short_and_stretches_long_wavelengths():
    """Values by hand: theta 10000, factor 8, original length 8192."""
    from warmup_insights.runner.model import rotary_frequencies

    scaling = RopeScaling(
        factor=8.0,
        low_freq_factor=1.0,
        high_freq_factor=4.0,
        original_max_position_embeddings=8192,
    )
    shape = dataclasses.replace(
        SHAPE, head_dim=4, rope_theta=10_000.0, rope_scaling=scaling
    )
    # 1 rad per token turns 1304 times in 8192 tokens: kept. 0.01 turns 13 times: kept.
    assert rotary_frequencies(shape).tolist() == pytest.approx([1.0, 0.01])
    slow = dataclasses.replace(shape, rope_theta=1e12)
    # 1e-6 turns 0.0013 times: divided by 8.
    assert rotary_frequencies(slow).tolist() == pytest.approx([1.0, 1.25e-7])
    middle = dataclasses.replace(
        shape, rope_theta=(8192 / 2 / 3.141592653589793 / 2.5) ** 2
    )
    # 2.5 turns lie halfway between 1 and 4: the mean of kept and divided.
    plain = 2.5 * 2 * 3.141592653589793 / 8192
    expected = plain * (0.5 + 0.5 / 8)
    assert rotary_frequencies(middle).tolist()[1] == pytest.approx(expected, rel=1e-5)


def test_products_of_matrices_are_those_that_the_compiler_of_gaudi_takes():
    """Of torch.compile there: `pass_remove_unnecessary_bmm_view` of the bridge 1.19.

    It drops the views around a product of matrices and multiplies what they are views
    of, where both have 4 or 5 dimensions: then the last two have to be the matrices.
    """
    cache = torch.randn(9, 8, 2, 8), torch.randn(9, 8, 2, 8)
    blocks, groups = torch.tensor([1, 2, 3]), torch.tensor([0, 0, 1])
    query, usage = torch.randn(2, 4, 8), torch.tensor([8, 3, 8])
    traced = make_fx(decode_attention)(query, cache, blocks, groups, usage)
    product = torch.ops.aten.bmm.default
    found = [node for node in traced.graph.nodes if node.target == product]
    views = (torch.ops.aten.view.default, torch.ops.aten._unsafe_view.default)
    matrices = [
        (node.meta["val"].shape[-2:], node.args[0].meta["val"].shape)
        for product in found
        for node in product.args
        if node.target in views
    ]
    assert matrices
    for matrix, viewed in matrices:
        assert len(viewed) not in (4, 5) or viewed[-2:] == matrix
