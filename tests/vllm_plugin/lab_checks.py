"""What has to agree between a recorded start of the real engine and its own log."""

from __future__ import annotations

import re
from collections import Counter
from dataclasses import dataclass
from typing import Any

import msgspec

from tests.helpers import public
from tests.vllm_plugin.test_both_ways import differences
from warmup_insights.analysis.summary import summarize
from warmup_insights.ingest.single import ingest_path
from warmup_insights.model.events import (
    BucketsGenerated,
    BucketUsed,
    Event,
    GraphCaptured,
    PhaseMarked,
    WarmupFinished,
    WarmupStep,
)
from warmup_insights.storage.store import EventStore

FINISHED = re.compile(r"Warmup finished in (\d+) secs")
STEP = re.compile(
    r"\[Warmup\]\[(\w+)\]\[\d+/\d+\] "
    r"batch_size:(\d+) query_len:(\d+) num_blocks:(\d+)"
)
MISS = re.compile(r"was not warmed-up!")
PASS = re.compile(r"\[fwd\] \('(\w+)', (\d+), (\d+), (\d+)\)")
""" `_check_config` with `VLLM_DEBUG=fwd`: phase, batch size, query length, blocks."""
READY = re.compile(r"init engine \(profile, create kv cache, warmup model\) took")
ROUNDED_S = 0.5
"""`Warmup finished in` has whole seconds, rounded."""
MEASURED_S = 0.05
"""What the recorder's own reading of the clock may be away from the engine's."""
MORE_OBJECTS = 0.01
"""Share of the objects of a process that the plugin may add."""


@dataclass(frozen=True)
class Side:
    """One way of seeing a run."""

    events: list[Event]
    summary: dict[str, Any]
    run: Any

    def of(self, kind):
        return [event for event in self.events if isinstance(event, kind)]


@dataclass(frozen=True)
class Seen:
    """A start as its log has it, as it was recorded, and what it generated."""

    log: Side
    recorded: Side
    text: str
    watched: dict[str, Any]
    """What the recorded engine left: its tokens, and how many objects it had."""
    plain: dict[str, Any]
    """The same without the plugin."""
    skips: bool
    defragments: bool
    num_ranks: int
    fails: bool = False


@dataclass(frozen=True)
class Verdict:
    """Whether a check holds, and the figures."""

    holds: bool
    text: str


def _side(store):
    (run,) = store.runs()
    events = list(store.events(run.run_id))
    return Side(events, public(summarize(run, events).summary), run)


def read_log(log, database):
    """The run of a log."""
    with EventStore(database) as store:
        ingest_path(store, str(log))
        return _side(store)


def read_recorded(database):
    """The run of the plugin."""
    with EventStore(database, read_only=True) as store:
        return _side(store)


def buckets_of(side):
    """Phase to the buckets of the list, and to those that were executed."""
    listed, warmed = {}, {}
    for event in side.of(BucketsGenerated):
        listed.setdefault(event.phase, set()).update(event.buckets)
    for event in side.of(WarmupStep):
        if event.is_finished is not False:
            warmed.setdefault(event.phase, set()).add(event.bucket)
    return listed, warmed


def same_buckets(seen):
    """The lists are equal, the executed sets are, and each is what it should be."""
    listed, warmed = buckets_of(seen.recorded)
    log_listed, log_warmed = buckets_of(seen.log)
    num_listed = sum(map(len, listed.values()))
    num_warmed = sum(map(len, warmed.values()))
    lines = steps_of(seen.text)
    expected = {} if seen.skips else listed
    holds = (
        listed == log_listed
        and warmed == log_warmed == expected
        and num_listed > 0
        and Counter(lines)
        == Counter(
            (phase, bucket)
            for phase, buckets in warmed.items()
            for bucket in list(buckets) * seen.num_ranks
        )
    )
    return Verdict(
        holds,
        f"{num_listed} in the lists, {num_warmed} executed, {len(lines)} lines",
    )


def steps_of(text):
    """Phase and bucket of each line of the warm-up, in their order."""
    found = STEP.findall(text)
    return [(phase.lower(), tuple(map(int, bucket))) for phase, *bucket in found]


