"""Advice on settings that this engine version ignores or overrules, and on probes."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from statistics import median
from typing import Any

from warmup_insights.analysis.advice.facts import RunFacts, is_whole
from warmup_insights.analysis.advice.finding import Finding, rule
from warmup_insights.analysis.advice.rules_buckets import reads_ranges
from warmup_insights.analysis.plan.regenerate import (
    bucketing_inputs,
    bucketing_settings,
)
from warmup_insights.analysis.sentences import count_of
from warmup_insights.analysis.summary.compilation import RECIPES
from warmup_insights.bucketing.ranges import override_notes
from warmup_insights.errors import InputError
from warmup_insights.model.figures import BY_NAME
from warmup_insights.model.summary import RunSummary
from warmup_insights.rules.setting_lives import (
    SettingLife,
    Version,
    dead_in,
    read_version,
    successor,
)
from warmup_insights.units import format_duration

PERIOD_S = 10
SAFETY = 1.5
LEAST_PROBE_S, LEAST_GAUDI_PROBE_S = 600, 1800
"""Patience for a first start: weights may have to come, and every recipe be compiled."""
_ANY_LIMITS = {
    "max_num_batched_tokens": 2048, "max_model_len": 2048, "num_kv_blocks": 1,
}  # fmt: skip
"""Stand for what a run does not state, where the result does not depend on them."""
SHORT_START_S = 120.0
"""What a start takes at least for a finding about its probe, outside of a known pod."""
DEFAULT_PORT = 8000
"""vLLM `entrypoints/openai/cli_args.py`."""


@dataclass(frozen=True)
class StartupProbe:
    """Values for a `startupProbe`, in seconds, and the starts that they rest on."""

    num_runs: int
    median_s: float
    longest_s: float
    period_s: int
    failure_threshold: int
    least_s: int
    """What is allowed however short the starts were."""
    port: int
    """Of the server, as far as a run states it."""

    @property
    def allowed_s(self) -> int:
        """How long a container may take before it is restarted."""
        return self.period_s * self.failure_threshold

    def yaml(self) -> str:
        """The part of a container's specification."""
        return (
            f"# starts seen: {self.num_runs}, median {self.median_s:.0f} s, longest "
            f"{self.longest_s:.0f} s; times {SAFETY:g} and {self.least_s} s at least, image pull "
            "not counted\n"
            "startupProbe:\n"
            "  httpGet:\n"
            "    path: /health\n"
            f"    port: {self.port}\n"
            f"  periodSeconds: {self.period_s}\n"
            f"  failureThreshold: {self.failure_threshold}\n"
        )


def probe_of(summaries: Sequence[RunSummary]) -> StartupProbe | None:
    """A probe that lets the longest start pass, half as long again; None without any.

    Runs that never became ready do not count; where the pod is known, its time from the
    start of the container counts. It waits 10 minutes at least, and half an
    hour on Gaudi, where a first start compiles every bucket.
    """
    known = map(_container_s, summaries)
    seconds = [value for value in known if value is not None and value > 0]
    if not seconds:
        return None
    longest = max(seconds)
    is_gaudi = any(summary.device.kind == "hpu" for summary in summaries)
    least = LEAST_GAUDI_PROBE_S if is_gaudi else LEAST_PROBE_S
    threshold = math.ceil(max(longest * SAFETY, least) / PERIOD_S)
    ports = (summary.setting("port") for summary in summaries)
    return StartupProbe(
        len(seconds), median(seconds), longest, PERIOD_S, threshold, least,
        port=int(next((port for port in ports if port), DEFAULT_PORT)),
    )  # fmt: skip


def _container_s(summary: RunSummary) -> float | None:
    """From the start of the container, as far as that is known, to ready."""
    ready, before, whole = (
        BY_NAME[name].trusted(summary)
        for name in ("ready_s", "before_first_line_s", "pod_ready_s")
    )
    if ready is None:
        return whole
    return max(ready + (before or 0.0), whole or 0.0)


@rule(
    "settings are given that this engine version ignores, renamed or deprecated",
    "engine, version, settings that were set",
    formula="version of the run at or above the one from which the table names another state",
    margin="all in one finding; not where the run shows that a setting had an effect",
    source="sources of the releases named in the table of settings",
    example="VLLM_PROMPT_SEQ_BUCKET_MIN, STEP and MAX under vllm-gaudi 0.14.1: VLLM_PROMPT_QUERY_BUCKET_...",
)
def dead_setting(facts: RunFacts) -> Iterator[Finding]:
    """Settings are given that this version ignores, renamed or is about to drop."""
    summary = facts.summary
    version = read_version(summary.engine.version)
    if version is None:
        return
    found = []
    for name, value in summary.config.items():
        life = dead_in(summary.engine.name, version, name)
        if life is None or name in summary.defaults or _was_read(facts, name):
            continue
        found.append((name, value, life))
    warned = [n.text for n in summary.notes if n.topic == "setting_renamed"]
    if not found:
        return
    names = [name for name, _, _ in found]
    changes = [
        f"{successor(life, name)} instead of {name}"
        if life.instead
        else f"unset {name}"
        for name, _, life in found
    ]
    yield Finding(
        "low",
        f"{count_of(len(found), 'setting')} that {summary.engine.name} "
        f"{summary.engine.version} {_words(found)}: {', '.join(names)}.",
        {"num_settings": len(found), "version": str(summary.engine.version),
         "since": _dotted(min(life.last or () for _, _, life in found))},
        names[0],
        "; ".join(dict.fromkeys(changes)),
        "no time; " + "; ".join(dict.fromkeys(life.because for _, _, life in found)),
        tuple(
            [f"{name}={value}: {life.state} since {_dotted(life.last or ())}"
             for name, value, life in found] + list(dict.fromkeys(warned))[:3]
        ),
        price="none; a later release may stop reading the old names",
    )  # fmt: skip


