"""The reference engine on a device that runs torch, and the weights of its model: random
ones, or those of a checkpoint."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

import torch

from warmup_insights.devices.base import Device, Graph
from warmup_insights.errors import InputError, cannot_read
from warmup_insights.model.events import Bucket
from warmup_insights.rules.memory import CacheLayout
from warmup_insights.rules.model_shape import DTYPE_BYTES, ModelShape
from warmup_insights.runner.batch import Row, dummy_rows, full_bucket, pad_batch
from warmup_insights.runner.costs import peak_bytes
from warmup_insights.runner.engine import SamplingParams
from warmup_insights.runner.model import (
    Decoder,
    KVCache,
    StepInputs,
    rotary_frequencies,
)
from warmup_insights.runner.sampling import Sampler, make_generator

_INDEX = "model.safetensors.index.json"


def build_model(
    shape: ModelShape, *, device: str, dtype: str, seed: int, folder: Path | None = None
) -> Decoder:
    """The model, with the safetensors in `folder` if there are any, else random.

    Raises:
        InputError: a checkpoint is broken, incomplete, or does not fit the shape.
    """
    with torch.device("meta"):
        model = Decoder(shape)
    model = model.to(getattr(torch, dtype)).to_empty(device=device)
    if shape.tie_word_embeddings:
        model.lm_head.weight = model.embed_tokens.weight
    model.frequencies = rotary_frequencies(shape).to(device)
    files = find_checkpoint(folder) if folder else []
    with torch.inference_mode():
        if files:
            load_checkpoint(model, files)
        else:
            randomize(model, seed)
    return model.requires_grad_(False).eval()


def randomize(model: Decoder, seed: int) -> None:
    """Fill the weights so that activations keep their size and logits differ."""
    for index, parameter in enumerate(model.parameters()):
        if parameter.dim() == 1:
            parameter.fill_(1.0)
            continue
        generator = make_generator(parameter.device.type, seed * 100_003 + index)
        deviation = parameter.shape[-1] ** -0.5
        parameter.normal_(0.0, deviation, generator=generator)


def find_checkpoint(folder: Path) -> list[Path]:
    """The safetensors files of a checkpoint; none if there is no checkpoint.

    Raises:
        InputError: the index is broken or names a file that is not there.
    """
    index = folder / _INDEX
    if not index.is_file():
        return sorted(folder.glob("*.safetensors"))
    try:
        names = sorted(set(json.loads(index.read_text("utf-8"))["weight_map"].values()))
        files = [folder / Path(name).name for name in names]
    except (
        OSError,
        ValueError,
        KeyError,
        AttributeError,
        TypeError,
        RecursionError,
    ) as error:
        raise cannot_read(index, error) from error
    for file in files:
        if not file.is_file():
            raise InputError(f"{index} names {file.name}; put it into the folder")
    return files


def load_checkpoint(model: Decoder, files: list[Path]) -> None:
    """Copy every weight of the model from the files.

    Raises:
        InputError: one is missing or has another shape, or a file is broken.
    """
    missing = set(dict(model.named_parameters(remove_duplicate=False)))
    for file in files:
        missing -= _load_file(model, file)
    if model.shape.tie_word_embeddings:
        missing.discard("lm_head.weight")
    if missing:
        raise InputError(
            f"{files[0].parent} lacks {len(missing)} weights, among them "
            f"{min(missing)}; the checkpoint does not belong to this config.json"
        )


def _load_file(model: Decoder, file: Path) -> set[str]:
    try:
        from safetensors import SafetensorError, safe_open
    except ModuleNotFoundError as error:
        raise InputError(
            f"{file} needs the package safetensors to be read; try "
            "`pip install 'warmup-insights[runner]'`"
        ) from error
    targets = dict(model.named_parameters(remove_duplicate=False))
    loaded = set()
    try:
        with safe_open(file, framework="pt") as tensors:
            for stored in tensors.keys():  # noqa: SIM118 - no mapping, has no __iter__
                name = stored.removeprefix("model.")
                if name not in targets:
                    continue
                value = tensors.get_tensor(stored)
                if value.shape != targets[name].shape:
                    raise InputError(
                        f"{file}: {stored} has shape {tuple(value.shape)}; "
                        f"config.json has {tuple(targets[name].shape)}"
                    )
                targets[name].copy_(value)
                loaded.add(name)
    except (OSError, SafetensorError) as error:
        raise cannot_read(file, error) from error
    return loaded


class _BucketGraph(NamedTuple):
    """A graph with the buffers that it reads and writes."""

    graph: Graph
    inputs: StepInputs
    logits: torch.Tensor


class _SwapGraph(NamedTuple):
    """A graph that exchanges the blocks whose ids its buffers hold."""

    graph: Graph
    sources: torch.Tensor
    targets: torch.Tensor


class TorchEngine:
    """Model, paged cache, graphs and sampler on one device."""

    def __init__(
        self,
        device: Device,
        shape: ModelShape,
        *,
        block_size: int,
        dtype: str,
        seed: int = 0,
        folder: Path | None = None,
        contiguous: bool = False,
    ) -> None:
        self.device = device
        self.shape = shape
        self.block_bytes = shape.kv_block_bytes(block_size, dtype)
        self._block_size = block_size
        self._dtype = dtype
        self._seed = seed
        self._folder = folder
        self._contiguous = contiguous
        self._model: Decoder | None = None
        self._caches: list[KVCache] | None = None
        self._layout = CacheLayout(0, block_size)
        self._graphs: dict[tuple[str, Bucket], _BucketGraph] = {}
        self._swap_graphs: dict[int, _SwapGraph] = {}
        self._sampler = Sampler(self.device.torch_name, seed)

    def load_model(self) -> None:
        """Build the model on the device, random or from its checkpoint."""
        self.device.require(self.shape.num_parameters * DTYPE_BYTES[self._dtype])
        with self.device.guard():
            self._model = build_model(
                self.shape,
                device=self.device.torch_name,
                dtype=self._dtype,
                seed=self._seed,
                folder=self._folder,
            )

    def profile_run(self, bucket: Bucket) -> None:
        """Run a prompt without a cache and let the device keep its peak."""
        full = full_bucket(bucket, "prompt", self._block_size)
        self.device.require(self._peak_bytes(full))
        rows = dummy_rows("prompt", (*full[:2], 0), self._layout)
        inputs = self._inputs("prompt", (*full[:2], 0), rows)
        with self.device.guard(), torch.inference_mode():
            self.device.profile(lambda: self._forward(inputs, None))

    def allocate_kv_cache(self, layout: CacheLayout) -> None:
        """Zeros for every block of every layer."""
        self.device.require(layout.num_allocated * self.block_bytes)
        sizes = (
            layout.num_allocated,
            layout.block_size,
            self.shape.num_key_value_heads,
            self.shape.head_dim,
        )
        self._layout = layout
        dtype = getattr(torch, self._dtype)
        with self.device.guard(), torch.inference_mode():
            self._caches = [
                (
                    torch.zeros(sizes, dtype=dtype, device=self.device.torch_name),
                    torch.zeros(sizes, dtype=dtype, device=self.device.torch_name),
                )
                for _ in range(self.shape.num_hidden_layers)
            ]

    @property
    def caches(self) -> list[KVCache]:
        """Keys and values of every layer."""
        assert self._caches is not None, "allocate_kv_cache comes first"
        return self._caches

    def run_bucket(self, phase: str, bucket: Bucket) -> None:
        """Run padding of that shape."""
        self.logits(phase, bucket, dummy_rows(phase, bucket, self._layout))

    def logits(self, phase: str, bucket: Bucket, rows: Sequence[Row]) -> torch.Tensor:
        """Logits (batch_size of the bucket, vocab); of padded rows they mean nothing.

        A graph's own buffer is returned: the next replay overwrites it.
        """
        captured = self._graphs.get((phase, bucket))
        if captured is not None:
            batch = pad_batch(
                rows, phase, bucket, self._layout, contiguous=self._contiguous
            )
            with torch.inference_mode():
                captured.inputs.copy_from(batch)
                captured.graph.replay()
            return captured.logits
        full = full_bucket(bucket, phase, self._block_size)
        self.device.grow_workspace(self._peak_bytes(full))
        inputs = self._inputs(phase, bucket, rows)
        with self.device.guard(), torch.inference_mode():
            return self._forward(inputs, self.caches)

    def capture_bucket(self, phase: str, bucket: Bucket) -> None:
        """Record the forward of the bucket on buffers of its own."""
        rows = dummy_rows(phase, bucket, self._layout)
        inputs = self._inputs(phase, bucket, rows)
        with torch.inference_mode():
            logits = torch.zeros(
                bucket[0], self.shape.vocab_size, device=self.device.torch_name
            )

        def work() -> None:
            logits.copy_(self._forward(inputs, self.caches))

        with self.device.guard():
            graph = self.device.capture(work)
        self._graphs[phase, bucket] = _BucketGraph(graph, inputs, logits)

    def step(
        self,
        phase: str,
        bucket: Bucket,
        rows: Sequence[Row],
        sampling: Sequence[SamplingParams],
        *,
        batch_changed: bool,
    ) -> list[int]:
        """The next token of each row."""
        logits = self.logits(phase, bucket, rows)
        # Rows of padding are greedy.
        params = [*sampling, *[SamplingParams()] * (logits.shape[0] - len(sampling))]
        with torch.inference_mode():
            tokens = self._sampler.sample(logits, params, batch_changed=batch_changed)
        return [int(token) for token in tokens[: len(rows)].tolist()]

    def warm_sampler(
        self, batch_size: int, params: SamplingParams, *, batch_changed: bool
    ) -> None:
        """Sample from the logits of dummy hidden states."""
        assert self._model is not None, "load_model comes first"
        with self.device.guard(), torch.inference_mode():
            hidden = torch.zeros(
                batch_size,
                self.shape.hidden_size,
                dtype=getattr(torch, self._dtype),
                device=self.device.torch_name,
            )
            logits = self._model.lm_head(hidden).float()
            self._sampler.sample(
                logits, [params] * batch_size, batch_changed=batch_changed
            )

    def swap_blocks(
        self, pairs: Sequence[tuple[int, int]], padded: int, *, with_graph: bool
    ) -> None:
        """Exchange blocks, the padding block with itself for missing pairs."""
        padding = self._layout.padding_block
        filled = [*pairs, *[(padding, padding)] * (padded - len(pairs))]
        sources = torch.tensor([pair[0] for pair in filled], dtype=torch.long)
        targets = torch.tensor([pair[1] for pair in filled], dtype=torch.long)
        with self.device.guard(), torch.inference_mode():
            if not with_graph:
                on_device = (
                    sources.to(self.device.torch_name),
                    targets.to(self.device.torch_name),
                )
                self._swap(*on_device)
                return
            graph = self._swap_graphs.get(padded) or self._capture_swap(padded)
            graph.sources.copy_(sources)
            graph.targets.copy_(targets)
            graph.graph.replay()

    def graph_bytes(self) -> int | None:
        """Bytes of the tensors that the graphs keep; None where a pool holds them."""
        sizes = [graph.graph.storage_bytes for graph in self._graphs.values()]
        known = [size for size in sizes if size is not None]
        return sum(known) if len(known) == len(sizes) else None

    def _capture_swap(self, padded: int) -> _SwapGraph:
        # Capturing runs the work: padding exchanged with itself changes nothing.
        sources = torch.full(
            (padded,),
            self._layout.padding_block,
            dtype=torch.long,
            device=self.device.torch_name,
        )
        targets = sources.clone()
        graph = self.device.capture(lambda: self._swap(sources, targets))
        self._swap_graphs[padded] = _SwapGraph(graph, sources, targets)
        return self._swap_graphs[padded]

    def _swap(self, sources: torch.Tensor, targets: torch.Tensor) -> None:
        for cache in self.caches:
            for tensor in cache:
                left = tensor.index_select(0, sources)
                right = tensor.index_select(0, targets)
                tensor.index_copy_(0, targets, left)
                tensor.index_copy_(0, sources, right)

    def _forward(
        self, inputs: StepInputs, caches: list[KVCache] | None
    ) -> torch.Tensor:
        assert self._model is not None, "load_model comes first"
        return self._model(inputs, caches)  # type: ignore[no-any-return]

    def _inputs(self, phase: str, bucket: Bucket, rows: Sequence[Row]) -> StepInputs:
        batch = pad_batch(
            rows, phase, bucket, self._layout, contiguous=self._contiguous
        )
        return StepInputs.from_batch(batch, phase, self.device.torch_name)

    def _peak_bytes(self, bucket: tuple[int, int, int]) -> int:
        return peak_bytes(self.shape, self._dtype, bucket, self._block_size)
