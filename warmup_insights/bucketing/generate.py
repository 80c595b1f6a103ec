"""From settings to buckets: ranges, their product, filters, speculative decoding."""

from __future__ import annotations

import gc
import math
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from functools import partial
from itertools import islice, product

from warmup_insights.bucketing.base import (
    DIMENSIONS,
    Bucket,
    DimensionRange,
    GeneratedBuckets,
    Phase,
)
from warmup_insights.bucketing.exponential import (
    EXPONENTIAL,
    exponential_range,
    log2_up,
)
from warmup_insights.bucketing.filters import (
    MAX_CANDIDATES,
    PhaseDraft,
    lower_to_model_len,
)
from warmup_insights.bucketing.linear import LINEAR, PADDING_AWARE, linear_range
from warmup_insights.bucketing.ranges import (
    RANGE_NAMES,
    Strategy,
    override_notes,
    range_name,
    resolve_parameters,
    variable_name,
)
from warmup_insights.bucketing.settings import BucketingSettings
from warmup_insights.errors import SettingError

STRATEGIES: dict[str, Strategy] = {
    strategy.name: strategy for strategy in (EXPONENTIAL, LINEAR, PADDING_AWARE)
}
"""The strategies by the value of VLLM_BUCKETING_STRATEGY."""

_EDGE = "the largest num_blocks becomes floor((max_model_len - query_len) / block_size)"


def generate(settings: BucketingSettings) -> GeneratedBuckets:
    """All buckets that an engine with these settings warms up, and why not the others.

    Source: `common.py`, `HPUBucketingManager.generate_prompt_buckets` and
    `generate_decode_buckets`, of vllm-gaudi.

    Raises:
        SettingError: a range is impossible, or no bucket of a phase is left.
    """
    if not settings.use_bucketing:
        note = "VLLM_ENABLE_BUCKETING is off: every shape runs as it is."
        return GeneratedBuckets("off", (), (), (), (), (), 0, (note,))
    rules = settings.rules
    if settings.strategy == "pad" and not (
        settings.bucket_file or rules.names_strategies
    ):
        raise SettingError(
            f"Version {settings.engine_version} has no padding-aware strategy; choose "
            "exp or lin, or a version from v0.20.0rc0 on"
        )
    with _collector_paused():
        prompt = offered(settings, "prompt")
        prompt_buckets = prompt.buckets()
        decode = offered(settings, "decode")
        # The first scheme starts without decode buckets; later ones do not.
        seeds = decode.buckets(may_be_empty=rules.early)
    decode_buckets = speculative_buckets(settings, seeds)
    return GeneratedBuckets(
        strategy="file" if settings.bucket_file else settings.strategy,
        prompt=prompt_buckets,
        decode=decode_buckets,
        seed_decode=seeds,
        ranges=prompt.ranges + decode.ranges,
        dropped=prompt.dropped() + decode.dropped(),
        fallback_max_ctx=max(each.num_blocks for each in decode_buckets)
        if rules.fallback in ("largest decode", "by phase")
        else 0,
        notes=grouped(
            *settings.notes, *override_notes(settings), *prompt.notes, *decode.notes
        ),
    )


def grouped(*notes: str) -> tuple[str, ...]:
    """Notes of single variables that end alike, such as in `has no effect with strategy
    exp.`, as one note that names them all."""
    names: dict[str, list[str]] = {}
    for note in notes:
        name, _, rest = note.partition(" ")
        names.setdefault(rest, []).append(name)
    return tuple(
        f"{', '.join(found)} {rest if len(found) == 1 else rest.replace('has', 'have', 1)}"
        for rest, found in names.items()
    )


@contextmanager
def _collector_paused() -> Iterator[None]:
    """Keep the garbage collector from visiting candidates again and again.

    They are tuples without cycles; visiting them costs as much as making them.
    """
    was_enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_enabled:
            gc.enable()


def speculative_buckets(
    settings: BucketingSettings, seeds: Iterable[Bucket]
) -> tuple[Bucket, ...]:
    """The decode buckets and, for each, those of a batch with speculative tokens, sorted.

    A sequence that verifies n tokens counts as n + 1 rows: the batch size is multiplied
    by that, with the same blocks where they suffice, and with multiplied blocks.
    Source: `common.py`, `HPUBucketingManager.generate_spec_decode_buckets`.
    """
    rows = 1 + settings.num_speculative_tokens
    if rows == 1 or not settings.rules.speculates:
        return tuple(sorted(seeds))
    buckets = set()
    for seed in seeds:
        buckets.add(seed)
        batch_size = seed.batch_size * rows
        grown = [
            seed._replace(batch_size=batch_size, num_blocks=seed.num_blocks * rows)
        ]
        if batch_size <= seed.num_blocks:
            grown.append(seed._replace(batch_size=batch_size))
        if not settings.use_contiguous_pa:
            grown = [
                lower_to_model_len(settings.blocks_per_seq, bucket) for bucket in grown
            ]
        buckets.update(grown)
    return tuple(sorted(buckets))


