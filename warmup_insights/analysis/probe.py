"""How long a start takes, over the runs seen, and the Kubernetes probe that allows it."""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass
from statistics import median

from warmup_insights.model.figures import BY_NAME
from warmup_insights.model.summary import RunSummary

PERIOD_S = 10
SAFETY = 1.5
LEAST_S, LEAST_GAUDI_S = 600, 1800
"""Patience for a first start: weights may have to come, and every recipe be compiled."""


@dataclass(frozen=True)
class StartupProbe:
    """Values for a `startupProbe`, in seconds, and the starts that they rest on."""

    num_runs: int
    median_s: float
    longest_s: float
    period_s: int
    failure_threshold: int

    @property
    def allowed_s(self) -> int:
        """How long a container may take before it is restarted."""
        return self.period_s * self.failure_threshold

    def yaml(self) -> str:
        """The part of a container's specification."""
        return (
            f"# starts seen: {self.num_runs}, median {self.median_s:.0f} s, longest "
            f"{self.longest_s:.0f} s; times {SAFETY:g} and {LEAST_S} s at least, image pull "
            "not counted\n"
            "startupProbe:\n"
            "  httpGet:\n"
            "    path: /health\n"
            "    port: 8000\n"
            f"  periodSeconds: {self.period_s}\n"
            f"  failureThreshold: {self.failure_threshold}\n"
        )


def startup_probe(
    summaries: Iterable[RunSummary], *, is_gaudi: bool = False
) -> StartupProbe | None:
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
    allowed = max(longest * SAFETY, LEAST_GAUDI_S if is_gaudi else LEAST_S)
    threshold = math.ceil(allowed / PERIOD_S)
    return StartupProbe(len(seconds), median(seconds), longest, PERIOD_S, threshold)


def _container_s(summary: RunSummary) -> float | None:
    """From the start of the container, as far as that is known, to ready."""
    ready, before, whole = (
        BY_NAME[name].trusted(summary)
        for name in ("ready_s", "before_first_line_s", "pod_ready_s")
    )
    if ready is None:
        return whole
    return max(ready + (before or 0.0), whole or 0.0)
