"""The tabs of the run page: when a summary has something for one, and what shows it."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

from dashboard.run_tabs import advice, buckets, graphs, overview, source, timeline
from dashboard.widgets import View
from warmup_insights.model.summary import RunSummary


class Tab(NamedTuple):
    """A tab, there for the runs whose summary has content for it."""

    title: str
    has_content: Callable[[RunSummary], bool]
    show: Callable[[View], None]


def _always(summary: RunSummary) -> bool:
    """That nothing is known, or that there is nothing to advise, is a result, too."""
    return True


TABS = (
    Tab("Failure", advice.has_failure, advice.show_failure),
    Tab("Overview", _always, overview.show),
    Tab("Advice", _always, advice.show),
    Tab("Timeline", lambda run: bool(run.time.phases), timeline.show),
    Tab("Buckets", buckets.has_content, buckets.show),
    Tab("Graph memory", graphs.has_memory, graphs.show_memory),
    Tab("Capture", graphs.has_captures, graphs.show_captures),
    Tab(
        "Sampler and defragmenter",
        lambda run: bool(run.sampler or run.defrag),
        timeline.show_stages,
    ),
    Tab("While serving", buckets.has_late_work, buckets.show_late_work),
    Tab("Graphs by size", graphs.has_sizes, graphs.show_sizes),
    Tab("Benchmarks", lambda run: bool(run.benchmarks), source.show_benchmarks),
    Tab("Config", _always, source.show_config),
    Tab("Source", lambda run: run.is_log, source.show_lines),
)
