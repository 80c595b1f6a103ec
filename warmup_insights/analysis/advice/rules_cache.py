"""Advice on compiled artefacts of earlier starts: one that fails, one that is not found."""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Iterator

from warmup_insights.analysis.advice.cause import explained, poisoned_by
from warmup_insights.analysis.advice.facts import RunFacts
from warmup_insights.analysis.advice.finding import (
    Finding,
    Rule,
    Value,
    Way,
    count_of,
)
from warmup_insights.analysis.advice.ways import finding_of
from warmup_insights.analysis.compare.causes import KeyChange, key_change
from warmup_insights.analysis.compare.comparison import (
    SettingRow,
    compare_settings,
)
from warmup_insights.model.summary import RunSummary

_DIRECTORY = re.compile(
    r"\S{0,400}?/(?:torch_aot_compile|torch_compile_cache)/[0-9a-f]{6,64}(?=/|$)"
)


def poisoned_cache(facts: RunFacts) -> Iterator[Finding]:
    """An artefact that was loaded from a cache failed: each restart loads it again."""
    found = explained(facts, "poisoned_cache")
    if found is None:
        return
    folders = cache_folders(facts.summary)
    where = " and ".join(folders) or "the compile cache (VLLM_CACHE_ROOT)"
    again = [
        other
        for other in facts.history
        if poisoned_by(other) and set(cache_folders(other)) & set(folders)
    ]
    times = f", as {len(again)} other starts that loaded it" if len(again) > 1 else ""
    times = ", as another start that loaded it" if len(again) == 1 else times
    message = " ".join(found.message.split())[:160].rstrip(".")
    finding = finding_of(
        "poisoned_cache",
        f"The start failed in what it had loaded from the compile cache{times}{found.where}: "
        f"{message}.",
        {"num_starts": 1 + len(again), **({"line": found.line} if found.line else {})},
        [
            Way(
                f"remove {where}",
                "the next start compiles anew, and saves what it compiled",
            )
        ],
        "every restart loads the same files and fails in the same place until they are gone",
        tuple(folders),
    )
    yield dataclasses.replace(finding, severity="high" if again else "medium")


def saved_not_loaded(facts: RunFacts) -> Iterator[Finding]:
    """A compiled function of an earlier start was there, could not be loaded, and was made
    again; the engine saves it again as well."""
    summary = facts.summary
    reason = summary.start.aot_reason
    if reason is None:
        return
    again = [other for other in facts.same_model if other.start.aot_reason is not None]
    spent = facts.figure("compile_s")
    numbers: dict[str, Value] = {"num_starts": 1 + len(again)}
    if spent is not None:
        numbers["compile_s"] = spent
    times = f", as in {count_of(len(again), 'other start')}" if again else ""
    once = Way(
        "nothing, if the code or a package was changed since: this start saved it anew",
        "compiled anew once after each change",
    )
    off = Way(
        "another release of vLLM, or VLLM_USE_AOT_COMPILE=0, which leaves saving and loading "
        "out; torch's own cache of graphs stays",
        "compare the times of two starts: what it saves depends on the model",
    )
    finding = finding_of(
        "saved_not_loaded",
        "A compiled function that an earlier start saved was not loaded"
        f"{times}, and the model was compiled again: {reason[:160].rstrip('.')}.",
        numbers,
        [off, once] if again else [once, off],
        "a start that loads the function does not compile",
    )
    yield dataclasses.replace(finding, severity="medium" if again else "low")


def cache_folders(summary: RunSummary) -> list[str]:
    """The directories of the artefacts that a failure leads through, or that were loaded."""
    compiled = summary.compile
    loaded = [p.detail for p in compiled.parts if p.what == "aot"] if compiled else []
    paths = [
        summary.failure.artifact if summary.failure else None,
        *loaded,
        compiled.directory if compiled else None,
    ]
    found = [match[0] for path in paths if path and (match := _DIRECTORY.match(path))]
    return list(dict.fromkeys(found))[:2]


def other_key(facts: RunFacts) -> KeyChange | None:
    """How the key of the cache differs from that of the latest run with equal settings."""
    latest = _latest(facts)
    change = key_change(latest, facts.summary) if latest is not None else None
    if latest is None or change is None or not all(change.hashes):
        return None
    names = {row.name for row in _differing(latest, facts.summary)}
    return change if names <= {factor.variable for factor in change.factors} else None


def other_settings(facts: RunFacts) -> list[SettingRow]:
    """Settings that differ from those of the latest run, where its key was another one."""
    latest = _latest(facts)
    change = key_change(latest, facts.summary) if latest is not None else None
    if latest is None or change is None or not all(change.hashes):
        return []
    return _differing(latest, facts.summary)


def _latest(facts: RunFacts) -> RunSummary | None:
    """The latest other run of the same model whose key is known."""
    known = [
        other
        for other in facts.same_model
        if other.compile and (other.compile.hash or other.compile.aot_hash)
    ]
    return max(known, key=lambda run: run.time.started or 0.0, default=None)


def _differing(one: RunSummary, other: RunSummary) -> list[SettingRow]:
    differing, _ = compare_settings([one, other])
    return [row for row in differing if not _is_of_start(row.name)]


def is_root_kept(facts: RunFacts) -> bool:
    """Whether another run of this model loaded something from the same root of the cache."""
    own = _root(facts.summary)
    return own is not None and any(
        other.compile is not None
        and other.compile.cache in ("hit", "partial")
        and _root(other) == own
        for other in facts.same_model
    )


def _root(summary: RunSummary) -> str | None:
    where = summary.compile.directory if summary.compile is not None else None
    root, found, _ = (where or "").partition("/torch_compile_cache/")
    return root if found and "redacted" not in root else None


def _is_of_start(name: str) -> bool:
    return name == "kind of start" or name.endswith(" cache")


def key_advice(change: KeyChange) -> tuple[str, str]:
    """Setting and change for a key that differs although the settings are equal."""
    factor = next((f for f in change.factors if f.is_of_a_pod), None)
    if factor is None:
        return (
            "VLLM_LOGGING_LEVEL",
            "compare cache_key_factors.json of both directories; or VLLM_LOGGING_LEVEL=DEBUG "
            "for one start of each",
        )
    name = factor.variable or factor.name
    return (
        name,
        f"the same {name} in every start, or a release of vLLM that leaves it out of the key",
    )


CACHE_RULES = (
    Rule(
        "saved_not_loaded",
        "a compiled function (AOT) of an earlier start was found and not loaded",
        "the line of the failed load, or the recorder",
        saved_not_loaded,
        formula="none: the engine states the reason",
        margin="low, and `medium` when another start of the model could not load it either",
        source="vLLM `compilation/decorators.py`, `_try_load_aot_compiled_fn`",
        example="vLLM 0.26 and 0.32 on a CPU, every start: a first start compiled for 44 s, "
        "later ones for 12 s, with torch's own cache",
    ),
)
FAILURE_RULES = (
    Rule(
        "poisoned_cache",
        "a compiled function was loaded from a cache, and the error was raised in it",
        "the failure with its traceback, lines of the caches",
        poisoned_cache,
        formula="none: the directory is that of the artefact in the traceback, or that was "
        "loaded",
        margin="silent where nothing was loaded, and where memory ran out; `high` when another "
        "start failed in the same directory",
        source="vLLM `compilation/decorators.py`, `compilation/caching.py`; torch "
        "`_inductor/standalone_compile.py`",
        example="`AssertionError: Expected tensors only` in a loaded function, for 16 hours "
        "at every restart",
    ),
)
