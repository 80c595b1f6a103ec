"""Advice on settings that this engine version ignores or overrules, and on probes."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from warmup_insights.analysis.advice.facts import RunFacts
from warmup_insights.analysis.advice.finding import Finding, Rule, count_of
from warmup_insights.analysis.probe import startup_probe
from warmup_insights.bucketing.environment import settings_from_mapping
from warmup_insights.bucketing.overrides import override_notes
from warmup_insights.bucketing.versions import version_of_run
from warmup_insights.errors import InputError

Version = tuple[int, ...]


@dataclass(frozen=True)
class DeadSetting:
    """A setting that changed its meaning in some engine version.

    `pattern` matches the whole name. `state` is `ignored`, `renamed` or `deprecated`;
    `instead` may refer to groups of the pattern, and is empty where nothing replaces it.
    """

    pattern: str
    engine: str
    since: Version
    state: str
    instead: str
    because: str


DEAD_SETTINGS: tuple[DeadSetting, ...] = (
    DeadSetting(
        r"VLLM_GRAPH_(?:MULTIMODAL_)?PROMPT_RATIO", "vllm-gaudi", (0, 10), "ignored", "",
        "graph memory is no longer divided between prompts and decodes (2025-06-12); "
        "every bucket gets a graph",
    ),
    DeadSetting(
        r"VLLM_GRAPH_(?:MULTIMODAL_)?PROMPT_RATIO", "vllm-fork", (0, 9), "ignored", "",
        "graph memory is no longer divided between prompts and decodes (2025-06-12); "
        "every bucket gets a graph",
    ),
    DeadSetting(
        r"VLLM_GRAPH_(?:PROMPT|DECODE)_STRATEGY", "vllm-gaudi", (0, 10), "ignored", "",
        "every bucket gets a graph (2025-06-12), so there is no order to choose",
    ),
    DeadSetting(
        r"VLLM_GRAPH_(?:PROMPT|DECODE)_STRATEGY", "vllm-fork", (0, 9), "ignored", "",
        "every bucket gets a graph (2025-06-12), so there is no order to choose",
    ),
    DeadSetting(
        r"VLLM_PROMPT_SEQ_BUCKET_(MIN|STEP|MAX|PAD_MAX|PAD_PERCENT)", "vllm-gaudi",
        (0, 11, 2), "renamed", r"VLLM_PROMPT_QUERY_BUCKET_\1",
        "prompt buckets have a query length and a context since v0.11.2",
    ),
    DeadSetting(
        r"VLLM_DECODE_SEQ_BUCKET_(MIN|STEP|MAX)", "vllm-gaudi", (0, 10), "renamed",
        r"VLLM_DECODE_BLOCK_BUCKET_\1",
        "decode buckets count KV blocks since vllm-fork 1.18, not tokens",
    ),
    DeadSetting(
        r"VLLM_EXPONENTIAL_BUCKETING", "vllm-gaudi", (0, 20, 1), "deprecated",
        "VLLM_BUCKETING_STRATEGY",
        "it overrules VLLM_BUCKETING_STRATEGY, and cannot name the padding-aware strategy",
    ),
    DeadSetting(
        r"VLLM_ENABLE_EXPERIMENTAL_FLAGS", "vllm-gaudi", (0, 11, 2), "ignored",
        "VLLM_DEVELOPER_MODE",
        "the code reads VLLM_DEVELOPER_MODE, for the per-bucket log lines too",
    ),
)  # fmt: skip
"""What is known to have died, with the first version in which it had."""

_VERSION = re.compile(r"v?([0-9]+(?:\.[0-9]+){0,3})")


def read_version(text: str | None) -> Version | None:
    """The numbers that a version begins with; None if it does not begin with any."""
    match = _VERSION.match(text or "")
    return tuple(int(part) for part in match[1].split(".")) if match else None


def dead_settings(facts: RunFacts) -> Iterator[Finding]:
    """A setting is given that this version ignores, renamed or is about to drop."""
    version = facts.summary.engine.version
    numbers = read_version(version)
    if numbers is None:
        return
    for name, value in facts.summary.config.items():
        for dead in DEAD_SETTINGS:
            match = re.fullmatch(dead.pattern, name)
            is_hit = match is not None and dead.engine == facts.summary.engine.name
            if not is_hit or numbers < dead.since or _was_read(facts, name):
                continue
            assert match is not None, "part of is_hit"
            yield _finding(dead, match.expand(dead.instead), name, value, str(version))


def _was_read(facts: RunFacts, name: str) -> bool:
    """Whether the run itself shows that the setting had an effect."""
    budget = facts.summary.memory_or_none.graph_budget
    return name.startswith("VLLM_GRAPH_") and budget is not None


def _finding(
    dead: DeadSetting, instead: str, name: str, value: Any, version: str
) -> Finding:
    since = ".".join(str(part) for part in dead.since)
    words = {
        "ignored": "has no effect",
        "renamed": f"is called {instead} now",
        "deprecated": "is deprecated",
    }
    suggestion = f"unset {name}"
    if instead:
        suggestion = f"use {instead} instead of {name}"
    return Finding(
        "dead_setting",
        "medium" if dead.state == "ignored" else "low",
        f"{name}={value} {words[dead.state]} in {dead.engine} {version}.",
        {"value": str(value), "version": version, "since": since},
        name,
        suggestion,
        f"{dead.because}; nothing changes by removing it"
        if dead.state == "ignored"
        else dead.because,
    )


def overridden_ranges(facts: RunFacts) -> Iterator[Finding]:
    """A bucket range is set that the strategy does not read."""
    if facts.summary.engine.name not in ("vllm-gaudi", "reference"):
        return
    variables = {
        name: str(value)
        for name, value in facts.summary.config.items()
        if re.fullmatch(r"VLLM_(?:PROMPT|DECODE)_[A-Z]+_BUCKET_[A-Z_]+", name)
    }
    if not variables:
        return
    for name in ("VLLM_BUCKETING_STRATEGY", "VLLM_EXPONENTIAL_BUCKETING"):
        chosen = facts.summary.config.get(name)
        if chosen is not None:
            variables[name] = str(chosen)
    limits = {
        "max_num_seqs": 1, "block_size": 128, "max_num_batched_tokens": 2048,
        "max_model_len": _whole(facts.summary.config.get("max_model_len")) or 2048,
        "num_kv_blocks": 1,
    }  # fmt: skip
    engine = facts.summary.engine
    try:
        settings = settings_from_mapping(
            limits,
            variables,
            engine_version=version_of_run(engine.name, engine.version),
        )
    except (InputError, ValueError):
        return
    notes = tuple(note for note in override_notes(settings) if "has no effect" in note)
    if notes:
        is_named = settings.rules.names_strategies
        yield Finding(
            "overridden_ranges",
            "medium",
            f"{len(notes)} bucket ranges are set and not read: {notes[0]}",
            {"num_settings": len(notes), "strategy": settings.strategy},
            "VLLM_BUCKETING_STRATEGY" if is_named else "VLLM_EXPONENTIAL_BUCKETING",
            "VLLM_BUCKETING_STRATEGY=lin or pad, or a bucket file, if the ranges matter; "
            "else unset them"
            if is_named
            else "VLLM_EXPONENTIAL_BUCKETING=false, if the ranges matter; else unset them",
            f"{len(notes)} settings take effect, and the buckets change",
            notes,
        )


def blocks_overwritten(facts: RunFacts) -> Iterator[Finding]:
    """VLLM_DECODE_BLOCK_BUCKET_MAX is above the number of KV blocks."""
    name = "VLLM_DECODE_BLOCK_BUCKET_MAX"
    asked = _whole(facts.summary.config.get(name))
    blocks = facts.figure("num_kv_blocks")
    if (
        facts.summary.engine.name != "vllm-gaudi"
        or asked is None
        or not blocks
        or asked <= blocks
    ):
        return
    yield Finding(
        "blocks_overwritten",
        "low",
        f"{name}={asked} is above the {int(blocks)} KV blocks that exist; the engine "
        "lowers it.",
        {"value": asked, "num_kv_blocks": int(blocks)},
        name,
        f"{name}={int(blocks)}, or unset it",
        f"the same buckets; {asked - int(blocks)} blocks more than fit were configured",
    )


def _whole(value: Any) -> int | None:
    try:
        return int(str(value))
    except ValueError:
        return None


def probe_values(facts: RunFacts) -> Iterator[Finding]:
    """How long a startup probe has to wait, over the runs seen."""
    probe = startup_probe([facts.summary, *facts.history])
    if probe is None:
        return
    yield Finding(
        "startup_probe",
        "low",
        f"{count_of(probe.num_runs, 'start')} became ready after {probe.median_s:.0f} s "
        f"(median) and {probe.longest_s:.0f} s (longest).",
        {
            "num_runs": probe.num_runs, "median_s": probe.median_s,
            "longest_s": probe.longest_s,
        },
        "startupProbe",
        f"periodSeconds: {probe.period_s}, failureThreshold: {probe.failure_threshold}",
        f"a start may take {probe.allowed_s} s before Kubernetes restarts it",
        tuple(probe.yaml().splitlines()),
    )  # fmt: skip


RULES = (
    Rule(
        "dead_setting",
        "a setting is given that this engine version ignores, renamed or deprecated",
        "engine, version, settings",
        dead_settings,
    ),
    Rule(
        "overridden_ranges",
        "a bucket range is set that the bucketing strategy does not read",
        "settings",
        overridden_ranges,
    ),
    Rule(
        "blocks_overwritten",
        "VLLM_DECODE_BLOCK_BUCKET_MAX is above the number of KV blocks",
        "settings, number of KV blocks",
        blocks_overwritten,
    ),
    Rule(
        "startup_probe",
        "a start became ready",
        "time to ready, of this run and of others of the same model and device",
        probe_values,
    ),
)
