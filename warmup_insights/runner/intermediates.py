"""How much memory the intermediates of a forward need at their peak: an estimate.

Used to refuse a step before it fails, on devices whose allocator cannot refuse, and
by the simulated device. Real runs are measured; a test holds the estimate against that.
"""

from __future__ import annotations

from warmup_insights.runner.shapes import DTYPE_BYTES, ModelShape


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

    Tokens of the step, keys and values gathered from the cache (repeated for grouped
    queries in prompts, scores in float32 in decodes), the mask, and the logits.
    """
    batch_size, query_len, num_blocks = bucket
    item = DTYPE_BYTES[dtype]
    tokens = batch_size * query_len
    total = tokens * layer_bytes_per_token(shape, dtype)
    total += 4 * batch_size * shape.vocab_size
    context = num_blocks * block_size
    if query_len == 1:
        total += context * (
            2 * shape.kv_size * item + 3 * 4 * shape.num_attention_heads
        )
        return total
    total += batch_size * (context + query_len) * 2 * shape.query_size * item
    return total + tokens * (context + query_len)
