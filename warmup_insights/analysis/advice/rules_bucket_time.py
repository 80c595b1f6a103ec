"""Advice on the time of buckets and around them: steps, near twins, contexts, the
garbage collector, the sampler, a warm-up that was skipped.

A bucket is counted with the median of those that share its value, so that the first
compilation of a kind, which another bucket would have instead, is not counted as saved.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from statistics import fmean, median

from warmup_insights.analysis.advice.change import Value, Way
from warmup_insights.analysis.advice.facts import GAUDI, RunFacts, Start
from warmup_insights.analysis.advice.finding import (
    Finding,
    rule,
    severity_in,
    severity_of,
    start_rule,
)
from warmup_insights.analysis.advice.rules_buckets import (
    BUCKET_FILE,
    CONTEXT_MAX,
    FILE_REPLACES,
    context_max_leaves_zero,
    other_strategy,
    reads_ranges,
)
from warmup_insights.analysis.misses import (
    WORDS,
    Diagnosis,
    diagnose,
    dimensions_of,
    range_variables,
    whole_number,
)
from warmup_insights.analysis.sentences import count_of
from warmup_insights.analysis.summary.compilation import RECIPES
from warmup_insights.bucketing.linear import linear_range
from warmup_insights.errors import InputError
from warmup_insights.model.figures import BY_NAME
from warmup_insights.model.summary import PHASES, BucketRow, RunSummary
from warmup_insights.rules import is_bucketing_off
from warmup_insights.rules.setting_lives import has_setting
from warmup_insights.units import format_duration


@dataclass(frozen=True)
class Drop:
    """A change that leaves buckets out: what it saves, and what it costs."""

    change: str
    words: str
    rows: tuple[BucketRow, ...]
    dimension: int
    changes: Mapping[str, Value]
    price: str

    def gain(
        self,
        left: Sequence[BucketRow],
        *,
        is_full: bool = False,
        is_compiled: bool = True,
    ) -> tuple[float, float]:
        """Seconds: at the median of each value, and as measured; the smaller first.

        Where graphs found no room (`is_full`), those of other buckets may take the place
        of what is left out, so that no capture is sure to be saved. A spike counts as its
        neighbours took: another bucket compiles that recipe then. Where nothing is compiled
        for a shape (`is_compiled`), it was a disturbance, and the most counts it.
        """
        own = typical = 0.0
        for value in {row.bucket[self.dimension] for row in self.rows}:
            same = _without_spikes(
                row for row in left if row.bucket[self.dimension] == value
            )
            out = [row for row in self.rows if row.bucket[self.dimension] == value]
            typical += len(_without_spikes(out)) * typical_of(same)
            own += sum(_without_spikes(out) if is_compiled else times_of(out))
        least = min(own, typical)
        if is_full:
            captures = (row.capture.duration_s for row in self.rows if row.capture)
            least -= min(least, sum(seconds or 0.0 for seconds in captures))
        return least, max(own, typical)


def times_of(rows: Iterable[BucketRow]) -> list[float]:
    """Seconds of the rows whose time is known."""
    return [row.duration_s for row in rows if row.duration_s is not None]


def _without_spikes(rows: Iterable[BucketRow]) -> list[float]:
    return [
        row.duration_s - (row.spike_s or 0.0)
        for row in rows
        if row.duration_s is not None
    ]


def typical_of(times: Sequence[float]) -> float:
    """The median; where timestamps of whole seconds give nothing finer, the mean without the
    longest."""
    is_whole = all(seconds == int(seconds) for seconds in times)
    if not is_whole or len(times) == 1:
        return median(times)
    return fmean(sorted(times)[:-1])


_FORK = "vllm-fork"
TIMED_SHARE = 0.6
"""Of the buckets that were warmed up, those with a time of their own, at least."""
TWIN = 0.10
"""Neighbours that differ by less are one bucket in two."""
MANY_SIZES = 4
"""Batch sizes from which fewer requests at once leave out a good part of the buckets."""


@start_rule(
    "the prompt buckets took 10 s and 5 % of the start, or most of it (Gaudi)",
    "time of each bucket; prefix caching and limits for the change",
    formula="buckets with a context x the median of those that share the value",
    margin="only where prefix caching is off after all overrides, one step takes "
    "max_model_len tokens, and no context was seen",
    source="vllm-gaudi extension/bucketing/linear.py get_prompt_cfgs",
    example="32 of 48 prompt buckets with a context: 99 of 490 s",
)
def prompt_buckets(facts: RunFacts, start: Start) -> Iterator[Finding]:
    """Prompt buckets took a large share of the start."""
    yield from _bucket_time(facts, start, "prompt")


@start_rule(
    "the decode buckets took 10 s and 5 % of the start, or most of it (Gaudi)",
    "time of each bucket; ranges as read for the change",
    formula="buckets left out x the median of those that share their value; each change "
    "on what the one before left; at the most with the time between them and the sampler's "
    "warm-up of the batch sizes left out (by number or rows), at the least without captures where graphs found no room",
    margin="the smallest, the largest and the powers of two below the step stay, of lengths every "
    "second one; the "
    "first compilation of a kind is not counted as saved, unless the run was on a CPU, "
    "where nothing is compiled for a shape",
    source="vllm-gaudi extension/bucketing/linear.py warmup_range",
    example="18 batch sizes in steps of 4: a step of 16 leaves 8, 122 of 490 s less",
)
def decode_buckets(facts: RunFacts, start: Start) -> Iterator[Finding]:
    """Decode buckets took a large share of the start."""
    yield from _bucket_time(facts, start, "decode")


def _bucket_time(facts: RunFacts, start: Start, phase: str) -> Iterator[Finding]:
    names = (f"{phase}_warmup", f"{phase}_graphs")
    seconds = sum(start.seconds.get(name, 0.0) for name in names)
    if not any(start.worth(name) for name in names):
        return
    rows = [r for r in facts.rows if r.phase == phase and r.warmed and r.bucket]
    timed = [row for row in rows if row.duration_s is not None]
    if len(timed) < TIMED_SHARE * len(rows) or facts.seconds(timed) is None:
        timed = []
    drops, gain = _drops(facts, phase, timed) if timed else ([], None)
    count = len(rows) or facts.count(f"{phase}_warmed")
    title = f"The {phase} buckets took {start.of_all(seconds)}"
    if count:
        each = format_duration(seconds / count)
        if timed:
            each = f"typically {format_duration(typical_of(times_of(timed)))}"
        title += f": {count:,} of them, {each} each"
    yield Finding(
        severity_of(start.share(seconds)),
        f"{title}.",
        {"steps_s": seconds, "start_s": start.wall_s, "num_buckets": count},
        drops[0].change.split("=")[0].split()[0]
        if drops
        else _range_name(facts, phase),
        " ".join(drop.change for drop in drops)
        or _no_change(facts, phase, is_timed=bool(timed)),
        "; ".join(drop.words for drop in drops)
        or "not predicted: no dimension has a step to widen, nor values known to be unused",
        tuple(_by_dimension(facts.summary, rows, timed)),
        changes={name: value for drop in drops for name, value in drop.changes.items()},
        gain_s=gain,
        price="; ".join(drop.price for drop in drops),
        ways=(
            *(_ways(facts, phase, timed) if timed else ()),
            *_kept_recipes(facts, phase),
        ),
        phase=max(names, key=lambda name: start.seconds.get(name, 0.0)),
        part_s=seconds,
    )


def _range_name(facts: RunFacts, phase: str) -> str:
    if not reads_ranges(facts.summary):
        return f"buckets of {phase}"
    return f"VLLM_{phase.upper()}_BS_BUCKET_STEP"


def _no_change(facts: RunFacts, phase: str, *, is_timed: bool) -> str:
    sizes = {bucket[0] for bucket in facts.summary.phase(phase).buckets}
    if phase == "decode" and len(sizes) >= MANY_SIZES:
        return (
            "fewer batch sizes: --max-num-seqs with the most requests that come at once"
        )
    if not is_timed:
        return (
            f"{_fewer_values(facts, phase)}; the recorder "
            "(`warmup-insights vllm serve`) gives the time of each bucket"
        )
    if has_setting(facts.summary, BUCKET_FILE):
        return (
            f"{BUCKET_FILE} with fewer buckets; `warmup-insights buckets fit RUN` makes "
            "one from recorded traffic"
        )
    if len(sizes) > 1 and phase == "prompt":
        return "fewer batch sizes of prompts (VLLM_PROMPT_BS_BUCKET_MAX)"
    return _fewer_values(facts, phase)


_FOLLOWS = {
    "BS": "--max-num-seqs", "QUERY": "--max-num-batched-tokens", "SEQ": "--max-model-len",
    "CTX": "--max-model-len", "BLOCK": "--max-model-len",
}  # fmt: skip
"""Of which limit the values of a dimension are, where no range is read (vllm-gaudi
`extension/bucketing/exponential.py`)."""


def _fewer_values(facts: RunFacts, phase: str) -> str:
    """What leaves out values of the dimension that has most."""
    buckets = facts.summary.phase(phase).buckets
    size = len(buckets[0]) if buckets else 0
    names = dimensions_of(facts.summary, phase, size)
    if not names:
        return _fewer_of_ranges(facts.summary, phase)
    counts = [len({b[d] for b in buckets if len(b) == size}) for d in range(size)]
    most = counts.index(max(counts))
    change = f"a smaller {_FOLLOWS[names[most]]}, from which they follow"
    if reads_ranges(facts.summary):
        variable = range_variables(facts.summary, phase, size)[most]
        change = f"a larger {variable.removesuffix('MAX')}STEP or a smaller {variable}"
    return f"fewer values of {WORDS[names[most]]}, which has most: {change}"


def _fewer_of_ranges(summary: RunSummary, phase: str) -> str:
    """The same where no bucket is listed: of the ranges, as far as a step shows which they are."""
    size = len(summary.progress.bucket or ()) if summary.progress.phase == phase else 0
    names = range_variables(summary, phase, size)
    if not names:
        return "fewer values in the dimension that has most"
    steps = ", ".join(f"{name.removesuffix('MAX')}STEP" for name in names)
    return (
        f"fewer values: larger steps ({steps}) or smaller ranges ({', '.join(names)})"
    )


def _by_dimension(
    summary: RunSummary, rows: Sequence[BucketRow], timed: Sequence[BucketRow]
) -> Iterator[str]:
    """One line for each dimension with several values: how many, and what each costs."""
    if not rows:
        return
    size = len(rows[0].bucket)
    words = dimensions_of(summary, rows[0].phase, size)
    total = sum(times_of(timed))
    for d, name in enumerate(words):
        values = Counter(row.bucket[d] for row in rows if len(row.bucket) == size)
        if len(values) < 2:
            continue
        line = (
            f"{WORDS[name]}: {len(values)} values ({min(values):,} to {max(values):,})"
        )
        if total:
            line += f", {format_duration(total / len(values))} each"
        yield line
    yield from _above(rows, timed)


def _above(rows: Sequence[BucketRow], timed: Sequence[BucketRow]) -> Iterator[str]:
    """How many buckets are for more sequences than some limits, and their time."""
    for limit in (8, 32, 128) if rows[0].phase == "decode" else (1, 4, 16):
        above = [row for row in rows if row.bucket[0] > limit]
        if not above or len(above) == len(rows):
            continue
        took = times_of(row for row in timed if row.bucket[0] > limit)
        spent = f", {format_duration(sum(took))}" if took else ""
        yield f"batch sizes above {limit}: {len(above)} of {len(rows)} buckets{spent}"


def _drops(
    facts: RunFacts, phase: str, timed: Sequence[BucketRow]
) -> tuple[list[Drop], tuple[float, float] | None]:
    """Changes that leave buckets out, each counted on what the one before it left."""
    finders = (_wider_step, _near_twin) if phase == "decode" else (_contexts,)
    left = [row for row in timed if len(row.bucket) == 3]
    if not left:
        finders, left = (_longer_steps,), list(timed)
    found: list[Drop] = []
    least = most = 0.0
    shares = (
        facts.figure("captured_percent"),
        facts.figure(f"{phase}_capture_percent"),
    )
    share = next((known for known in shares if known is not None), None)
    is_full = share is not None and 0 < share < 100
    is_compiled = facts.summary.device.kind != "cpu"
    between = _between_s(facts, phase, timed)
    for find in finders:
        drop = find(facts, left)
        if drop is None:
            continue
        low, high = drop.gain(left, is_full=is_full, is_compiled=is_compiled)
        high += _sampler_s(facts, drop) + len(drop.rows) * between
        words = f"{drop.words}: {count_of(len(drop.rows), 'bucket')} and {format_duration(low)} less"
        found.append(replace(drop, words=words))
        least, most = least + low, most + high
        gone = {row.bucket for row in drop.rows}
        left = [row for row in left if row.bucket not in gone]
    return found, (least, most) if found else None


def _between_s(facts: RunFacts, phase: str, timed: Sequence[BucketRow]) -> float:
    """Seconds of a phase between its buckets, for each of them."""
    spent = facts.summary.time.seconds_of(f"{phase}_warmup", f"{phase}_graphs")
    return max(0.0, spent - sum(times_of(timed))) / len(timed)


def _sampler_s(facts: RunFacts, drop: Drop) -> float:
    """Sampler warm-up of the batch sizes that are left out, at the most: it runs each of
    them, and takes as long for one as for another where it compiles, by rows where not."""
    spent = facts.summary.time.seconds_of("sampler_warmup")
    sizes = {
        row.bucket[0] for row in facts.rows if row.phase == "decode" and row.bucket
    }
    if drop.dimension != 0 or not sizes:
        return 0.0
    gone = {row.bucket[0] for row in drop.rows}
    return spent * max(len(gone) / len(sizes), sum(gone) / sum(sizes))


def _wider_step(
    facts: RunFacts, rows: Sequence[BucketRow], factor: int | None = None
) -> Drop | None:
    """A batch step that is a few times as wide, of linear decode buckets."""
    name = "VLLM_DECODE_BS_BUCKET_STEP"
    values = sorted({row.bucket[0] for row in rows})
    step = whole_number(facts.summary.config.get(name))
    if not reads_ranges(facts.summary) or not step or len(values) < 4:
        return None
    factors = (factor,) if factor is not None else (4, 2)
    for times in factors:
        wide = step * times
        try:
            kept = linear_range(values[0], wide, values[-1])
        except InputError:
            continue
        fits = factor is not None or 4 * wide <= values[-1]
        if not fits or kept[-1] != values[-1] or not set(kept) <= set(values):
            continue
        gone = tuple(row for row in rows if row.bucket[0] not in kept)
        if gone:
            words = f"batch sizes {', '.join(map(str, kept))} instead of {len(values)}"
            price = f"up to {wide - 1} padded rows in a decode step"
            return Drop(f"{name}={wide}", words, gone, 0, {name: wide}, price)
    return None


def _longer_steps(facts: RunFacts, rows: Sequence[BucketRow]) -> Drop | None:
    """Every second sequence length of buckets of two dimensions, whose lengths are a step
    apart."""
    summary, phase = facts.summary, rows[0].phase
    if "SEQ" not in dimensions_of(summary, phase, 2) or summary.engine.name != _FORK:
        return None
    values = sorted({row.bucket[1] for row in rows})
    steps = {second - first for first, second in pairwise(values)}
    if len(values) < MANY_SIZES or steps != {values[0]}:
        return None
    (step,) = steps
    kept = linear_range(values[0], 2 * step, values[-1])
    if kept[-1] != values[-1]:
        return None
    name, wide = f"VLLM_{phase.upper()}_SEQ_BUCKET_STEP", 2 * step
    return Drop(
        f"{name}={wide}",
        f"{len(kept)} sequence lengths instead of {len(values)}",
        tuple(row for row in rows if row.bucket[1] not in kept),
        1,
        {name: wide},
        f"up to {wide - 1} padded tokens in a sequence",
    )


def _ways(facts: RunFacts, phase: str, timed: Sequence[BucketRow]) -> Iterator[Way]:
    """The narrower of the wider steps, with less padding, and the other strategy."""
    rows = [row for row in timed if len(row.bucket) == 3]
    first = _wider_step(facts, rows) if phase == "decode" else None
    second = _wider_step(facts, rows, factor=2) if first is not None else None
    if first is not None and second is not None and first.changes != second.changes:
        low, _ = second.gain(rows)
        price = f"{second.price}; {format_duration(low)} less"
        yield Way(second.change, price, second.changes)
    if not rows and _longer_steps(facts, timed) is not None:
        yield Way(
            _no_change(facts, phase, is_timed=True), "more of them than that wait"
        )
    yield from _strategy(facts, phase)


_KEPT_RECIPES = Way(
    f"{RECIPES}=/var/cache/recipes,false,8192, where it is not set: the next start takes "
    "what was compiled from there",
    "local disk; graphs are captured again",
)


def _kept_recipes(facts: RunFacts, phase: str) -> Iterator[Way]:
    """What a warm-up on HPU compiles kept for the next start, with the phase that takes
    longer, where no line states whether it is (`recipe_cache` is for those that do)."""
    is_stated = RECIPES in facts.summary.config
    if facts.summary.device.kind != "hpu" or is_stated or facts.start is None:
        return
    spent = {
        name: sum(
            facts.start.seconds.get(f"{name}_{of}", 0.0) for of in ("warmup", "graphs")
        )
        for name in PHASES
    }
    if max(PHASES, key=lambda name: spent[name]) == phase:
        yield _KEPT_RECIPES


def _strategy(facts: RunFacts, phase: str) -> Iterator[Way]:
    """The other strategy, with the phase that takes longer, where it makes it quicker."""
    spent = {
        name: times_of(r for r in facts.rows if r.phase == name) for name in PHASES
    }
    if not all(spent.values()) or max(PHASES, key=lambda p: sum(spent[p])) != phase:
        return
    found = other_strategy(facts.summary)
    if found is None or facts.start is None:
        return
    name, value, counts = found
    saved = sum(
        typical_of(spent[each]) * (len(spent[each]) - counts[each]) for each in PHASES
    )
    if not facts.start.is_long(saved):
        return
    yield Way(
        f"{name}={value}",
        f"{counts['prompt']} prompt and {counts['decode']} decode buckets, about "
        f"{format_duration(saved)} less; ranges and paddings are others, the exponential "
        "one pads more at long contexts",
        {name: value},
    )


def _near_twin(facts: RunFacts, rows: Sequence[BucketRow]) -> Drop | None:
    """The largest number of blocks of the range, next to that of the whole cache.

    The engine adds the bucket of all blocks by itself, so the range may end earlier.
    """
    name = "VLLM_DECODE_BLOCK_BUCKET_MAX"
    values = sorted({row.bucket[2] for row in rows})
    if not reads_ranges(facts.summary) or len(values) < 4:
        return None
    before, twin, last = values[-3:]
    step = whole_number(facts.summary.config.get("VLLM_DECODE_BLOCK_BUCKET_STEP"))
    is_twin = (last - twin) < TWIN * last and 2 * (last - twin) < (step or 0)
    is_missed = any(miss.phase == "decode" for miss in facts.summary.misses)
    if not is_twin or is_missed or facts.figure("num_kv_blocks") != last:
        return None
    gone = tuple(row for row in rows if row.bucket[2] == twin)
    padding = 100 * (last - twin) / last
    return Drop(
        f"{name}={before}",
        f"{twin:,} blocks beside {last:,}", gone, 2, {name: before},
        f"{padding:.0f} % more padding above {before:,} blocks",
    )  # fmt: skip


def _contexts(facts: RunFacts, rows: Sequence[BucketRow]) -> Drop | None:
    """Prompt buckets with a context, where neither prefixes nor chunks have one."""
    gone = tuple(row for row in rows if row.bucket[2] > 0)
    if not gone or len(gone) == len(rows) or not _no_prefixes(facts):
        return None
    seen = {bucket for phase, bucket in facts.used if phase == "prompt"}
    seen |= {miss.shape for miss in facts.summary.misses if miss.phase == "prompt"}
    if any(len(bucket) == 3 and bucket[2] > 0 for bucket in seen):
        return None
    times = times_of(gone)
    changes: dict[str, Value] = {}
    if context_max_leaves_zero(facts.summary):
        changes = {CONTEXT_MAX: 0}
        change = f"{CONTEXT_MAX}=0"
    elif has_setting(facts.summary, BUCKET_FILE):
        change = (
            f"{BUCKET_FILE} with the {len(rows) - len(gone)} prompt buckets of context 0, "
            "and the decode buckets that stay"
        )
    else:
        return None
    return Drop(
        change,
        "no prompt buckets with a context, as prefix caching is off",
        gone,
        2,
        changes,
        f"a prompt that is split compiles when it comes ({format_duration(min(times))} to "
        f"{format_duration(max(times))} each)",
    )


def _no_prefixes(facts: RunFacts) -> bool:
    """Prefix caching is off after all overrides, and one step takes a whole prompt."""
    config = facts.summary.config
    states = [
        str(config[name]).lower()
        for name in ("enable_prefix_caching", "prefix_caching")
        if name in config
    ]
    budget = facts.summary.setting("max_num_batched_tokens")
    length = facts.summary.setting("max_model_len")
    is_off = bool(states) and all(state == "false" for state in states)
    return is_off and bool(budget and length and budget >= length)


GC_GAIN = (0.9, 1.05)
"""Of the seconds in the garbage collector: it slows down what runs between, too."""


@rule(
    "a fifth of the bucket steps or more is garbage collection",
    "collector time per bucket (recorded runs)",
    formula="0.9 to 1.05 of the seconds in the collector, and at most the steps",
    margin="frozen after the weights are loaded, not before",
    source="Python gc.freeze",
    example="made up: 3 of 10 s of bucket steps in the collector",
)
def garbage_collection(facts: RunFacts) -> Iterator[Finding]:
    """A large share of the bucket steps is Python's garbage collector."""
    gc = facts.summary.gc
    if gc is None or gc.frozen or not gc.seconds or not gc.steps_s or not gc.share:
        return
    if gc.share < 0.2 or gc.seconds < 1.0:
        return
    least, most = GC_GAIN[0] * gc.seconds, min(GC_GAIN[1] * gc.seconds, gc.steps_s)
    yield Finding(
        severity_in(facts.start, gc.seconds, "medium"),
        f"Garbage collection took {format_duration(gc.seconds)} of "
        f"{format_duration(gc.steps_s)} of bucket warm-up ({100 * gc.share:.0f} %).",
        {"gc_s": gc.seconds, "steps_s": gc.steps_s},
        "WARMUP_INSIGHTS_FREEZE_GC",
        "`warmup-insights vllm --freeze-gc serve ...`, or gc.freeze() before warm-up",
        "the steps without the collector",
        gain_s=(least, most),
        price="some seconds for freezing; objects that are alive then are never collected",
        part_s=most,
    )


