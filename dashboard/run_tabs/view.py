"""What every tab of the run page gets."""

from __future__ import annotations

from dataclasses import dataclass

from dashboard import shown
from warmup_insights.model.run import RunRecord
from warmup_insights.model.summary import RunSummary


@dataclass(frozen=True)
class View:
    """A run and how it is looked at."""

    run: RunRecord
    summary: RunSummary
    dark: bool

    @property
    def simulated(self) -> str | None:
        """What stands beside the figures; None for a real device."""
        return shown.provenance(self.summary)

    def key(self, name: str) -> str:
        """A key of a widget that is another one for another run."""
        return f"{self.run.run_id}-{name}"
