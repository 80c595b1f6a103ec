"""Which bucketing strategy a run had, and which buckets another one would give it."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from warmup_insights.analysis.advice.finding import Value
from warmup_insights.analysis.advice.setting_lives import knows
from warmup_insights.analysis.plan.planning import rules_version
from warmup_insights.bucketing.environment import read_boolean, settings_from_mapping
from warmup_insights.bucketing.generate import generate
from warmup_insights.errors import InputError
from warmup_insights.model.events import Bucket
from warmup_insights.model.summary import PHASES, RunSummary

CONTEXT_MAX = "VLLM_PROMPT_CTX_BUCKET_MAX"
DEFAULT_SEQS, DEFAULT_BLOCK = 256, 128
"""Of vLLM and of vllm-gaudi, where the run states none."""
_FEATURES = {
    "VLLM_CONTIGUOUS_PA": "use_contiguous_pa",
    "VLLM_PREFIX_CACHING": "prefix_caching",
}
"""Variables to the names under which the runtime prints them."""
_RANGE = re.compile(
    r"VLLM_(?:PROMPT|DECODE)_(?:BS|SEQ|QUERY|CTX|BLOCK)_BUCKET_\w{1,20}"
).fullmatch


def strategy_of(summary: RunSummary) -> str | None:
    """`exp`, `lin` or `pad`; None where nothing shows it.

    What the engine printed counts before what was asked for.
    """
    printed = [summary.phase(phase).strategy or "" for phase in PHASES]
    for text in (*printed, str(summary.config.get("bucketing_strategy") or "")):
        for name in ("exp", "lin", "pad"):
            if text.lower().startswith(name):
                return name
    old = summary.config.get("VLLM_EXPONENTIAL_BUCKETING")
    if old is not None:
        return "exp" if read_boolean(str(old)) else "lin"
    if knows(summary, "VLLM_BUCKETING_STRATEGY"):
        asked = str(summary.config.get("VLLM_BUCKETING_STRATEGY", "")).lower()
        return asked if asked in ("exp", "lin", "pad") else None
    return None


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
    where nothing else had an influence; see `reproduces`.
    """
    config, memory = summary.config, summary.memory_or_none
    env = {
        name: str(value)
        for name, value in config.items()
        if _RANGE(name) and (strategy == "lin" or name not in summary.defaults)
    }
    env |= {name: str(value) for name, value in (changes or {}).items()}
    if knows(summary, "VLLM_BUCKETING_STRATEGY"):
        env["VLLM_BUCKETING_STRATEGY"] = strategy
    else:
        env["VLLM_EXPONENTIAL_BUCKETING"] = str(strategy == "exp")
    for name, key in _FEATURES.items():
        if key in config:
            env[name] = str(config[key])
    limits = {
        "max_num_seqs": integer(config.get("max_num_seqs")) or DEFAULT_SEQS,
        "block_size": memory.block_size or DEFAULT_BLOCK,
        "max_num_batched_tokens": integer(config.get("max_num_batched_tokens")),
        "max_model_len": integer(config.get("max_model_len")),
        "num_kv_blocks": memory.num_kv_blocks,
    }
    version = rules_version(summary)
    try:
        made = generate(settings_from_mapping(limits, env, engine_version=version))
    except (InputError, ValueError):
        return None
    return {"prompt": list(made.prompt), "decode": list(made.decode)}


def reproduces(summary: RunSummary) -> bool:
    """Whether the rules make the very buckets that the run lists."""
    own = strategy_of(summary)
    made = regenerated(summary, own) if own is not None else None
    return made is not None and all(
        sorted(made[phase]) == sorted(summary.phase(phase).buckets) for phase in PHASES
    )


def context_max_leaves_zero(summary: RunSummary) -> bool:
    """Whether prompts get no context with VLLM_PROMPT_CTX_BUCKET_MAX=0 in this version.

    Some versions add the longest context of each query length, whatever the range says,
    so the buckets are generated to find out.
    """
    if strategy_of(summary) != "lin" or not knows(summary, CONTEXT_MAX):
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
    if own not in ("lin", "exp") or not reproduces(summary):
        return None
    other = "exp" if own == "lin" else "lin"
    made = regenerated(summary, other)
    if made is None:
        return None
    counts = {phase: len(buckets) for phase, buckets in made.items()}
    if knows(summary, "VLLM_BUCKETING_STRATEGY"):
        return "VLLM_BUCKETING_STRATEGY", other, counts
    return "VLLM_EXPONENTIAL_BUCKETING", "true" if other == "exp" else "false", counts


def integer(value: Any) -> int | None:
    """A setting as a whole number; None when it is none."""
    try:
        return int(str(value))
    except ValueError:
        return None