@start_rule(
    "sampler warm-up took 10 s and 5 % of the start, or most of it (Gaudi)",
    "phase sampler_warmup, its batch sizes",
    formula="seconds / batch sizes, for each that is left out",
    margin="the batch sizes 0 and 1 stay",
    source="vllm-gaudi v1/worker/hpu_model_runner.py warmup_sampler, documentation of "
    "sampler warm-up",
    example="made up: 30 of 100 s for 20 decode batch sizes",
)
def sampler_warmup(facts: RunFacts, start: Start) -> Iterator[Finding]:
    """The sampler was warmed up for each decode batch size, and that took long (Gaudi)."""
    sampler = facts.summary.sampler
    seconds = start.worth("sampler_warmup")
    if seconds is None or facts.summary.engine.name != "vllm-gaudi":
        return
    sizes = {
        row.bucket[0] for row in facts.rows if row.phase == "decode" and row.bucket
    }
    listed = sampler.batch_sizes if sampler is not None else None
    count = len(listed or sizes)
    numbers: dict[str, Value] = {"sampler_s": seconds, "start_s": start.wall_s}
    title = f"Sampler warm-up took {start.of_all(seconds)}"
    if count:
        numbers["num_sizes"] = count
        title += f": {count_of(count, 'batch size')}, {format_duration(seconds / count)} each"
    change = "fewer decode batch sizes: the sampler is warmed up for each of them"
    if reads_ranges(facts.summary):
        change += " (a wider VLLM_DECODE_BS_BUCKET_STEP)"
    elif has_setting(facts.summary, BUCKET_FILE):
        change += f" ({BUCKET_FILE} with fewer)"
    yield Finding(
        severity_of(start.share(seconds)),
        f"{title}.",
        numbers,
        "VLLM_DECODE_BS_BUCKET_STEP",
        change,
        f"{format_duration(seconds / count)} for each batch size less"
        if count
        else "no figure: the batch sizes are not known",
        price="more padded rows in a decode step; nothing leaves out this warm-up alone",
        phase="sampler_warmup",
        part_s=seconds,
    )


