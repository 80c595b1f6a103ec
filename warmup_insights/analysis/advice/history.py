"""Which earlier runs a run may be judged by: like with like."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Literal

from warmup_insights.model.summary import RunSummary

Kind = Literal["cold", "warm", "skipped"]
RECIPES = "PT_HPU_RECIPE_CACHE_CONFIG"


def kind_of_start(summary: RunSummary) -> Kind | None:
    """Whether a start compiled everything; None where the run does not show it.

    `warm`: at least a part came from a compile cache. An HPU start with a recipe cache
    on disk prints nothing of what it found there.
    """
    if summary.status == "skipped":
        return "skipped"
    if summary.compile is not None and summary.compile.cache is not None:
        return "cold" if summary.compile.cache == "miss" else "warm"
    path, _, rest = str(summary.config.get(RECIPES, "")).partition(",")
    is_deleted = rest.strip().lower().startswith(("true", "1"))
    return None if path.strip() and not is_deleted else "cold"


def is_same_model(one: RunSummary, other: RunSummary) -> bool:
    """The same model, quantisation, engine version and device."""
    keys = [_key(summary) for summary in (one, other)]
    return keys[0] is not None and keys[0] == keys[1]


def alike(summary: RunSummary, history: Iterable[RunSummary]) -> list[RunSummary]:
    """Earlier runs of the same model, device and version that started the same way."""
    kind = kind_of_start(summary)
    return [
        other
        for other in history
        if kind is not None
        and is_same_model(summary, other)
        and kind_of_start(other) == kind
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
