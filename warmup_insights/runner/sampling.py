"""The sampler itself: one pass over a batch whose rows sample differently."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch

from warmup_insights.runner.engine import SamplingParams

_WITH_GENERATORS = ("cpu", "cuda")


def make_generator(device: str, seed: int) -> torch.Generator | None:
    """A generator of the device; None stands for its global one, seeded now.

    Not every backend has generators of its own: there the global one is used.
    """
    if device not in _WITH_GENERATORS:
        torch.manual_seed(seed)
        return None
    return torch.Generator(device).manual_seed(seed)


@dataclass(frozen=True)
class SamplingTensors:
    """The settings of a batch on the device, one entry for each row."""

    temperature: torch.Tensor
    top_p: torch.Tensor
    top_k: torch.Tensor
    is_greedy: torch.Tensor
    all_greedy: bool

    @classmethod
    def make(cls, params: Sequence[SamplingParams], device: str) -> SamplingTensors:
        """The tensors for these settings."""

        def tensor(values: list[float], dtype: torch.dtype) -> torch.Tensor:
            return torch.tensor(values, dtype=dtype, device=device)

        greedy = [item.is_greedy for item in params]
        return cls(
            # Greedy rows divide by 1: what they would sample is not used.
            tensor([item.temperature or 1.0 for item in params], torch.float32),
            tensor([item.top_p for item in params], torch.float32),
            tensor([item.top_k for item in params], torch.long),
            tensor([float(flag) for flag in greedy], torch.bool),
            all(greedy),
        )


class Sampler:
    """Chooses tokens; keeps the tensors of a batch that has not changed."""

    def __init__(self, device: str, seed: int) -> None:
        self._device = device
        self._generator = make_generator(device, seed)
        self._tensors: SamplingTensors | None = None
        self._params: tuple[SamplingParams, ...] = ()

    def sample(
        self,
        logits: torch.Tensor,
        params: Sequence[SamplingParams],
        *,
        batch_changed: bool,
    ) -> torch.Tensor:
        """One token for each row of the logits (B, vocab).

        With `batch_changed` the settings are sent to the device again; else only when
        they differ from those of the last call.
        """
        tensors = self._tensors
        if batch_changed or tensors is None or self._params != tuple(params):
            tensors = SamplingTensors.make(params, self._device)
            self._tensors, self._params = tensors, tuple(params)
        greedy = logits.argmax(dim=-1)
        if tensors.all_greedy:
            return greedy
        return torch.where(tensors.is_greedy, greedy, self._draw(logits, tensors))

    def _draw(self, logits: torch.Tensor, tensors: SamplingTensors) -> torch.Tensor:
        scaled = logits / tensors.temperature.unsqueeze(-1)
        probabilities = restrict(scaled, tensors.top_k, tensors.top_p).softmax(dim=-1)
        # The largest p / e with exponential e falls on each token with probability p.
        noise = torch.empty_like(probabilities).exponential_(generator=self._generator)
        return (probabilities / noise.clamp(min=1e-20)).argmax(dim=-1)


def restrict(
    logits: torch.Tensor, top_k: torch.Tensor, top_p: torch.Tensor
) -> torch.Tensor:
    """Logits (B, vocab) with the tokens outside top-k and top-p at minus infinity.

    top-p keeps the fewest tokens that reach it together, and always the first one;
    ties with the last token that is kept are kept too.
    """
    ordered = logits.sort(dim=-1, descending=True).values
    size = logits.shape[-1]
    counts = torch.where(top_k > 0, top_k, size).clamp(max=size)
    ranks = torch.arange(size, device=logits.device)
    masked = ordered.masked_fill(ranks >= counts.unsqueeze(-1), float("-inf"))
    shares = masked.softmax(dim=-1)
    before = shares.cumsum(dim=-1) - shares
    kept = (before < top_p.unsqueeze(-1)) & (ranks < counts.unsqueeze(-1))
    kept[:, :1] = True
    last = kept.sum(dim=-1, keepdim=True) - 1
    return logits.masked_fill(logits < ordered.gather(-1, last), float("-inf"))
