"""Recorded graphs: every operator of the models replays to what running it again gives."""

from __future__ import annotations

import pytest
import torch
import torch.nn.functional as F

from warmup_insights.devices.recorded import PeakCounter, record_graph

X = torch.linspace(-2, 2, 24).reshape(4, 6)
W = torch.linspace(-1, 1, 30).reshape(5, 6)
INDEX = torch.tensor([2, 0, 3])
HEADS = torch.linspace(-1, 1, 2 * 2 * 3 * 4).reshape(2, 2, 3, 4)

CASES = {
    "linear": lambda x: F.linear(x, W),
    "matmul": lambda x: x @ W.T,
    "einsum": lambda x: torch.einsum("ab,cb->ac", x, W),
    "embedding": lambda x: F.embedding(INDEX, x),
    "norm": lambda x: x * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + 1e-5),
    "silu": lambda x: F.silu(x) * x,
    "softmax": lambda x: x.softmax(-1),
    "cos": lambda x: x.cos() + x.sin(),
    "cat": lambda x: torch.cat([x[:, :3] * 2, x[:, 3:]], dim=-1),
    "chunk": lambda x: x.chunk(2, dim=-1)[1] + 1,
    "transpose": lambda x: (x + 1).transpose(0, 1).contiguous(),
    "reshape of a view": lambda x: (x + 1).t().reshape(-1),
    "to another type": lambda x: x.to(torch.float64) + 1,
    "to its own type": lambda x: x.to(torch.float32),
    "gather": lambda x: x[INDEX],
    "index_select": lambda x: x.index_select(0, INDEX),
    "masked_fill": lambda x: x.masked_fill(x > 0, -1.0),
    "where": lambda x: torch.where(x > 0, x, -x),
    "repeat_interleave": lambda x: x.repeat_interleave(2, dim=1),
    "index_add": lambda x: torch.zeros(4, 6).index_add_(0, INDEX, x[:3]),
    "scatter_reduce": lambda x: torch.full((1, 6), -9.0).scatter_reduce_(
        0, torch.zeros(4, 6, dtype=torch.long), x, "amax"
    ),
    "clamp": lambda x: x.clamp(min=0.5),
    "arange": lambda x: x + torch.arange(6),
    "attention": lambda x: F.scaled_dot_product_attention(
        HEADS * x[0, 0], HEADS, HEADS, attn_mask=torch.ones(3, 3).tril().bool()
    ),
    "sort": lambda x: x.sort(dim=-1, descending=True).values,
    "argmax": lambda x: x.argmax(-1),
    "cumsum": lambda x: x.cumsum(-1),
    "two results": lambda x: torch.stack(x.max(-1).values.unbind()),
}


@pytest.mark.parametrize("name", CASES)
def test_a_replay_gives_what_running_again_gives(name):
    function = CASES[name]
    x = X.clone()
    out = function(x).clone()
    graph = record_graph(lambda: out.copy_(function(x)), check=lambda _: None)
    for value in (-0.5, 1.7):
        x.copy_(X * value)
        graph.replay()
        assert torch.equal(out, function(x)), value


def test_in_place_writes_happen_again():
    cache = torch.zeros(4, 2)
    new = torch.ones(2, 2)
    slots = torch.tensor([1, 3])
    graph = record_graph(lambda: cache.index_copy_(0, slots, new), check=lambda _: None)
    cache.zero_()
    new.fill_(5.0)
    slots.copy_(torch.tensor([0, 2]))
    graph.replay()
    assert cache[:, 0].tolist() == [5.0, 0.0, 5.0, 0.0]


def test_a_replay_allocates_next_to_nothing():
    """Results go into the tensors of the recording."""
    x = torch.ones(256, 256)
    out = torch.zeros(256, 256)
    graph = record_graph(lambda: out.copy_((x + 1) * 2 - x), check=lambda _: None)
    with PeakCounter() as counter:
        graph.replay()
    assert counter.peak_bytes == 0
    assert graph.storage_bytes == 3 * 4 * 256 * 256


def test_views_and_parameters_are_not_counted():
    x = torch.ones(64, 64)
    graph = record_graph(lambda: x.view(-1)[5:].t(), check=lambda _: None)
    assert graph.storage_bytes == 0


def test_check_sees_the_bytes_so_far_and_may_stop():
    seen = []

    def check(num_bytes):
        seen.append(num_bytes)
        if num_bytes > 100:
            raise ValueError("enough")

    with pytest.raises(ValueError, match="enough"):
        record_graph(lambda: [torch.ones(10) + i for i in range(9)], check=check)
    assert seen == [40, 80, 120]


def test_peak_counts_what_is_alive_together():
    with PeakCounter() as counter:
        first = torch.ones(100)
        second = first + 1
        del first
        third = second + 1
        del second
    assert counter.peak_bytes == 800
    assert counter.live_bytes == 400
    assert third[0] == 3.0
