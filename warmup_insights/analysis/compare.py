"""Two or more runs side by side: what was set differently, and what came of it.

The first run is the baseline; every other one is judged against it. A figure that is
unknown for one of the two is `unknown`, one that cannot be judged between these runs is
`not_comparable` with the reason, and a difference that the rounding of a log can hide is
`same`.
"""

from __future__ import annotations

import re
import string
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import msgspec

from warmup_insights.analysis.causes import (
    GapRow,
    gap_sentence,
    key_change,
    kv_sentence,
    match_gaps,
)
from warmup_insights.analysis.plan.memory import states_tokens_of_requests
from warmup_insights.analysis.sentences import made_up_word, serving_words
from warmup_insights.errors import InputError
from warmup_insights.model.events import Bucket
from warmup_insights.model.figures import (
    BY_NAME,
    FIGURES,
    Figure,
    Unit,
    all_figures,
    contradictory,
    format_figure,
    num_misses,
    phase_figures,
    resolution,
)
from warmup_insights.model.summary import (
    PHASES,
    SCHEMA,
    BucketRow,
    MemoryPart,
    RunSummary,
    Setting,
    top_level_parts,
)

START_GROUPS = ("time", "phases")
"""Groups of figures that depend on what a start could build on."""
CONTRADICTORY = "the evidence for it contradicts itself"
OF_A_WHOLE_START = ("wall_s", "unlogged_s")
"""Figures that lines without the beginning do not give."""
OF_FULL_LENGTH = ("max_concurrency",)
"""Figures of requests of `max_model_len` tokens; tokens of the cache may be another."""
PART = "a log lacks the beginning of its start"


class Comparability:
    """Which figures of two runs can be judged against each other.

    Times and sizes depend on the device as much as on the settings, so they are only
    judged on one kind of device and between starts of one kind, and figures of one rank
    only at one number of ranks, requests of full length only at one length.
    Nothing is judged between two models or two kinds of device: `subject_reason` is how
    those differ, `device_reason` how the devices do, `start_reason` the kinds of start, or
    that one did not end, and `rank_reason` the numbers of ranks, None if they do not;
    `notes` are sentences for a person.
    """

    def __init__(self, old: RunSummary, new: RunSummary) -> None:
        self.subject_reason = _model_reason(old, new) or _kind_reason(old, new)
        self.device_reason = _device_reason(old, new)
        self.rank_reason = _if_other(
            "the runs have {} and {} ranks", old.ranks, new.ranks
        )
        self._length_reason = _if_other(
            "requests of full length have {:,.0f} and {:,.0f} tokens",
            *(run.setting("max_model_len", "max_seq_len") for run in (old, new)),
        )
        is_counted = any(states_tokens_of_requests(run) for run in (old, new))
        self._of_full_length = {*OF_FULL_LENGTH, *(["kv_cache_tokens"] * is_counted)}
        self.start_reason = _start_reason(old, new)
        self._is_part = old.time.is_excerpt or new.time.is_excerpt
        self._log_reason = _if_other(
            "{} and {} count different things as captured",
            old.engine.name,
            new.engine.name,
        )
        self.bucket_reasons = {
            phase: _if_other(
                "one has {} dimensions and the other {}",
                _dimensions(old, phase),
                _dimensions(new, phase),
            )
            for phase in PHASES
        }
        self._contradictory = contradictory(old) | contradictory(new)
        self.notes = tuple(self._sentences())

    def reason(self, figure: Figure) -> str | None:
        """Why the figure cannot be judged; None when it can."""
        if figure.key in self._contradictory:
            return CONTRADICTORY
        if self.subject_reason is not None:
            return self.subject_reason
        if figure.per_device and self.device_reason is not None:
            return self.device_reason
        if figure.per_rank and self.rank_reason is not None:
            return self.rank_reason
        if figure.name in self._of_full_length and self._length_reason is not None:
            return self._length_reason
        if figure.name in OF_A_WHOLE_START and self._is_part:
            return PART
        if figure.group in START_GROUPS:
            return self.start_reason
        if figure.name.endswith("captured_reported"):
            return self._log_reason
        return None

    def _sentences(self) -> Iterator[str]:
        yield from _contradiction_note(self._contradictory)
        if self.subject_reason is not None:
            yield f"No figure is judged better or worse: {self.subject_reason}."
        elif self.device_reason is not None:
            yield f"Times and sizes are not judged: {self.device_reason}."
        if self.rank_reason is not None:
            yield f"Sizes per rank are not judged: {self.rank_reason}."
        if self._length_reason is not None:
            tokens = " tokens and" if "kv_cache_tokens" in self._of_full_length else ""
            yield f"How many{tokens} requests fit is not judged: {self._length_reason}."
        if self.start_reason is not None:
            yield f"Times are not judged: {self.start_reason}."
        elif self._is_part:
            yield f"Start-up and unlogged time are not judged: {PART}."
        if self._log_reason is not None:
            yield f"Logged capture counts are not judged: {self._log_reason}."
        for phase, reason in self.bucket_reasons.items():
            if reason is not None:
                yield f"The {phase} bucket lists are not compared: {reason}."


