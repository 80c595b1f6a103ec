"""What differs between the versions of vllm-gaudi: one table, read by the rules.

Source: the files of `vllm_gaudi/extension/bucketing/`, `features.py` and
`hpu_model_runner.py` at every tag from v0.10.0 to v0.27.0rc0, and at main (091bbadd).
Release branches got changes that earlier tags of main already had and the reverse, so
a difference may come, go and come again in the order of versions.
"""

from __future__ import annotations

from dataclasses import dataclass, field, fields
from functools import lru_cache
from typing import Any, Literal, NamedTuple

from packaging.version import InvalidVersion, Version

from warmup_insights.errors import SettingError

MAIN = "main"
RELEASES = (
    "v0.10.0", "v0.10.1", "v0.11.2", "v0.13.0", "v0.14.1", "v0.15.1", "v0.16.0",
    "v0.17.1", "v0.19.0", "v0.19.1", "v0.21.0", "v0.24.0", "v0.26.0",
)  # fmt: skip
NEWEST_RELEASE = RELEASES[-1]
_NEWEST_TAG = "v0.27.0rc0"

DecodeBlocks = Literal[
    "cache",
    "cache * seqs / 4",
    "cache + block_size",
    "cache * 3",
    "cache * 3, few values",
    "cache * 3 or more",
    "all seqs full",
    "all seqs full, dense",
    "all seqs full or cache * 3",
]
LongContext = Literal[
    "like short", "edge", "edge for short too", "edge below its override"
]
Fallback = Literal[
    "powers of 2", "cache", "cache + block_size", "largest decode", "by phase"
]


class Difference(NamedTuple):
    """One thing that changed: what it is, and its values, each from a version on.

    Before the first of these versions it did not matter.
    """

    title: str
    history: tuple[tuple[str, Any], ...]


def _differs(title: str, *history: tuple[str, Any]) -> dict[str, Difference]:
    return {"difference": Difference(title, history)}


@dataclass(frozen=True)
class Rules:
    """The value of every difference in one version."""

    early: bool = field(metadata=_differs(
        "Scheme of v0.10: prompts have query lengths up to max_model_len, each with "
        "contexts of its own, and the token budget counts context; no bucket file, no "
        "sliding window, no QUERY and CTX variables, one sequence in a prefill",
        ("v0.10.0", True), ("v0.11.2", False),
    ))  # fmt: skip
    last_context: bool = field(metadata=_differs(
        "The scheme of v0.10 reaches the largest context of each query length",
        ("v0.10.0", False), ("v0.10.1", True),
    ))  # fmt: skip
    keeps_one: bool = field(metadata=_differs(
        "A minimum of 1 is a value of an exponential range, and "
        "VLLM_PROMPT_QUERY_BUCKET_MIN=1 is read",
        ("v0.10.0", False), ("v0.13.0", True),
    ))  # fmt: skip
    lowers_last: bool = field(metadata=_differs(
        "The last exponential value is lowered to the maximum",
        ("v0.10.0", False), ("v0.14.1", True),
    ))  # fmt: skip
    long_context: LongContext = field(metadata=_differs(
        "From max_model_len 8192 on: exponential contexts leave room for the token "
        "budget, and the largest becomes the longest of each query length (the edge). "
        "Where short models have it too, half of the exponential values of long ones "
        "are linear. VLLM_PROMPT_CTX_BUCKET_MAX is the override",
        ("v0.11.2", "like short"), ("v0.14.1", "edge"),
        ("v0.15.1rc1", "edge for short too"), ("v0.15.1", "edge below its override"),
        ("v0.16.0rc0", "edge for short too"), ("v0.16.0rc1", "edge below its override"),
    ))  # fmt: skip
    decode_blocks: DecodeBlocks = field(metadata=_differs(
        "Largest exponential decode blocks without contiguous PA. All seqs full: "
        "ceil(max_model_len / block_size) * max_num_seqs, with contiguous PA a limit, "
        "too; dense: more values above cache * 3; few values: at most max(6, "
        "ceil(log2(max_num_seqs)) + 1); or more: up to all seqs full, at most cache * "
        "seqs / 3; before v0.17.0rc1 whole blocks of max_model_len of all seqs are a limit",
        ("v0.11.2", "cache"), ("v0.14.1", "cache * seqs / 4"),
        ("v0.17.0rc1", "cache + block_size"), ("v0.17.1", "cache * 3"),
        ("v0.18.0rc0", "cache + block_size"), ("v0.18.1rc1", "cache * 3"),
        ("v0.19.0rc0", "cache * 3, few values"), ("v0.19.0", "cache * 3 or more"),
        ("v0.20.0rc0", "cache * 3, few values"), ("v0.20.1rc0", "cache * 3"),
        ("v0.21.0", "all seqs full"), ("v0.24.0", "all seqs full, dense"),
        (MAIN, "all seqs full or cache * 3"),
    ))  # fmt: skip
    linear_ends_at_cache: bool = field(metadata=_differs(
        "Linear decode blocks end at the cache without contiguous PA too",
        ("v0.10.0", True), ("v0.21.0", False),
    ))  # fmt: skip
    sums_context: bool = field(metadata=_differs(
        "Query and context of a prompt must fit max_model_len together, not each alone",
        ("v0.11.2", True), ("v0.19.0", False), ("v0.20.0rc0", True),
        ("v0.20.1rc0", False),
    ))  # fmt: skip
    mamba_chunks: Literal["not rounded", "rounded", "rounded if explicit"] = field(metadata=_differs(
        "Query lengths of models with mamba layers, to whole chunks",
        ("v0.10.0", "not rounded"), ("v0.14.1", "rounded"),
        ("v0.18.1rc1", "rounded if explicit"),
    ))  # fmt: skip
    checks_chunks: bool = field(metadata=_differs(
        "The token budget must be whole mamba chunks; fallback query lengths are",
        ("v0.10.0", False), ("v0.17.1", True), ("v0.18.0rc0", False),
        ("v0.18.1rc1", True),
    ))  # fmt: skip
    floors_mamba_blocks: bool = field(metadata=_differs(
        "Decode blocks of a mamba model end at whole blocks of max_model_len",
        ("v0.10.0", False), ("v0.14.1", True), ("v0.19.0", False),
        ("v0.20.0rc0", True), ("v0.20.1rc0", False),
    ))  # fmt: skip
    speculates: bool = field(metadata=_differs(
        "Speculative decoding adds decode buckets",
        ("v0.10.0", False), ("v0.13.0", True),
    ))  # fmt: skip
    fallback: Fallback = field(metadata=_differs(
        "Most blocks of a fallback bucket. Powers of 2: no limit, batch sizes are powers "
        "of 2, lengths whole blocks; by phase: what max_model_len needs in a prompt, the "
        "largest of decode in decode, to which lookups are lowered beforehand",
        ("v0.10.0", "powers of 2"), ("v0.10.1", "cache"),
        ("v0.17.0rc1", "cache + block_size"), ("v0.17.1", "largest decode"),
        ("v0.18.0rc0", "cache + block_size"), ("v0.18.1rc1", "largest decode"),
        ("v0.19.0", "by phase"), ("v0.20.0rc0", "largest decode"),
        ("v0.20.1rc0", "by phase"),
    ))  # fmt: skip
    caps_fallback_batch: bool = field(metadata=_differs(
        "A fallback bucket has at most max_num_seqs sequences",
        ("v0.10.0", False), ("v0.14.1", True),
    ))  # fmt: skip
    separates_context: bool = field(metadata=_differs(
        "A prompt with context runs alone, in no batch with others",
        ("v0.10.0", False), ("v0.14.1", True),
    ))  # fmt: skip
    names_strategies: bool = field(metadata=_differs(
        "VLLM_BUCKETING_STRATEGY and the padding-aware strategy; before, "
        "VLLM_EXPONENTIAL_BUCKETING chooses exponential or linear",
        ("v0.10.0", False), ("v0.20.0rc0", True),
    ))  # fmt: skip
    unified_attention: bool = field(metadata=_differs(
        "VLLM_UNIFIED_ATTN has buckets of its own, which are not generated here",
        ("v0.10.0", False), ("v0.11.2", True), ("v0.18.1rc1", False),
    ))  # fmt: skip