def same_order(seen):
    """Each bucket began in the order of the lines; of one rank."""
    begun = [
        (step.phase, step.bucket)
        for step in seen.recorded.of(WarmupStep)
        if step.is_finished is not False and not step.rank
    ]
    lines = steps_of(seen.text)
    if seen.num_ranks > 1:
        return Verdict(True, "lines of ranks are mixed")
    return Verdict(begun == lines, f"{len(begun)} steps")


def same_passes(seen):
    """Shape of every pass while serving, of one rank, with its count."""
    served = seen.text[READY.search(seen.text).end() :]
    lines = Counter(
        (phase, tuple(map(int, shape))) for phase, *shape in PASS.findall(served)
    )
    recorded = Counter()
    for event in seen.recorded.of(BucketUsed):
        recorded[event.phase, event.executed or event.bucket] += event.count
    log = Counter({key: count / seen.num_ranks for key, count in lines.items()})
    own = Counter({key: count / seen.num_ranks for key, count in recorded.items()})
    text = ", ".join(
        f"{int(sum(n for (phase, _), n in own.items() if phase == name))} {name}"
        for name in ("prompt", "decode")
    )
    return Verdict(log == own and own.total() > 0, text)


def same_graphs(seen):
    """Graphs: memory that the log states, and the parts that were recorded."""
    parts = sum(
        event.memory_bytes or 0
        for event in seen.recorded.of(GraphCaptured)
        if not event.rank
    )
    count = sum(not event.rank for event in seen.recorded.of(GraphCaptured))
    allocated = {
        side.summary["memory"]["warmup_allocated_bytes"]
        for side in (seen.log, seen.recorded)
    }
    if seen.skips:
        return Verdict(not count, "none")
    total = max(allocated)
    holds = max(allocated) - min(allocated) <= 1e-3 * total and parts == total
    return Verdict(holds, f"{count} graphs, {parts / 2**20:.0f} MiB")


def same_failure(seen):
    """The bucket in which it failed is that of the last line; both have the cause."""
    lines = steps_of(seen.text)
    names = ("kind", "phase", "bucket", "needed_bytes")
    log, recorded = (
        {name: (side.summary["failure"] or {}).get(name) for name in names}
        for side in (seen.log, seen.recorded)
    )
    finished = sum(
        step.is_finished is not False for step in seen.recorded.of(WarmupStep)
    )
    last = lines[-1] if lines else None
    holds = (
        log == recorded
        and (recorded["phase"], tuple(recorded["bucket"] or ())) == last
        and finished == len(lines) - 1
    )
    return Verdict(
        holds,
        f"{recorded['kind']} in {recorded['phase']} {recorded['bucket']} after "
        f"{finished} buckets, {(recorded['needed_bytes'] or 0) >> 20} MiB",
    )


def same_status(seen):
    """The exit status with the plugin is that without."""
    before, after = seen.plain["status"], seen.watched["status"]
    return Verdict(before == after, f"{before} and {after}")


def every_bucket_has_a_time(seen):
    """Once per rank, with a duration above 0."""
    steps = seen.recorded.of(WarmupStep)
    timed = Counter(
        (step.phase, step.bucket) for step in steps if (step.duration_s or 0.0) > 0.0
    )
    listed, _ = buckets_of(seen.recorded)
    expected = Counter(
        {
            (phase, bucket): seen.num_ranks
            for phase in listed
            for bucket in listed[phase]
        }
    )
    if seen.skips:
        return Verdict(not timed and not steps, "none was executed")
    return Verdict(
        timed == expected,
        f"{timed.total()} times for {len(expected)} buckets on {seen.num_ranks} ranks",
    )


def phases_add_up(seen):
    """Named phases within the warm-up of each rank against the log's whole seconds."""
    said = [int(text) for text in FINISHED.findall(seen.text)]
    if seen.skips:
        skipped = [event.skipped for event in seen.recorded.of(WarmupFinished)]
        return Verdict(not said and all(skipped) and bool(skipped), "skipped in both")
    ranks = sorted({step.rank or 0 for step in seen.recorded.of(WarmupStep)})
    sums = [_phase_sum(seen.recorded, rank) for rank in ranks]
    limit = ROUNDED_S + MEASURED_S
    pairs = zip(sorted(said), sorted(sums), strict=False)
    holds = len(said) == len(sums) == seen.num_ranks and all(
        abs(told - added) <= limit for told, added in pairs
    )
    added = ", ".join(f"{seconds:.2f}" for seconds in sums)
    return Verdict(holds, f"{added} s, log {', '.join(map(str, said))} s")


