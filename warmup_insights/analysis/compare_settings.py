"""The settings in which runs differ, and only these."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

Summary = Mapping[str, Any]

_TRUE = frozenset({"true", "1", "yes", "on", "t", "y"})
_FALSE = frozenset({"false", "0", "no", "off", "f", "n"})


@dataclass(frozen=True)
class SettingRow:
    """A setting and its value in each run; None where the run does not state it."""

    name: str
    values: tuple[Any, ...]


def compare_settings(
    summaries: Sequence[Summary],
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


def _facts(summary: Summary) -> dict[str, Any]:
    engine, device = summary.get("engine") or {}, summary.get("device") or {}
    identity = {
        "engine": engine.get("name"),
        "engine version": engine.get("version"),
        "model": summary.get("model"),
        "device": device.get("kind"),
        "device name": device.get("name"),
        "ranks": summary.get("ranks"),
    }
    config = summary.get("config") or {}
    # What is said twice, once by the identity and once by a setting, is shown once.
    return {**{k: v for k, v in config.items() if k not in identity}, **identity}


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
