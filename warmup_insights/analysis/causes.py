"""Why two runs differ: the sizes of their KV caches, the keys of their compile caches, and
time between the same two lines that no phase explains.

The directory of a compile cache is named by a hash of four hashes: of environment
variables, of the settings, of the compiler and of the model's code (vLLM
`compilation/backends.py`). What they are made of is in `cache_key_factors.json` in that
directory.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from warmup_insights.analysis.sentences import value_text
from warmup_insights.model.figures import BY_NAME, contradictory
from warmup_insights.model.summary import CompileFacts, MemoryPart, RunSummary
from warmup_insights.units import GIB, MIB, format_bytes, format_count, format_duration

LEAST_BYTES = 64 * MIB
"""A smaller difference is that of two readings of the same memory."""
LEAST_SHARE = 0.01
"""Of the whole difference, below which a part is not named."""
_WORDS = {
    "weights": "weights", "profiling": "activations", "non_torch": "memory outside of PyTorch",
    "graphs": "graphs",
    "other": "memory that no line accounts for",
}  # fmt: skip
_OUT_OF_MARGIN = "graphs, out of the margin"
_OUTSIDE_WORDS = "memory outside of the utilisation (in use at the start, margin)"


def kv_sentence(old: RunSummary, new: RunSummary) -> str | None:
    """What took or left the difference, and the setting that restores the old size.

    None where the sizes are equal, unknown or contradictory, or on other devices.
    """
    if {"kv_cache_bytes", "total_bytes"} & (contradictory(old) | contradictory(new)):
        return None
    figure = BY_NAME["kv_cache_bytes"]
    before, after = figure.trusted(old), figure.trusted(new)
    totals = (old.memory_or_none.total_bytes, new.memory_or_none.total_bytes)
    if before is None or after is None or abs(after - before) < LEAST_BYTES:
        return None
    if all(totals) and abs((totals[0] or 0) - (totals[1] or 0)) > GIB:
        return None
    change = after - before
    head = f"The KV cache has {_more(change)} ({format_bytes(after)} instead of {format_bytes(before)}"
    head += f"{_tokens(old, new)})"
    why = "; ".join(_parts(old, new, change)) or _share_text(old, new)
    facts = "".join(f"; {text}" for text in _circumstances(old, new))
    is_lost = change < 0 and not _holds_more(old, new)
    restored = _restored(old, new, before) if is_lost else ""
    return f"{head}: {why}{facts}{restored}."


def _share_text(old: RunSummary, new: RunSummary) -> str:
    """Why the cache is another one, where no part of the memory is stated."""
    shares = [run.memory_or_none.gpu_memory_utilization for run in (old, new)]
    if all(shares) and shares[0] != shares[1]:
        return f"gpu_memory_utilization is {shares[1]} instead of {shares[0]}"
    return "the runs do not state what took it"


def _more(change: float) -> str:
    return f"{format_bytes(abs(change))} {'more' if change > 0 else 'less'}"


def _tokens(old: RunSummary, new: RunSummary) -> str:
    """How many tokens it holds, between runs whose requests are of one length: what those of
    another take may differ."""
    counts = [BY_NAME["kv_cache_tokens"].trusted(run) for run in (old, new)]
    lengths = {run.setting("max_model_len") for run in (old, new)} - {None}
    if counts[0] is None or counts[1] is None or len(lengths) > 1:
        return ""
    return f"; {format_count(counts[1])} instead of {format_count(counts[0])} tokens"


def _holds_more(old: RunSummary, new: RunSummary) -> bool:
    """Whether a smaller cache holds more tokens, as with values of fewer bytes or tokens that
    are divided among ranks."""
    counts = [BY_NAME["kv_cache_tokens"].trusted(run) for run in (old, new)]
    return (counts[1] or 0) > (counts[0] or math.inf)


def _parts(old: RunSummary, new: RunSummary, change: float) -> Iterator[str]:
    """What takes more or less than before, the largest first."""
    first, second = _sizes(old), _sizes(new)
    if not first or not second:
        return
    sums = [run.memory_or_none.consumed_bytes for run in (old, new)]
    if (sums[0] is None) != (sums[1] is None):
        # vLLM since 0.27 states graphs within activations.
        for sizes in (first, second):
            sizes["activations and graphs"] = sizes.pop("profiling", 0) + sizes.pop(
                "graphs", 0
            )
    grown = {
        name: second.get(name, 0) - first.get(name, 0) for name in {**first, **second}
    }
    least = max(LEAST_BYTES / 4, LEAST_SHARE * abs(change))
    words = {**_WORDS, "margin": _margin_words(old, new)}
    for name, size in sorted(grown.items(), key=lambda item: -abs(item[1])):
        if abs(size) >= least:
            yield f"{words.get(name, name)} {_more(size)}"


def _sizes(run: RunSummary) -> dict[str, int]:
    """Name to bytes of all parts of the device but the KV cache's budget."""
    sizes: dict[str, int] = {}
    for part in run.memory_or_none.parts:
        name = "margin" if _is_outside(part) else part.name
        if name not in ("kv_cache", "unused"):
            sizes[name] = sizes.get(name, 0) + part.bytes
    return sizes


