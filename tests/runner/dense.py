"""A plain decoder for comparison: one sequence, no cache, no padding, no batch.

Written apart from the engine's model: rotation by complex numbers, one head at a time,
softmax over an explicit triangle, all in float64.
"""

from __future__ import annotations

import math

import torch


def dense_logits(weights: dict[str, torch.Tensor], shape, tokens: list[int]):
    """Logits (tokens, vocab) of a whole sequence."""
    w = {name: value.double() for name, value in weights.items()}
    x = w["embed_tokens.weight"][torch.tensor(tokens)]
    for layer in range(shape.num_hidden_layers):
        x = x + _attention(w, f"layers.{layer}.", shape, x)
        x = x + _mlp(w, f"layers.{layer}.", shape, x)
    return _norm(x, w["norm.weight"], shape) @ w["lm_head.weight"].T


def dense_greedy(weights, shape, prompt: list[int], count: int) -> list[int]:
    """The next `count` tokens, each the most likely one."""
    tokens = list(prompt)
    for _ in range(count):
        tokens.append(int(dense_logits(weights, shape, tokens)[-1].argmax()))
    return tokens[len(prompt) :]


def _norm(x, weight, shape):
    return x / torch.sqrt((x * x).mean(-1, keepdim=True) + shape.rms_norm_eps) * weight


def _mlp(w, prefix, shape, x):
    x = _norm(x, w[prefix + "post_attention_layernorm.weight"], shape)
    gate = x @ w[prefix + "mlp.gate_proj.weight"].T
    up = x @ w[prefix + "mlp.up_proj.weight"].T
    return (gate / (1 + torch.exp(-gate)) * up) @ w[prefix + "mlp.down_proj.weight"].T


def _attention(w, prefix, shape, x):
    x = _norm(x, w[prefix + "input_layernorm.weight"], shape)
    q = x @ w[prefix + "self_attn.q_proj.weight"].T
    k = x @ w[prefix + "self_attn.k_proj.weight"].T
    v = x @ w[prefix + "self_attn.v_proj.weight"].T
    length, size = len(x), shape.head_dim
    share = shape.num_attention_heads // shape.num_key_value_heads
    future = torch.ones(length, length).triu(1).bool()
    heads = []
    for head in range(shape.num_attention_heads):
        mine = slice(head * size, (head + 1) * size)
        theirs = slice(head // share * size, (head // share + 1) * size)
        scores = (
            _turn(q[:, mine], shape) @ _turn(k[:, theirs], shape).T / math.sqrt(size)
        )
        heads.append(scores.masked_fill(future, -math.inf).softmax(-1) @ v[:, theirs])
    return torch.cat(heads, -1) @ w[prefix + "self_attn.o_proj.weight"].T


def _turn(x, shape):
    """Rotate pairs (i, i + half) by position times theta ** (-i / half)."""
    half = shape.head_dim // 2
    speed = torch.tensor(
        [shape.rope_theta ** (-i / half) for i in range(half)], dtype=torch.float64
    )
    angle = torch.arange(len(x), dtype=torch.float64)[:, None] * speed
    turned = torch.complex(x[:, :half], x[:, half:]) * torch.polar(
        torch.ones_like(angle), angle
    )
    return torch.cat([turned.real, turned.imag], -1)