def _model_reason(old: RunSummary, new: RunSummary) -> str | None:
    """How the models differ; None where they do not or one is unknown. The folder or
    the owner of a model is no difference."""
    names = [_without_folder(run.model or "") for run in (old, new)]
    if not all(names) or names[0].casefold() == names[1].casefold():
        return None
    return f"the models differ ({names[0]}, {names[1]})"


def _without_folder(model: str) -> str:
    """The name of a model without its folder or owner."""
    return model.rstrip("/").rsplit("/", 1)[-1]


def _kind_reason(old: RunSummary, new: RunSummary) -> str | None:
    one, other = old.device.kind, new.device.kind
    text = "the kinds of device differ ({}, {})"
    if old.synthetic != new.synthetic and "simulated" in (one, other):
        text = "one run is simulated and the other is not"
    return _if_other(text, one, other)


def _device_reason(old: RunSummary, new: RunSummary) -> str | None:
    if old.synthetic != new.synthetic:
        return "one run is simulated and the other is not"
    first, second = old.device, new.device
    for one, other in ((first.kind, second.kind), (first.name, second.name)):
        if reason := _if_other("the devices differ ({}, {})", one, other):
            return reason
    engines = (old.engine.name, new.engine.name)
    if "reference" not in engines:
        return None
    return _if_other("the engines differ ({}, {})", *engines)


def _if_other(text: str, first: object, second: object) -> str | None:
    """The text with both values, where both are known and one is not the other."""
    return text.format(first, second) if first and second and first != second else None


def _start_reason(old: RunSummary, new: RunSummary) -> str | None:
    """How the kinds of start differ, or which did not end; None as well where neither run
    shows its own kind."""
    broken = [run.status for run in (old, new) if run.status in ("failed", "stopped")]
    if broken:
        both = "both starts" if len(broken) > 1 else "one start"
        return f"{both} {' and '.join(dict.fromkeys(broken))} before ready"
    kinds = (old.start.words, new.start.words)
    if kinds[0] == kinds[1]:
        return None
    if None in kinds:
        return f"one start is {kinds[0] or kinds[1]}, the kind of the other is unknown"
    return f"the starts are of different kinds ({kinds[0]}; {kinds[1]})"


def _dimensions(run: RunSummary, phase: str) -> int | None:
    buckets = run.phase(phase).buckets
    return len(buckets[0]) if buckets else None


def _contradiction_note(names: frozenset[str]) -> Iterator[str]:
    titles = [figure.title for figure in FIGURES if figure.key in names]
    titles += sorted(n.partition(":")[2] for n in names if n.startswith("phase:"))
    if titles:
        yield f"Not judged, since {CONTRADICTORY}: {', '.join(titles)}."


Run = tuple[RunSummary, Sequence[BucketRow]]

MAX_HEAD = 28
"""Characters that fit above a column of figures."""
NOTICEABLE = 0.10
"""Equal starts differ by as much in their times: what moved by less is stated, and never
judged. On a busy machine they differ by more, docs/compare.md has by how much."""
OF_START = 0.02
"""Of the longer start: parts that moved by less are not judged, however short they are."""


@dataclass(frozen=True)
class CostChange:
    """What one bucket took before and after: seconds and bytes, None if unknown."""

    bucket: Bucket
    duration_s: tuple[float | None, float | None]
    memory_bytes: tuple[int | None, int | None]


