"""What every tab of the run page gets: the run, and the frames for its figures and tables."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import pandas as pd

from dashboard import shown, widgets
from dashboard.charts.base import Figure
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

    def chart(
        self, figure: Figure, data: pd.DataFrame, *, key: str, title: str, hint: str,
        selectable: bool = False,
    ) -> Any:  # fmt: skip
        """A figure of this run in its frame; the selection of a selectable one."""
        return widgets.chart(
            figure, data, key=self.key(key), title=title, hint=hint,
            simulated=self.simulated, selectable=selectable,
        )  # fmt: skip

    def table(
        self, rows: pd.DataFrame, *, key: str, title: str, hint: str,
        columns: Mapping[str, Any] | None = None,
    ) -> None:  # fmt: skip
        """A table of this run in its frame."""
        widgets.table(
            rows, key=self.key(key), title=title, hint=hint, columns=columns,
            simulated=self.simulated,
        )  # fmt: skip
