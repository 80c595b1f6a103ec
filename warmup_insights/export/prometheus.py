"""A run as metrics in the text format of Prometheus, such as for a node exporter's file.

Names follow its conventions: base units in the name, one metric for a figure with the
run, engine and device as labels (prometheus.io, "Metric and label naming").
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from warmup_insights.analysis.sentences import serving_words
from warmup_insights.model.figures import Figure, all_figures, phase_figures
from warmup_insights.model.summary import RunSummary

_Sample = tuple[dict[str, str], float]
_UNITS = {"s": "seconds", "bytes": "bytes", "percent": "ratio"}


def prometheus_text(summaries: Sequence[RunSummary]) -> str:
    """Every trusted figure of these runs as a gauge; what is unknown has no sample."""
    lines: list[str] = []
    for figure in all_figures(summaries):
        lines += _metric(metric_name(figure), figure.title, _samples(figure, summaries))
    phases = [
        sample
        for figure in phase_figures(summaries)
        for sample in _samples(figure, summaries, phase=figure.name)
    ]
    lines += _metric("vllm_startup_phase_seconds", "time of a stage", phases)
    states = [({**_labels(run), "status": run.status}, 1.0) for run in summaries]
    lines += _metric("vllm_startup_status", "1 for the status", states)
    ends = [
        ({**_labels(run), "how": how}, 1.0)
        for run in summaries
        if (how := serving_words(run)) is not None
    ]
    lines += _metric("vllm_startup_serving_end", "1 for how serving ended", ends)
    return "".join(f"{line}\n" for line in lines)


def metric_name(figure: Figure) -> str:
    """The metric of a figure: its name without its unit, then the unit in full."""
    name = figure.name
    for ending in ("_percent", "_bytes", "_s"):
        name = name.removesuffix(ending)
    unit = _UNITS.get(figure.unit)
    return f"vllm_startup_{name.lower()}" + (f"_{unit}" if unit else "")


def _samples(
    figure: Figure, summaries: Sequence[RunSummary], **more: str
) -> list[_Sample]:
    """The labels and the trusted value of each run that has one."""
    scale = 100.0 if figure.unit == "percent" else 1.0
    return [
        ({**_labels(summary), **more}, value / scale)
        for summary in summaries
        if (value := figure.trusted(summary)) is not None
    ]


def _metric(name: str, help_text: str, samples: Sequence[_Sample]) -> Iterator[str]:
    if not samples:
        return
    yield f"# HELP {name} {help_text[0].upper()}{help_text[1:]}."
    yield f"# TYPE {name} gauge"
    for labels, value in samples:
        text = ",".join(f'{key}="{_escaped(text)}"' for key, text in labels.items())
        # The shortest text that reads as this value, of whole ones without a point.
        number = float(value)
        shown = f"{number:.17g}" if number.is_integer() else repr(number)
        yield f"{name}{{{text}}} {shown}"


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
