"""Advice on memory: one plan for the KV cache, the graphs and the margin.

HPU engines divide what is free after the profiling run by two settings, so each answer
is a pair of both. Upstream vLLM prints the size of the KV cache that fits.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

from warmup_insights.analysis.advice.change import Value, Way, as_set
from warmup_insights.analysis.advice.facts import RunFacts
from warmup_insights.analysis.advice.finding import Finding, Severity, rule, severity_of
from warmup_insights.analysis.advice.ways import fits_with
from warmup_insights.analysis.plan.planning import (
    HEADROOM,
    MAX_UTILIZATION,
    MemoryPair,
    Wanted,
    capture_rule,
    graph_bytes_of_all,
    memory_pair,
    prompt_ratio,
    recommend,
    safe_margin,
    warmup_bytes,
)
from warmup_insights.analysis.sentences import count_of
from warmup_insights.errors import InputError, SettingError
from warmup_insights.model.events import Bucket
from warmup_insights.model.figures import contradictory
from warmup_insights.model.summary import PHASES, StepCost
from warmup_insights.rules.capture import UNSTATED_MARGIN, num_units
from warmup_insights.rules.setting_lives import has_setting
from warmup_insights.units import MIB, format_bytes

RESERVE, PROMPT_RATIO = "VLLM_GRAPH_RESERVED_MEM", "VLLM_GRAPH_PROMPT_RATIO"
MAX_STEP = 0.05
MIN_GAIN, KEPT = 0.02, 0.97
"""Share of the KV blocks that a change must bring, and that a change for graphs keeps."""
FULL_PERCENT, ENOUGH_LINES = 80.0, 12
"""A cache whose use stayed below this, in two minutes of statistics, was never full."""
SHARE_SLACK = 0.05
"""By which what a phase took may be off its share of the memory for graphs: less than a graph
was left, or the last one took more than was estimated."""
OVERRUN_SHARE = 0.10
"""Of the margin: graphs that take less of it than this do no harm."""


@dataclass(frozen=True)
class _Division:
    """How the memory of a run on HPU was divided, all of it trusted."""

    free: float
    total: float
    share: float
    reserve: float
    reserved: float
    num_blocks: float
    graphs: float
    """What they took, of `grown`."""
    grown: float
    """All that the warm-up took."""
    margin: float
    """What must stay free."""


@rule(
    "other shares of memory bring 2 % of the KV blocks or missing graphs, and the "
    "number of blocks is not set",
    "free, usable and total memory, reserve, graph memory, KV blocks; on CUDA the "
    "engine's --kv-cache-memory, requests that fit and that may run",
    formula="usable = free x utilisation; reserve = 1.2 x what warm-up took / usable (1.0 x graphs where a "
    "budget ends the captures); KV blocks = usable x (1 - reserve) / block; where "
    "the log does not hold them, graphs by the tokens of their buckets, and their budget 0.98 of "
    "what was free before the captures",
    margin="no finding where the engine's statistics show a cache that was never full; what "
    "stays free is at least what the profiling run took, 5 % of the device "
    "and how much free memory varied between runs; utilisation at most 0.95, and one "
    "step of 0.05 at a time, more where graphs have no room otherwise; the other phase's share of "
    "graph memory and both shares come before fewer buckets",
    source="vllm-gaudi `hpu_worker.py`, `determine_available_memory`; vLLM "
    "`v1/worker/gpu_worker.py`, `compile_or_warm_up_model`",
    example="graphs took 67.78 MiB, warm-up 92.77 MiB in all, of 7.13 GiB reserved at 0.9 "
    "and 0.1: 0.94 and 0.01",
)
def memory_plan(facts: RunFacts) -> Iterator[Finding]:
    """Other shares of memory give the KV cache or the graphs more, and stay safe."""
    if facts.summary.fixed_blocks is not None:
        return  # the number of blocks is set: no share changes it
    if facts.failed is not None:
        return
    division = _division(facts)
    if division is None:
        yield from _suggested_size(facts)
        yield from _graphs_without_plan(facts)
        return
    share = facts.figure("captured_percent")
    is_capped = capture_rule(facts.summary) == "capped"
    if share is not None and share < 100:
        yield from _graphs_missing(facts, division) if is_capped else ()
    elif not is_capped or share is not None:
        yield from _other_shares(facts, division)


def _is_never_full(facts: RunFacts) -> bool:
    """Whether the engine's own statistics show a cache that the traffic never filled."""
    usage = facts.summary.usage
    return (
        usage is not None
        and usage.num_lines >= ENOUGH_LINES
        and usage.usage_percent < FULL_PERCENT
    )


