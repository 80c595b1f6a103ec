"""Advice on buckets: impossible, never compiled, missed and unused ones; which strategy makes them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from statistics import median

from warmup_insights.analysis.advice.change import Value, Way
from warmup_insights.analysis.advice.facts import LEAST_S, RunFacts
from warmup_insights.analysis.advice.finding import (
    Finding,
    first_lines,
    rule,
    severity_in,
)
from warmup_insights.analysis.misses import (
    WORDS,
    Diagnosis,
    diagnose,
    dimensions_of,
    file_lines,
    highest_needs,
)
from warmup_insights.analysis.plan.regenerate import (
    bucketing_settings,
    reproducing_settings,
    strategy_of,
    strategy_variable,
)
from warmup_insights.analysis.sentences import count_of
from warmup_insights.bucketing.generate import generate
from warmup_insights.bucketing.ranges import RANGE_NAMES
from warmup_insights.errors import InputError
from warmup_insights.model.events import Bucket
from warmup_insights.model.summary import PHASES, RunSummary, is_true
from warmup_insights.rules.setting_lives import has_setting
from warmup_insights.units import format_bytes, format_duration

CONTEXT_MAX = "VLLM_PROMPT_CTX_BUCKET_MAX"


def reads_ranges(summary: RunSummary) -> bool:
    """Whether range variables take effect: shown by the strategy, or printed as read.

    Only the linear strategies print each range with its default.
    """
    return bool(summary.defaults) or strategy_of(summary) in ("lin", "pad")


def regenerated(
    summary: RunSummary, strategy: str, changes: Mapping[str, Value] | None = None
) -> dict[str, list[Bucket]] | None:
    """Buckets by phase with a strategy and some changed ranges, as this version makes them.

    None where the run lacks a limit that they follow from. Its own lists come out again
    where nothing else had an influence; see `reproducing_settings`.
    """
    variables = dict([strategy_variable(summary, strategy)])
    variables |= {name: str(value) for name, value in (changes or {}).items()}
    try:
        made = generate(bucketing_settings(summary, variables=variables))
    except (InputError, ValueError):
        return None
    return {"prompt": list(made.prompt), "decode": list(made.decode)}


def context_max_leaves_zero(summary: RunSummary) -> bool:
    """Whether prompts get no context with VLLM_PROMPT_CTX_BUCKET_MAX=0 in this version.

    Some versions add the longest context of each query length, whatever the range is,
    so the buckets are generated to find out.
    """
    if strategy_of(summary) != "lin" or not has_setting(summary, CONTEXT_MAX):
        return False
    changes: dict[str, Value] = {"VLLM_PROMPT_CTX_BUCKET_MIN": 0, CONTEXT_MAX: 0}
    made = regenerated(summary, "lin", changes)
    prompts = made["prompt"] if made is not None else []
    return bool(prompts) and all(bucket[2] == 0 for bucket in prompts)


def other_strategy(summary: RunSummary) -> tuple[str, Value, dict[str, int]] | None:
    """Variable and value of the other strategy, and how many buckets a phase has then.

    None unless the run's own buckets come out of the rules exactly.
    """
    own = strategy_of(summary)
    if own not in ("lin", "exp") or reproducing_settings(summary) is None:
        return None
    other = "exp" if own == "lin" else "lin"
    made = regenerated(summary, other)
    if made is None:
        return None
    counts = {phase: len(buckets) for phase, buckets in made.items()}
    return (*strategy_variable(summary, other), counts)


BUCKET_FILE = "VLLM_BUCKETING_FROM_FILE"
ALL_IN_FILE = "the file holds all buckets: those of this run too, as the run lists them"
FILE_REPLACES = (
    "the file takes the place of all ranges, and a shape is padded to the next larger bucket of "
    "it"
)
"""Source: vllm-gaudi `common.py`, `generate_prompt_buckets` and `find_prompt_bucket`."""


@rule(
    "decode buckets need more KV blocks than exist, with contiguous PA",
    "decode buckets of three dimensions, number of KV blocks, contiguous PA",
    formula="time of these buckets",
    margin="not without contiguous PA: shared prefixes count more than once",
    source="vllm-gaudi extension/bucketing/linear.py get_decode_cfgs",
    example="made up: buckets of up to 4,096 blocks, and a cache of 1,024",
)
def blocks_beyond_cache(facts: RunFacts) -> Iterator[Finding]:
    """Decode buckets need more KV blocks than the cache has."""
    blocks = facts.figure("num_kv_blocks")
    listed = facts.summary.phase("decode").buckets
    # Without contiguous PA shared prefixes count once for each sequence, so that more
    # blocks than there are can be in use (vllm-gaudi `linear.py get_decode_cfgs`).
    if not blocks or not is_true(facts.summary.config, "use_contiguous_pa"):
        return
    beyond = sorted(b for b in listed if len(b) == 3 and b[2] > blocks)
    if not beyond:
        return
    largest = max(bucket[2] for bucket in beyond)
    among = set(beyond)
    rows = [row for row in facts.rows if row.phase == "decode" and row.bucket in among]
    seconds = facts.seconds(rows)
    saved = f"; {format_duration(seconds)} of warm-up" if seconds is not None else ""
    yield Finding(
        severity_in(facts.start, seconds, "low"),
        f"{len(beyond)} of {len(listed)} decode buckets need up to {largest:,} "
        f"blocks, and the cache has {int(blocks):,}.",
        {"num_buckets": len(beyond), "largest": largest, "num_kv_blocks": int(blocks)},
        "VLLM_DECODE_BLOCK_BUCKET_MAX",
        f"VLLM_DECODE_BLOCK_BUCKET_MAX={int(blocks)}",
        f"{len(beyond)} buckets fewer that no batch can fill{saved}",
        first_lines([str(bucket) for bucket in beyond]),
        changes={"VLLM_DECODE_BLOCK_BUCKET_MAX": int(blocks)},
        gain_s=(0.5 * seconds, seconds) if seconds is not None else None,
        part_s=seconds,
    )


@rule(
    "a bucket ran in another shape than declared",
    "executed shapes (recorded runs)",
    formula="steps whose executed shape is not the bucket",
    margin="only steps that state what they executed",
    source="vllm-gaudi v1/worker/hpu_model_runner.py _prepare_dummy_scenario",
    example="vllm-gaudi 0.26: prompt (1, 1024, 7) ran as (1, 1024, 0), and nine more of 59",
)
def executed_differently(facts: RunFacts) -> Iterator[Finding]:
    """The shape that ran for a bucket is another one: the bucket was not compiled."""
    ran = [row for row in facts.rows if row.executed is not None]
    wrong = [row for row in ran if row.ran_as != row.bucket]
    if not wrong:
        return
    seconds = facts.seconds(wrong)
    spent = (
        "" if seconds is None else f"; {format_duration(seconds)} were spent on them"
    )
    yield Finding(
        severity_in(facts.start, seconds, "low")
        if (seconds or 0.0) >= LEAST_S
        else "low",
        f"{len(wrong)} of {len(ran)} buckets ran in another shape than declared, so "
        f"they were not compiled{spent}.",
        {"num_buckets": len(wrong), "num_executed": len(ran)},
        BUCKET_FILE,
        f"{BUCKET_FILE}: leave these buckets out, or lower the range that makes them",
        f"{len(wrong)} steps of warm-up less; a request in such a bucket compiles when it comes, "
        "and without them is padded to the next larger one, where there is one",
        first_lines([f"{row.phase} {row.bucket} ran as {row.ran_as}" for row in wrong]),
        part_s=seconds,
    )


@rule(
    "shapes met no bucket while serving",
    "misses, bucket lists or ranges as read",
    formula="the upper end of each range that the shape is above: its bucket in that dimension",
    margin="misses after ready only; names of range variables as the version reads them; a "
    "bucket file instead, where wider ranges would more than double the buckets",
    source="vllm-gaudi extension/bucketing/common.py",
    example="skipped warm-up on vllm-gaudi 0.14.1: three shapes beyond the ranges",
)
def missed_shapes(facts: RunFacts) -> Iterator[Finding]:
    """Shapes at run time that no bucket covered, by the dimension that was too small."""
    if facts.summary.status == "skipped":
        yield from _ranges_too_small(facts)
        return
    diagnoses = diagnose(facts.summary)
    yield from _of_unlisted([d for d in diagnoses if d.cause == "no_list"])
    found = [
        item
        for item in diagnoses
        if item.cause in ("too_large", "no_combination", "not_warmed")
    ]
    for phase in PHASES:
        own = [item for item in found if item.phase == phase]
        if own and (phase, len(own[0].shape)) in RANGE_NAMES:
            yield _missed(facts, phase, own)


def _of_unlisted(found: Sequence[Diagnosis]) -> Iterator[Finding]:
    """Shapes that were not warmed up in a run that lists no buckets, so that the cause is open."""
    if not found:
        return
    count = sum(item.count for item in found)
    yield Finding(
        "medium",
        f"{count_of(len(found), 'shape')} ran that had not been warmed up, "
        f"{count_of(count, 'warning')} in all; the log lists no buckets.",
        {"num_shapes": len(found), "num_warnings": count},
        "bucket ranges",
        "a warm-up, where it is off (VLLM_SKIP_WARMUP=false, no --enforce-eager); else ranges that "
        "hold the shapes below",
        f"{count_of(len(found), 'compilation')} less while serving, where a warm-up holds them",
        first_lines([f"{item.phase} {item.shape}" for item in found]),
        suggests_details=True,
        price="the time of a warm-up, or more buckets in it",
    )


def _ranges_too_small(facts: RunFacts) -> Iterator[Finding]:
    """Shapes beyond the ranges, which a warm-up would not have prepared either."""
    found = [item for item in diagnose(facts.summary) if item.needs]
    if not found or not reads_ranges(facts.summary):
        return
    highest = highest_needs(found)
    requested = ", ".join(
        f"{name} is {facts.summary.config[name]}"
        for name in highest
        if name in facts.summary.config
    )
    count = sum(item.count for item in found)
    wider, is_file = _wider(facts.summary, highest)
    lines = file_lines(facts.summary, found)
    way = _file_way(facts.summary, len(lines)) if is_file else wider
    yield Finding(
        "medium",
        f"{count_of(len(found), 'shape')} came that the bucket ranges do not cover, so a "
        f"warm-up would not have prepared {'it' if len(found) == 1 else 'them'}"
        + (f": {requested}." if requested else "."),
        {"num_shapes": len(found), "num_warnings": count},
        BUCKET_FILE if is_file else next(iter(highest)),
        way.suggestion,
        f"{count_of(len(found), 'compilation')} less while serving, once warm-up is on",
        lines
        if is_file
        else first_lines([f"{item.phase} {item.shape}" for item in found]),
        suggests_details=is_file,
        changes=way.changes,
        price=way.price,
        ways=(Way(wider.suggestion, wider.price),) if is_file else (),
    )


def _file_way(summary: RunSummary, count: int) -> Way:
    """The buckets of the run in a file, with those of the shapes that came."""
    own = sum(len(summary.phase(phase).buckets) for phase in PHASES)
    return Way(
        f"{BUCKET_FILE} with the {count_of(own, 'bucket')} of this run and the "
        f"{count_of(count, 'line')} below, and VLLM_SKIP_WARMUP=false",
        f"{count_of(own + count, 'bucket')} to warm up; {FILE_REPLACES}",
    )


def _wider(summary: RunSummary, highest: Mapping[str, Value]) -> tuple[Way, bool]:
    """Wider ranges with what they cost, and whether a bucket file comes first: where the
    version reads one, and they make more than twice as many buckets.

    How many that are is known where the rules give the run's own buckets.
    """
    strategy = strategy_of(summary)
    made, price = None, "more buckets to warm up"
    if strategy is not None and reproducing_settings(summary) is not None:
        made = regenerated(summary, strategy, highest)
    is_many = False
    if made is not None:
        own = {phase: len(summary.phase(phase).buckets) for phase in PHASES}
        price = " and ".join(
            f"{len(made[phase])} {phase} buckets instead of {count}"
            for phase, count in own.items()
        )
        is_many = sum(map(len, made.values())) > 2 * sum(own.values())
    suggestion = " ".join(f"{name}={value}" for name, value in highest.items())
    way = Way(suggestion, f"{price}, unless the steps grow with the ranges", highest)
    return way, is_many and has_setting(summary, BUCKET_FILE)


def _missed(facts: RunFacts, phase: str, found: Sequence[Diagnosis]) -> Finding:
    count = sum(item.count for item in found)
    summary = facts.summary
    needed = highest_needs(found)
    lines = file_lines(summary, found)
    setting, change = "bucket ranges", "ranges that hold the shapes below"
    is_listed = True
    if has_setting(summary, BUCKET_FILE):
        setting, change = BUCKET_FILE, f"{BUCKET_FILE} with the lines below added"
    elif all(item.cause == "no_combination" for item in found):
        setting, change = _limit_of(phase, found)
        is_listed = phase != "prompt"
    price = "more buckets to warm up"
    if setting == BUCKET_FILE and BUCKET_FILE not in summary.config:
        price = f"{ALL_IN_FILE}; {FILE_REPLACES}"
    ways: tuple[Way, ...] = ()
    changes: Mapping[str, Value] = {}
    if needed and reads_ranges(summary):
        wider, is_file = _wider(summary, needed)
        if is_file:
            ways = (Way(wider.suggestion, wider.price),)
        else:
            setting, change, price = (
                next(iter(needed)),
                wider.suggestion,
                wider.price,
            )
            changes, is_listed = needed, False
    return Finding(
        "medium",
        f"{count_of(len(found), f'{phase} shape')} met no bucket while serving, "
        f"{count_of(count, 'warning')} in all: {'; '.join(_causes(facts, found))}.",
        {"num_shapes": len(found), "num_warnings": count},
        setting,
        change,
        f"{count_of(len(found), 'compilation')} less while serving"
        + _compile_cost(facts, phase),
        lines or first_lines([str(item.wanted) for item in found]),
        suggests_details=is_listed,
        changes=changes,
        price=price,
        ways=ways,
    )


def _limit_of(phase: str, found: Sequence[Diagnosis]) -> tuple[str, str]:
    """What leaves a combination out that lies within every range."""
    most = max(item.shape[0] * item.shape[1] for item in found)
    if phase == "prompt":
        name = "max_num_batched_tokens"
        return name, (
            f"--max-num-batched-tokens of at least {most}, where that limit leaves these "
            "buckets out"
        )
    return "bucket ranges", "a smaller step between the batch sizes or blocks below"


def _causes(facts: RunFacts, found: Sequence[Diagnosis]) -> Iterator[str]:
    """How many shapes each cause has, the most frequent dimension first."""
    by_dimension = Counter(d for item in found for d in item.too_large)
    phase, size = found[0].phase, len(found[0].shape)
    for d, times in by_dimension.most_common():
        largest = max(
            b[d] for b in facts.summary.phase(phase).buckets if len(b) == size
        )
        needed = max(item.shape[d] for item in found)
        word = WORDS[dimensions_of(facts.summary, phase, size)[d]]
        yield f"{times} above the largest {word} {largest:,} (up to {needed:,})"
    by_cause = Counter(item.cause for item in found)
    if times := by_cause["no_combination"]:
        yield f"{times} within every range, but without a bucket of that combination"
    if times := by_cause["not_warmed"]:
        yield f"{times} have a bucket that was not warmed up"


def _compile_cost(facts: RunFacts, phase: str) -> str:
    known = [
        row.duration_s for row in facts.rows if row.phase == phase and row.duration_s
    ]
    if not known:
        return ""
    return f", each about {format_duration(median(known))} as in warm-up"


@rule(
    "the traffic used half of the buckets or fewer",
    "buckets used while serving, time of each bucket",
    formula="0 to the time of the buckets that were not used",
    margin="only the traffic seen",
    source="`warmup-insights buckets fit`; vllm-gaudi VLLM_BUCKETING_FROM_FILE",
    example="reference engine: 16 of 77 buckets were used, up to 3.36 s of warm-up",
)
def unused_buckets(facts: RunFacts) -> Iterator[Finding]:
    """Most buckets were never needed while serving."""
    used = len(facts.used)
    warmed = sum(facts.count(f"{phase}_warmed") for phase in PHASES)
    if not used or not warmed or used > 0.5 * warmed:
        return
    rows = [
        row
        for row in facts.rows
        if row.duration_s and (row.phase, row.bucket) not in facts.used
    ]
    seconds = facts.seconds(rows)
    if seconds is None:
        return
    if (
        not has_setting(facts.summary, BUCKET_FILE)
        and facts.summary.engine.name != "reference"
    ):
        return
    size = sum(row.memory_bytes or 0 for row in rows)
    yield Finding(
        severity_in(facts.start, seconds, "medium"),
        f"The traffic seen used {used} of {warmed} buckets.",
        {"num_used": used, "num_warmed": warmed, "unused_s": seconds},
        BUCKET_FILE,
        "`warmup-insights buckets fit RUN` finds a bucket file for this traffic",
        f"up to {format_duration(seconds)} of warm-up and {format_bytes(size)} less, if "
        "the traffic stays like this",
        gain_s=(0.0, seconds),
        price="a shape that has not come yet is padded to the next larger bucket of the file, "
        "or compiles where there is none",
        part_s=seconds,
    )


RULES = (
    blocks_beyond_cache,
    executed_differently,
    missed_shapes,
    unused_buckets,
)