def offered(settings: BucketingSettings, phase: Phase) -> PhaseDraft:
    """The candidates of one phase, kept and dropped."""
    draft = PhaseDraft(settings, phase)
    if settings.bucket_file is not None:
        file = settings.bucket_file
        for bucket in file.prompt if phase == "prompt" else file.decode:
            draft.offer(bucket)
    elif settings.rules.early:
        offer_early(draft, settings, phase)
    else:
        _offer_product(draft, settings, phase)
    return draft


def _offer_product(
    draft: PhaseDraft, settings: BucketingSettings, phase: Phase
) -> None:
    strategy, names = STRATEGIES[settings.strategy], RANGE_NAMES[phase, 3]
    plan = strategy.prompt(settings) if phase == "prompt" else strategy.decode(settings)
    draft.notes = plan.notes
    draft.ranges = tuple(
        DimensionRange(
            phase,
            dimension,
            parameters,
            tuple(strategy.values(settings, parameters, range_name(phase, short))),
        )
        for dimension, short, parameters in zip(
            DIMENSIONS, names, plan[:3], strict=True
        )
    )
    batch_sizes, query_lens, blocks = (list(bounds.values) for bounds in draft.ranges)
    if phase == "prompt":
        query_lens = round_to_mamba_chunks(settings, query_lens)
    elif settings.use_contiguous_pa and blocks[-1] < settings.num_kv_blocks:
        blocks.append(settings.num_kv_blocks)
    count = len(batch_sizes) * len(query_lens) * len(blocks)
    if count > MAX_CANDIDATES:
        steps = ", ".join(
            f"{variable_name(phase, short, 'step')}={bounds.parameters[1]}"
            for short, bounds in zip(names, draft.ranges, strict=True)
        )
        raise SettingError(
            f"The {phase} ranges make {count} candidates, more than {MAX_CANDIDATES}; "
            f"raise a step ({steps})"
        )
    edge = blocks[-1] if phase == "prompt" and settings.has_edge_contexts else None
    for batch_size in batch_sizes:
        for num_blocks in blocks:
            if num_blocks == edge:
                _offer_edge(draft, settings, batch_size, query_lens, num_blocks)
                continue
            for query_len in query_lens:
                draft.offer(Bucket(batch_size, query_len, num_blocks))