def _division(facts: RunFacts) -> _Division | None:
    memory = facts.summary.memory_or_none
    names = ("free_bytes", "total_bytes", "usable_bytes", "graph_reserved_bytes",
             "num_kv_blocks", "graph_memory_bytes", "block_bytes")  # fmt: skip
    known = [facts.figure(name) for name in names]
    share, reserve = memory.gpu_memory_utilization, memory.graph_reserved_fraction
    if (
        share is None
        or reserve is None
        or "captured_percent" in contradictory(facts.summary)
    ):
        return None
    if any(not value or value < 0 for value in known):
        return None
    free, total, _, reserved, blocks, graphs, _ = (value or 0.0 for value in known)
    grown = warmup_bytes(facts.summary) or graphs
    margin = safe_margin(facts.summary, facts.history)
    return _Division(
        free, total, share, reserve, reserved, blocks, graphs, grown, margin
    )


def _other_shares(facts: RunFacts, now: _Division) -> Iterator[Finding]:
    """One pair that gives the KV cache more, or the graphs what they take."""
    overrun = now.grown - now.reserved
    is_over = overrun > OVERRUN_SHARE * (1 - now.share) * now.free
    if not is_over and _is_enough(facts):
        return
    highest = now.share if is_over else _highest(now.share)
    pair = _pair(facts, now, now.grown, HEADROOM, highest)
    if pair is None:
        return
    if not fits_with(facts, pair.settings, now.margin):
        return
    share = (pair.num_kv_blocks - now.num_blocks) / now.num_blocks
    took = f"Graphs took {format_bytes(now.graphs)}"
    if now.grown > now.graphs:
        took += f", warm-up {format_bytes(now.grown)} in all"
    title = (
        f"{took}; {format_bytes(now.reserved)} are reserved for graphs, and "
        f"{format_bytes(_left_free(now, facts))} of {format_bytes(now.total)} stay free."
    )
    if is_over:
        title = (
            f"{took}; {format_bytes(now.reserved)} are reserved for graphs: "
            f"{format_bytes(overrun)} came out of the margin."
        )
        yield _finding(facts, now, pair, title, severity_of(overrun / now.total))
    elif share >= MIN_GAIN:
        yield _finding(facts, now, pair, title, severity_of(share))


def _is_enough(facts: RunFacts) -> bool:
    """Whether as many requests of full length fit already as run at once, or as came."""
    if _is_never_full(facts):
        return True
    most = facts.summary.setting("max_num_seqs")
    concurrency = facts.figure("max_concurrency")
    return most is not None and concurrency is not None and concurrency >= most


def _highest(share: float) -> float:
    """One step up, and never a step down from what is set."""
    return max(share, min(MAX_UTILIZATION, round(share + MAX_STEP, 4)))


def _left_free(now: _Division, facts: RunFacts) -> float:
    cache = facts.figure("kv_cache_allocated_bytes") or facts.figure("kv_cache_bytes")
    return now.free - (cache or 0) - now.grown


def _pair(
    facts: RunFacts, now: _Division, graphs: float, headroom: float, highest: float
) -> MemoryPair | None:
    try:
        return memory_pair(
            facts.summary, graph_bytes=graphs, headroom=headroom,
            margin_bytes=now.margin, highest=highest,
        )  # fmt: skip
    except (InputError, SettingError):
        return None