@dataclass(frozen=True)
class BucketChange:
    """The buckets of one phase in the baseline and in one other run.

    `added` and `removed` are None when a run does not list its buckets, or the lists
    have different dimensions (`reason` names them). `captured` got a graph and
    `uncaptured` lost it; they are None when the graphs of a run are unknown. `slower`,
    `faster`, `larger` and `smaller` hold what has a graph in both runs or in neither,
    and moved by more than a tenth and by more than the rounding.
    """

    run_id: str
    phase: str
    added: tuple[Bucket, ...] | None
    removed: tuple[Bucket, ...] | None
    num_common: int | None
    captured: tuple[Bucket, ...] | None
    uncaptured: tuple[Bucket, ...] | None
    slower: tuple[CostChange, ...]
    faster: tuple[CostChange, ...]
    larger: tuple[CostChange, ...]
    smaller: tuple[CostChange, ...]
    added_cost_s: float | None
    removed_cost_s: float | None
    reason: str | None = None


def compare_buckets(old: Run, new: Run, fit: Comparability) -> list[BucketChange]:
    """One entry per phase that both or one of the runs mention."""
    return [
        _change(phase, old, new, fit)
        for phase in PHASES
        if old[0].phase(phase).buckets or new[0].phase(phase).buckets
    ]


def _change(phase: str, old: Run, new: Run, fit: Comparability) -> BucketChange:
    run_id = new[0].run_id
    before, after = (set(run.phase(phase).buckets) for run, _ in (old, new))
    reason = fit.bucket_reasons[phase]
    if reason is None and not (before and after):
        reason = "only one of the runs lists its buckets"
    if reason is not None:
        unknown = (None,) * 5
        return BucketChange(run_id, phase, *unknown, (), (), (), (), None, None, reason)
    first, second = (
        {row.bucket: row for row in rows if row.phase == phase}
        for _, rows in (old, new)
    )
    gained, lost = _graphs(old[0], new[0], phase)
    common = sorted(before & after)
    captured_once = {*(gained or ()), *(lost or ())}
    is_judged = fit.device_reason is None
    both = [
        CostChange(
            bucket,
            (first[bucket].duration_s, second[bucket].duration_s),
            (first[bucket].memory_bytes, second[bucket].memory_bytes),
        )
        for bucket in common
        if is_judged and bucket in first and bucket in second
        if bucket not in captured_once
    ]
    added, removed = tuple(sorted(after - before)), tuple(sorted(before - after))
    return BucketChange(
        run_id,
        phase,
        added,
        removed,
        len(common),
        gained,
        lost,
        *_moved(old[0], new[0], [(cost.duration_s, cost) for cost in both], "s"),
        *_moved(old[0], new[0], [(cost.memory_bytes, cost) for cost in both], "bytes"),
        _seconds(second, added),
        _seconds(first, removed),
    )


def _graphs(
    old: RunSummary, new: RunSummary, phase: str
) -> tuple[tuple[Bucket, ...] | None, tuple[Bucket, ...] | None]:
    """Buckets that got a graph, and those that lost it."""
    before, after = (s.phase(phase).captured_buckets for s in (old, new))
    if before is None or after is None:
        return None, None
    first, second = set(before), set(after)
    return tuple(sorted(second - first)), tuple(sorted(first - second))


def _seconds(
    rows: Mapping[Bucket, BucketRow], buckets: Sequence[Bucket]
) -> float | None:
    """Seconds of all the buckets; None unless each is known."""
    known = [rows[bucket].duration_s for bucket in buckets if bucket in rows]
    seconds = [value for value in known if value is not None]
    return sum(seconds) if len(seconds) == len(buckets) else None


def _moved(
    old: RunSummary,
    new: RunSummary,
    costs: Iterable[tuple[tuple[float | None, float | None], CostChange]],
    unit: Unit,
) -> tuple[tuple[CostChange, ...], tuple[CostChange, ...]]:
    """Of one of two costs of buckets: those where it is noticeably higher, and lower."""
    found = []
    for (before, after), change in costs:
        if before is None or after is None:
            continue
        step = max(resolution(old, before, unit), resolution(new, after, unit))
        if abs(after - before) > max(step, NOTICEABLE * abs(before)):
            found.append((after - before, change))
    found.sort(key=lambda item: (-abs(item[0]), item[1].bucket))
    return (
        tuple(change for difference, change in found if difference > 0),
        tuple(change for difference, change in found if difference < 0),
    )


