"""What work costs: memory and time, as functions of shapes.

The intermediates of a forward are an estimate for every device: it refuses a step before
it fails where the allocator cannot. A test compares it with what forwards really take:
never less, and not twice as much. All else is for the simulated device.

Nothing here is measured by this project. Three constants of memory and three of time
are fitted to one real start-up: the log in the warm-up page of the vllm-gaudi
documentation (Llama 3 8B in bfloat16 on a 96 GiB device, vllm-fork 1.17). Everything
else follows from the model's shape and the device's published figures. The forms:

weights    parameters x item size + LOAD_OVERHEAD_BYTES. The log has 14.97 GiB, the
           parameters alone are 14.957 GiB.
workspace  WORKSPACE_FACTOR x tokens x what a layer holds per token. The log has 504 MiB
           for the profiling run of 4 x 1024 tokens.
graph      GRAPH_BASE_BYTES + GRAPH_FACTOR x tokens x layers x what a layer holds per
           token, where a decode computes one token per sequence. The log has 14.03 GiB
           for 15 prompt graphs of 9984 tokens together, and 161.9 MiB for 48 decode
           graphs of 112 sequences together: two equations, two constants.
time       The first run of a shape costs COMPILE_S_PER_LAYER x layers, recording a
           graph RECORD_S_PER_LAYER x layers. Any run costs the larger of reading the
           weights and cache once and of the arithmetic, at EFFICIENCY of the published
           figures, plus a launch: HOST_S_PER_LAYER x layers without a graph, and
           GRAPH_LAUNCH_S with one. The log shows 28 s for 72 eager buckets and 21 s for
           63 graphs, each of which runs three times.
"""

from __future__ import annotations

from dataclasses import dataclass

from warmup_insights.devices.simulated import DeviceProfile
from warmup_insights.rules.model_shape import DTYPE_BYTES, ModelShape
from warmup_insights.units import KIB, MIB


def layer_bytes_per_token(shape: ModelShape, dtype: str) -> int:
    """Activations of one token that are alive together in the widest part of a layer.

    The residual stream before and after a norm, the query and the two of a key and
    value, and the two widened vectors of SwiGLU.
    """
    width = 4 * shape.hidden_size + shape.query_size + 2 * shape.kv_size
    return (width + 2 * shape.intermediate_size) * DTYPE_BYTES[dtype]


def gathered_bytes(
    shape: ModelShape, dtype: str, bucket: tuple[int, int, int], block_size: int
) -> int:
    """Keys and values that a layer reads from the cache in a step.

    The blocks of a decode are those of all its rows, those of a prompt of each.
    """
    batch_size, query_len, num_blocks = bucket
    rows = 1 if query_len == 1 else batch_size
    return rows * num_blocks * block_size * 2 * shape.kv_size * DTYPE_BYTES[dtype]


def peak_bytes(
    shape: ModelShape, dtype: str, bucket: tuple[int, int, int], block_size: int
) -> int:
    """Peak of a step with (batch_size, query_len, num_blocks), phase by query length.

    Tokens of the step, keys and values gathered from the cache (for prompts once more,
    repeated for grouped queries; for decodes with scores in float32), the mask, and the
    logits.
    """
    batch_size, query_len, num_blocks = bucket
    tokens = batch_size * query_len
    total = tokens * layer_bytes_per_token(shape, dtype)
    total += 4 * batch_size * shape.vocab_size
    total += gathered_bytes(shape, dtype, bucket, block_size)
    context = num_blocks * block_size
    if query_len == 1:
        scores = 4 * 4 * shape.num_attention_heads
        return total + context * scores
    repeated = 2 * shape.query_size * DTYPE_BYTES[dtype]
    return total + (context + query_len) * (batch_size * repeated + tokens)


LOAD_OVERHEAD_BYTES = round(13.5 * MIB)
WORKSPACE_FACTOR = 1.26
GRAPH_BASE_BYTES = 16 * KIB
GRAPH_FACTOR = 0.4605

