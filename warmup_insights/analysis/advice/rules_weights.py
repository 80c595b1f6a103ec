"""Advice on the weights: their download, reading them, and the rank that reads last."""

from __future__ import annotations

import re
from collections.abc import Iterator
from statistics import median

from warmup_insights.analysis.advice.change import Way
from warmup_insights.analysis.advice.facts import (
    RunFacts,
    Start,
    is_whole,
    weights_bytes,
    words_of,
)
from warmup_insights.analysis.advice.finding import Finding, severity_of, start_rule
from warmup_insights.analysis.advice.ways import is_of_4_bits
from warmup_insights.model.summary import (
    OF_OTHER_RANK,
    CheckpointFacts,
    RunSummary,
    is_true,
)
from warmup_insights.rules.setting_lives import has_setting
from warmup_insights.units import format_bytes, format_duration

NETWORK = frozenset(
    {"NFS", "NFS4", "LUSTRE", "GPFS", "CEPH", "CEPHFS", "FUSE", "BEEGFS", "SMB", "CIFS"}
)
"""Names of network file systems, as vLLM's loader prints them."""
PREFETCHED = frozenset({"NFS", "NFS4", "LUSTRE"})
"""Those from which the loader prefetches by itself where the files fit."""
IN_MEMORY = frozenset({"TMPFS", "RAMFS"})
"""Those whose files are in host memory: no disk and no page cache is in the way."""
LOCAL_RATE, NETWORK_RATE = 2e9, 1e9
"""Bytes a second that NVMe and a network file system give one reader."""
LEAST_QUICK_S = 30.0
"""Of reading at more than that rate, what is worth several readers."""
CLOCK_S = 1.0
"""The bar of a pass and the line that states its time can differ by so much, which is part
of the same pass: both have seconds."""
FILLED_SHARE = 0.2
"""Of the time of loading: with all files in memory after less, no disk sets that time."""
_PLAIN = (None, "auto", "safetensors")
"""Values of `load_format` with which files are read one by one."""
_FILLED = re.compile(r"into page cache finished in (\d{1,7}(?:\.\d{1,6})?)s")
"""vLLM's line at the end of prefetching (`weight_utils.py`)."""
MEMORY_SHARE = 0.9
"""Of available host memory, what vLLM's prefetch may fill."""


@start_rule(
    "downloading the weights took 10 s and 5 % of the start, or most of it",
    "time of the download",
    formula="the seconds of the download",
    margin="where the directory is kept already, the next start saves it without a "
    "change",
    source="vLLM model_loader/weight_utils.py download_weights_from_hf",
    example="vLLM 0.11.0 on an L4: 109 of 239 s",
)
def weights_download(facts: RunFacts, start: Start) -> Iterator[Finding]:
    """The weights came over the network at this start."""
    seconds = start.worth("download")
    if seconds is None:
        return
    is_kept = any(
        other.time.seconds_of("load_weights") and not other.time.seconds_of("download")
        for other in facts.same_model
        if is_whole(other)
    )
    size = weights_bytes(facts.summary)
    rate = f"; {format_bytes(size)} at {_rate(size, seconds)}" if size else ""
    rest = {name: own for name, own in start.seconds.items() if name != "download"}
    following = max(rest, key=lambda name: rest[name]) if rest else None
    effect = (
        f"a start without the download takes {format_duration(start.wall_s - seconds)}"
    )
    if following is not None:
        effect += (
            f"; {words_of(following)} is the largest part then "
            f"({format_duration(rest[following])})"
        )
    keep = (
        "HF_HOME on a volume that outlives the container, or the weights in the image"
    )
    yield Finding(
        "low" if is_kept else severity_of(start.share(seconds)),
        f"Downloading the weights took {start.of_all(seconds)}{rate}.",
        {"download_s": seconds, "start_s": start.wall_s},
        "HF_HOME",
        "nothing: another start of this model did not download, so the files are kept"
        if is_kept
        else f"{keep}; HF_HUB_OFFLINE=1 once they are there",
        effect,
        gain_s=(seconds, seconds),
        price="disk for the weights; where the directory is kept already, the next start "
        "saves this without any change",
        phase="download",
        part_s=seconds,
    )


