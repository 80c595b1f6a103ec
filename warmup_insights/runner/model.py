"""A Llama-style decoder in plain torch: RMSNorm, rotary, grouped queries, SwiGLU."""

from __future__ import annotations

import math
from dataclasses import dataclass, fields

import torch
import torch.nn.functional as F
from torch import nn

from warmup_insights.rules.model_shape import ModelShape
from warmup_insights.runner.attention import (
    KVCache,
    decode_attention,
    prompt_attention,
    prompt_mask,
    write_cache,
)
from warmup_insights.runner.batch import PaddedBatch


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
