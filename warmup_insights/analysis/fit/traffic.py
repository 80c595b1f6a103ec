"""What requests need of buckets: shapes of steps, and how often each occurs.

Shapes come from what a run did, from a trace of steps, or from request lengths; lengths
are turned into steps by a simple schedule, which is named in the notes.
"""

from __future__ import annotations

import heapq
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Annotated, Any, Literal

import msgspec
import numpy as np

from warmup_insights.analysis.sentences import count_of
from warmup_insights.bucketing.settings import BucketingSettings
from warmup_insights.errors import InputError
from warmup_insights.model.events import Bucket
from warmup_insights.model.summary import PHASES, RunSummary

MAX_REQUESTS = 20_000_000
MAX_VALUE = 1_000_000_000


@dataclass(frozen=True)
class ShapeCounts:
    """Distinct shapes (n, 3) of (batch_size, query_len, num_blocks), counts (n,)."""

    shapes: Any
    counts: Any

    @property
    def total(self) -> int:
        """Steps."""
        return int(self.counts.sum())

    def __len__(self) -> int:
        return len(self.counts)

    def where(self, mask: Any) -> ShapeCounts:
        """The shapes for which a mask is true."""
        return ShapeCounts(self.shapes[mask], self.counts[mask])


@dataclass(frozen=True)
class Traffic:
    """Shapes of prompts and of decode steps. `notes` are what was assumed."""

    name: str
    prompt: ShapeCounts
    decode: ShapeCounts
    notes: tuple[str, ...] = ()

    def of(self, phase: str) -> ShapeCounts:
        """The shapes of one phase."""
        return self.prompt if phase == "prompt" else self.decode


@dataclass(frozen=True)
class Requests:
    """Request lengths in tokens, as two arrays of equal size, in order of arrival."""

    name: str
    input_lens: Any
    output_lens: Any


def count_shapes(shapes: Any, counts: Any | None = None) -> ShapeCounts:
    """Equal shapes put together. `shapes` is (n, 3); without counts each counts once."""
    array = np.asarray(shapes, dtype=np.int64).reshape(-1, 3)
    weights = np.ones(len(array), np.int64) if counts is None else np.asarray(counts)
    order = np.lexsort(array.T[::-1])
    array = array[order]
    is_new = np.r_[True, (array[1:] != array[:-1]).any(axis=1)][: len(array)]
    sums = np.bincount(np.cumsum(is_new) - 1, weights=weights[order])
    return ShapeCounts(array[is_new], sums.astype(np.int64))


def traffic_of_run(summary: RunSummary, name: str) -> Traffic:
    """The shapes of a run while serving: every lookup, and every miss.

    Raises:
        InputError: the run met no shape, or states only those that were missed, or its
            buckets have two dimensions.
    """
    rows: dict[str, Counter[Bucket]] = {phase: Counter() for phase in PHASES}
    for use in summary.serving.uses if summary.serving is not None else ():
        if use.phase in rows:
            rows[use.phase][use.shape] += use.count
    missed = {(miss.phase, miss.shape): miss.count for miss in summary.misses}
    for (phase, shape), count in missed.items():
        # A recorder has a missed step as a use as well; a log only as a miss.
        if phase in rows:
            rows[phase].setdefault(shape, count)
    if not any(rows.values()):
        raise InputError(
            f"{name} met no shape while serving; use a run with requests, or a trace"
        )
    if all((phase, shape) in missed for phase in PHASES for shape in rows[phase]):
        raise InputError(
            f"{name} states only shapes that missed their buckets, not its traffic; use a "
            "recorded run or a trace, and `warmup-insights advise` for what to add"
        )
    prompt, decode = (_from_rows(rows[phase], phase, name) for phase in PHASES)
    return Traffic(name, prompt, decode)


def _from_rows(
    rows: Mapping[tuple[int, ...], int], phase: str, name: str
) -> ShapeCounts:
    full = [
        (shape[0], 1, shape[1]) if phase == "decode" and len(shape) == 2 else shape
        for shape in rows
    ]
    if any(len(shape) != 3 for shape in full):
        raise InputError(
            f"{name} has {phase} shapes of other than three dimensions; a bucket file "
            "needs (batch, query, blocks)"
        )
    return count_shapes(full, list(rows.values()))