DIFFERENCES: dict[str, Difference] = {
    each.name: each.metadata["difference"] for each in fields(Rules)
}
"""The title and the history of every difference, by its field of Rules."""


@lru_cache(maxsize=64)
def rules_of(version: str) -> Rules:
    """The rules of a version: those of the last tag that is not above it.

    A build after a tag, as 0.26.1.dev5 or 0.26.0+abc, has the rules of that tag.

    Raises:
        SettingError: the version cannot be read, or is older or newer than all tags.
    """
    if version == MAIN:
        return Rules(
            **{name: item.history[-1][1] for name, item in DIFFERENCES.items()}
        )
    known = _parse(version)
    if not Version(RELEASES[0]) <= known <= Version(_NEWEST_TAG):
        raise SettingError(
            f"The bucketing rules of vllm-gaudi {version} are not known here, only those "
            f"of {RELEASES[0]} to {_NEWEST_TAG} and of main; choose one of these"
        )
    return Rules(**{name: _value(item, known) for name, item in DIFFERENCES.items()})


def _value(difference: Difference, version: Version) -> Any:
    """The value in a version; the first one where it did not matter yet."""
    value = difference.history[0][1]
    for first, later in difference.history:
        if first != MAIN and Version(first) <= version:
            value = later
    return value


def version_name(version: str) -> str:
    """A version as it is shown: `main`, or with one v before the number.

    Raises:
        SettingError: the version cannot be read, or its rules are not known.
    """
    rules_of(version)
    return version if version == MAIN else f"v{version.lstrip('vV')}"


def version_of_run(engine: str | None, *versions: str | None) -> str:
    """The vllm-gaudi whose rules hold for a run of this engine, by the first version known.

    It is `main` for builds and releases after all tags, and the newest release for another
    engine, and where the rules are not known.
    """
    for version in versions if engine == "vllm-gaudi" else ():
        if version == MAIN:
            return MAIN
        try:
            known = _parse(version or "")
        except SettingError:
            continue
        if known > Version(_NEWEST_TAG):
            return MAIN
        if known >= Version(RELEASES[0]):
            return version_name(version or "")
    return NEWEST_RELEASE


def rules_name(version: str) -> str:
    """The vllm-gaudi whose rules are used, and that it is the newest release if so."""
    newest = " (newest release)" if version == NEWEST_RELEASE else ""
    return f"vllm-gaudi {version}{newest}"


def _parse(version: str) -> Version:
    try:
        # What follows a + names a build, not a later version.
        return Version(Version(version).public)
    except InvalidVersion:
        raise SettingError(
            f"{version[:40]!r} is not a version of vllm-gaudi; write one as "
            f"{NEWEST_RELEASE.lstrip('v')}, or {MAIN}"
        ) from None
