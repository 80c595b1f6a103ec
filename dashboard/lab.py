"""The buckets lab: one configuration in, what each strategy makes of it out; pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

import pandas as pd

from warmup_insights.analysis.plan.regenerate import bucketing_inputs
from warmup_insights.bucketing.base import STRATEGY_NAMES, StrategyName
from warmup_insights.bucketing.generate import STRATEGIES
from warmup_insights.bucketing.padding import (
    Assumption,
    LengthDistribution,
    Trial,
    assume_lengths,
    parse_lengths,
    try_settings,
)
from warmup_insights.bucketing.settings import settings_from_mapping
from warmup_insights.bucketing.versions import rules_of
from warmup_insights.errors import InputError
from warmup_insights.model.summary import RunSummary

STRATEGY_TITLES: dict[StrategyName, str] = {
    name: STRATEGIES[name].title for name in STRATEGY_NAMES
}
FROM_FILE = "VLLM_BUCKETING_FROM_FILE"
LIMITS: dict[str, tuple[str, str, int]] = {
    "max_num_seqs": ("max_num_seqs", "Requests per step at most", 64),
    "max_num_batched_tokens": (
        "max_num_batched_tokens", "Prompt tokens per step at most", 8192,
    ),
    "max_model_len": ("max_model_len", "Tokens of one request at most", 4096),
    "block_size": ("block_size", "Tokens per KV block", 128),
    "num_kv_blocks": ("KV blocks", "Blocks of the KV cache", 2048),
}  # fmt: skip
"""The fields of the form: their title, what they mean, and what they hold before anybody
changes it."""


def read_overrides(text: str) -> dict[str, str]:
    """Lines of NAME=VALUE, as in an environment; `#` starts a comment.

    Raises InputError for anything else.
    """
    found: dict[str, str] = {}
    for number, line in enumerate(text.splitlines(), 1):
        words = line.split("#", 1)[0].strip().removeprefix("export ").strip()
        if not words:
            continue
        name, equals, value = words.partition("=")
        if not equals or not name.strip().isidentifier():
            raise InputError(
                f"Line {number} of the variables is {words[:40]!r}; write NAME=VALUE"
            )
        found[name.strip()] = value.strip().strip("'\"")
    return found


def read_lengths(text: str, assumption: Assumption, longest: int) -> LengthDistribution:
    """Request lengths from text, else an assumption; raises InputError."""
    if text.strip():
        return parse_lengths(text.splitlines(), "the lengths")
    return assume_lengths(assumption, longest)


def strategies_of(version: str) -> list[StrategyName]:
    """The strategies that a version of vllm-gaudi has."""
    has_all = rules_of(version).names_strategies
    return [name for name in STRATEGY_TITLES if has_all or name != "pad"]


def limits_of(summary: RunSummary) -> dict[str, int]:
    """The limits that a run states, by the names of the form."""
    stated, _ = bucketing_inputs(summary)
    return {name: value for name, value in stated.items() if value >= 1}


def variables_of(summary: RunSummary) -> str:
    """The bucketing variables of a run, one per line."""
    lines = [
        f"{name}={value}"
        for name, value in sorted(summary.config.items())
        if "_BUCKET_" in name or name in ("VLLM_CONTIGUOUS_PA", "VLLM_PREFIX_CACHING")
    ]
    return "\n".join(lines)


def run_trials(
    limits: Mapping[str, int],
    variables: Mapping[str, str],
    strategies: Sequence[StrategyName],
    lengths: LengthDistribution,
    engine_version: str,
) -> list[Trial]:
    """Every strategy on the configuration; raises InputError for a wrong one, and where it
    names a file: what is in files of this server is nothing for its visitors."""
    if FROM_FILE in variables:
        raise InputError(
            f"{FROM_FILE} names a file of this server, which is not read here; "
            "`warmup-insights buckets compare --bucket-file FILE` reads one"
        )
    settings = settings_from_mapping(
        dict(limits), variables, engine_version=engine_version
    )
    return [
        try_settings(replace(settings, strategy=strategy), lengths)
        for strategy in strategies
    ]


def seconds_per_bucket(buckets: pd.DataFrame) -> dict[str, float]:
    """Mean seconds of the warmed buckets of each phase of a run."""
    known = buckets[buckets["duration_s"].notna()]
    return {
        str(phase): float(rows["duration_s"].mean())
        for phase, rows in known.groupby("phase")
    }