def _graphs_missing(facts: RunFacts, now: _Division) -> Iterator[Finding]:
    """Graphs got no room: the fewest batch sizes of prompts less that give the rest some."""
    planner = facts.planner
    if planner is None:
        return
    counts = {p: facts.count(f"{p}_generated") for p in PHASES}
    missing = sum(counts[p] - facts.count(f"{p}_captured") for p in PHASES)
    everything = graph_bytes_of_all(planner)
    title = (
        f"{missing} of {sum(counts.values())} buckets got no graph: all of them need "
        f"{format_bytes(everything)} (predicted), and {format_bytes(now.reserved)} are "
        "reserved."
    )
    severity = severity_of(missing / sum(counts.values()))
    pair = _of_all(facts, now, everything)
    if pair is not None:
        yield _finding(facts, now, pair, title, severity, graphs=everything)
        return
    prompts = facts.summary.phase("prompt").buckets
    for limit in sorted({bucket[0] for bucket in prompts}, reverse=True)[1:]:
        wanted: Wanted = {
            "prompt": {bucket for bucket in prompts if bucket[0] <= limit},
            "decode": set(facts.summary.phase("decode").buckets),
        }
        graphs = graph_bytes_of_all(planner, wanted)
        for highest in (_highest(now.share), MAX_UTILIZATION):
            pair = _pair(facts, now, graphs, 1.0, highest)
            if pair is None or pair.num_kv_blocks < KEPT * now.num_blocks:
                continue
            yield _finding(
                facts, now, pair, title, severity, batches=limit, graphs=graphs
            )
            return
    yield Finding(
        "low", title,
        {"missing_graphs": missing, "needed_bytes": round(everything),
         "graph_reserved_bytes": now.reserved},
        RESERVE, "leave them without a graph, or make fewer buckets",
        f"no reserve holds them and keeps {100 * KEPT:.0f} % of the KV blocks",
    )  # fmt: skip


def _of_all(facts: RunFacts, now: _Division, graphs: float) -> MemoryPair | None:
    """The shares that give every bucket a graph: one step up where that is enough, else those
    that `plan` recommends."""
    pair = _pair(facts, now, graphs, 1.0, _highest(now.share))
    if pair is not None and pair.num_kv_blocks >= KEPT * now.num_blocks:
        return pair
    assert facts.planner is not None, "checked by the caller"
    plan = recommend(facts.planner, margin_bytes=math.ceil(now.margin)).both
    if plan is None or plan.num_kv_blocks < KEPT * now.num_blocks:
        return None
    return MemoryPair(
        plan.settings["gpu_memory_utilization"],
        plan.settings[RESERVE],
        plan.num_kv_blocks,
        plan.num_kv_blocks_range[0],
        plan.free_after_graphs_bytes or 0,
    )


def _finding(
    facts: RunFacts,
    now: _Division,
    pair: MemoryPair,
    title: str,
    severity: Severity,
    *,
    batches: int | None = None,
    graphs: float | None = None,
) -> Finding:
    """The pair as a finding, with what the next start is held against."""
    changes: dict[str, Value] = {
        "gpu_memory_utilization": pair.utilization, RESERVE: pair.reserve
    }  # fmt: skip
    price = ""
    if batches is not None:
        changes["VLLM_PROMPT_BS_BUCKET_MAX"] = batches
        price = (
            f"more than {count_of(batches, 'prompt')} at once compile when they come"
        )
    numbers: dict[str, Value] = {
        "gpu_memory_utilization": now.share, "graph_reserved_fraction": now.reserve,
        "graph_bytes": round(now.graphs if graphs is None else graphs),
        "warmup_bytes": round(now.grown),
        "kept_free_bytes": round(now.margin), "left_bytes": round(pair.left_bytes),
        "num_kv_blocks": int(now.num_blocks), "planned_kv_blocks": pair.num_kv_blocks,
    }  # fmt: skip
    gained = pair.num_kv_blocks - now.num_blocks
    word = "more" if gained >= 0 else "fewer"
    rest = f"; {format_bytes(graphs)} for all graphs that remain" if graphs else ""
    reserved = pair.reserve * pair.utilization * now.free
    check = (
        f"warmup-insights check latest --min-kv-blocks {pair.lowest_kv_blocks} "
        f"--max-graph-memory {reserved / MIB:.0f}MiB  # after the next start"
    )
    return Finding(
        severity,
        title,
        numbers,
        "gpu_memory_utilization",
        as_set(changes),
        f"{'about ' if graphs else ''}{abs(int(gained)):,} KV blocks {word} "
        f"({100 * gained / now.num_blocks:+.0f} %), "
        f"{format_bytes(pair.left_bytes)} left{rest}",
        (check, *([] if graphs else _next_step(facts, now, pair))),
        changes=changes,
        price=price,
    )


