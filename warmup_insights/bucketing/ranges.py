"""Ranges of a dimension: the user's overrides of them, and what a strategy makes of them.

Overrides: names, checks, which one wins, and which change nothing.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import NamedTuple

from warmup_insights.bucketing.base import PHASES, Phase
from warmup_insights.bucketing.settings import BucketingSettings
from warmup_insights.errors import SettingError

PARAMETERS = ("min", "step", "max", "pad_max", "pad_percent")
"""Of a range, as the ends of the names of their variables."""
RANGE_NAMES: dict[tuple[str, int], tuple[str, ...]] = {
    ("prompt", 3): ("BS", "QUERY", "CTX"),
    ("decode", 3): ("BS", "QUERY", "BLOCK"),
    ("prompt", 2): ("BS", "SEQ"),
    ("decode", 2): ("BS", "BLOCK"),
}
"""Phase and number of dimensions to their names in these variables."""
MAX_RANGE_VALUES = 1_000_000
"""A range with more values than this is refused: no engine could warm it up."""


def variable_name(phase: str, dimension: str, parameter: str) -> str:
    """The environment variable of one parameter, as `VLLM_PROMPT_BS_BUCKET_MIN`."""
    return f"{range_name(phase, dimension)}_{parameter.upper()}"


def range_name(phase: str, dimension: str) -> str:
    """What the variables of one dimension have in common, as `VLLM_PROMPT_BS_BUCKET`."""
    return f"VLLM_{phase}_{dimension}_BUCKET".upper()


def resolve_parameters(
    overrides: Mapping[str, int], phase: Phase, dimension: str, *defaults: int
) -> tuple[int, ...]:
    """The parameters of one dimension: the override where there is one, else the default.

    Defaults are in the order of `PARAMETERS`, as many as the strategy has. The query length also accepts the older name with SEQ, which loses against QUERY.
    Source: `linear.py` and `padding_aware.py`, `read_bucket_settings`, of vllm-gaudi.
    """
    values = []
    for parameter, default in zip(PARAMETERS, defaults, strict=False):
        value = overrides.get(variable_name(phase, dimension, parameter))
        if value is None and dimension == "query":
            value = overrides.get(variable_name(phase, "seq", parameter))
        values.append(default if value is None else value)
    return tuple(values)


def check_range(parameters: tuple[int, ...], name: str) -> None:
    """Raise SettingError where min, step and max make no range.

    `name` is what the variables of this range have in common; the message names
    `<name>_MIN=...` and so on, also where the value is a default.
    """
    smallest, step, largest = parameters[:3]
    if step < 1:
        raise SettingError(f"{name}_STEP={step} is too small; it must be at least 1")
    if smallest < 0:
        raise SettingError(f"{name}_MIN={smallest} is negative; use 0 or more")
    if smallest > largest:
        raise SettingError(
            f"{name}_MIN={smallest} is above {name}_MAX={largest}; lower the minimum or "
            "raise the maximum (unset, both follow from the engine's limits: "
            "max_num_seqs, max_num_batched_tokens, max_model_len, block_size)"
        )
    if (largest - smallest) // step >= MAX_RANGE_VALUES:
        raise SettingError(
            f"{name}_STEP={step} between {name}_MIN={smallest} and "
            f"{name}_MAX={largest} gives more than {MAX_RANGE_VALUES} values; "
            "raise the step"
        )


_READ: dict[str, tuple[str, ...]] = {
    "lin": PARAMETERS[:3],
    "pad": PARAMETERS,
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


class PhaseParameters(NamedTuple):
    """The range parameters of the three dimensions of one phase."""

    batch_size: tuple[int, ...]
    query_len: tuple[int, ...]
    num_blocks: tuple[int, ...]
    notes: tuple[str, ...] = ()


@dataclass(frozen=True)
class Strategy:
    """A way to choose buckets, as three pure functions.

    `prompt` and `decode` derive the range parameters from the settings; `values`
    expands the parameters of one dimension, whose variables begin with a name, to a
    sorted list and raises SettingError where they cannot be used.
    """

    name: str
    title: str
    parameter_names: tuple[str, ...]
    prompt: Callable[[BucketingSettings], PhaseParameters]
    decode: Callable[[BucketingSettings], PhaseParameters]
    values: Callable[[BucketingSettings, tuple[int, ...], str], list[int]]


def fit_decode_blocks(
    settings: BucketingSettings,
    parameters: tuple[int, ...],
    *,
    ends_at_cache: bool,
    most: int | None = None,
) -> tuple[tuple[int, ...], tuple[str, ...]]:
    """Decode block parameters that the cache can hold, and what was changed.

    The maximum ends at the cache if it is to, and a minimum above `most`, else above
    the maximum, moves one step below it.
    Source: `linear.py` and `padding_aware.py`, `get_decode_cfgs`, of vllm-gaudi.
    """
    cache_blocks = settings.num_kv_blocks
    smallest, step, largest, *rest = parameters
    notes = []
    if ends_at_cache and largest > cache_blocks:
        notes.append(
            f"VLLM_DECODE_BLOCK_BUCKET_MAX={largest} is lowered to the "
            f"{cache_blocks} blocks of the KV cache."
        )
        largest = cache_blocks
    bound = largest if most is None else most
    if smallest > bound:
        moved = max(1, bound - step)
        notes.append(
            f"VLLM_DECODE_BLOCK_BUCKET_MIN={smallest} is above {bound} blocks and "
            f"becomes {moved}."
        )
        smallest = moved
    return (smallest, step, largest, *rest), tuple(notes)
