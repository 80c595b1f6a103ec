"""How much of a bucket is padding: for one shape, and for many request lengths.

Lengths are measured or assumed; a trial is one strategy on one configuration.
"""

from __future__ import annotations

from bisect import bisect_right
from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from itertools import accumulate
from operator import itemgetter
from typing import Literal, NamedTuple

from warmup_insights.bucketing.base import (
    Bucket,
    GeneratedBuckets,
    Phase,
    context_blocks,
)
from warmup_insights.bucketing.generate import STRATEGIES, generate
from warmup_insights.bucketing.lookup import BucketTable, Lookup
from warmup_insights.bucketing.settings import BucketingSettings
from warmup_insights.errors import InputError

Assumption = Literal["uniform", "log-uniform"]

MAX_LINES = 1_000_000
_NUM_POINTS = 512


@dataclass(frozen=True)
class LengthDistribution:
    """Lengths in tokens with weights; `name` is where they come from.

    `is_assumed` is true for a shape that was not measured; state it wherever it is shown.
    """

    name: str
    weights: tuple[tuple[int, float], ...]
    is_assumed: bool


def parse_lengths(lines: Iterable[str], name: str) -> LengthDistribution:
    """Lengths from lines `LENGTH` or `LENGTH COUNT`; `#` starts a comment.

    Raises:
        InputError: a line holds something else, or there is no length at all.
    """
    counts: Counter[int] = Counter()
    for number, line in enumerate(lines, 1):
        if number > MAX_LINES:
            raise InputError(f"{name} has more than {MAX_LINES} lines; use counts")
        words = line.split("#", 1)[0].replace(",", " ").split()
        if not words:
            continue
        if len(words) > 2 or not all(
            word.isascii() and word.isdigit() and len(word) < 10 for word in words
        ):
            raise InputError(
                f"{name}:{number}: {line.strip()[:40]!r} is no length; write one in tokens, "
                "or a length and a count"
            )
        length = int(words[0])
        if length < 1:
            raise InputError(
                f"{name}:{number}: the length {length} is too small; use 1 or more"
            )
        counts[length] += int(words[1]) if len(words) == 2 else 1
    weights = tuple((length, float(count)) for length, count in sorted(counts.items()))
    if not any(weight for _, weight in weights):
        raise InputError(f"{name} holds no length; write one number of tokens a line")
    return LengthDistribution(name, weights, is_assumed=False)


def assume_lengths(assumption: Assumption, longest: int) -> LengthDistribution:
    """Lengths from 1 to `longest`, each equally likely or each magnitude equally likely.

    At most 512 lengths stand for all of them, evenly spaced or evenly in proportion; the
    shortest, of which most is padding, and the longest are among them.
    """
    if assumption == "uniform":
        last = min(_NUM_POINTS, longest) - 1
        points = {
            1 + (longest - 1) * index // max(1, last) for index in range(last + 1)
        }
    else:
        points = {
            round(longest ** (index / (_NUM_POINTS - 1)))
            for index in range(_NUM_POINTS)
        }
    ordered = sorted(points)
    if assumption == "uniform":
        weights = tuple((length, 1.0) for length in ordered)
    else:
        # Small lengths stand for fewer points; the weight of 1 / length evens it out.
        gaps = [
            length - before
            for before, length in zip([0, *ordered[:-1]], ordered, strict=True)
        ]
        weights = tuple(
            (length, gap / length) for length, gap in zip(ordered, gaps, strict=True)
        )
    return LengthDistribution(
        f"{assumption} from 1 to {longest} (assumed)", weights, is_assumed=True
    )


_MAX_BATCH_SIZES = 32
_MAX_FULL_CHUNKS = 4096


class Padding(NamedTuple):
    """Bucket minus shape, per dimension and in tokens; negative where it is smaller.

    `tokens` are computed but belong to no request, `context_tokens` are read from the
    KV cache but belong to none. `ratio` is the share of `tokens` in the bucket.
    """

    batch_size: int
    query_len: int
    num_blocks: int
    tokens: int
    context_tokens: int
    ratio: float


@dataclass(frozen=True)
class PaddingSummary:
    """The padding of many shapes, each weighted by how often it occurs.

    `ratio` is the padded share of all that is executed, `mean` the padding of one
    shape in `unit`, `worst_*` the shape that wastes the largest share of its bucket.
    `uncovered` is the share of shapes for which no bucket was generated. Decode blocks that
    the engine lowers to the largest prepared are padded by nothing: such shapes count in
    `uncovered` alone.
    """

    unit: str
    num_shapes: int
    ratio: float
    mean: float
    worst_ratio: float
    worst_shape: Bucket
    worst_bucket: Bucket
    uncovered: float


class PaddingReport(NamedTuple):
    """Padding of prompts in tokens, of decode steps in sequences and in blocks.

    None where no length of the distribution makes a shape that the engine can hold.
    """

    prompt: PaddingSummary | None
    decode_sequences: PaddingSummary | None
    decode_blocks: PaddingSummary | None


class _Sample(NamedTuple):
    weight: float
    needed: int
    executed: int
    lookup: Lookup