def round_to_mamba_chunks(
    settings: BucketingSettings, query_lens: list[int]
) -> list[int]:
    """Query lengths as whole chunks, where the rules of the version round them."""
    chunk, rule = settings.mamba_chunk_size, settings.rules.mamba_chunks
    rounds = rule == "rounded" or (
        rule == "rounded if explicit" and settings.mamba_chunk_size_is_explicit
    )
    if not chunk or not rounds:
        return query_lens
    return [-(-query_len // chunk) * chunk for query_len in query_lens]


def _offer_edge(
    draft: PhaseDraft,
    settings: BucketingSettings,
    batch_size: int,
    query_lens: list[int],
    largest: int,
) -> None:
    """Offer the largest context of each query length instead of the range's largest.

    A context at or above VLLM_PROMPT_CTX_BUCKET_MAX, where that is read, is not used;
    the last one that was stays, which is the range's own before any was.
    """
    allowed = None
    if settings.rules.long_context == "edge below its override":
        allowed = settings.overrides.get("VLLM_PROMPT_CTX_BUCKET_MAX")
    num_blocks = largest
    for query_len in query_lens:
        longest = (settings.max_model_len - query_len) // settings.block_size
        if longest >= 0 and (allowed is None or longest < allowed):
            num_blocks = longest
        candidate = Bucket(batch_size, query_len, largest)
        actual = Bucket(batch_size, query_len, num_blocks)
        if actual != candidate:
            draft.replace(candidate, actual, _EDGE)
        draft.offer(actual)


_Range = tuple[tuple[int, ...], list[int]]


def offer_early(draft: PhaseDraft, settings: BucketingSettings, phase: Phase) -> None:
    """Offer the candidates of one phase by the first scheme.

    Prompt contexts have no range: they end where query and context fill the largest
    query length.
    Source: `exponential.py` and `linear.py`, `generate_prompt_buckets` and
    `generate_decode_buckets`, of vllm-gaudi v0.10.

    Raises:
        SettingError: a range is impossible, or the engine fails with these settings.
    """
    batch_sizes, lengths = _ranges(settings, phase)
    names = ("batch_size", "query_len" if phase == "prompt" else "num_blocks")
    draft.ranges = tuple(
        DimensionRange(phase, name, parameters, tuple(values))
        for name, (parameters, values) in zip(
            names, (batch_sizes, lengths), strict=True
        )
    )
    _check_count(phase, len(batch_sizes[1]) * len(lengths[1]))
    if phase == "decode":
        _offer_decode(draft, settings, batch_sizes[1], lengths[1])
        return
    longest = lengths[0][2]
    made = (
        Bucket(batch_size, query_len, num_blocks)
        for batch_size, query_len in product(batch_sizes[1], lengths[1])
        for num_blocks in _contexts(settings, query_len, longest)
    )
    candidates = list(islice(made, MAX_CANDIDATES + 1))
    _check_count(phase, len(candidates))
    for candidate in candidates:
        draft.offer(candidate)
    if draft.has_buckets:
        return
    for candidate in candidates:
        draft.keep(candidate)
    draft.notes = (
        f"max_num_batched_tokens={settings.max_num_batched_tokens} leaves no prompt "
        "bucket and is ignored; raise it, or lower a minimum.",
    )


def _check_count(phase: Phase, count: int) -> None:
    if count > MAX_CANDIDATES:
        raise SettingError(
            f"The {phase} ranges make more than {MAX_CANDIDATES} candidates; raise "
            "block_size or a step"
        )


def _offer_decode(
    draft: PhaseDraft,
    settings: BucketingSettings,
    batch_sizes: list[int],
    blocks: list[int],
) -> None:
    most = settings.num_kv_blocks
    is_linear = settings.strategy == "lin"
    for batch_size in batch_sizes:
        for num_blocks in blocks:
            if is_linear and batch_size <= num_blocks:
                draft.keep(Bucket(batch_size, 1, min(num_blocks, most)))
                if num_blocks >= most:
                    break
            else:
                draft.offer(Bucket(batch_size, 1, num_blocks))
    if not draft.has_buckets:
        draft.notes = ("No decode bucket is left: each step makes one of its own.",)


def _ranges(settings: BucketingSettings, phase: Phase) -> tuple[_Range, _Range]:
    """Parameters and values of the batch size, and of query length or blocks."""
    block_size, is_prompt = settings.block_size, phase == "prompt"
    most = settings.max_num_prefill_seqs if is_prompt else settings.max_num_seqs
    largest = settings.max_model_len if is_prompt else settings.num_kv_blocks
    if settings.strategy == "exp":
        batch: tuple[int, ...] = (1, 2, most, log2_up(most) + 1)
        length: tuple[int, ...] = (
            block_size,
            block_size,
            largest,
            log2_up(largest) + 1,
        )
        return (
            (batch, _exponential(settings, batch)),
            (length, _exponential(settings, length, half_linear=is_prompt)),
        )
    dimension = "seq" if is_prompt else "block"
    resolve = partial(resolve_parameters, settings.overrides, phase)
    length = resolve(dimension, block_size, block_size, largest)
    batch = resolve("bs", 1, 32, most)
    if is_prompt and settings.merged_prefill:
        budget = min(batch[2] * length[2], settings.max_num_batched_tokens)
        batch, length = (1, 1, 1), (*length[:2], budget)
    values = _linear(length, range_name(phase, dimension), may_be_empty=not is_prompt)
    is_set = "VLLM_DECODE_BLOCK_BUCKET_MAX" in settings.overrides
    if settings.use_contiguous_pa and not is_prompt and not is_set:
        values = sorted({*values, largest})
    sizes = _linear(batch, range_name(phase, "bs"), may_be_empty=not is_prompt)
    return (batch, sizes), (length, values)


def _linear(parameters: tuple[int, ...], name: str, *, may_be_empty: bool) -> list[int]:
    smallest, step, largest = parameters
    if smallest == 0:
        raise SettingError(f"{name}_MIN=0 never ends in this version; use 1 or more")
    return linear_range(smallest, step, largest, name=name, may_be_empty=may_be_empty)


def _exponential(
    settings: BucketingSettings, parameters: tuple[int, ...], half_linear: bool = False
) -> list[int]:
    return exponential_range(
        *parameters,
        rules=settings.rules,
        use_contiguous_pa=settings.use_contiguous_pa,
        half_linear=half_linear,
    )


def _contexts(
    settings: BucketingSettings, query_len: int, longest: int
) -> Iterator[int]:
    """The context blocks that one query length is warmed up with."""
    reaches_last = settings.rules.last_context
    reach = (longest - query_len) // settings.block_size
    if settings.strategy == "lin" and settings.prefix_caching:
        yield from range(reach + 1 + reaches_last)
        return
    yield 0
    if not settings.prefix_caching or reach == 0:
        return
    if reach < 0 or (reach == 1 and not reaches_last):
        raise SettingError(
            f"Version {settings.engine_version} fails at the query length {query_len} "
            f"with max_model_len={settings.max_model_len}; try another max_model_len"
        )
    count = log2_up(reach) + 1
    for index in range(1, count + 1) if reaches_last else range(count):
        share = (1 / (count if reaches_last else count - 1)) * index
        yield math.ceil(math.pow(reach, share))
