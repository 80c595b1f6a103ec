"""A text of an error, the rule that it belongs to, and the ways out: one row of a table."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, replace

from warmup_insights.analysis.advice.change import Way

MAX_TEXT = 2000
AS_STATED = Way("a value as the message requires it")
EAGER = Way.that_sets(
    "slower decoding; what kernels and samplers compile when they run (Triton, FlashInfer, "
    "flex_attention) is compiled all the same",
    ": the model is neither compiled nor captured",
    enforce_eager=True,
)
NO_DEEP_GEMM = Way.that_sets("slower FP8 kernels", VLLM_USE_DEEP_GEMM="0")
DEEP_GEMM_ALONE = Way(
    "VLLM_USE_DEEP_GEMM=0",
    "does not help: the part has no other kernels",
    kind="no help",
)
OTHER_BUILD = Way(
    "a build of torch, vLLM and its kernels that was made for this device: a newer image for a "
    "newer device; for an older one TORCH_CUDA_ARCH_LIST (ROCm: PYTORCH_ROCM_ARCH) when building",
    "another image",
)
OTHER_WEIGHTS = Way(
    "another build of the model: 16 bits, or a quantisation of this device",
    "another checkpoint; check its quality and size",
)
SMALLER_BUCKETS = Way(
    "smaller largest buckets (batch x length: VLLM_PROMPT_BS_BUCKET_MAX, --max-num-seqs, "
    "--max-num-batched-tokens), where it fails in one of them or in the profiling run",
    "such batches run in more pieces",
)
MEMORY_OF_SHM = Way(
    "a larger /dev/shm: --ipc=host or --shm-size 16g in Docker, in Kubernetes an emptyDir "
    "with medium: Memory mounted there",
    "host memory, as far as it is used",
)
MORE_HOST = Way(
    "more host memory for the process (the limit of the container), smaller --swap-space and "
    "--cpu-offload-gb, fewer engines at once",
    "host memory",
)
WHEELS = (
    "`uv pip install vllm --torch-backend={cuda} --extra-index-url "
    "https://wheels.vllm.ai/RELEASE/{cuda}`, as far as the release has such a build"
)
"""vLLM `docs/getting_started/installation/gpu.cuda.inc.md`."""


@dataclass(frozen=True)
class Statement:
    """What a text means: the rule that it belongs to, a title, the ways out."""

    rule: str
    title: str
    ways: tuple[Way, ...]


WaysOut = tuple[Way, ...] | Callable[[re.Match[str]], Iterable[Way]]


@dataclass(frozen=True)
class KnownError:
    """A text, and what it means.

    Suggestions and changes may refer to groups of the pattern as `{1}`; where values must
    be computed from them, `ways` is a function of the match.
    """

    rule: str
    pattern: str
    title: str
    ways: WaysOut

    def statement(self, message: str) -> Statement | None:
        """What the text of an error means, with what it states in the ways out; None where it
        does not have this one."""
        match = re.search(self.pattern, message[:MAX_TEXT])
        if match is None:
            return None
        own = (match[0], *match.groups(""))
        if callable(self.ways):
            found = self.ways(match)
        else:
            found = (made for way in self.ways for made in _filled(way, own))
        return Statement(self.rule, self.title, tuple(found) or (AS_STATED,))


def _filled(way: Way, own: tuple[str, ...]) -> Iterator[Way]:
    """The way with groups of a text in it; of a setting digits are a number, and where the
    text states 0 for one there is no such way."""
    texts = {
        name: value.format(*own)
        for name, value in way.changes.items()
        if isinstance(value, str) and "{" in value
    }
    numbers = {name: int(text) for name, text in texts.items() if text.isdecimal()}
    if 0 not in numbers.values():
        yield replace(
            way,
            suggestion=way.suggestion.format(*own),
            price=way.price.format(*own),
            changes={**way.changes, **texts, **numbers},
        )


def rows(rule: str, *rows: tuple[str, str, WaysOut]) -> tuple[KnownError, ...]:
    """Rows of one rule: text, what it means, and the ways out."""
    return tuple(KnownError(rule, *row) for row in rows)