def _is_outside(part: MemoryPart) -> bool:
    """Whether a part lies outside of the utilisation."""
    return part.name in ("at_start", "margin") or part.label == _OUT_OF_MARGIN


def _margin_words(old: RunSummary, new: RunSummary) -> str:
    """What the parts outside of the utilisation are called together: as the one that there is."""
    parts = [part for run in (old, new) for part in run.memory_or_none.parts]
    names = {part.label.partition(",")[0] for part in parts if _is_outside(part)}
    return names.pop() if len(names) == 1 else _OUTSIDE_WORDS


def _circumstances(old: RunSummary, new: RunSummary) -> Iterator[str]:
    """What differs in how the engine counts."""
    reserved = [run.graphs.is_reserved if run.graphs else None for run in (old, new)]
    if reserved[1] and not reserved[0]:
        yield (
            "the utilisation now holds the estimate for graphs as well "
            "(vLLM since 0.21)"
        )
    runners = [run.config.get("model_runner") for run in (old, new)]
    if all(runners) and runners[0] != runners[1]:
        yield f"the model runner is {runners[1]} instead of {runners[0]}"
    plans = [run.start.plan == "applied" for run in (old, new)]
    if plans[0] != plans[1]:
        which = "this" if plans[1] else "the first"
        yield f"{which} start took the size from a start-up plan, without profiling"


def _restored(old: RunSummary, new: RunSummary, before: float) -> str:
    """The settings with which the new run has what graphs took, and the old size."""
    graphs, memory = new.graphs, new.memory_or_none
    share, total = memory.gpu_memory_utilization, memory.total_bytes
    offset = ""
    was_reserved = old.graphs is not None and old.graphs.is_reserved
    if graphs is not None and graphs.is_reserved and share and not was_reserved:
        without = graphs.utilization_without
        if without is None and total and graphs.estimated_bytes:
            without = share - graphs.estimated_bytes / total
        if without is not None and 2 * share - without <= 1:
            offset = (
                f"; --gpu-memory-utilization {2 * share - without:.4f} makes up for "
            )
            offset += "the graphs"
    if new.engine.name != "vllm":
        return offset
    return f"{offset}; --kv-cache-memory={int(before)} gives the old size, if it fits"


