"""How much memory the intermediates of a forward need at their peak: an estimate.

Used to refuse a step before it fails, on devices whose allocator cannot refuse; the
simulated device shares the part about layers. A test holds the estimate against what
forwards really take: never less, and not twice as much.
"""

from __future__ import annotations

from warmup_insights.rules.model_shape import DTYPE_BYTES, ModelShape


def layer_bytes_per_token(shape: ModelShape, dtype: str) -> int:
    """Activations of one token that are alive together in the widest part of a layer.

    The residual stream before and after a norm, the query and the two of a key and
    value, and the two widened vectors of SwiGLU.
    """
    width = 4 * shape.hidden_size + shape.query_size + 2 * shape.kv_size
    return (width + 2 * shape.intermediate_size) * DTYPE_BYTES[dtype]


def peak_bytes(
    shape: ModelShape, dtype: str, bucket: tuple[int, int, int], block_size: int
) -> int:
    """Peak of a step with (batch_size, query_len, num_blocks), phase by query length.

    Tokens of the step, keys and values gathered from the cache (for prompts once more,
    repeated for grouped queries; for decodes with scores in float32), the mask, and the
    logits.
    """
    batch_size, query_len, num_blocks = bucket
    item = DTYPE_BYTES[dtype]
    tokens = batch_size * query_len
    total = tokens * layer_bytes_per_token(shape, dtype)
    total += 4 * batch_size * shape.vocab_size
    context = num_blocks * block_size
    if query_len == 1:
        scores = 4 * 4 * shape.num_attention_heads
        return total + context * (2 * shape.kv_size * item + scores)
    total += batch_size * context * 2 * shape.kv_size * item
    total += batch_size * (context + query_len) * 2 * shape.query_size * item
    return total + tokens * (context + query_len)