def _phase_sum(side, rank):
    """Seconds of the named phases of one rank while the model was warmed up.

    A summary has the phases of the first rank, so each rank is made that.
    """
    own = [
        event if event.rank is None else msgspec.structs.replace(event, rank=0)
        for event in side.events
        if event.rank in (None, rank)
    ]
    marks = [event for event in own if isinstance(event, PhaseMarked)]
    begun = next(e.time for e in marks if (e.name, e.edge) == ("warmup", "start"))
    ended = next(e.time for e in marks if (e.name, e.edge) == ("warmup", "end"))
    time = public(summarize(side.run, own).summary)["time"]
    start = begun - min(event.time for event in own)
    inside = (
        phase["duration_s"]
        for phase in time["phases"]
        if phase["name"] != "warmup"
        and start - 1e-3 <= phase["start_s"] <= start + ended - begun
        and phase["duration_s"] is not None
    )
    return sum(inside)


def same_misses(seen):
    """Shape, fallback bucket and count of every miss."""
    log, recorded = (_misses(side) for side in (seen.log, seen.recorded))
    lines = len(MISS.findall(seen.text))
    holds = log == recorded and (lines > 0 or not recorded)
    if seen.skips:
        holds = holds and bool(recorded)
    return Verdict(holds, f"{len(recorded)} shapes; {lines} lines in the log")


def _misses(side):
    return sorted(
        (miss["phase"], miss["shape"], miss["fallback"] or [], miss["count"])
        for miss in side.summary["misses"]
    )


def same_moves(seen):
    """Every move of blocks while serving, and the warm-up of each size."""
    log, recorded = (_moves(side) for side in (seen.log, seen.recorded))
    steps = (seen.recorded.summary["defrag"] or {}).get("steps") or []
    holds = log == recorded and bool(recorded) == seen.defragments == bool(steps)
    return Verdict(holds, f"{len(recorded)} moves, {len(steps)} steps of its warm-up")


def _moves(side):
    return [
        (run["swapped"], run["padded"], run["max_id_before"], run["max_id_after"])
        for run in (side.summary["defrag"] or {}).get("runs") or []
    ]


def same_tokens(seen):
    """With and without the plugin."""
    tokens = seen.watched["tokens"]
    count = sum(map(len, tokens))
    return Verdict(
        tokens == seen.plain["tokens"] and count > 0,
        f"{count} tokens for {len(tokens)} requests",
    )


def few_objects(seen):
    """Every collection visits what the plugin has loaded, too."""
    before, after = seen.plain["objects"], seen.watched["objects"]
    return Verdict(
        after <= before * (1 + MORE_OBJECTS),
        f"{before} without the plugin, {after / before - 1:+.2%} with it",
    )


def same_summaries(seen):
    """Wherever the log knows the value."""
    log = dict(seen.log.summary)
    # The lines of a strategy name the settings that nobody set, too.
    unset = set(log.pop("defaults", ()))
    log["config"] = {k: v for k, v in log["config"].items() if k not in unset}
    found = differences(log, seen.recorded.summary)
    return Verdict(not found, "; ".join(found)[:2000] or "no difference")


CHECKS = {
    "buckets": same_buckets,
    "order of buckets": same_order,
    "a time for each": every_bucket_has_a_time,
    "phases and `Warmup finished in`": phases_add_up,
    "graphs": same_graphs,
    "passes while serving": same_passes,
    "misses": same_misses,
    "moves of the defragmenter": same_moves,
    "tokens": same_tokens,
    "objects for the collector": few_objects,
    "figures of the summary": same_summaries,
}
FAILURE_CHECKS = {"failure": same_failure, "exit status": same_status}


def checks_of(seen):
    """Title to check, as far as they mean something for this start."""
    return FAILURE_CHECKS if seen.fails else CHECKS