PARTS = {
    "env": "environment variables", "config": "settings", "compiler": "the compiler",
    "code": "the code of the model",
}  # fmt: skip
_OF_A_POD = re.compile(
    r"(?:host|port|rank|addr|path|root|home|dir|folder|node|pod|indices|(?:^|_)ip|"
    r"(?:worker|instance|replica)_?id)s?$",
    re.I,
)
_OUTSIDE = re.compile(
    r"WARMUP_INSIGHTS_|command$|served_model_name$|port$|host$|"
    r"VLLM_(?:LOG|CACHE_ROOT$|PORT$|HOST_IP$|API_KEY$|RPC_BASE_PATH$|CPU_KVCACHE_SPACE$|"
    r"NO_USAGE_STATS$|DO_NOT_TRACK$|ENABLE_V1_MULTIPROCESSING$|WORKER_MULTIPROC_METHOD$|"
    r"MEDIA_|CONFIG_ROOT$|XLA_CACHE_PATH$|DEBUG_|SERVER_DEV_MODE$)"
)
"""What no key of a cache is made of (vLLM `envs.py compile_factors`)."""
MAX_FACTORS = 20


@dataclass(frozen=True)
class Factor:
    """Something that the name is made of, and its value in each run; None is absent."""

    name: str
    values: tuple[str | None, str | None]

    @property
    def variable(self) -> str | None:
        """The environment variable that it is."""
        part, _, name = self.name.partition(".")
        return name if part == "env" else None

    @property
    def is_of_a_pod(self) -> bool:
        """Whether its name is that of a host, port, rank or path: no other pod has it."""
        return _OF_A_POD.search(self.name) is not None


@dataclass(frozen=True)
class KeyChange:
    """How the keys of two runs differ: hashes of directories, parts and factors."""

    hashes: tuple[str | None, str | None]
    parts: tuple[str, ...] | None
    """Of `PARTS` those that differ; None where the runs do not state theirs."""
    factors: tuple[Factor, ...]
    candidates: tuple[Factor, ...] | None = None
    """For a compiled function (AOT), whose parts vLLM lists nowhere: what differs between
    the runs and may be one of them. None where the key is that of a directory of graphs."""

    @property
    def sentence(self) -> str:
        """What differs, as far as the runs show it."""
        first, second = self.hashes
        where = f" ({first[:12]}, {second[:12]})" if first and second else ""
        text = f"The compile caches have different keys{where}"
        if self.candidates is not None:
            return f"{text}: {_candidates_text(self.candidates)}."
        if self.factors:
            return f"{text}: {_shown(self.factors)}."
        if self.parts:
            names = " and ".join(PARTS[part] for part in self.parts)
            return (
                f"{text}: {names} differ, by their hashes; which of them is in "
                "cache_key_factors.json of both directories."
            )
        return (
            f"{text}; which part of the key differs is in cache_key_factors.json of both "
            "directories, and with VLLM_LOGGING_LEVEL=DEBUG in the log."
        )


def key_change(old: RunSummary, new: RunSummary) -> KeyChange | None:
    """The difference; None where the keys are equal or unknown."""
    first, second = old.compile, new.compile
    if first is None or second is None:
        return None
    hashes = (first.hash, second.hash)
    candidates = None
    if not all(hashes):
        hashes = (first.aot_hash, second.aot_hash)
        candidates = _candidates(old, new)
    factors = _factors(first, second)
    parts = _differing(first, second)
    is_other = all(hashes) and hashes[0] != hashes[1]
    if not is_other and not parts and not factors:
        return None
    is_known = bool(parts or factors)
    return KeyChange(hashes, parts, factors, None if is_known else candidates)


def _candidates(old: RunSummary, new: RunSummary) -> tuple[Factor, ...]:
    """Settings with another value, and variables that a recorder found in one run only; without
    any the settings that one run alone states, as a log has only some variables."""
    recorded = old.source.kind == new.source.kind == "recorder"
    found: list[Factor] = []
    stated_once: list[Factor] = []
    for name in dict.fromkeys((*old.config, *new.config)):
        before, after = (
            None if run.config.get(name) is None else str(run.config[name])
            for run in (old, new)
        )
        if before == after or _OUTSIDE.match(name):
            continue
        is_default = old.has_default(name, new) or new.has_default(name, old)
        is_found = (before is not None and after is not None) or is_default
        is_found |= recorded and name.startswith("VLLM_")
        if is_found or not name.isupper():
            (found if is_found else stated_once).append(Factor(name, (before, after)))
    return tuple((found or stated_once)[:MAX_FACTORS])


