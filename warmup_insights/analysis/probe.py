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

    def yaml(self, port: int = 8000) -> str:
        """The part of a container's specification."""
        return (
            f"# starts seen: {self.num_runs}, median {self.median_s:.0f} s, longest "
            f"{self.longest_s:.0f} s; times {SAFETY:g}, image pull not counted\n"
            "startupProbe:\n"
            "  httpGet:\n"
            "    path: /health\n"
            f"    port: {port}\n"
            f"  periodSeconds: {self.period_s}\n"
            f"  failureThreshold: {self.failure_threshold}\n"
        )


def startup_probe(summaries: Iterable[RunSummary]) -> StartupProbe | None:
    """A probe that lets the longest start pass, half as long again; None without any.

    Runs that never became ready do not count.
    """
    known = [BY_NAME["ready_s"].trusted(summary) for summary in summaries]
    seconds = [value for value in known if value is not None and value > 0]
    if not seconds:
        return None
    longest = max(seconds)
    period = PERIOD_S if longest * SAFETY >= PERIOD_S else max(1, math.ceil(longest))
    threshold = max(3, math.ceil(longest * SAFETY / period))
    return StartupProbe(len(seconds), median(seconds), longest, period, threshold)