LONG_WARMUP_S, VERY_LONG_S = 60.0, 600.0
"""Of a warm-up alone, from which it is a finding, and one that is high."""


@rule(
    "warm-up took a minute or more, and the whole start is not in the log (Gaudi)",
    "time of the warm-up; numbers of buckets where stated",
    formula="the seconds of the warm-up, high from 10 minutes on",
    margin="no gain: the log does not divide the time",
    source="vllm-fork `habana_model_runner.py`, `warmup_model`: the line at its end",
    example="1,024 decode buckets: 1,689 s",
)
def long_warmup(facts: RunFacts) -> Iterator[Finding]:
    """Warm-up took long, in a log that does not hold what came before it."""
    seconds = facts.figure("warmup_s")
    if facts.start is not None or seconds is None or seconds < LONG_WARMUP_S:
        return
    if facts.summary.engine.name not in GAUDI:
        return
    counts = {
        p: facts.count(f"{p}_warmed") or facts.count(f"{p}_generated") for p in PHASES
    }
    known = [count_of(count, f"{p} bucket") for p, count in counts.items() if count]
    most = max(PHASES, key=lambda name: counts[name])
    numbers: dict[str, Value] = {"warmup_s": seconds}
    numbers |= {f"num_{name}_buckets": count for name, count in counts.items() if count}
    yield Finding(
        "high" if seconds >= VERY_LONG_S else "medium",
        f"Warm-up took {format_duration(seconds)}{' for ' if known else ''}"
        f"{' and '.join(known)}.",
        numbers,
        "bucket ranges",
        "fewer decode buckets: --max-num-seqs with the most requests that come at once, or larger "
        "steps between batch sizes and between lengths"
        if most == "decode"
        else "fewer prompt buckets: larger steps between batch sizes and between lengths",
        "no figure: the log does not hold the time of each bucket; the recorder "
        "(`warmup-insights vllm serve`) does",
        price="more padding between the sizes that remain",
        part_s=seconds,
    )


