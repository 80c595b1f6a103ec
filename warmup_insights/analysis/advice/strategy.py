"""Which bucketing strategy a run had, as its log or recorder shows it."""

from __future__ import annotations

import re
from typing import Any

from warmup_insights.analysis.advice.setting_lives import knows
from warmup_insights.bucketing.environment import read_boolean, settings_from_mapping
from warmup_insights.bucketing.generate import generate
from warmup_insights.bucketing.versions import version_of_run
from warmup_insights.errors import InputError
from warmup_insights.model.summary import PHASES, RunSummary

CONTEXT_MAX = "VLLM_PROMPT_CTX_BUCKET_MAX"
_RANGE = re.compile(r"VLLM_PROMPT_(?:BS|SEQ|QUERY|CTX)_BUCKET_\w{1,20}").fullmatch


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


def context_max_leaves_zero(summary: RunSummary) -> bool:
    """Whether prompts get no context with VLLM_PROMPT_CTX_BUCKET_MAX=0 in this version.

    Some versions add the longest context of each query length, whatever the range says,
    so the buckets are generated to find out.
    """
    if strategy_of(summary) != "lin" or not knows(summary, CONTEXT_MAX):
        return False
    env = {name: str(value) for name, value in summary.config.items() if _RANGE(name)}
    env |= {"VLLM_PROMPT_CTX_BUCKET_MIN": "0", CONTEXT_MAX: "0"}
    if knows(summary, "VLLM_BUCKETING_STRATEGY"):
        env["VLLM_BUCKETING_STRATEGY"] = "lin"
    else:
        env["VLLM_EXPONENTIAL_BUCKETING"] = "false"
    blocks = summary.memory_or_none.num_kv_blocks
    limits = {
        "max_num_seqs": integer(summary.config.get("max_num_seqs")) or 64,
        "block_size": summary.memory_or_none.block_size or 128,
        "max_num_batched_tokens": integer(summary.config.get("max_num_batched_tokens")),
        "max_model_len": integer(summary.config.get("max_model_len")),
        "num_kv_blocks": blocks or 1024,
    }
    version = version_of_run(summary.engine.name, summary.engine.version)
    try:
        made = generate(settings_from_mapping(limits, env, engine_version=version))
    except (InputError, ValueError):
        return False
    return bool(made.prompt) and all(bucket[2] == 0 for bucket in made.prompt)


def integer(value: Any) -> int | None:
    """A setting as a whole number; None when it is none."""
    try:
        return int(str(value))
    except ValueError:
        return None