_TRUE = frozenset({"true", "1", "yes", "on", "t", "y"})
_FALSE = frozenset({"false", "0", "no", "off", "f", "n"})


@dataclass(frozen=True)
class SettingRow:
    """A setting and its value in each run; None where the run does not state it."""

    name: str
    values: tuple[Setting, ...]


def compare_settings(
    summaries: Sequence[RunSummary],
) -> tuple[tuple[SettingRow, ...], tuple[SettingRow, ...]]:
    """Settings that differ, and settings that only some runs state.

    A setting differs when two runs state it and mean different values; `0.9` and `"0.90"`,
    `true` and `"1"` mean the same. Where the engines list all arguments that were set, one that
    only some were given has its default in the others. A configuration that an engine prints
    as a whole is compared entry by entry where several runs state it. Engine, version, model,
    device and ranks count as settings. One that repeats the name of the model in every run, with or without
    its folder, as `tokenizer` and `served_model_name` do, is no setting of its own.
    """
    facts = [_facts(summary) for summary in summaries]
    stating = Counter(name for fact in facts for name in fact)
    facts = [_by_entry(fact, stating) for fact in facts]
    names = list(dict.fromkeys(name for fact in facts for name in fact))
    for summary, fact in zip(summaries, facts, strict=True):
        unstated = [name for name in names if fact.get(name) is None]
        for name in unstated:
            if any(summary.has_default(name, other) for other in summaries):
                fact[name] = "default"
    differing, partly = [], []
    for name in names:
        values = tuple(fact.get(name) for fact in facts)
        stated = [value for value in values if value is not None]
        is_model = name != "model" and all(
            value in (None, "default")
            or _without_folder(str(value)) == _without_folder(str(fact["model"]))
            for value, fact in zip(values, facts, strict=True)
        )
        if not stated or is_model:
            continue
        if any(not _means_same(stated[0], value) for value in stated[1:]):
            differing.append(SettingRow(name, values))
        elif len(stated) < len(values):
            partly.append(SettingRow(name, values))
    return tuple(differing), tuple(partly)


def _facts(summary: RunSummary) -> dict[str, Setting]:
    identity = {
        "engine": summary.engine.name,
        "engine version": summary.engine.version,
        "model": summary.model,
        "device": summary.device.kind,
        "device name": summary.device.name,
        "ranks": summary.ranks,
        "kind of start": summary.start.words,
        **{f"{name} cache": state for name, state in summary.start.caches.items()},
    }
    # What is stated twice, once by the identity and once by a setting, is shown once.
    config = {k: v for k, v in summary.config.items() if k not in identity}
    return {**config, **identity}


def _by_entry(
    fact: Mapping[str, Setting], stating: Mapping[str, int]
) -> dict[str, Setting]:
    """Settings, with the entries of what is printed as a whole as settings of their own, but
    for those that all runs with it state besides."""
    found: dict[str, Setting] = {}
    for name, value in fact.items():
        entries = entries_of(value) if stating[name] > 1 else None
        if entries is None:
            found[name] = value
            continue
        for entry, text in entries.items():
            full_name = f"{name}.{entry}"
            full_name = _ALSO_PRINTED_AS.get(full_name, full_name)
            if stating[entry] < stating[name] and full_name not in fact:
                found[full_name] = text
    return found


_ALSO_PRINTED_AS = {
    "speculative_config.num_spec_tokens": "speculative_config.num_speculative_tokens"
}
"""Entries of printed configurations to the arguments that they are."""


_PRINTED_WHOLE = re.compile(r"\s*(?:\{|[A-Z]\w{1,60}\()")
_ENTRY = re.compile(
    r"\s{0,20}['\"]?(?P<name>\w{1,80})['\"]?\s{0,20}[:=]\s{0,20}(?P<value>.*)",
    re.DOTALL,
)
_ENUM = re.compile(r"<\w{1,60}\.\w{1,60}: (.{1,60})>")
_MEMBER = re.compile(r"[A-Z][A-Za-z]{1,60}\.([A-Z][A-Z_]{0,60})")
_WORD = re.compile(r"\b(?:true|false|null)\b")
_JSON = {"true": "True", "false": "False", "null": "None"}


