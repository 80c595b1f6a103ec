"""What may be judged between two runs, and why the rest may not."""

from __future__ import annotations

from collections.abc import Iterator

from warmup_insights.model.figures import FIGURES, Figure, contradictory
from warmup_insights.model.summary import PHASES, RunSummary

START_GROUPS = ("time", "phases")
"""Groups of figures that depend on what a start could build on."""
CONTRADICTORY = "the evidence for it contradicts itself"


class Comparability:
    """Which figures of two runs can be judged against each other.

    Times and sizes depend on the device as much as on the settings, so they are only
    judged on one kind of device and between starts of one kind, and figures of one rank
    only at one number of ranks.
    Nothing is judged between two models or two kinds of device: `subject_reason` is how
    those differ, `device_reason` how the devices do and `start_reason` the kinds of
    start, None if they do not; `notes` are sentences for a person.
    """

    def __init__(self, old: RunSummary, new: RunSummary) -> None:
        self.subject_reason = _model_reason(old, new) or _kind_reason(old, new)
        self.device_reason = _device_reason(old, new)
        self._rank_reason = _rank_reason(old, new)
        self.start_reason = _start_reason(old, new)
        self._log_reason = _engine_reason(old, new)
        self.bucket_reasons = {
            phase: _dimension_reason(old, new, phase) for phase in PHASES
        }
        self._contradictory = contradictory(old) | contradictory(new)
        self.notes = tuple(self._sentences())

    def allows(self, figure: Figure) -> bool:
        """Whether a better or worse of this figure would mean something."""
        return self.reason(figure) is None

    def reason(self, figure: Figure) -> str | None:
        """Why the figure cannot be judged; None when it can."""
        if figure.key in self._contradictory:
            return CONTRADICTORY
        if self.subject_reason is not None:
            return self.subject_reason
        if figure.per_device and self.device_reason is not None:
            return self.device_reason
        if figure.per_rank and self._rank_reason is not None:
            return self._rank_reason
        if figure.group in START_GROUPS:
            return self.start_reason
        if figure.name.endswith("captured_reported"):
            return self._log_reason
        return None

    @property
    def times_are_comparable(self) -> bool:
        """Whether durations were taken on one kind of device."""
        return self.device_reason is None

    def _sentences(self) -> Iterator[str]:
        yield from _contradiction_note(self._contradictory)
        if self.subject_reason is not None:
            yield f"No figure is judged better or worse: {self.subject_reason}."
        elif self.device_reason is not None:
            yield f"Times and sizes are not judged: {self.device_reason}."
        if self._rank_reason is not None:
            yield f"Sizes per rank are not judged: {self._rank_reason}."
        if self.start_reason is not None:
            yield f"Times are not judged: {self.start_reason}."
        if self._log_reason is not None:
            yield f"Logged capture counts are not judged: {self._log_reason}."
        for phase, reason in self.bucket_reasons.items():
            if reason is not None:
                yield f"The {phase} bucket lists are not compared: {reason}."


def _model_reason(old: RunSummary, new: RunSummary) -> str | None:
    """How the models differ; None where they do not or one is unknown. The folder or
    the owner of a model is no difference."""
    names = [(run.model or "").rstrip("/").rsplit("/", 1)[-1] for run in (old, new)]
    if not all(names) or names[0].casefold() == names[1].casefold():
        return None
    return f"the models differ ({names[0]}, {names[1]})"


def _kind_reason(old: RunSummary, new: RunSummary) -> str | None:
    kinds = (old.device.kind, new.device.kind)
    if not all(kinds) or kinds[0] == kinds[1]:
        return None
    if old.synthetic != new.synthetic and "simulated" in kinds:
        return "one run is simulated and the other is not"
    return f"the kinds of device differ ({kinds[0]}, {kinds[1]})"


def _device_reason(old: RunSummary, new: RunSummary) -> str | None:
    if old.synthetic != new.synthetic:
        return "one run is simulated and the other is not"
    first, second = old.device, new.device
    for one, other in ((first.kind, second.kind), (first.name, second.name)):
        if one and other and one != other:
            return f"the devices differ ({one}, {other})"
    engines = (old.engine.name, new.engine.name)
    if "reference" in engines and engines[0] != engines[1] and all(engines):
        return f"the engines differ ({engines[0]}, {engines[1]})"
    return None


def _rank_reason(old: RunSummary, new: RunSummary) -> str | None:
    if old.ranks == new.ranks or None in (old.ranks, new.ranks):
        return None
    return f"the runs have {old.ranks} and {new.ranks} ranks"


def _start_reason(old: RunSummary, new: RunSummary) -> str | None:
    first, second = old.start.words, new.start.words
    if first and second and first != second:
        return f"the starts are of different kinds ({first}; {second})"
    return None


def _engine_reason(old: RunSummary, new: RunSummary) -> str | None:
    first, second = old.engine.name, new.engine.name
    if first and second and first != second:
        return f"{first} and {second} count different things as captured"
    return None


def _dimension_reason(old: RunSummary, new: RunSummary, phase: str) -> str | None:
    first, second = old.phase(phase).buckets, new.phase(phase).buckets
    if first and second and len(first[0]) != len(second[0]):
        return f"one has {len(first[0])} dimensions and the other {len(second[0])}"
    return None


def _contradiction_note(names: frozenset[str]) -> Iterator[str]:
    titles = [figure.title for figure in FIGURES if figure.key in names]
    titles += sorted(n.partition(":")[2] for n in names if n.startswith("phase:"))
    if titles:
        yield f"Not judged, since {CONTRADICTORY}: {', '.join(titles)}."