def _words(found: list[tuple[str, Any, SettingLife]]) -> str:
    """What the version does with them: one word for all of them, or each."""
    words = {
        "ignored": "ignores",
        "renamed": "calls otherwise",
        "deprecated": "warns of",
    }
    states = dict.fromkeys(words[life.state] for _, _, life in found)
    return " or ".join(states)


def _dotted(version: Version) -> str:
    return ".".join(str(part) for part in version)


def _was_read(facts: RunFacts, name: str) -> bool:
    """Whether the run itself shows that the setting had an effect."""
    budget = facts.summary.memory_or_none.graph_budget
    return name.startswith("VLLM_GRAPH_") and budget is not None


@rule(
    "a bucket range is set that the bucketing strategy does not read",
    "version, settings, strategy",
    formula="the rules of the bucketing strategy, which name what they do not read",
    margin="no finding where the log prints the ranges as read, and where the version is "
    "unknown",
    source="vllm-gaudi extension/bucketing/exponential.py",
    example="VLLM_DECODE_BLOCK_BUCKET_MAX with the exponential strategy",
)
def overridden_ranges(facts: RunFacts) -> Iterator[Finding]:
    """A bucket range is set that the strategy does not read."""
    # Ranges that the log prints as read have an effect, whatever the settings say.
    if facts.summary.engine.name not in ("vllm-gaudi", "reference"):
        return
    if read_version(facts.summary.engine.version) is None or reads_ranges(
        facts.summary
    ):
        return
    stated, _ = bucketing_inputs(facts.summary)
    limits = {name: n for name, n in _ANY_LIMITS.items() if name not in stated}
    try:
        settings = bucketing_settings(facts.summary, limits=limits)
    except (InputError, ValueError):
        return
    notes = tuple(note for note in override_notes(settings) if "has no effect" in note)
    if notes:
        is_named = settings.rules.names_strategies
        yield Finding(
            "low",
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


@rule(
    "a cold start of two minutes or more became ready, or any in a known pod",
    "time to ready, of this run and of others alike",
    formula="1.5 x the longest cold start, at least 600 s, on Gaudi 1,800 s",
    margin="only whole, cold starts of the same model, device, quantisation and version",
    source="Kubernetes startupProbe",
    example="vLLM 0.11.0 on an L4: 239 s cold, so 600 s",
)
def startup_probe(facts: RunFacts) -> Iterator[Finding]:
    """How long a startup probe has to wait, over the starts seen that were not warm."""
    summary = facts.summary
    if not _may_be_cold(summary) or summary.engine.name == "reference":
        return
    probe = probe_of([each for each in (summary, *facts.alike) if _may_be_cold(each)])
    if probe is None:
        return
    is_in_pod = facts.figure("pod_ready_s") is not None
    if probe.longest_s < SHORT_START_S and not is_in_pod:
        return
    starts = count_of(
        probe.num_runs,
        "start" if summary.start.kind is None else f"{summary.start.kind} start",
    )
    times = format_duration(probe.longest_s)
    if probe.num_runs > 1:
        times = f"{format_duration(probe.median_s)} (median) and {times} (longest)"
    of_kind = " of unknown kind" if summary.start.kind is None else ""
    yield Finding(
        "low",
        f"A startup probe that allows {probe.allowed_s} s is long enough: {starts}{of_kind} "
        f"became ready after {times}.",
        {
            "num_runs": probe.num_runs, "median_s": probe.median_s,
            "longest_s": probe.longest_s,
        },
        "startupProbe",
        f"periodSeconds: {probe.period_s}, failureThreshold: {probe.failure_threshold}",
        f"a start may take {probe.allowed_s} s before Kubernetes restarts it; pulling the "
        "image is not counted",
        tuple(probe.yaml().splitlines()),
        price="a start that hangs is found that much later",
    )  # fmt: skip


def _may_be_cold(summary: RunSummary) -> bool:
    """A whole start that served at its end, and of which no cache is known that it could
    have used."""
    if not is_whole(summary) or summary.time.ready_at is None:
        return False
    kind = summary.start.words
    kept = str(summary.config.get(RECIPES, "")).partition(",")[0].strip()
    return kind in ("cold", "eager") or (kind is None and not kept)


RULES = (dead_setting, overridden_ranges, startup_probe)
