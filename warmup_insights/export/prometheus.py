"""A run as metrics in the text format of Prometheus, such as for a node exporter's file.

Names follow its conventions: base units in the name, one metric for a figure with the
run, engine and device as labels (prometheus.io, "Metric and label naming").
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from warmup_insights.model.figures import (
    Figure,
    all_figures,
    phase_figures,
)
from warmup_insights.model.summary import RunSummary

_UNITS = {"s": "seconds", "bytes": "bytes", "percent": "ratio"}


def prometheus_text(summaries: Sequence[RunSummary]) -> str:
    """Every trusted figure of these runs as a gauge; what is unknown has no sample."""
    lines: list[str] = []
    for figure in all_figures(summaries):
        samples = [
            (summary, "", value)
            for summary in summaries
            if (value := _trusted(figure, summary)) is not None
        ]
        lines += _metric(metric_name(figure), figure.title, figure, samples)
    phases = [
        (summary, figure.name, value)
        for figure in phase_figures(summaries)
        for summary in summaries
        if (value := _trusted(figure, summary)) is not None
    ]
    lines += _metric("vllm_startup_phase_seconds", "time of a stage", None, phases)
    states = [(summary, summary.status, 1.0) for summary in summaries]
    lines += _metric("vllm_startup_status", "1 for the status", None, states, "status")
    return "".join(f"{line}\n" for line in lines)


def metric_name(figure: Figure) -> str:
    """The metric of a figure: its name without its unit, then the unit in full."""
    name = figure.name
    for ending in ("_percent", "_bytes", "_s"):
        name = name.removesuffix(ending)
    unit = _UNITS.get(figure.unit)
    return f"vllm_startup_{name.lower()}" + (f"_{unit}" if unit else "")


def _trusted(figure: Figure, summary: RunSummary) -> float | None:
    value = figure.trusted(summary)
    if value is None or figure.unit != "percent":
        return value
    return value / 100.0


def _metric(
    name: str,
    help_text: str,
    figure: Figure | None,
    samples: Sequence[tuple[RunSummary, str, float]],
    label: str = "phase",
) -> Iterator[str]:
    if not samples:
        return
    yield f"# HELP {name} {help_text[0].upper()}{help_text[1:]}."
    yield f"# TYPE {name} gauge"
    for summary, value_of_label, value in samples:
        labels = _labels(summary)
        if figure is None:
            labels[label] = value_of_label
        text = ",".join(f'{key}="{_escaped(text)}"' for key, text in labels.items())
        yield f"{name}{{{text}}} {value:.17g}"


def _labels(summary: RunSummary) -> dict[str, str]:
    return {
        "run": summary.run_id,
        "label": summary.label or "",
        "engine": summary.engine.name or "",
        "engine_version": summary.engine.version or "",
        "model": summary.model or "",
        "device": summary.device.kind or "",
        "synthetic": "true" if summary.synthetic else "false",
    }


def _escaped(text: str) -> str:
    return text.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")