def _next_step(facts: RunFacts, now: _Division, pair: MemoryPair) -> Iterator[str]:
    """The utilisation after this one, for when the check passed under load."""
    if pair.utilization <= now.share:
        return
    further = _pair(facts, now, now.grown, HEADROOM, MAX_UTILIZATION)
    if further is not None and further.utilization > pair.utilization:
        yield (
            f"# when it passes and under load {format_bytes(now.margin)} stay free: further, "
            f"by {MAX_STEP:g} at most a step, to {further.utilization:g} at the most"
        )


def _suggested_size(facts: RunFacts) -> Iterator[Finding]:
    """The size of the KV cache that vLLM names to fit into what was requested."""
    size, cache = (
        facts.summary.memory_or_none.suggested_kv_cache_bytes,
        facts.figure("kv_cache_bytes"),
    )
    most = facts.summary.setting("max_num_seqs")
    concurrency = facts.figure("max_concurrency")
    tokens = facts.figure("kv_cache_tokens")
    if not size or not cache or most is None or concurrency is None:
        return
    share = size / cache - 1
    if share < MIN_GAIN or _is_enough(facts):
        return
    more = f", about {int(tokens * share):,} tokens" if tokens else ""
    yield Finding(
        severity_of(share),
        f"The KV cache has {format_bytes(cache)}, and the engine counts "
        f"{format_bytes(size)} within the utilisation; {concurrency:.2f} requests of full "
        f"length fit, and {most:.0f} may run.",
        {"kv_cache_bytes": cache, "suggested_kv_cache_bytes": size,
         "max_concurrency": concurrency, "max_num_seqs": most},
        "kv_cache_memory_bytes",
        f"--kv-cache-memory={size}",
        f"{format_bytes(size - cache)} more KV cache ({100 * share:+.0f} %){more}",
        changes={"kv_cache_memory_bytes": size},
        price="the size is fixed: another model, device or length needs another one",
    )  # fmt: skip


@dataclass(frozen=True)
class _Phase:
    """A phase of which some buckets got no graph, in bytes.

    The engine counts a graph by its tokens: batch size times length of a prompt, the batch
    size of a decode (vllm-fork `habana_model_runner.py`, `warmup_graphs`).
    """

    name: str
    buckets: Sequence[Bucket]
    used: float
    units: int
    """Tokens of the graphs that were captured."""

    def count(self, limit: int | None = None) -> int:
        """Buckets of batches of up to this size."""
        return sum(limit is None or bucket[0] <= limit for bucket in self.buckets)

    def needs(self, limit: int | None = None) -> float:
        """What the graphs of these buckets take, about."""
        units = sum(
            num_units(self.name, bucket)
            for bucket in self.buckets
            if limit is None or bucket[0] <= limit
        )
        return self.used * units / self.units

    def largest_batch(self, room: float) -> int | None:
        """The largest batch size below the present one up to which all graphs fit: of
        decodes, whose batches --max-num-seqs ends."""
        sizes = sorted({bucket[0] for bucket in self.buckets}, reverse=True)[1:]
        fitting = (size for size in sizes if self.needs(size) <= room)
        return next(fitting, None) if self.name == "decode" else None


@dataclass(frozen=True)
class _Share:
    """What a phase may have of the memory for graphs, as the other one takes less than its
    share, in bytes."""

    other: str
    taken: float
    budget: float
    free: float
    """On the device, before the captures."""
    ratio: float
    """VLLM_GRAPH_PROMPT_RATIO with which the other phase has just what it took."""

    @property
    def room(self) -> float:
        """What is left for the phase then."""
        return self.budget - self.taken


def _free_share(facts: RunFacts, phase: _Phase) -> _Share | None:
    """The share of the other phase, where that has no use for it and this one used up its own.

    Nothing where what the phase took is not its share, so that something else ended its
    captures.
    """
    summary = facts.summary
    (other,) = (name for name in PHASES if name != phase.name)
    count, of = facts.figure(f"{other}_captured"), facts.figure(f"{other}_generated")
    stated = summary.memory_or_none.graph_budget
    free = max((_free_before(cost) for cost in facts.captures), default=0)
    budget = stated.total_bytes if stated else (1 - UNSTATED_MARGIN) * free
    if not budget or not free or not has_setting(summary, PROMPT_RATIO):
        return None
    if count and count != of:
        return None
    ratio, taken = prompt_ratio(summary), summary.phase(other).graph_used_bytes or 0
    own = budget * (ratio if phase.name == "prompt" else 1 - ratio)
    if not (1 - SHARE_SLACK) * own <= phase.used <= (1 + SHARE_SLACK) * own:
        return None
    least = math.ceil(100 * taken / budget) / 100
    ratio = least if other == "prompt" else round(1 - least, 2)
    share = _Share(other, taken, budget, free, ratio)
    return share if share.room > (1 + SHARE_SLACK) * own else None