Length = Annotated[int, msgspec.Meta(gt=0, lt=MAX_VALUE)]
Size = Annotated[int, msgspec.Meta(ge=0, lt=MAX_VALUE)]


class _Request(msgspec.Struct):
    input_len: Length
    output_len: Length


class _Step(msgspec.Struct):
    phase: Literal["prompt", "decode"]
    shape: list[Size]
    count: Length = 1

    def __post_init__(self) -> None:
        lengths = (3,) if self.phase == "prompt" else (2, 3)
        if len(self.shape) not in lengths or not self.shape[0]:
            raise ValueError(f"{self.shape} is no shape of a {self.phase} step")


class _Benchmark(msgspec.Struct):
    input_lens: list[Size]
    output_lens: list[Size]


def parse_trace(lines: Iterable[str | bytes], name: str) -> Traffic | Requests:
    """A JSONL trace, of requests or of steps.

    Each line is `{"input_len": 96, "output_len": 24}`, optionally with `arrival_s`, or
    `{"phase": "prompt", "shape": [1, 96, 0], "count": 3}`; one kind per trace.

    Raises:
        InputError: a line is neither, kinds are mixed, or there is no line.
    """
    requests: list[_Request] = []
    rows: dict[str, Counter[tuple[int, ...]]] = {phase: Counter() for phase in PHASES}
    for number, line in enumerate(lines, start=1):
        if line.strip():
            entry = _trace_line(line, f"{name}, line {number}")
            if isinstance(entry, _Request):
                requests.append(entry)
            else:
                rows[entry.phase][tuple(entry.shape)] += entry.count
    if requests and any(rows.values()):
        raise InputError(f"{name} mixes requests and steps; write one kind per trace")
    if requests:
        inputs = np.array([request.input_len for request in requests])
        outputs = np.array([request.output_len for request in requests])
        return Requests(name, inputs, outputs)
    if not any(rows.values()):
        raise InputError(f"{name} holds no request; each line is one JSON object")
    prompt, decode = (_from_rows(rows[phase], phase, name) for phase in PHASES)
    return Traffic(name, prompt, decode)


def _trace_line(line: str | bytes, where: str) -> _Request | _Step:
    try:
        content = msgspec.json.decode(line)
        is_step = isinstance(content, dict) and "phase" in content
        kind: type[_Request | _Step] = _Step if is_step else _Request
        return msgspec.convert(content, kind)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise InputError(
            f'{where}: {error}; write {{"input_len": 96, "output_len": 24}} or '
            '{"phase": "prompt", "shape": [1, 96, 0]}'
        ) from error


def parse_benchmark(text: str | bytes, name: str) -> Requests:
    """The lengths in a result of `vllm bench serve --save-result --save-detailed`.

    Raises:
        InputError: it holds no lengths.
    """
    try:
        found = msgspec.json.decode(text, type=_Benchmark)
    except msgspec.ValidationError as error:
        raise InputError(
            f"{name} has no input_lens and output_lens ({error}); save the benchmark "
            "with --save-result --save-detailed"
        ) from error
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise InputError(
            f"{name} holds no JSON: {error}; name a result of `vllm bench serve`"
        ) from error
    first, second = np.array(found.input_lens), np.array(found.output_lens)
    if len(first) != len(second):
        raise InputError(
            f"{name} has {len(first)} inputs and {len(second)} outputs; save it again"
        )
    keep = (first > 0) & (second > 0)
    if not keep.any():
        raise InputError(f"{name} has no request with output; use another result")
    return Requests(name, first[keep], second[keep])


