"""Sentences about settings that were given but change nothing, or soon will not."""

from __future__ import annotations

from warmup_insights.bucketing.base import PHASES
from warmup_insights.bucketing.overrides import variable_name
from warmup_insights.bucketing.settings import BucketingSettings

_READ: dict[str, tuple[str, ...]] = {
    "lin": ("min", "step", "max"),
    "pad": ("min", "step", "max", "pad_max", "pad_percent"),
}


def override_notes(settings: BucketingSettings) -> tuple[str, ...]:
    """One sentence for each override without effect, and for each deprecated one."""
    if not settings.overrides:
        return ()
    read = _read_names(settings)
    source = (
        "a bucket file" if settings.bucket_file else f"strategy {settings.strategy}"
    )
    is_renamed = not settings.rules.early
    notes = []
    for name, value in settings.overrides.items():
        replacement = name.replace("_SEQ_", "_QUERY_") if is_renamed else name
        if name not in read or (
            replacement != name and replacement in settings.overrides
        ):
            notes.append(f"{name}={value} has no effect with {source}.")
        elif replacement != name:
            notes.append(f"{name}={value} is deprecated; use {replacement} instead.")
    return tuple(notes)


def _read_names(settings: BucketingSettings) -> set[str]:
    """The overrides that the engine reads with these settings."""
    rules = settings.rules
    # The model runner takes the number of sequences of one prefill from it.
    names = set() if rules.early else {"VLLM_PROMPT_BS_BUCKET_MAX"}
    if settings.bucket_file is not None:
        return names
    if settings.is_long_context and rules.long_context == "edge below its override":
        names.add("VLLM_PROMPT_CTX_BUCKET_MAX")
    query_min = "VLLM_PROMPT_QUERY_BUCKET_MIN"
    if rules.keeps_one and settings.overrides.get(query_min) == 1:
        names.add(query_min)
    dimensions = {
        "prompt": ("bs", "seq") if rules.early else ("bs", "query", "seq", "ctx"),
        "decode": ("bs", "block"),
    }
    names.update(
        variable_name(phase, dimension, parameter)
        for phase in PHASES
        for dimension in dimensions[phase]
        for parameter in _READ.get(settings.strategy, ())
    )
    return names
