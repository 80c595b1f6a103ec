"""What requests ask of buckets: shapes of steps, and how often each occurs.

Shapes come from what a run did, from a trace of steps, or from request lengths; lengths
are turned into steps by a simple schedule, which is said in the notes.
"""

from __future__ import annotations

import heapq
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import msgspec
import numpy as np

from warmup_insights.bucketing.settings import BucketingSettings
from warmup_insights.errors import InputError
from warmup_insights.model.events import BucketMiss, BucketUsed, Event

MAX_REQUESTS = 20_000_000
MAX_VALUE = 1_000_000_000
PHASES = ("prompt", "decode")


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


@dataclass(frozen=True)
class Traffic:
    """Shapes of prompts and of decode steps. `notes` say what was assumed."""

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
    if not len(array):
        return ShapeCounts(array, np.zeros(0, np.int64))
    base = int(array.max()) + 1
    if base**3 < 2**62:
        # One number per shape sorts much faster than rows do.
        keys = (array[:, 0] * base + array[:, 1]) * base + array[:, 2]
        _, first, inverse = np.unique(keys, return_index=True, return_inverse=True)
        unique = array[first]
    else:
        unique, inverse = np.unique(array, axis=0, return_inverse=True)
    sums = np.bincount(inverse.ravel(), weights=weights, minlength=len(unique))
    return ShapeCounts(unique, sums.astype(np.int64))


def traffic_from_events(events: Iterable[Event], name: str) -> Traffic:
    """The shapes of a run while serving: every lookup, and every miss.

    Raises:
        InputError: the run met no shape, or its buckets have two dimensions.
    """
    rows: dict[str, dict[tuple[int, ...], int]] = {phase: {} for phase in PHASES}
    missed: dict[str, dict[tuple[int, ...], int]] = {phase: {} for phase in PHASES}
    for event in events:
        if isinstance(event, BucketUsed) and event.phase in rows:
            found = rows[event.phase]
        elif isinstance(event, BucketMiss) and event.phase in rows:
            found = missed[event.phase]
        else:
            continue
        found[event.shape] = found.get(event.shape, 0) + event.count
    for phase in PHASES:
        # A recorder tells a missed step as a use as well; a log only as a miss.
        for shape, count in missed[phase].items():
            rows[phase].setdefault(shape, count)
    notes = () if any(rows.values()) else ("no shape",)
    if notes:
        raise InputError(
            f"{name} met no shape while serving; use a run with requests, or a trace"
        )
    parts = {phase: _from_rows(rows[phase], phase, name) for phase in PHASES}
    only_missed = not any(set(rows[phase]) - set(missed[phase]) for phase in PHASES)
    if only_missed:
        notes = ("Only missed shapes are known; those that had a bucket are not.",)
    return Traffic(name, parts["prompt"], parts["decode"], notes)


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


class _TraceLine(msgspec.Struct):
    input_len: int | None = None
    output_len: int | None = None
    phase: str | None = None
    shape: list[int] | None = None
    count: int = 1
    arrival_s: float | None = None


def parse_trace(lines: Iterable[str | bytes], name: str) -> Traffic | Requests:
    """A JSONL trace, of requests or of steps.

    Each line is `{"input_len": 96, "output_len": 24}`, optionally with `arrival_s`, or
    `{"phase": "prompt", "shape": [1, 96, 0], "count": 3}`; one kind per trace.

    Raises:
        InputError: a line is neither, kinds are mixed, or there is no line.
    """
    decoder = msgspec.json.Decoder(_TraceLine)
    inputs: list[int] = []
    outputs: list[int] = []
    rows: dict[str, dict[tuple[int, ...], int]] = {phase: {} for phase in PHASES}
    for number, line in enumerate(lines, start=1):
        if not line.strip():
            continue
        where = f"{name}, line {number}"
        try:
            entry = decoder.decode(line)
        except (msgspec.DecodeError, UnicodeDecodeError) as error:
            raise InputError(f"{where}: {error}") from error
        if entry.input_len is not None and entry.output_len is not None:
            if (
                not 0 < entry.input_len < MAX_VALUE
                or not 0 < entry.output_len < MAX_VALUE
            ):
                raise InputError(f"{where}: lengths are whole numbers above 0")
            inputs.append(entry.input_len)
            outputs.append(entry.output_len)
        else:
            _add_step(entry, rows, where)
    if inputs and any(rows.values()):
        raise InputError(f"{name} mixes requests and steps; write one kind per trace")
    if inputs:
        return Requests(name, np.array(inputs), np.array(outputs))
    if not any(rows.values()):
        raise InputError(f"{name} holds no request; each line is one JSON object")
    return Traffic(
        name,
        _from_rows(rows["prompt"], "prompt", name),
        _from_rows(rows["decode"], "decode", name),
    )


def _add_step(
    entry: _TraceLine, rows: dict[str, dict[tuple[int, ...], int]], where: str
) -> None:
    shape = entry.shape
    width_is_right = shape is not None and len(shape) in (
        (3,) if entry.phase == "prompt" else (2, 3)
    )
    if entry.phase not in rows or shape is None or not width_is_right:
        raise InputError(
            f'{where}: neither {{"input_len": 96, "output_len": 24}} nor {{"phase": '
            '"prompt", "shape": [1, 96, 0]}'
        )
    is_usable = all(0 <= value < MAX_VALUE for value in shape) and shape[0] > 0
    if not is_usable or not 0 < entry.count < MAX_VALUE:
        raise InputError(f"{where}: {shape} x {entry.count} is no shape with a count")
    own = rows[entry.phase]
    own[tuple(shape)] = own.get(tuple(shape), 0) + entry.count


def parse_benchmark(text: str | bytes, name: str) -> Requests:
    """The lengths in a result of `vllm bench serve --save-result --save-detailed`.

    Raises:
        InputError: it holds no lengths.
    """
    try:
        content = msgspec.json.decode(text)
    except msgspec.DecodeError as error:
        raise InputError(f"{name} holds no JSON: {error}") from error
    lists = [
        content.get(key) if isinstance(content, dict) else None
        for key in ("input_lens", "output_lens")
    ]
    for values in lists:
        if not isinstance(values, list) or not values or not _are_lengths(values):
            raise InputError(
                f"{name} has no input_lens and output_lens; save the benchmark with "
                "--save-result --save-detailed"
            )
    first, second = (np.array(values, dtype=np.int64) for values in lists)
    if len(first) != len(second):
        raise InputError(f"{name} has {len(first)} inputs and {len(second)} outputs")
    keep = (first > 0) & (second > 0)
    if not keep.any():
        raise InputError(f"{name} has no request that gave any output")
    return Requests(name, first[keep], second[keep])


def _are_lengths(values: Sequence[Any]) -> bool:
    return all(
        isinstance(value, int)
        and not isinstance(value, bool)
        and 0 <= value < MAX_VALUE
        for value in values
    )


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
        raise InputError(f"{requests.name} has more than {MAX_REQUESTS} requests")
    decode, is_cut = _decode_shapes(requests, settings)
    notes = [
        "Steps are made from lengths: prompts alone and in chunks, decodes with up to "
        f"{settings.max_num_seqs} sequences at any time."
    ]
    if is_cut:
        notes.append(
            f"Steps that need more than {settings.num_kv_blocks} KV blocks count as that "
            "many: the engine would preempt."
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