@start_rule(
    "reading the weights took 10 s and 5 % of the start, or most of it",
    "time of reading; size of the files, host memory and file system where stated",
    formula="0 to seconds - size / rate; the rate is that of the quickest start of the "
    "same model, else 1 GB/s for a network file system and 2 GB/s for NVMe",
    margin="prefetch only where it is not on and the files fit into 90 % of the available host "
    "memory; no gain where prefetching ended in a fifth of the time, nor with expert parallelism, "
    "where a rank reads a part",
    source="vLLM model_loader/weight_utils.py; LoadConfig.safetensors_load_strategy "
    "(prefetch from 0.19)",
    example="361 GiB from GPFS with 260 GiB of host memory: 365 of 696 s",
)
def weights_read(facts: RunFacts, start: Start) -> Iterator[Finding]:
    """Reading the weights took a large share of the start."""
    seconds = start.worth("load_weights")
    if seconds is None:
        return
    summary = facts.summary
    size = weights_bytes(summary)
    known = summary.checkpoint
    is_dominant = start.dominant == "load_weights"
    is_quick = is_quick_read(summary, seconds)
    if is_quick and (not is_dominant or seconds < LEAST_QUICK_S):
        return
    if known is not None and (known.filesystem or "").upper() in IN_MEMORY:
        return
    numbers: dict[str, float | int | str] = {
        "read_s": seconds, "start_s": start.wall_s,
    }  # fmt: skip
    gain, effect = None, "no figure: the size of the files is not known"
    if size:
        numbers["weights_bytes"] = int(size)
        gain, effect = _reading_gain(facts, size, seconds)
    ways = list(_readers(facts, seconds))
    if not ways:
        return
    first, *ways = ways
    setting = next(iter(first.changes), "load_format")
    severity = severity_of(start.share(seconds))
    if gain is None:
        # Nothing shows that it was slow; of a network several readers get more than one.
        has_readers = is_dominant and setting == "load_format" and _is_on_network(known)
        severity = "medium" if has_readers and severity == "high" else "low"
    yield Finding(
        severity,
        f"Reading the weights took {start.of_all(seconds)}"
        f"{_what_was_read(summary, size, seconds)}.",
        numbers,
        setting,
        first.suggestion,
        effect,
        tuple(n.text for n in summary.notes if n.text.startswith("Auto-prefetch"))[:1],
        changes=first.changes,
        gain_s=gain,
        price=first.price,
        ways=tuple(ways),
        phase="load_weights",
        part_s=seconds,
    )


def is_quick_read(summary: RunSummary, seconds: float) -> bool:
    """Whether the weights were read more quickly than NVMe gives one reader."""
    size = weights_bytes(summary)
    is_known = size is not None and not _reads_a_part(summary)
    return is_known and (size or 0.0) / seconds > LOCAL_RATE


def _what_was_read(summary: RunSummary, size: float | None, seconds: float) -> str:
    """How much was read, how quickly, and from where; empty where none of it is known."""
    known, is_part = summary.checkpoint, _reads_a_part(summary)
    passes = sum(
        phase.name == "load_weights" and phase.duration_s >= CLOCK_S
        for phase in summary.time.phases
    )
    text = ""
    if size:
        text = f": {format_bytes(size)}{' of files' if is_part else ''}"
        # A draft model is read in a pass of its own, often of the same files.
        if passes >= 2:
            text += f" in {passes} passes"
        elif not is_part:
            text += f" at {_rate(size, seconds)}"
    if known is not None and known.filesystem:
        text += f" from {known.filesystem}"
    if size and is_part:
        text += ", of which a rank reads its own experts and what all share"
    return text


def _reads_a_part(summary: RunSummary) -> bool:
    """Whether a rank reads a part of the files, of unknown size: with expert parallelism its
    own experts and all other weights (vLLM `default_loader.py`, EP weight filter)."""
    has_experts = is_true(summary.config, "enable_expert_parallel")
    return (has_experts and summary.engine.name == "vllm") or any(
        "EP weight filter" in note.text for note in summary.notes
    )


def _rate(size: float, seconds: float) -> str:
    each = size / seconds / 1e6
    return f"{each / 1000:.2g} GB/s" if each >= 1000 else f"{each:.3g} MB/s"


