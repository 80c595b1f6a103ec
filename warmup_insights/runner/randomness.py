"""Random numbers on a device, the same for the same seed."""

from __future__ import annotations

import torch

_WITH_GENERATORS = ("cpu", "cuda")


def make_generator(device: str, seed: int) -> torch.Generator | None:
    """A generator of the device; None stands for its global one, seeded now.

    Not every backend lets a generator be made: there the global one has to do.
    """
    if device not in _WITH_GENERATORS:
        torch.manual_seed(seed)
        return None
    return torch.Generator(device).manual_seed(seed)