def _candidates_text(candidates: tuple[Factor, ...]) -> str:
    if not candidates:
        return (
            "nothing that the runs state differs; variables of the environment are in the "
            "run of a recorder, not in a log"
        )
    is_of_one = None in candidates[0].values and not candidates[0].name.isupper()
    which = "one run alone states" if is_of_one else "differs"
    return (
        f"their parts are not listed anywhere; of what {which} it may be "
        f"{_shown(candidates)}"
    )


def _differing(first: CompileFacts, second: CompileFacts) -> tuple[str, ...] | None:
    if not first.key or not second.key:
        return None
    return tuple(
        part
        for part in PARTS
        if part in first.key
        and part in second.key
        and first.key[part] != second.key[part]
    )


def _factors(first: CompileFacts, second: CompileFacts) -> tuple[Factor, ...]:
    if not first.factors or not second.factors:
        return ()
    names = dict.fromkeys((*first.factors, *second.factors))
    found = [
        Factor(name, (first.factors.get(name), second.factors.get(name)))
        for name in names
        if first.factors.get(name) != second.factors.get(name)
    ]
    return tuple(found[:MAX_FACTORS])


def _shown(factors: Sequence[Factor]) -> str:
    """The first three with their values, and how many more there are."""
    texts = []
    for factor in factors[:3]:
        first, second = (
            "absent" if v is None else value_text(v) for v in factor.values
        )
        texts.append(f"{factor.variable or factor.name} ({first}, {second})")
    if len(factors) > 3:
        texts.append(f"and {len(factors) - 3} more")
    return "; ".join(texts)


MAX_GAPS = 20
LEAST_GAP_S = 5.0
LEAST_GAP_SHARE = 0.1
"""Of the longer start, below which a gap that grew is no reason to name."""
_VARIES = re.compile(r"0x[0-9a-f]{1,40}|/[^\s'\",)]{1,300}|\d{1,30}")


@dataclass(frozen=True)
class GapRow:
    """Two lines, and the seconds between them in each run.

    None where a run has no such gap: it is under two seconds there, or a line is missing.
    """

    before: str
    after: str
    values: tuple[float | None, ...]


def match_gaps(summaries: Sequence[RunSummary]) -> tuple[GapRow, ...]:
    """The gaps by their lines, those that differ most first; numbers and paths in a line
    make it no other line."""
    texts: dict[tuple[str, str], tuple[str, str]] = {}
    seconds: dict[tuple[str, str], list[float | None]] = {}
    for number, summary in enumerate(summaries):
        for gap in summary.time.gaps:
            key = _VARIES.sub("#", gap.before), _VARIES.sub("#", gap.after)
            texts.setdefault(key, (gap.before, gap.after))
            own = seconds.setdefault(key, [None] * len(summaries))
            own[number] = (own[number] or 0.0) + gap.unlogged_s
    rows = [GapRow(*texts[key], tuple(own)) for key, own in seconds.items()]
    return tuple(sorted(rows, key=lambda row: -_spread(row.values))[:MAX_GAPS])


def gap_sentence(rows: Sequence[GapRow], runs: Sequence[RunSummary]) -> str | None:
    """The gap between the same two lines that grew or shrank most from the first run to
    the second; None where it is a small part of both starts."""
    both = [
        (row, second - first)
        for row in rows
        for first, second in [row.values]
        if first is not None and second is not None
    ]
    if not both:
        return None
    row, change = max(both, key=lambda pair: abs(pair[1]))
    longest = max(run.time.wall_s or 0.0 for run in runs)
    if abs(change) < max(LEAST_GAP_S, LEAST_GAP_SHARE * longest):
        return None
    first, second = (format_duration(value) for value in row.values)
    return (
        f"Between the lines '{row.before[:80]}' and '{row.after[:80]}' pass {second} "
        f"instead of {first}, and no line explains it."
    )


def _spread(values: Sequence[float | None]) -> float:
    known = [value or 0.0 for value in values]
    return max(known) - min(known)
