"""Which earlier runs a run may be judged by: like with like."""

from __future__ import annotations

from collections.abc import Iterable

from warmup_insights.model.summary import RunSummary

RECIPES = "PT_HPU_RECIPE_CACHE_CONFIG"


def kind_of_start(summary: RunSummary) -> str | None:
    """What the start could build on; None where the run does not show it."""
    return summary.start.words


def is_same_model(one: RunSummary, other: RunSummary) -> bool:
    """The same model, quantisation, engine version and device."""
    keys = [_key(summary) for summary in (one, other)]
    return keys[0] is not None and keys[0] == keys[1]


def alike(summary: RunSummary, history: Iterable[RunSummary]) -> list[RunSummary]:
    """Earlier runs of the same model, device and version whose start was of the same
    kind, or as unknown."""
    kind = kind_of_start(summary)
    return [
        other
        for other in history
        if is_same_model(summary, other) and kind_of_start(other) == kind
    ]


def _key(summary: RunSummary) -> tuple[object, ...] | None:
    """What has to be equal; None where the name of the model is unknown."""
    model = summary.config.get("model", summary.model)
    if not isinstance(model, str) or "redacted" in model.lower():
        return None
    engine, device = summary.engine, summary.device
    return (
        model, summary.config.get("quantization"), summary.config.get("dtype"),
        engine.name, engine.version, device.kind, device.name, summary.ranks,
    )  # fmt: skip