LONG_LEFT_S = 600.0
"""Of a warm-up that is under way: from how much longer on it is stated."""
SOME_STEPS = 3
"""Steps from which on their mean is taken for the others."""


@rule(
    "the log ends while buckets are warmed up, and the others take ten minutes or more (Gaudi)",
    "number of the last bucket, how many its phase has, mean seconds of those so far",
    formula="buckets left x mean seconds so far",
    margin="three buckets at least; no gain: the largest come first, the others may be quicker",
    source="vllm-gaudi v1/worker/hpu_model_runner.py warmup_graphs",
    example="vllm-fork: 8 of 56 prompt buckets, 20 s each: 16 min more",
)
def warmup_under_way(facts: RunFacts) -> Iterator[Finding]:
    """The warm-up had not ended where the log ends, and takes long."""
    summary, done = facts.summary, facts.summary.progress
    phase, index, total, each = done.phase, done.index, done.total, done.step_s
    is_of_buckets = done.stage in {f"{phase}_warmup", f"{phase}_graphs"}
    if facts.failed is not None or not is_of_buckets or phase not in PHASES:
        return
    if summary.engine.name not in GAUDI or not (index and total and each):
        return
    left = max(0, total - index + done.is_in_step) * each
    if index < SOME_STEPS or left < LONG_LEFT_S:
        return
    ways = [
        Way(
            _fewer_values(facts, phase),
            "padding; what is beyond the ranges compiles or is refused",
        )
    ]
    if has_setting(summary, BUCKET_FILE):
        ways.append(Way(f"{BUCKET_FILE} with fewer buckets", FILE_REPLACES))
    if summary.device.kind == "hpu" and RECIPES not in summary.config:
        ways.append(_KEPT_RECIPES)
    ways.append(
        Way("VLLM_SKIP_WARMUP=true for one start", "a request waits for each new shape")
    )
    first, *others = ways
    yield Finding(
        "high" if left >= 3 * LONG_LEFT_S else "medium",
        f"The log ends with {phase} bucket {index:,} of {total:,}: at {format_duration(each)} "
        f"each, as those so far, the others take {format_duration(left)}.",
        {"step_s": each, "left_s": left, "num_buckets": total},
        f"buckets of {phase}",
        first.suggestion,
        "no figure: which buckets are left out decides; the largest come first, and the others "
        "may be quicker",
        price=first.price,
        ways=tuple(others),
    )


