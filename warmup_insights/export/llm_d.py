"""Runs as the start-up section of a report of llm-d-benchmark.

Source: llm-d-benchmark `analysis/benchmark_report/schema_v0_2.py`: `PodStartupTimes` and
`Statistics` allow no other keys than these, `Observability` does, so that the phases have
a key of their own, `engine_startup`. The text is JSON, and so YAML as well. A figure that
was not measured is left out.
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from statistics import fmean, pstdev, quantiles
from typing import Any

from warmup_insights.model.figures import BY_NAME, contradictory
from warmup_insights.model.summary import RunSummary
from warmup_insights.units import isoformat

VERSION = "0.2"
_PERCENTILES = (25, 50, 75, 90, 95, 99)


def llm_d_report(summaries: Iterable[RunSummary]) -> str:
    """The section with every run."""
    runs = list(summaries)
    pods = [_pod(run) for run in runs]
    times = [pod["startup_seconds"] for pod in pods if "startup_seconds" in pod]
    startup: dict[str, Any] = {"pods": pods}
    if times:
        startup["aggregate"] = _statistics(times)
    observability = {
        "pod_startup_times": startup,
        "engine_startup": {"units": "s", "runs": [_engine(run) for run in runs]},
    }
    report = {"version": VERSION, "results": {"observability": observability}}
    return json.dumps(report, indent=2, ensure_ascii=False) + "\n"


def _name(run: RunSummary) -> str:
    pod = run.pod.pod if run.pod is not None else None
    return pod or run.label or run.run_id


def _pod(run: RunSummary) -> dict[str, Any]:
    """`PodStartupInfo`: from the creation of the pod until it is ready for traffic."""
    pod = run.pod
    created = pod.created_at if pod is not None else None
    ready = pod.ready_at if pod is not None else None
    is_timed = created is not None and ready is not None and ready >= created
    return _known(
        name=_name(run), model=run.model, node=pod.node if pod is not None else None,
        creation_timestamp=isoformat(created), ready_timestamp=isoformat(ready),
        startup_seconds=ready - created if is_timed and ready and created else None,
    )  # fmt: skip


def _engine(run: RunSummary) -> dict[str, Any]:
    """What the engine did until it was ready; the phases and what no line accounts for
    add up to `total_seconds`."""
    broken = contradictory(run)
    total = BY_NAME["wall_s"].trusted(run)
    phases = run.time.seconds_by_phase()
    is_whole = total is not None and not any(
        f"phase:{name}" in broken for name in phases
    )
    return _known(
        name=_name(run), run=run.run_id, model=run.model, engine=run.engine.name,
        version=run.engine.version, device=run.device.name or run.device.kind,
        start=run.start.words, status=run.status,
        synthetic=True if run.synthetic else None,
        ready_seconds=BY_NAME["ready_s"].trusted(run), total_seconds=total,
        phases=(phases or None) if is_whole else None,
        unlogged_seconds=BY_NAME["unlogged_s"].trusted(run) if is_whole else None,
        first_response_seconds=BY_NAME["first_response_s"].trusted(run),
    )  # fmt: skip


def _known(**values: Any) -> dict[str, Any]:
    """The keys whose value is known."""
    return {name: value for name, value in values.items() if value is not None}


def _statistics(values: list[float]) -> dict[str, Any]:
    """`Statistics` of the report."""
    # Of one value every percentile is that value.
    cuts = quantiles(values * (2 if len(values) == 1 else 1), n=100, method="inclusive")
    marks = {f"p{n}": cuts[n - 1] for n in _PERCENTILES}
    return {
        "units": "s", "mean": fmean(values), "stddev": pstdev(values),
        "min": min(values), **marks, "max": max(values),
    }  # fmt: skip
