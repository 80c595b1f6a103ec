"""Figures of notes: checkpoint, tuned kernels, the profile run's shape, use of the cache."""

from __future__ import annotations

from typing import Any

from warmup_insights.analysis.summary.ranks import leading, rank_of
from warmup_insights.model.events import Bucket, Note
from warmup_insights.model.summary import AutotuneFacts, CheckpointFacts, UsageFacts


class StartFacts:
    """Collects the values of notes that the summary has fields for."""

    def __init__(self) -> None:
        self._checkpoints: dict[int, list[dict[str, Any]]] = {}
        self.autotune: AutotuneFacts | None = None
        self.usage: UsageFacts | None = None
        self.profile_shape: Bucket | None = None

    def add(self, event: Note) -> None:
        """Take a note, in the order of the run; those without values change nothing."""
        values = event.values
        if event.topic == "checkpoint" and isinstance(values.get("size_bytes"), int):
            self._checkpoints.setdefault(rank_of(event), []).append(values)
        elif event.topic == "autotune" and "path" in values:
            self.autotune = self.autotune or AutotuneFacts(
                new=int(values["new"]),
                previous=int(values["previous"]),
                path=str(values["path"]),
            )
        elif event.topic == "usage" and "usage_percent" in values:
            self.usage = UsageFacts(
                num_lines=int(values["num_lines"]),
                usage_percent=float(values["usage_percent"]),
                running=int(values["running"]),
                waiting=int(values["waiting"]),
            )
        elif event.topic == "profile_run" and values.get("shape"):
            self.profile_shape = tuple(values["shape"])

    def checkpoint(self) -> CheckpointFacts | None:
        """The checkpoints that the leading rank states; memory as before the first.

        One of the same size again is the same files: a draft model that is part of them.
        """
        read = leading(self._checkpoints)
        if not read:
            return None
        return CheckpointFacts(
            size_bytes=sum({values["size_bytes"] for values in read}),
            available_bytes=read[0].get("available_bytes"),
            filesystem=read[0].get("filesystem"),
        )
