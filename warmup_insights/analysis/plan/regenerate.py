"""The buckets of a run by the rules of its version, with its own settings or others.

What makes them is what the run states; where these settings give the run's own lists,
they are all that counted.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from warmup_insights.bucketing.base import STRATEGY_NAMES
from warmup_insights.bucketing.generate import generate
from warmup_insights.bucketing.settings import (
    BucketingSettings,
    read_boolean,
    settings_from_mapping,
)
from warmup_insights.bucketing.versions import rules_of, version_of_run
from warmup_insights.model.events import Bucket
from warmup_insights.model.summary import PHASES, RunSummary

Lists = dict[str, list[Bucket]]

LIMITS = ("max_num_seqs", "max_model_len", "max_num_batched_tokens", "block_size")
"""Limits of the engine that buckets follow from, besides the KV blocks."""
_DEFAULTS = {"max_num_seqs": 256, "block_size": 128}
"""Of vLLM and of vllm-gaudi, where the run states none."""
_SPECULATIVE = ("num_speculative_tokens", "speculative_config.num_speculative_tokens")
"""As it is recorded, and as a server prints its arguments."""
_PROPOSED = re.compile(r"num_spec(?:ulative)?_tokens['\"]?[=:] ?(\d{1,3})")
"""In the settings that an engine prints, and in an argument of it."""
_VARIABLES = ("VLLM_", "PT_HPU_")
_FEATURES = {
    "use_contiguous_pa": "VLLM_CONTIGUOUS_PA",
    "prefix_caching": "VLLM_PREFIX_CACHING",
    "merged_prefill": "VLLM_MERGED_PREFILL",
    "use_bucketing": "VLLM_ENABLE_BUCKETING",
}
"""Names under which the runtime prints what it decided, to the variables that set it."""
_NAMED, _EXPONENTIAL = "VLLM_BUCKETING_STRATEGY", "VLLM_EXPONENTIAL_BUCKETING"


def strategy_of(summary: RunSummary) -> str | None:
    """`exp`, `lin` or `pad`; None where nothing shows it.

    What made the lists counts before what was set, and of settings the older one, which
    the runtime does not know when it prints the strategy (`get_bucketing_strategy`).
    """
    printed = [summary.phase(phase).strategy or "" for phase in PHASES]
    old = summary.config.get(_EXPONENTIAL)
    if old is not None:
        printed.append("exp" if read_boolean(str(old)) else "lin")
    for text in (*printed, str(summary.config.get("bucketing_strategy") or "")):
        for name in STRATEGY_NAMES:
            if text.lower().startswith(name):
                return name
    if rules_of(rules_version(summary)).names_strategies:
        requested = str(summary.config.get(_NAMED, "")).lower()
        return requested if requested in STRATEGY_NAMES else None
    return None


def strategy_variable(
    summary: RunSummary, strategy: str, engine_version: str | None = None
) -> tuple[str, str]:
    """The variable that makes this the strategy of such a run, and its value.

    Where the older variable is set, it decides in every version.
    """
    rules = rules_of(engine_version or rules_version(summary))
    if rules.names_strategies and _EXPONENTIAL not in summary.config:
        return _NAMED, strategy
    return _EXPONENTIAL, _text(strategy == "exp")


def rules_version(summary: RunSummary) -> str:
    """The vllm-gaudi whose rules made the buckets of a run.

    A recording has its version; a log has that of vLLM alone, which counts alike.
    """
    own = summary.config.get("vllm_gaudi_version")
    return version_of_run(
        summary.engine.name, str(own) if own else None, summary.engine.version
    )


def speculative_tokens(summary: RunSummary) -> int | None:
    """Tokens that speculative decoding proposes; None where none are stated."""
    stated = summary.setting(*_SPECULATIVE)
    if stated is not None:
        return int(stated)
    found = _PROPOSED.search(str(summary.config.get("speculative_config") or ""))
    return int(found[1]) if found else None


def bucketing_inputs(summary: RunSummary) -> tuple[dict[str, Any], dict[str, str]]:
    """The limits and the variables of bucketing that the run states."""
    limits = {name: summary.setting(name) for name in LIMITS}
    memory = summary.memory_or_none
    limits["block_size"] = limits["block_size"] or memory.block_size
    limits["num_kv_blocks"] = memory.num_kv_blocks
    limits["num_speculative_tokens"] = speculative_tokens(summary)
    inputs = {name: int(value) for name, value in limits.items() if value is not None}
    variables = {
        name: _text(value)
        for name, value in summary.config.items()
        if name.startswith(_VARIABLES)
    }
    for printed, name in _FEATURES.items():
        if printed in summary.config:
            variables[name] = _text(summary.config[printed])
    return inputs, variables


def bucketing_settings(
    summary: RunSummary,
    *,
    limits: Mapping[str, int] | None = None,
    variables: Mapping[str, str] | None = None,
    engine_version: str | None = None,
) -> BucketingSettings:
    """The settings of a run, with these limits and variables on top.

    A bucket file is not read: its name is one of the machine that the run was on.

    Raises:
        SettingError: the run does not state a limit, or a variable cannot be used.
    """
    version = engine_version or rules_version(summary)
    inputs, stated = bucketing_inputs(summary)
    stated.pop("VLLM_BUCKETING_FROM_FILE", None)
    if (own := strategy_of(summary)) is not None:
        stated |= [strategy_variable(summary, own, version)]
    # What the linear strategy printed as defaults follows from limits, and may be others.
    stated = {n: v for n, v in stated.items() if n not in summary.defaults}
    return settings_from_mapping(
        {**_DEFAULTS, **inputs, **(limits or {})},
        {**stated, **(variables or {})},
        engine_version=version,
    )


def bucket_lists(settings: BucketingSettings) -> Lists:
    """The buckets of these settings, by the phases that have any.

    Raises:
        SettingError: the settings leave no bucket.
    """
    found = generate(settings)
    lists = {"prompt": found.prompt, "decode": found.decode}
    return {phase: [tuple(b) for b in made] for phase, made in lists.items() if made}


def own_lists(summary: RunSummary) -> Lists:
    """The buckets that the run lists, by the phases that have any."""
    return {p: list(made) for p in PHASES if (made := summary.phase(p).buckets)}


def reproducing_settings(
    summary: RunSummary, engine_version: str | None = None
) -> BucketingSettings | None:
    """The settings of a run, where the rules make the very buckets from them that it
    lists; None where something else had an influence, or a limit is unknown."""
    try:
        settings = bucketing_settings(summary, engine_version=engine_version)
        made = bucket_lists(settings)
    except ValueError:
        return None
    own = {phase: sorted(buckets) for phase, buckets in own_lists(summary).items()}
    return settings if own == made else None


def _text(value: Any) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)
