"""The engine on a simulated device: the same calls, charged instead of computed."""

from __future__ import annotations

from collections.abc import Sequence

from warmup_insights.devices.base import Graph
from warmup_insights.devices.simulated import SimulatedDevice
from warmup_insights.model.events import Bucket
from warmup_insights.rules.memory import CacheLayout
from warmup_insights.rules.model_shape import ModelShape
from warmup_insights.runner.batch import Row, full_bucket
from warmup_insights.runner.costs import CostModel
from warmup_insights.runner.engine import SamplingParams


class SimulatedEngine:
    """Charges memory and virtual time; its tokens mean nothing."""

    def __init__(
        self, device: SimulatedDevice, shape: ModelShape, *, block_size: int, dtype: str
    ) -> None:
        self.device = device
        self.block_bytes = shape.kv_block_bytes(block_size, dtype)
        self._shape = shape
        self._block_size = block_size
        self._costs = CostModel(shape, dtype, block_size, device.profile_figures)
        self._compiled: set[tuple[str, Bucket]] = set()
        self._graphs: dict[tuple[str, Bucket], Graph] = {}

    def load_model(self) -> None:
        """Take the memory of the weights and the time to read them."""
        self.device.allocate(self._costs.weights_bytes())
        self.device.wait(self._costs.load_s())

    def profile_run(self, bucket: Bucket) -> None:
        """Set the workspace of the largest prompt aside."""
        self.device.profile(lambda: self._run("prompt", bucket))

    def allocate_kv_cache(self, layout: CacheLayout) -> None:
        """Take the memory of every block."""
        self.device.allocate(layout.num_allocated * self.block_bytes)

    def run_bucket(self, phase: str, bucket: Bucket) -> None:
        """Charge a run, and a compilation if the shape is new."""
        graph = self._graphs.get((phase, bucket))
        if graph is not None:
            graph.replay()
        else:
            self._run(phase, bucket)

    def capture_bucket(self, phase: str, bucket: Bucket) -> None:
        """Charge the recording, and the memory that the graph keeps."""
        full = full_bucket(bucket, phase, self._block_size)
        num_bytes = self._costs.graph_bytes(full)
        self.device.allocate(num_bytes)
        self._run(phase, bucket)
        self.device.wait(self._costs.record_s())
        seconds = self._costs.run_s(full, with_graph=True)
        graph = self.device.capture(lambda: self.device.wait(seconds))
        graph.storage_bytes = num_bytes
        self._graphs[phase, bucket] = graph

    def step(
        self,
        phase: str,
        bucket: Bucket,
        rows: Sequence[Row],
        sampling: Sequence[SamplingParams],
        *,
        batch_changed: bool,
    ) -> list[int]:
        """Charge a run and the sampler; every row gets a token that depends on it."""
        self.run_bucket(phase, bucket)
        self.device.wait(self._costs.sample_s(bucket[0]))
        return [row.length % self._shape.vocab_size for row in rows]

    def warm_sampler(
        self, batch_size: int, params: SamplingParams, *, batch_changed: bool
    ) -> None:
        """Charge one pass of the sampler."""
        self.device.wait(self._costs.sample_s(batch_size))

    def swap_blocks(
        self, pairs: Sequence[tuple[int, int]], padded: int, *, with_graph: bool
    ) -> None:
        """Charge the exchange of that many blocks."""
        self.device.wait(self._costs.swap_s(padded, self.block_bytes))

    def graph_bytes(self) -> int | None:
        """What all graphs keep."""
        return sum(graph.storage_bytes or 0 for graph in self._graphs.values())

    def _run(self, phase: str, bucket: Bucket) -> None:
        full = full_bucket(bucket, phase, self._block_size)
        self.device.grow_workspace(self._costs.workspace_bytes(full))
        if (phase, bucket) not in self._compiled:
            self._compiled.add((phase, bucket))
            self.device.wait(self._costs.compile_s())
        self.device.wait(self._costs.run_s(full, with_graph=False))