@rule(
    "warm-up was skipped (Gaudi), and no shape is known to be beyond the ranges alone",
    "status; misses, bucket lists or ranges for the figures",
    formula="seconds of the first request of a shape - mean of its next ones",
    margin="shapes beyond the ranges are another rule's: a warm-up would not have "
    "prepared them",
    source="vllm-gaudi environment variables: VLLM_SKIP_WARMUP",
    example="vllm-gaudi 0.26 with VLLM_SKIP_WARMUP: three shapes within the ranges compiled",
)
def warmup_skipped(facts: RunFacts) -> Iterator[Finding]:
    """Warm-up was skipped: each shape that it would have prepared compiles when it comes."""
    summary = facts.summary
    if summary.status != "skipped":
        return
    found = diagnose(summary)
    covered = [item for item in found if not item.needs]
    if found and not covered:
        return
    is_known = all(item.is_known for item in covered)
    count = sum(miss.count for miss in covered)
    spent, warmup = _compiling_s(summary, covered), _usual_warmup_s(facts)
    numbers: dict[str, Value] = {}
    if covered:
        numbers |= {"num_shapes": len(covered), "num_warnings": count}
    numbers |= {"compile_s": spent} if spent is not None else {}
    numbers |= {"warmup_s": warmup} if warmup is not None else {}
    is_off = is_bucketing_off(summary.config)
    name, value = SWITCHES[is_off]
    has_file = has_setting(summary, BUCKET_FILE) and not is_off
    fewer = Way(
        f"{name}={value}, and {BUCKET_FILE} with fewer buckets: those of the traffic",
        FILE_REPLACES,
    )
    title = "Warm-up was skipped: a shape compiles when its first request comes."
    if covered:
        title = (
            f"Warm-up was skipped, and {count_of(len(covered), 'shape')} "
            f"{'within its ranges ' if is_known else ''}compiled while serving "
            f"({count_of(count, 'warning')})."
        )
    yield Finding(
        "medium",
        title,
        numbers,
        name,
        f"{name}={value}",
        _compiled_before(covered, spent, is_known=is_known),
        changes={name: value},
        price="the time of a warm-up, which no run of this model here has shown"
        if warmup is None
        else f"{format_duration(warmup)} of warm-up at each start",
        ways=(fewer,) if has_file else (),
    )


