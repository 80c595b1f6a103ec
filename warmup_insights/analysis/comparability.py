"""What may be judged between two runs, and why the rest may not."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from warmup_insights.analysis.figures import Figure

Summary = Mapping[str, Any]


class Comparability:
    """Which figures of two runs can be judged against each other.

    Times and sizes say as much about the device as about the settings, so they are only
    judged on one kind of device, and figures of one rank only at one number of ranks.
    `device_reason` says why the devices differ, None if they do not; `notes` are
    sentences for a person.
    """

    def __init__(self, old: Summary, new: Summary) -> None:
        self.device_reason = _device_reason(old, new)
        self._rank_reason = _rank_reason(old, new)
        self._log_reason = _engine_reason(old, new)
        self.bucket_reasons = {
            phase: _dimension_reason(old, new, phase) for phase in ("prompt", "decode")
        }
        self.notes = tuple(self._sentences())

    def allows(self, figure: Figure) -> bool:
        """Whether a better or worse of this figure would mean something."""
        return self.reason(figure) is None

    def reason(self, figure: Figure) -> str | None:
        """Why the figure cannot be judged; None when it can."""
        if figure.per_device and self.device_reason is not None:
            return self.device_reason
        if figure.per_rank and self._rank_reason is not None:
            return self._rank_reason
        if figure.name.endswith("captured_reported"):
            return self._log_reason
        return None

    @property
    def times_are_comparable(self) -> bool:
        """Whether durations were taken on one kind of device."""
        return self.device_reason is None

    def _sentences(self) -> Iterator[str]:
        if self.device_reason is not None:
            yield f"Times and sizes are not judged: {self.device_reason}."
        if self._rank_reason is not None:
            yield f"Sizes per rank are not judged: {self._rank_reason}."
        if self._log_reason is not None:
            yield f"Logged capture counts are not judged: {self._log_reason}."
        for phase, reason in self.bucket_reasons.items():
            if reason is not None:
                yield f"The {phase} bucket lists are not compared: {reason}."


def _device_reason(old: Summary, new: Summary) -> str | None:
    if bool(old.get("synthetic")) != bool(new.get("synthetic")):
        return "one run is simulated and the other is not"
    for key, what in (("kind", "devices"), ("name", "devices")):
        first, second = _device(old, key), _device(new, key)
        if first and second and first != second:
            return f"the {what} differ ({first}, {second})"
    engines = [_engine(summary) for summary in (old, new)]
    if "reference" in engines and engines[0] != engines[1] and all(engines):
        return f"the engines differ ({engines[0]}, {engines[1]})"
    return None


def _rank_reason(old: Summary, new: Summary) -> str | None:
    first, second = old.get("ranks") or 1, new.get("ranks") or 1
    return f"the runs have {first} and {second} ranks" if first != second else None


def _engine_reason(old: Summary, new: Summary) -> str | None:
    first, second = _engine(old), _engine(new)
    if first and second and first != second:
        return f"{first} and {second} count different things as captured"
    return None


def _dimension_reason(old: Summary, new: Summary, phase: str) -> str | None:
    first, second = _dimensions(old, phase), _dimensions(new, phase)
    if first is not None and second is not None and first != second:
        return f"one has {first} dimensions and the other {second}"
    return None


def _dimensions(summary: Summary, phase: str) -> int | None:
    buckets = ((summary.get("buckets") or {}).get(phase) or {}).get("buckets") or ()
    return len(buckets[0]) if buckets else None


def _device(summary: Summary, key: str) -> Any:
    return (summary.get("device") or {}).get(key)


def _engine(summary: Summary) -> Any:
    return (summary.get("engine") or {}).get("name")