def _free_before(cost: StepCost) -> int:
    return cost.free_before_bytes or 0


def _graphs_without_plan(facts: RunFacts) -> Iterator[Finding]:
    """Buckets without a graph where the log does not hold how memory was divided."""
    for name in PHASES:
        part = facts.summary.phase(name)
        generated = facts.figure(f"{name}_generated")
        captured = facts.figure(f"{name}_captured")
        used = part.graph_used_bytes
        if not generated or not captured or not used or captured >= generated:
            continue
        count, total, each = int(captured), int(generated), used / captured
        finding = Finding(
            severity_of(1 - captured / generated),
            f"{total - count} of {total} {name} buckets got no graph: "
            f"{format_bytes(used)} held {count}, {format_bytes(each)} each in the mean.",
            {"missing_graphs": total - count, "graph_bytes": used,
             "bytes_per_graph": round(each)},
            "max_num_seqs",
            f"fewer {name} buckets, by larger steps between batch sizes",
            "no figure: what the graphs of others need is not known",
            price="more padding between the sizes that remain",
        )  # fmt: skip
        held = set(part.captured_buckets or ()) & set(part.buckets)
        units = sum(num_units(name, bucket) for bucket in held)
        if not units:
            yield finding
            continue
        phase = _Phase(name, part.buckets, used, units)
        share = _free_share(facts, phase)
        yield (
            _fewer_batches(phase, finding)
            if share is None
            else _more_room(phase, share, finding)
        )


def _fewer_batches(phase: _Phase, finding: Finding) -> Finding:
    """The finding with the largest batch size up to which all graphs fit."""
    effect = (
        "those that are missing need about "
        f"{format_bytes(phase.needs() - phase.used)} more"
    )
    limit = phase.largest_batch(phase.used)
    if limit is None:
        return replace(finding, effect=effect)
    return replace(
        finding,
        suggestion=f"--max-num-seqs {limit}",
        effect=f"the {phase.count(limit)} graphs that remain need about "
        f"{format_bytes(phase.needs(limit))}; {effect}",
        price=f"no more than {count_of(limit, 'request')} at once",
        changes={"max_num_seqs": limit},
        ways=(Way(finding.suggestion, finding.price),),
    )


def _more_room(phase: _Phase, share: _Share, finding: Finding) -> Finding:
    """The finding with the share of the other phase; with smaller batches as well where that
    is not enough."""
    needed, room = phase.needs(), share.room
    changes: dict[str, Value] = {PROMPT_RATIO: share.ratio}
    all_of_them = f"all {phase.count()} need about {format_bytes(needed)}"
    effect = f"{all_of_them}, and {format_bytes(room)} are there for graphs"
    ways = [Way(finding.suggestion, finding.price)]
    limit = phase.largest_batch(room)
    if needed > room:
        effect = (
            f"{format_bytes(room)} for {phase.name} graphs instead of "
            f"{format_bytes(phase.used)}; {all_of_them}"
        )
        if limit is not None:
            both = Way.that_sets(
                f"no more than {count_of(limit, 'request')} at once",
                f": the {phase.count(limit)} graphs that remain need about "
                f"{format_bytes(phase.needs(limit))}",
                **changes, max_num_seqs=limit,
            )  # fmt: skip
            ways.insert(0, both)
    taken = "none" if not share.taken else format_bytes(share.taken)
    left = share.free - share.taken - min(needed, room)
    return replace(
        finding,
        title=f"{finding.title.removesuffix('.')}. That is the share of {phase.name}s in "
        f"{format_bytes(share.budget)} for graphs; {share.other}s took {taken}.",
        numbers={**finding.numbers, "graph_budget_bytes": round(share.budget)},
        setting=PROMPT_RATIO,
        suggestion=as_set(changes),
        effect=effect,
        price=f"{format_bytes(left)} of {format_bytes(share.free)} stay free beside the "
        "KV cache",
        changes=changes,
        ways=tuple(ways),
    )


RULES = (memory_plan,)