COMPILE_S_PER_LAYER = 0.0107
RECORD_S_PER_LAYER = 0.0083
HOST_S_PER_LAYER = 0.00015
GRAPH_LAUNCH_S = 0.0002
EFFICIENCY = 0.5
LOAD_BYTES_PER_S = 2.0e9
SAMPLER_S_PER_ROW = 2e-6
SAMPLER_BASE_S = 3e-4


@dataclass(frozen=True)
class CostModel:
    """The functions for one model on one device."""

    shape: ModelShape
    dtype: str
    block_size: int
    profile: DeviceProfile

    def weights_bytes(self) -> int:
        """Parameters and what the runtime keeps beside them."""
        return self._parameter_bytes() + LOAD_OVERHEAD_BYTES

    def workspace_bytes(self, bucket: tuple[int, int, int]) -> int:
        """Intermediates of a step, of which the device keeps the largest."""
        tokens = bucket[0] * bucket[1]
        per_token = layer_bytes_per_token(self.shape, self.dtype)
        return round(WORKSPACE_FACTOR * tokens * per_token) + gathered_bytes(
            self.shape, self.dtype, bucket, self.block_size
        )

    def graph_bytes(self, bucket: tuple[int, int, int]) -> int:
        """What a graph keeps."""
        tokens = bucket[0] * bucket[1]
        per_token = layer_bytes_per_token(self.shape, self.dtype)
        layers = self.shape.num_hidden_layers
        return GRAPH_BASE_BYTES + round(GRAPH_FACTOR * tokens * layers * per_token)

    def load_s(self) -> float:
        """Reading the weights from storage."""
        return self._parameter_bytes() / LOAD_BYTES_PER_S

    def compile_s(self) -> float:
        """Building the recipe of a new shape."""
        return COMPILE_S_PER_LAYER * self.shape.num_hidden_layers

    def record_s(self) -> float:
        """Recording a graph."""
        return RECORD_S_PER_LAYER * self.shape.num_hidden_layers

    def run_s(self, bucket: tuple[int, int, int], *, with_graph: bool) -> float:
        """One forward."""
        launch = HOST_S_PER_LAYER * self.shape.num_hidden_layers
        return max(self._arithmetic_s(bucket), self._traffic_s(bucket)) + (
            GRAPH_LAUNCH_S if with_graph else launch
        )

    def sample_s(self, batch_size: int) -> float:
        """One pass of the sampler."""
        return SAMPLER_BASE_S + SAMPLER_S_PER_ROW * batch_size

    def swap_s(self, padded: int, block_bytes: int) -> float:
        """Exchanging blocks: each of the two is read and written."""
        traffic = 4 * padded * block_bytes
        return GRAPH_LAUNCH_S + traffic / (
            EFFICIENCY * self.profile.bandwidth_bytes_per_s
        )

    def _parameter_bytes(self) -> int:
        return self.shape.num_parameters * DTYPE_BYTES[self.dtype]

    def _arithmetic_s(self, bucket: tuple[int, int, int]) -> float:
        batch_size, query_len, num_blocks = bucket
        tokens = batch_size * query_len
        context = num_blocks * self.block_size
        pairs = context if query_len == 1 else tokens * (context + query_len)
        layers = self.shape.num_hidden_layers
        attention = 4 * pairs * self.shape.query_size * layers
        flops = 2 * self.shape.num_parameters * tokens + attention
        return flops / (EFFICIENCY * self.profile.flops_per_s)

    def _traffic_s(self, bucket: tuple[int, int, int]) -> float:
        cache = (
            gathered_bytes(self.shape, self.dtype, bucket, self.block_size)
            * self.shape.num_hidden_layers
        )
        bandwidth = EFFICIENCY * self.profile.bandwidth_bytes_per_s
        return (self._parameter_bytes() + cache) / bandwidth