def _reading_gain(
    facts: RunFacts, size: float, seconds: float
) -> tuple[tuple[float, float] | None, str]:
    """Seconds less, from none to all that a rate which is possible would save.

    Whether the disk gives that rate shows another start that read the files as quickly.
    """
    known, filled = facts.summary.checkpoint, _filled_s(facts.summary)
    if filled is not None and filled < FILLED_SHARE * seconds:
        words = f"no figure: all files were in memory after {format_duration(filled)}, so no disk"
        return None, f"{words} sets this time"
    seen = facts.others_s("load_weights")
    if seen and min(seen) < 0.8 * seconds:
        best = min(seen)
        words = f"another start read the same files in {format_duration(best)}, from the page "
        words += "cache or the disk"
        return (0.0, seconds - best), words
    if _reads_a_part(facts.summary):
        return None, "no figure: how much a rank reads is not known"
    name = known.filesystem if known is not None else None
    # After prefetching by several readers only another disk is quicker.
    is_local = _is_local(known) or filled is not None
    rate = LOCAL_RATE if is_local else NETWORK_RATE
    most = seconds - size / rate
    of = "a network file system" if name is not None else "most storage"
    of = "NVMe" if is_local else of
    if most <= 0.2 * seconds:
        words = (
            f"no figure: {of} gives one reader about {rate / 1e9:.0f} GB/s, and this "
            "start had no less; several may get more"
        )
        return None, words
    words = (
        f"{format_duration(size / rate)} at {rate / 1e9:.0f} GB/s, which {of} gives one "
        "reader"
    )
    return (0.0, most), f"{words}, where the disk does"


def _filled_s(summary: RunSummary) -> float | None:
    """Seconds until prefetching had read its files; None where no line states it."""
    found = [
        float(match[1])
        for note in summary.notes
        if (match := _FILLED.search(note.text)) is not None
    ]
    return max(found, default=None)


def _readers(facts: RunFacts, seconds: float) -> Iterator[Way]:
    """What reads faster, the best first.

    Prefetching fills the page cache, so it needs nine tenths of the host memory that is
    available (vLLM `weight_utils.py`); with less it evicts what it has just read.
    """
    summary, known = facts.summary, facts.summary.checkpoint
    is_plain = summary.config.get("load_format") in _PLAIN
    is_prefetched = _is_prefetched(summary)
    fits = known is not None and _fits(known)
    prefetches = is_plain and fits and _offers_prefetch(summary) and not is_prefetched
    if known is not None and prefetches:
        price = f"{format_bytes(known.size_bytes)} of page cache"
        yield Way.that_sets(price, safetensors_load_strategy="prefetch")
    formats = [
        name
        for name in ("runai_streamer", "fastsafetensors")
        if has_setting(summary, f"load_format={name}")
    ]
    filled = _filled_s(summary)
    is_of_disk = filled is not None and filled >= FILLED_SHARE * seconds
    if formats and is_plain and not is_of_disk:
        why = "" if prefetches or (is_prefetched and known) else _not_prefetched(known)
        yield Way(
            f"--load-format {' or '.join(formats)}: several readers at once",
            f"the package of that name in the image{why}",
        )
    if is_plain and not prefetches and _may_read_whole(summary, seconds):
        yield Way.that_sets(
            "host memory for a whole file in each rank",
            ", where the files are on a network file system",
            safetensors_load_strategy="eager",
        )
    if filled is None or is_of_disk:
        place = (
            "a faster disk, such as NVMe" if _is_local(known) else "a local NVMe disk"
        )
        yield Way(f"a copy of the files on {place}", "disk for the files, and the copy")
    if not prefetches and not is_of_4_bits(summary):
        yield Way("a quantised build of the model", "other weights; check the quality")


def _is_prefetched(summary: RunSummary) -> bool:
    """Whether the files were prefetched: by a line, by the setting, or by the file system."""
    known = summary.checkpoint
    return (
        _filled_s(summary) is not None
        or summary.config.get("safetensors_load_strategy") == "prefetch"
        or (known is not None and (known.filesystem or "").upper() in PREFETCHED)
    )


