"""The settings in which runs differ, and only these."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from warmup_insights.model.summary import RunSummary, Setting

_TRUE = frozenset({"true", "1", "yes", "on", "t", "y"})
_FALSE = frozenset({"false", "0", "no", "off", "f", "n"})


@dataclass(frozen=True)
class SettingRow:
    """A setting and its value in each run; None where the run does not state it."""

    name: str
    values: tuple[Setting, ...]


def compare_settings(
    summaries: Sequence[RunSummary],
) -> tuple[tuple[SettingRow, ...], tuple[SettingRow, ...]]:
    """Settings that differ, and settings that only some runs state.

    A setting differs when two runs state it and mean different values; `0.9` and
    `"0.90"`, `true` and `"1"` mean the same. Engine, version, model, device and ranks
    count as settings.
    """
    facts = [_facts(summary) for summary in summaries]
    names = list(dict.fromkeys(name for fact in facts for name in fact))
    differing, partly = [], []
    for name in names:
        values = tuple(fact.get(name) for fact in facts)
        stated = [value for value in values if value is not None]
        if not stated:
            continue
        if any(not _means_same(stated[0], value) for value in stated[1:]):
            differing.append(SettingRow(name, values))
        elif len(stated) < len(values):
            partly.append(SettingRow(name, values))
    return tuple(differing), tuple(partly)


def _facts(summary: RunSummary) -> dict[str, Setting]:
    identity = {
        "engine": summary.engine.name,
        "engine version": summary.engine.version,
        "model": summary.model,
        "device": summary.device.kind,
        "device name": summary.device.name,
        "ranks": summary.ranks,
    }
    # What is stated twice, once by the identity and once by a setting, is shown once.
    config = {k: v for k, v in summary.config.items() if k not in identity}
    return {**config, **identity}


def _means_same(first: Any, second: Any) -> bool:
    if first == second:
        return True
    (kind, value), (other, another) = _meaning(first), _meaning(second)
    if "boolean" in (kind, other) and "text" not in (kind, other):
        return value in (0, 1) and another in (0, 1) and value == another
    return (kind, value) == (other, another)


def _meaning(value: Any) -> tuple[str, Any]:
    if isinstance(value, bool):
        return ("boolean", value)
    if isinstance(value, int | float):
        return ("number", float(value))
    text = str(value).strip()
    try:
        return ("number", float(text))
    except ValueError:
        pass
    lowered = text.lower()
    if lowered in _TRUE or lowered in _FALSE:
        return ("boolean", lowered in _TRUE)
    return ("text", text)