def entries_of(value: Setting) -> dict[str, str] | None:
    """The entries of a configuration as an engine prints it, `{'mode': 3, ...}` or
    `KernelConfig(name=value, ...)`; None for other values. One without an end is left out:
    a long configuration is cut."""
    text = value if isinstance(value, str) else ""
    opening = _PRINTED_WHOLE.match(text)
    if opening is None:
        return None
    pieces = top_level_parts(text[opening.end() :], is_closed=True)
    found = [_ENTRY.fullmatch(piece) for piece in pieces if piece.strip()]
    entries = {one["name"]: one["value"].strip(" '\"") for one in found if one}
    return entries if entries and all(found) else None


def _means_same(first: Any, second: Any) -> bool:
    if first == second:
        return True
    (kind, value), (other, another) = _meaning(first), _meaning(second)
    if "boolean" in (kind, other) and "text" not in (kind, other):
        return value in (0, 1) and another in (0, 1) and value == another
    return (kind, value) == (other, another)


def _meaning(value: Any) -> tuple[str, Any]:
    if isinstance(value, bool):
        return ("boolean", value)
    if isinstance(value, int | float):
        return ("number", float(value))
    text = str(value).strip().removeprefix("torch.")
    if (named := _ENUM.fullmatch(text)) is not None:
        text = named[1]
    elif (member := _MEMBER.fullmatch(text)) is not None:
        text = member[1].lower()
    if text.startswith(("[", "{")):
        text = _WORD.sub(lambda word: _JSON.get(word[0], word[0]), text)
        text = text.replace(" ", "").replace('"', "'")
    try:
        return ("number", float(text))
    except ValueError:
        pass
    lowered = text.lower()
    if lowered in _TRUE or lowered in _FALSE:
        return ("boolean", lowered in _TRUE)
    return ("text", "None" if lowered in ("null", "") else text)


SAME_SHARE = 0.0005
"""Of a time or a size: less is printed as 0.0 % and is no difference."""
MOST_TIMES = 10
"""A change of more times its base is stated by its size alone, and so is one of a base
below so many steps of its rounding: a percentage of either means nothing."""
_ALWAYS_TELLING = ("warmup_s", "captured_percent", "num_kv_blocks", "misses")
_REPEATS = {"wall_s": "ready_s"}
"""Figures to those that they are in a start whose first and last line are all of it."""
_OF_EVERY_START = ("profile_bytes", "weights_bytes")
"""Sizes that no start is without: 0 of one is no measurement."""


@dataclass(frozen=True)
class Change:
    """From the baseline to one run.

    `verdict` is `better`, `worse`, `changed` (no direction is better), `same`, `noise`
    (two equal starts differ by as much), `unknown` or `not_comparable`. `percent` is None
    where a percentage means nothing.
    """

    absolute: float | None
    percent: float | None
    verdict: str
    is_same: bool = False
    """Whether the two can be one value, judged or not."""


@dataclass(frozen=True)
class FigureRow:
    """One figure of all runs; `changes` has one entry per run after the first.

    `steps` are the smallest differences that the runs could have stated; 0 where exact.
    """

    name: str
    title: str
    unit: Unit
    group: str
    better: str | None
    values: tuple[float | None, ...]
    changes: tuple[Change, ...]
    steps: tuple[float, ...]
    is_repeated: bool = False
    """Whether another row states the same of every run."""

    @property
    def texts(self) -> list[str]:
        """The values for people."""
        pairs = zip(self.values, self.steps, strict=True)
        return [format_figure(value, self.unit, step) for value, step in pairs]

    @property
    def is_telling(self) -> bool:
        """Whether the row is worth showing where those that did not change are not."""
        if self.is_repeated:
            return False
        if not all(change.is_same for change in self.changes):
            return True
        return self.name in _ALWAYS_TELLING


@dataclass(frozen=True)
class MissRow:
    """A shape without a bucket, and how often each run met it; None is unknown."""

    phase: str
    shape: Bucket
    counts: tuple[int | None, ...]


@dataclass(frozen=True)
class RunHead:
    """What names a run in a comparison."""

    run_id: str
    label: str | None
    source: str | None
    status: str | None
    serving_end: str | None
    """How serving ended, in a word or two; None where nothing states an end."""
    engine: str | None
    version: str | None
    model: str | None
    device: str | None
    synthetic: bool
    made_up: str | None
    """`synthetic` or `simulated`; None for figures of a real device."""
    title: str
    head: str
    """What heads its column and stands for it in notes: the title, or a letter where
    titles are long."""