def _may_read_whole(summary: RunSummary, seconds: float) -> bool:
    """Whether files may be read slowly because they are mapped: the small reads of that suit
    no network file system (vLLM `config/load.py`, `safetensors_load_strategy`). False where a
    rank needs a part of them."""
    size = weights_bytes(summary)
    is_slow = size is not None and size / seconds < NETWORK_RATE
    is_mapped = summary.config.get("safetensors_load_strategy") in (None, "lazy")
    others = (
        _is_local(summary.checkpoint),
        _is_prefetched(summary),
        _reads_a_part(summary),
    )
    has_other = has_setting(summary, "safetensors_load_strategy=eager")
    return is_slow and is_mapped and has_other and not any(others)


def _fits(known: CheckpointFacts) -> bool:
    """Whether the files fit into the host memory that was available."""
    room = known.available_bytes
    return room is not None and known.size_bytes <= MEMORY_SHARE * room


def _not_prefetched(known: CheckpointFacts | None) -> str:
    """Why prefetching is no way, as far as that is known."""
    if known is None or known.available_bytes is None:
        return "; whether the disk or the reader is slow is not known here"
    if _fits(known):
        return ""
    return (
        f"; not prefetch: {format_bytes(known.size_bytes)} of files do not fit the "
        f"{format_bytes(known.available_bytes)} of host memory that were available"
    )


def _is_local(known: CheckpointFacts | None) -> bool:
    name = known.filesystem if known is not None else None
    return name is not None and name.upper() not in NETWORK


def _is_on_network(known: CheckpointFacts | None) -> bool:
    return known is not None and (known.filesystem or "").upper() in NETWORK


def _offers_prefetch(summary: RunSummary) -> bool:
    """Whether this version can prefetch: by its number, or by its own line."""
    return has_setting(summary, "safetensors_load_strategy=prefetch") or any(
        "--safetensors-load-strategy=prefetch" in note.text for note in summary.notes
    )


@start_rule(
    "ranks waited for the slowest one to load",
    "the end of loading of each rank",
    formula="0 to end of the last rank - median of the others",
    margin="two ranks at least; no gain where most ranks are as late as the last: what "
    "they share sets the pace then",
    source="vLLM default_loader.py, each worker's line",
    example="four ranks on GPFS: 168 of 696 s",
)
def slowest_rank(facts: RunFacts, start: Start) -> Iterator[Finding]:
    """One rank finished loading long after the others."""
    ranks = facts.summary.time.ranks
    if len(ranks) < 2:
        return
    for phase in ("load_weights", "load_model"):
        waited = start.worth(phase + OF_OTHER_RANK)
        ends = {
            each.rank: max(own)
            for each in ranks
            if (
                own := [
                    p.start_s + p.duration_s for p in each.phases if p.name == phase
                ]
            )
        }
        if waited is None or len(ends) < 2:
            continue
        last = max(ends, key=lambda rank: ends[rank])
        others = [end for rank, end in ends.items() if rank != last]
        if ends[last] <= min(others):
            continue
        behind = min(waited, ends[last] - median(others))
        yield _late(facts, start, phase, waited, behind, len(ends))


def _late(
    facts: RunFacts,
    start: Start,
    phase: str,
    waited: float,
    behind: float,
    num_ranks: int,
) -> Finding:
    """The finding on the last rank: it pays to help it as far as the others are ahead."""
    is_alone = behind >= 1.0
    title = f"The first rank waited {start.of_all(waited)} for the last of {num_ranks} to load"
    title += (
        f"; the last is {format_duration(behind)} behind the median of the others."
        if is_alone
        else "; most of the others were as late as the last."
    )
    streamer = "load_format=fastsafetensors"
    change, price = "a local copy of the files on each node", "disk for the files"
    if (
        has_setting(facts.summary, streamer)
        and facts.summary.config.get("load_format") in _PLAIN
    ):
        change = f"--load-format fastsafetensors, which divides the reading between the ranks, or {change}"
        price = f"the package of that name in the image, or {price}"
    return Finding(
        severity_of(start.share(behind)),
        title,
        {"waited_s": waited, "behind_s": behind, "num_ranks": num_ranks},
        "load_format",
        change,
        "the ranks end together; what they read in all stays"
        if is_alone
        else "no figure: what the ranks share, such as the storage, sets the pace",
        gain_s=(0.0, behind) if is_alone else None,
        price=price,
        phase=phase + OF_OTHER_RANK,
        part_s=waited,
    )


RULES = (
    weights_download,
    weights_read,
    slowest_rank,
)
