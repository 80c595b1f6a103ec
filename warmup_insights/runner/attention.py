"""Attention over a paged KV cache: prompts with context, and single-token steps."""

from __future__ import annotations

import torch
import torch.nn.functional as F

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
    """Which of `num_context` cached and `query_len` new tokens each new one sees.

    Context up to the row's length, then causal: padding comes after the real tokens of
    a row, so no real token sees it. The shape is (B, 1, S, num_context + S).
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
    scores = torch.einsum("nkgd,nskd->nkgs", grouped[block_groups], keys).float()
    scores = scores * head_dim**-0.5
    places = torch.arange(keys.shape[1], device=query.device)
    unused = (places[None, :] >= block_usage[:, None])[:, None, None, :]
    scores = scores.masked_fill(unused, _MASKED)
    row_max = _max_per_row(scores.amax(dim=-1), block_groups, batch_size)
    weights = torch.exp(scores - row_max[block_groups].unsqueeze(-1))
    parts = torch.einsum("nkgs,nskd->nkgd", weights.to(values.dtype), values).float()
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