@dataclass(frozen=True)
class Comparison:
    """Everything about two or more runs; `as_dict` is what `--json` prints."""

    runs: tuple[RunHead, ...]
    notes: tuple[str, ...]
    settings: tuple[SettingRow, ...]
    partly_stated: tuple[SettingRow, ...]
    figures: tuple[FigureRow, ...]
    phases: tuple[FigureRow, ...]
    memory: tuple[tuple[MemoryPart, ...], ...]
    buckets: tuple[BucketChange, ...]
    misses: tuple[MissRow, ...]
    gaps: tuple[GapRow, ...] = ()
    reasons: tuple[str, ...] = ()
    """Why runs differ: keys of the compile caches, parts of the KV caches, gaps."""

    def as_dict(self) -> dict[str, Any]:
        """Plain values."""
        return {"schema": SCHEMA, **msgspec.to_builtins(self)}


def compare(
    summaries: Sequence[RunSummary],
    bucket_rows: Sequence[Sequence[BucketRow]] | None = None,
) -> Comparison:
    """Compare runs, the first of which is the baseline.

    `bucket_rows` are the bucket summaries of the runs in the same order; without them
    the cost of single buckets is unknown.

    Raises:
        InputError: fewer than two runs, or a run twice.
    """
    _check(summaries)
    rows = bucket_rows if bucket_rows is not None else [()] * len(summaries)
    fits = [Comparability(summaries[0], other) for other in summaries[1:]]
    runs = _heads(summaries)
    settings, partly = compare_settings(summaries)
    figures = [_row(f, summaries, fits) for f in all_figures(summaries)]
    return Comparison(
        runs=runs,
        notes=tuple(_notes(runs, fits)),
        settings=settings,
        partly_stated=partly,
        figures=tuple(row for row in figures if set(row.values) != {None}),
        phases=tuple(_row(f, summaries, fits) for f in phase_figures(summaries)),
        memory=tuple(tuple(s.memory_or_none.parts) for s in summaries),
        buckets=tuple(
            change
            for index, fit in enumerate(fits, start=1)
            for change in compare_buckets(
                (summaries[0], rows[0]), (summaries[index], rows[index]), fit
            )
        ),
        misses=_misses(summaries),
        gaps=match_gaps(summaries),
        reasons=tuple(_reasons(summaries, runs, fits)),
    )


def _notes(runs: Sequence[RunHead], fits: Sequence[Comparability]) -> Iterator[str]:
    """What is not judged, once each; with the names of the runs where it is not all."""
    named: dict[str, list[str]] = {}
    for other, fit in zip(runs[1:], fits, strict=True):
        for note in fit.notes:
            named.setdefault(note, []).append(other.head)
    for note, heads in named.items():
        yield note if len(heads) == len(fits) else f"{', '.join(heads)}: {note}"


def _reasons(
    summaries: Sequence[RunSummary],
    runs: Sequence[RunHead],
    fits: Sequence[Comparability],
) -> Iterator[str]:
    """Sentences about each run and the first; with a name where there are several."""
    for other, head, fit in zip(summaries[1:], runs[1:], fits, strict=True):
        if fit.subject_reason is not None:
            continue
        pair = (summaries[0], other)
        keys = key_change(*pair)
        found = (
            keys.sentence if keys else None,
            # Another number of ranks shares the model, and the cache, otherwise.
            kv_sentence(*pair) if fit.rank_reason is None else None,
            gap_sentence(match_gaps(pair), pair),
        )
        several = f"{head.head}: " if len(summaries) > 2 else ""
        yield from (f"{several}{text}" for text in found if text is not None)


