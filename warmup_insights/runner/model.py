"""A Llama-style decoder in plain torch: RMSNorm, rotary, grouped queries, SwiGLU.

Attention is over a paged KV cache: prompts with context, and single-token steps.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, fields

import torch
import torch.nn.functional as F
from torch import nn

from warmup_insights.rules.model_shape import ModelShape
from warmup_insights.runner.batch import PaddedBatch

KVCache = tuple[torch.Tensor, torch.Tensor]
"""Keys and values of a layer, each (blocks, block_size, kv_heads, head_dim)."""

_MASKED = -1e30  # below every score, yet exp() of a difference of two stays finite


def write_cache(
    cache: KVCache, slots: torch.Tensor, keys: torch.Tensor, values: torch.Tensor
) -> None:
    """Store keys and values of B x S tokens at their slots, in place."""
    for stored, new in zip(cache, (keys, values), strict=True):
        stored.flatten(0, 1).index_copy_(0, slots, new.flatten(0, 1))


def prompt_attention(
    query: torch.Tensor,
    keys: torch.Tensor,
    values: torch.Tensor,
    cache: KVCache | None,
    context_blocks: torch.Tensor,
    mask: torch.Tensor,
) -> torch.Tensor:
    """Attention of S new tokens per row over their context and over themselves.

    query is (B, S, heads, head_dim), keys and values (B, S, kv_heads, head_dim),
    context_blocks (B, C) and mask (B, 1, S, C * block_size + S), true where a token may
    look. The result has the shape of the query.
    """
    if cache is not None and context_blocks.shape[1]:
        keys = torch.cat([cache[0][context_blocks].flatten(1, 2), keys], dim=1)
        values = torch.cat([cache[1][context_blocks].flatten(1, 2), values], dim=1)
    groups = query.shape[2] // keys.shape[2]
    result = F.scaled_dot_product_attention(
        query.transpose(1, 2),
        keys.repeat_interleave(groups, dim=2).transpose(1, 2),
        values.repeat_interleave(groups, dim=2).transpose(1, 2),
        attn_mask=mask,
    )
    return result.transpose(1, 2)


def prompt_mask(
    context_lens: torch.Tensor, num_context: int, query_len: int
) -> torch.Tensor:
    """Which of `num_context` cached and `query_len` new tokens each new one attends to.

    Context up to the row's length, then causal: padding comes after the real tokens of
    a row, so no real token attends to it. The shape is (B, 1, S, num_context + S).
    """
    device = context_lens.device
    places = torch.arange(num_context, device=device)
    seen = places[None, :] < context_lens[:, None]
    steps = torch.arange(query_len, device=device)
    causal = steps[None, :] <= steps[:, None]
    batch_size = context_lens.shape[0]
    context = seen[:, None, None, :].expand(batch_size, 1, query_len, num_context)
    new = causal[None, None].expand(batch_size, 1, query_len, query_len)
    return torch.cat([context, new], dim=-1)


def decode_attention(
    query: torch.Tensor,
    cache: KVCache,
    block_list: torch.Tensor,
    block_groups: torch.Tensor,
    block_usage: torch.Tensor,
) -> torch.Tensor:
    """Attention of one token per row over the blocks of its row.

    The flat form of vllm-gaudi (`flat_pa`): scores are computed block by block, and the
    softmax of a row is put together from its blocks. query is (B, heads, head_dim),
    the block tensors have N entries, the result has the shape of the query.
    """
    batch_size, heads, head_dim = query.shape
    kv_heads = cache[0].shape[2]
    grouped = query.view(batch_size, kv_heads, heads // kv_heads, head_dim)
    keys, values = cache[0][block_list], cache[1][block_list]
    # No einsum: its products of 5 dimensions come out wrong of torch.compile on Gaudi
    # (`dynamo/compile_backend/passes.py`, pass_remove_unnecessary_bmm_view, bridge 1.19).
    scores = torch.matmul(grouped[block_groups], keys.permute(0, 2, 3, 1)).float()
    scores = scores * head_dim**-0.5
    places = torch.arange(keys.shape[1], device=query.device)
    unused = (places[None, :] >= block_usage[:, None])[:, None, None, :]
    scores = scores.masked_fill(unused, _MASKED)
    row_max = _max_per_row(scores.amax(dim=-1), block_groups, batch_size)
    weights = torch.exp(scores - row_max[block_groups].unsqueeze(-1))
    parts = torch.matmul(weights.to(values.dtype), values.transpose(1, 2)).float()
    total = _sum_per_row(weights.sum(dim=-1), block_groups, batch_size)
    result = _sum_per_row(parts, block_groups, batch_size)
    # A row of padding has no block: without the bound it would divide 0 by 0, and what
    # it writes to the padding block would reach the other rows as 0 times NaN.
    result = result / total.clamp(min=1e-20).unsqueeze(-1)
    return result.to(query.dtype).view(batch_size, heads, head_dim)


def _max_per_row(
    block_max: torch.Tensor, groups: torch.Tensor, num_rows: int
) -> torch.Tensor:
    rows = torch.full_like(block_max[:1], _MASKED).repeat(num_rows, 1, 1)
    index = groups[:, None, None].expand_as(block_max)
    return rows.scatter_reduce_(0, index, block_max, "amax")


def _sum_per_row(
    parts: torch.Tensor, groups: torch.Tensor, num_rows: int
) -> torch.Tensor:
    rows = torch.zeros_like(parts[:1]).repeat(num_rows, *[1] * (parts.dim() - 1))
    return rows.index_add_(0, groups, parts)


@dataclass(frozen=True)
class StepInputs:
    """A padded batch as tensors; shapes as in PaddedBatch."""

    phase: str
    token_ids: torch.Tensor
    positions: torch.Tensor
    slots: torch.Tensor
    last_index: torch.Tensor
    context_blocks: torch.Tensor
    context_lens: torch.Tensor
    block_list: torch.Tensor
    block_groups: torch.Tensor
    block_usage: torch.Tensor

    @classmethod
    def from_batch(cls, batch: PaddedBatch, phase: str, device: str) -> StepInputs:
        """New tensors on a device."""
        return cls(
            phase,
            *(
                torch.tensor(
                    getattr(batch, field.name), dtype=torch.long, device=device
                )
                for field in fields(batch)
            ),
        )

    def copy_from(self, batch: PaddedBatch) -> None:
        """Overwrite the tensors, which a graph reads, with another batch."""
        for field in fields(batch):
            target: torch.Tensor = getattr(self, field.name)
            if target.numel():
                source = torch.tensor(getattr(batch, field.name), dtype=torch.long)
                target.copy_(source)


class RMSNorm(nn.Module):
    """Scale to a root mean square of 1, then by a weight."""

    def __init__(self, size: int, eps: float) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.empty(size))
        self.eps = eps

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """(..., size) to (..., size); computed in float32."""
        wide = x.float()
        scale = torch.rsqrt(wide.pow(2).mean(-1, keepdim=True) + self.eps)
        return (wide * scale).to(x.dtype) * self.weight


class Attention(nn.Module):
    """Grouped-query attention over the paged cache."""

    def __init__(self, shape: ModelShape) -> None:
        super().__init__()
        self.heads = (shape.num_attention_heads, shape.num_key_value_heads)
        self.head_dim = shape.head_dim
        self.q_proj = _linear(shape.hidden_size, shape.query_size)
        self.k_proj = _linear(shape.hidden_size, shape.kv_size)
        self.v_proj = _linear(shape.hidden_size, shape.kv_size)
        self.o_proj = _linear(shape.query_size, shape.hidden_size)

    def forward(
        self,
        x: torch.Tensor,
        rotary: tuple[torch.Tensor, torch.Tensor],
        inputs: StepInputs,
        cache: KVCache | None,
        mask: torch.Tensor | None,
    ) -> torch.Tensor:
        """(B, S, hidden) to (B, S, hidden)."""
        num_heads, num_kv_heads = self.heads
        query = rotate(self._split(self.q_proj(x), num_heads), *rotary)
        keys = rotate(self._split(self.k_proj(x), num_kv_heads), *rotary)
        values = self._split(self.v_proj(x), num_kv_heads)
        if cache is not None:
            write_cache(cache, inputs.slots, keys, values)
        if inputs.phase == "prompt":
            assert mask is not None
            result = prompt_attention(
                query, keys, values, cache, inputs.context_blocks, mask
            )
        else:
            assert cache is not None, "a decode step reads the cache"
            result = decode_attention(
                query[:, 0],
                cache,
                inputs.block_list,
                inputs.block_groups,
                inputs.block_usage,
            ).unsqueeze(1)
        return self.o_proj(result.flatten(2))  # type: ignore[no-any-return]

    def _split(self, x: torch.Tensor, heads: int) -> torch.Tensor:
        return x.view(*x.shape[:2], heads, self.head_dim)


class MLP(nn.Module):
    """SwiGLU."""

    def __init__(self, shape: ModelShape) -> None:
        super().__init__()
        self.gate_proj = _linear(shape.hidden_size, shape.intermediate_size)
        self.up_proj = _linear(shape.hidden_size, shape.intermediate_size)
        self.down_proj = _linear(shape.intermediate_size, shape.hidden_size)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """(B, S, hidden) to (B, S, hidden)."""
        gated = F.silu(self.gate_proj(x)) * self.up_proj(x)
        return self.down_proj(gated)  # type: ignore[no-any-return]


class DecoderLayer(nn.Module):
    """Attention and MLP, each normalised before and added after."""

    def __init__(self, shape: ModelShape) -> None:
        super().__init__()
        self.input_layernorm = RMSNorm(shape.hidden_size, shape.rms_norm_eps)
        self.self_attn = Attention(shape)
        self.post_attention_layernorm = RMSNorm(shape.hidden_size, shape.rms_norm_eps)
        self.mlp = MLP(shape)

    def forward(
        self,
        x: torch.Tensor,
        rotary: tuple[torch.Tensor, torch.Tensor],
        inputs: StepInputs,
        cache: KVCache | None,
        mask: torch.Tensor | None,
    ) -> torch.Tensor:
        """(B, S, hidden) to (B, S, hidden)."""
        x = x + self.self_attn(self.input_layernorm(x), rotary, inputs, cache, mask)
        return x + self.mlp(self.post_attention_layernorm(x))  # type: ignore[no-any-return]


class Decoder(nn.Module):
    """Tokens to logits of the last token of each row; names as in Llama checkpoints."""

    frequencies: torch.Tensor

    def __init__(self, shape: ModelShape) -> None:
        super().__init__()
        self.shape = shape
        self.embed_tokens = nn.Embedding(shape.vocab_size, shape.hidden_size)
        self.layers = nn.ModuleList(
            DecoderLayer(shape) for _ in range(shape.num_hidden_layers)
        )
        self.norm = RMSNorm(shape.hidden_size, shape.rms_norm_eps)
        self.lm_head = _linear(shape.hidden_size, shape.vocab_size)
        self.register_buffer("frequencies", rotary_frequencies(shape), persistent=False)

    def forward(self, inputs: StepInputs, caches: list[KVCache] | None) -> torch.Tensor:
        """Logits (B, vocab) of the step; the caches are written in place.

        Without caches nothing is stored, which only prompts without context can do.
        """
        x = self.embed_tokens(inputs.token_ids)
        angles = inputs.positions.unsqueeze(-1).float() * self.frequencies
        rotary = (angles.cos().to(x.dtype), angles.sin().to(x.dtype))
        mask = None
        if inputs.phase == "prompt":
            block_size = caches[0][0].shape[1] if caches else 0
            num_context = inputs.context_blocks.shape[1] * block_size
            query_len = inputs.token_ids.shape[1]
            mask = prompt_mask(inputs.context_lens, num_context, query_len)
        for index, layer in enumerate(self.layers):
            x = layer(x, rotary, inputs, caches[index] if caches else None, mask)
        last = x.flatten(0, 1)[inputs.last_index]
        return self.lm_head(self.norm(last)).float()  # type: ignore[no-any-return]


def rotary_frequencies(shape: ModelShape) -> torch.Tensor:
    """Radians per position, for half of a head's dimensions.

    With `llama3` scaling long wavelengths are stretched by the factor, short ones kept,
    and those between blended.
    """
    steps = torch.arange(0, shape.head_dim, 2, dtype=torch.float32) / shape.head_dim
    frequencies = shape.rope_theta**-steps
    scaling = shape.rope_scaling
    if scaling is None:
        return frequencies
    turns = scaling.original_max_position_embeddings * frequencies / (2 * math.pi)
    span = scaling.high_freq_factor - scaling.low_freq_factor
    kept = ((turns - scaling.low_freq_factor) / span).clamp(0, 1)
    return frequencies * (kept + (1 - kept) / scaling.factor)


def rotate(x: torch.Tensor, cos: torch.Tensor, sin: torch.Tensor) -> torch.Tensor:
    """Rotate (B, S, heads, head_dim); cos and sin are (B, S, head_dim / 2)."""
    left, right = x.chunk(2, dim=-1)
    cos, sin = cos.unsqueeze(2), sin.unsqueeze(2)
    return torch.cat([left * cos - right * sin, right * cos + left * sin], dim=-1)


def _linear(inputs: int, outputs: int) -> nn.Linear:
    return nn.Linear(inputs, outputs, bias=False)