def _compiled_before(
    covered: Sequence[Diagnosis], spent: float | None, *, is_known: bool
) -> str:
    """What a warm-up brings; `spent` is what the shapes took to compile."""
    if not covered:
        return "no request waits for a compilation of a shape within the ranges"
    text = f"{count_of(len(covered), 'compilation')} less that a request waits for; "
    text += (
        "what each takes is the first request of a shape less the next, which a recorded run has"
        if spent is None
        else f"{format_duration(spent)} for those whose shape came again, the first request less "
        "the others"
    )
    if not is_known:
        text += "; the run prints no ranges, so these may be outside them"
    return text


SWITCHES = (("VLLM_SKIP_WARMUP", "false"), ("VLLM_ENABLE_BUCKETING", "true"))
"""What brings a warm-up back that was skipped, and one that has no buckets."""


def _usual_warmup_s(facts: RunFacts) -> float | None:
    """The median warm-up of other runs of the same model, version and device."""
    known = (BY_NAME["warmup_s"].trusted(other) for other in facts.same_model)
    seen = [seconds for seconds in known if seconds]
    return median(seen) if seen else None


def _compiling_s(summary: RunSummary, misses: Iterable[Diagnosis]) -> float | None:
    """What the first request of each shape took longer than the next ones of it."""
    shapes = {(miss.phase, miss.shape) for miss in misses}
    found = [
        use.first_s - (use.duration_s - use.first_s) / (use.count - 1)
        for use in (summary.serving.uses if summary.serving is not None else ())
        if (use.phase, use.shape) in shapes
        and use.count > 1
        and use.first_s is not None
        and use.duration_s is not None
    ]
    return sum(max(0.0, seconds) for seconds in found) if found else None


RULES = (
    decode_buckets, prompt_buckets, long_warmup, garbage_collection, warmup_under_way,
    warmup_skipped, sampler_warmup,
)  # fmt: skip