def change(
    figure: Figure, old: RunSummary, new: RunSummary, fit: Comparability
) -> Change:
    """What became of a figure from one run to another."""
    before, after = figure.read(old), figure.read(new)
    if before is None or after is None or _is_unmeasured(figure, before, after):
        return Change(None, None, "unknown")
    difference = after - before
    is_small = before <= MOST_TIMES * 2 * figure.doubt(old)
    percent = None
    if not is_small and difference <= MOST_TIMES * before:
        percent = 100.0 * difference / before
    is_same = abs(difference) <= _slack(figure, old, new)
    near = NOTICEABLE * max(before, after)
    if figure.group in ("time", "phases"):
        near = max(near, OF_START * max(old.time.wall_s or 0.0, new.time.wall_s or 0.0))
    is_near = abs(difference) <= near
    # What a model of a device computes is the same for equal starts.
    is_measured = "simulated" not in (old.device.kind, new.device.kind)
    is_time = figure.unit == "s" or figure.group == "serving"
    if fit.reason(figure) is not None:
        verdict = "not_comparable"
    elif is_same:
        verdict = "same"
    elif figure.better is None:
        verdict = "changed"
    elif is_time and is_near and is_measured:
        verdict = "noise"
    else:
        is_better = (difference > 0) == (figure.better == "higher")
        verdict = "better" if is_better else "worse"
    return Change(difference, percent, verdict, is_same)


def _is_unmeasured(figure: Figure, before: float, after: float) -> bool:
    """Whether one run has 0 of what no start is without."""
    return figure.name in _OF_EVERY_START and (before == 0) != (after == 0)


def _slack(figure: Figure, old: RunSummary, new: RunSummary) -> float:
    """The largest difference that is none."""
    slack = figure.doubt(old) + figure.doubt(new)
    if figure.unit == "bytes" and slack:
        slack += 1.0  # what was rounded is stored in whole bytes
    least = SAME_SHARE if figure.unit in ("s", "bytes") else 0.0
    return max(slack, least * abs(figure.read(old) or 0.0))


def _row(
    figure: Figure, summaries: Sequence[RunSummary], fits: Sequence[Comparability]
) -> FigureRow:
    return FigureRow(
        figure.name,
        figure.title,
        figure.unit,
        figure.group,
        figure.better,
        tuple(figure.read(summary) for summary in summaries),
        tuple(
            change(figure, summaries[0], other, fit)
            for other, fit in zip(summaries[1:], fits, strict=True)
        ),
        tuple(figure.step(summary) for summary in summaries),
        _is_repeated(figure, summaries),
    )


def _is_repeated(figure: Figure, summaries: Sequence[RunSummary]) -> bool:
    """Whether each run has the value of the figure that this one repeats, but for rounding."""
    other = BY_NAME.get(_REPEATS.get(figure.name, ""))
    if other is None:
        return False
    pairs = [(figure.read(run), other.read(run)) for run in summaries]
    return all(
        one is not None and two is not None
        and abs(one - two) <= figure.doubt(run) + other.doubt(run)
        for run, (one, two) in zip(summaries, pairs, strict=True)
    )  # fmt: skip


def _misses(summaries: Sequence[RunSummary]) -> tuple[MissRow, ...]:
    found = [
        {(miss.phase, miss.shape): miss.count for miss in summary.misses}
        for summary in summaries
    ]
    keys = dict.fromkeys(key for misses in found for key in misses)
    return tuple(
        MissRow(
            phase,
            shape,
            tuple(
                misses.get(
                    (phase, shape), 0 if num_misses(summary) is not None else None
                )
                for misses, summary in zip(found, summaries, strict=True)
            ),
        )
        for phase, shape in keys
    )


def _heads(summaries: Sequence[RunSummary]) -> tuple[RunHead, ...]:
    heads = [summary.title for summary in summaries]
    if max(map(len, heads)) > MAX_HEAD or len({*heads}) < len(heads):
        numbers = [f"#{number}" for number in range(1, len(heads) + 1)]
        heads = [*string.ascii_uppercase, *numbers[len(string.ascii_uppercase) :]]
    return tuple(
        RunHead(
            run_id=summary.run_id,
            label=summary.label,
            source=summary.source.name,
            status=summary.status,
            serving_end=serving_words(summary),
            engine=summary.engine.name,
            version=summary.engine.version,
            model=summary.model,
            device=summary.device.name or summary.device.kind,
            synthetic=summary.synthetic,
            made_up=made_up_word(summary.device.kind, summary.synthetic),
            title=summary.title,
            head=head,
        )
        for summary, head in zip(summaries, heads, strict=False)
    )


def _check(summaries: Sequence[RunSummary]) -> None:
    if len(summaries) < 2:
        raise InputError(
            "One run cannot be compared; name two or more, the first is the baseline"
        )
    ids = [summary.run_id for summary in summaries]
    twice = next((run for run in ids if ids.count(run) > 1), None)
    if twice is not None:
        raise InputError(f"Run {twice} is named twice; name different runs")
