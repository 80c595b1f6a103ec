"""Buckets that a change leaves out, and the seconds that this saves."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from statistics import fmean, median

from warmup_insights.analysis.advice.finding import Value
from warmup_insights.model.summary import BucketRow


@dataclass(frozen=True)
class Drop:
    """A change that leaves buckets out: what it saves, and what it costs."""

    change: str
    words: str
    rows: tuple[BucketRow, ...]
    dimension: int
    changes: Mapping[str, Value]
    price: str

    def gain(
        self,
        left: Sequence[BucketRow],
        *,
        is_full: bool = False,
        is_compiled: bool = True,
    ) -> tuple[float, float]:
        """Seconds: at the median of each value, and as measured; the smaller first.

        Where graphs found no room (`is_full`), those of other buckets may take the place
        of what is left out, so that no capture is sure to be saved. A spike counts as its
        neighbours took: another bucket compiles that recipe then. Where nothing is compiled
        for a shape (`is_compiled`), it was a disturbance, and the most counts it.
        """
        own = typical = 0.0
        for value in {row.bucket[self.dimension] for row in self.rows}:
            same = _without_spikes(
                row for row in left if row.bucket[self.dimension] == value
            )
            out = [row for row in self.rows if row.bucket[self.dimension] == value]
            typical += len(_without_spikes(out)) * typical_of(same)
            own += sum(_without_spikes(out) if is_compiled else times_of(out))
        least = min(own, typical)
        if is_full:
            least -= min(least, sum(_captures(self.rows)))
        return least, max(own, typical)


def times_of(rows: Iterable[BucketRow]) -> list[float]:
    """Seconds of the rows whose time is known."""
    return [row.duration_s for row in rows if row.duration_s is not None]


def _without_spikes(rows: Iterable[BucketRow]) -> list[float]:
    return [
        row.duration_s - (row.spike_s or 0.0)
        for row in rows
        if row.duration_s is not None
    ]


def _captures(rows: Iterable[BucketRow]) -> list[float]:
    return [row.capture.duration_s or 0.0 for row in rows if row.capture is not None]


def typical_of(times: Sequence[float]) -> float:
    """The median; where timestamps of whole seconds give nothing finer, the mean without the
    longest."""
    is_whole = all(seconds == int(seconds) for seconds in times)
    if not is_whole or len(times) == 1:
        return median(times)
    return fmean(sorted(times)[:-1])