def traffic_from_requests(requests: Requests, settings: BucketingSettings) -> Traffic:
    """The steps that requests make, by a schedule without waiting times.

    Every request is prefilled alone, in chunks of max_num_batched_tokens. Decode steps
    run with as many sequences as max_num_seqs and the KV cache allow; a sequence that
    ends makes room for the next request at once.

    Raises:
        InputError: a request is longer than max_model_len, or there are too many.
    """
    lengths = requests.input_lens + requests.output_lens
    too_long = int(lengths.max())
    if too_long > settings.max_model_len:
        raise InputError(
            f"{requests.name} has a request of {too_long} tokens, more than "
            f"max_model_len={settings.max_model_len}; raise it or shorten the request"
        )
    if len(lengths) > MAX_REQUESTS:
        raise InputError(
            f"{requests.name} has more than {MAX_REQUESTS} requests; use a part of them"
        )
    decode, is_cut = _decode_shapes(requests, settings)
    notes = [
        "Steps are made from lengths: prompts alone and in chunks, decodes with up to "
        f"{count_of(settings.max_num_seqs, 'sequence')} at any time."
    ]
    if is_cut:
        notes.append(
            f"Steps that need more than {settings.num_kv_blocks} KV blocks count as that "
            "many: the engine would preempt."
        )
    if settings.num_speculative_tokens:
        notes.append(
            "Steps are made as without drafts: how many are accepted, and the padding of "
            "the steps that verify them, is unknown."
        )
    if settings.use_contiguous_pa:
        notes.append(
            "With contiguous PA a decode step needs the highest block id; lengths only "
            "give the number of blocks, which is the least it can be."
        )
    return Traffic(
        requests.name, _prompt_shapes(requests, settings), decode, tuple(notes)
    )


def _prompt_shapes(requests: Requests, settings: BucketingSettings) -> ShapeCounts:
    lengths, counts = np.unique(requests.input_lens, return_counts=True)
    budget, block = settings.max_num_batched_tokens, settings.block_size
    shapes, weights = [], []
    start = 0
    while len(lengths):
        query = np.minimum(lengths - start, budget)
        context = np.full(len(lengths), -(-start // block))
        shapes.append(np.stack([np.ones_like(query), query, context], axis=1))
        weights.append(counts)
        start += budget
        rest = lengths > start
        lengths, counts = lengths[rest], counts[rest]
    return count_shapes(np.concatenate(shapes), np.concatenate(weights))


def _decode_shapes(
    requests: Requests, settings: BucketingSettings
) -> tuple[ShapeCounts, bool]:
    """Batch size and blocks of each decode step, and whether the cache was too small.

    The first token comes from the prompt, so a request decodes one step less than it
    has output. Blocks are counted by their changes: at the start of a sequence, where
    it fills a block, and at its end.
    """
    steps = requests.output_lens - 1
    keep = steps > 0
    lengths, steps = requests.input_lens[keep] + 1, steps[keep]
    if not len(steps):
        return count_shapes(np.zeros((0, 3))), False
    block = settings.block_size
    starts = _start_steps(steps, settings.max_num_seqs)
    ends = starts + steps
    total = int(ends.max())
    batch = np.bincount(starts, minlength=total + 1) - np.bincount(
        ends, minlength=total + 1
    )
    first, last = -(-lengths // block), -(-(lengths + steps - 1) // block)
    change = np.bincount(starts, weights=first, minlength=total + 1)
    change -= np.bincount(ends, weights=last, minlength=total + 1)
    # The k-th further block of a sequence is needed when its length passes a multiple.
    grown = (last - first).astype(np.int64)
    owner = np.repeat(np.arange(len(grown)), grown)
    nth = np.arange(len(owner)) - np.repeat(np.cumsum(grown) - grown, grown)
    when = starts[owner] + (first[owner] + nth) * block + 1 - lengths[owner]
    change += np.bincount(when, minlength=total + 1)[: total + 1]
    sizes, blocks = np.cumsum(batch)[:-1], np.cumsum(change)[:-1].astype(np.int64)
    running = sizes > 0
    sizes, blocks = sizes[running], blocks[running]
    is_cut = bool((blocks > settings.num_kv_blocks).any())
    blocks = np.minimum(blocks, settings.num_kv_blocks)
    sizes = np.minimum(sizes, np.maximum(blocks, 1))
    shapes = np.stack([sizes, np.ones_like(sizes), blocks], axis=1)
    return count_shapes(shapes), is_cut


def _start_steps(steps: Any, num_seqs: int) -> Any:
    """When each sequence starts: the next one takes the place that is free first."""
    free = [0] * min(num_seqs, len(steps))
    starts = np.empty(len(steps), np.int64)
    replace = heapq.heapreplace
    for index, count in enumerate(steps.tolist()):
        start = free[0]
        starts[index] = start
        replace(free, start + count)
    return starts