def padding_of(phase: Phase, shape: Bucket, bucket: Bucket, block_size: int) -> Padding:
    """The padding of one shape in one bucket."""
    executed = bucket.batch_size * bucket.query_len
    tokens = executed - shape.batch_size * shape.query_len
    blocks = context_blocks(phase, bucket) - context_blocks(phase, shape)
    return Padding(
        bucket.batch_size - shape.batch_size,
        bucket.query_len - shape.query_len,
        bucket.num_blocks - shape.num_blocks,
        tokens,
        blocks * block_size,
        tokens / executed if executed else 0.0,
    )


def report_padding(
    settings: BucketingSettings, table: BucketTable, lengths: LengthDistribution
) -> PaddingReport:
    """The padding that requests of these lengths, in tokens, would meet.

    A prompt runs alone, in chunks of at most max_num_batched_tokens (of more than 4096
    full ones an even selection stands for all). A decode step runs
    with every batch size from 1 to max_num_seqs (32 of them at most), all sequences of
    one length; shapes that the KV cache cannot hold are left out. Nothing is added to
    the table.
    """
    decode = list(_decode_samples(settings, table, lengths))
    return PaddingReport(
        _summarise("tokens", _prompt_samples(settings, table, lengths)),
        _summarise("sequences", (sequences for sequences, _ in decode)),
        _summarise("blocks", (blocks for _, blocks in decode)),
    )


def _prompt_samples(
    settings: BucketingSettings, table: BucketTable, lengths: LengthDistribution
) -> Iterator[_Sample]:
    budget = settings.max_num_batched_tokens
    weights = sorted(
        (length, weight)
        for length, weight in lengths.weights
        if length <= settings.max_model_len
    )
    for length, weight in weights:
        start = (length - 1) // budget * budget
        yield _prompt_sample(settings, table, start, length - start, weight)
    if not weights:
        return
    # Chunks that are not the last one are full, and the same for all longer lengths.
    num_full = (weights[-1][0] - 1) // budget
    stride = -(-num_full // _MAX_FULL_CHUNKS) or 1
    longer = list(accumulate(weight for _, weight in reversed(weights)))
    for chunk in range(0, num_full, stride):
        shorter = bisect_right(weights, (chunk + 1) * budget, key=itemgetter(0))
        weight = longer[len(weights) - shorter - 1] * stride
        yield _prompt_sample(settings, table, chunk * budget, budget, weight)


def _prompt_sample(
    settings: BucketingSettings,
    table: BucketTable,
    start: int,
    query_len: int,
    weight: float,
) -> _Sample:
    blocks = -(-start // settings.block_size)
    found = table.peek("prompt", (1, query_len, blocks))
    executed = found.bucket.batch_size * found.bucket.query_len
    return _Sample(weight, query_len, executed, found)


def _decode_samples(
    settings: BucketingSettings, table: BucketTable, lengths: LengthDistribution
) -> Iterator[tuple[_Sample, _Sample]]:
    num_seqs = settings.max_num_seqs
    step = -(-num_seqs // _MAX_BATCH_SIZES)
    batch_sizes = range(num_seqs, 0, -step)
    for length, weight in lengths.weights:
        if length > settings.max_model_len:
            continue
        for batch_size in batch_sizes:
            blocks = batch_size * -(-length // settings.block_size)
            if blocks > settings.num_kv_blocks:
                continue
            found = table.peek("decode", (batch_size, blocks))
            bucket = found.bucket
            yield (
                _Sample(weight, batch_size, bucket.batch_size, found),
                _Sample(weight, blocks, bucket.num_blocks, found),
            )


def _summarise(unit: str, samples: Iterable[_Sample]) -> PaddingSummary | None:
    count = 0
    weights = held = executed = padded = uncovered = 0.0
    worst: tuple[float, Lookup] | None = None
    for sample in samples:
        padding = sample.executed - sample.needed
        share = padding / sample.executed if sample.executed else 0.0
        count += 1
        weights += sample.weight
        if padding >= 0:
            held += sample.weight
            executed += sample.weight * sample.executed
            padded += sample.weight * padding
        if sample.lookup.outcome != "found":
            uncovered += sample.weight
        if worst is None or share > worst[0]:
            worst = share, sample.lookup
    if worst is None or not weights:
        return None
    return PaddingSummary(
        unit,
        count,
        padded / executed if executed else 0.0,
        padded / held if held else 0.0,
        worst[0],
        worst[1].shape,
        worst[1].bucket,
        uncovered / weights,
    )


@dataclass(frozen=True)
class Trial:
    """Buckets and their padding, or the `problem` that leaves none.

    `padding` is None as well where no request lengths were given.
    """

    strategy: str
    title: str
    generated: GeneratedBuckets | None = None
    padding: PaddingReport | None = None
    problem: str | None = None


def try_settings(
    settings: BucketingSettings, lengths: LengthDistribution | None = None
) -> Trial:
    """What the settings generate, and the padding that requests of the lengths meet."""
    name = settings.strategy
    title = STRATEGIES[name].title if settings.bucket_file is None else "file"
    try:
        generated = generate(settings)
    except InputError as error:
        return Trial(name, title, problem=str(error))
    padding = None
    if lengths is not None:
        padding = report_padding(settings, BucketTable(settings, generated), lengths)
    return Trial(name, title, generated, padding)
