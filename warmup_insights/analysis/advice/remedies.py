"""What the text of an error means, and what removes it: the one place that decides it.

A text that a row of the tables `known_*.py` matches has its meaning and its ways out, with
the remedy that the text states besides. Any other text has what it states of itself
(`stated.py`): a remedy, a refusal, a requirement, a value. Of both, what the run has already
is no way out, and what it has for a setting that a way names stands beside it.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import replace

from warmup_insights.analysis.advice import (
    known_devices,
    known_files,
    known_ranks,
    known_settings,
)
from warmup_insights.analysis.advice.change import Value, Way
from warmup_insights.analysis.advice.features import (
    V2_RUNNER,
    is_on,
    needs_v2_runner,
    value_of,
)
from warmup_insights.analysis.advice.known_texts import (
    AS_STATED,
    EAGER,
    KnownError,
    Statement,
)
from warmup_insights.analysis.advice.stated import (
    missing_remedy,
    named_options,
    present,
    refuses_feature,
    statement,
)

KNOWN: tuple[KnownError, ...] = (
    *known_settings.ROWS, *known_devices.ROWS, *known_files.ROWS, *known_ranks.ROWS,
)  # fmt: skip
"""Errors whose text names their cause: texts of vLLM, torch, CUDA, NCCL, Ray, the Hugging
Face libraries, Triton and the Gaudi bridge. The first row that matches counts, so a narrow
text stands before a wide one."""
_BEFORE_MODEL = ("start_workers", "init_worker", "distributed_init")
"""Stages in which nothing is compiled or captured yet."""
_OF_MODELS = ("vllm/model_executor/", "vllm/models/")
"""Folders of the code of models; the second one since vLLM 0.22."""
_LEFT_OUT = re.compile(r"no --([a-z][a-z\d-]{2,60})(?=$|[,;])")
"""A way that leaves an option out, and nothing else."""
_FEWER = re.compile(
    r"(?=a smaller --|--[a-z-]{2,60}-size of at most )(?:a smaller )?"
    r"--([a-z-]{2,60}-size)(?![\w-])"
)
"""A way that needs fewer of what a setting counts."""


def known_error(message: str) -> Statement | None:
    """What the first row that an error's text has states of it."""
    found = (known.statement(message) for known in KNOWN)
    return next((statement for statement in found if statement), None)


def is_of_models_code(message: str, module: str) -> bool:
    """Whether an error is an assertion of the code of models, which is about no setting."""
    is_of_settings = module.endswith("/models/config.py")
    is_models = module.startswith(_OF_MODELS) and not is_of_settings
    return is_models and message.startswith("AssertionError")


def _is_about_no_setting(message: str, module: str) -> bool:
    """Whether an assertion of the code of models names no option, and no feature that it
    refuses or has a remedy for (vLLM `model_executor/models`: prefix caching with states)."""
    if not is_of_models_code(message, module) or named_options(message):
        return False
    return not refuses_feature(message)


def statement_of(
    message: str, stage: str, config: Mapping[str, Value], module: str = ""
) -> Statement | None:
    """What the text of an error, raised in a module, explains of itself, in a stage; None where
    it is nothing."""
    known = known_error(message)
    if known is not None:
        more = missing_remedy(message, [*known.ways], config)
        ways = (
            replace(way, suggestion=way.suggestion + present(way.suggestion, config))
            for way in known.ways
            if (way != EAGER or stage not in _BEFORE_MODEL)
            and known_devices.is_of_stage(way, stage)
        )
        is_package = known.rule == "missing_tool"
        return replace(known, ways=(*more, *ways) if is_package else (*ways, *more))
    if _is_about_no_setting(message, module):
        return None
    return statement(message, stage, config)


def fitting(
    ways: Iterable[Way], config: Mapping[str, Value], device: str | None
) -> list[Way]:
    """The ways without those that the run has taken already, that it cannot take or that are
    for other settings or kinds of device; those for settings that it has come first, those
    for settings that it does not state last."""
    own = [way for way in ways if not (device and way.devices) or device in way.devices]
    left = [way for way in own if not is_taken(way, config)]
    if needs_v2_runner(config):
        left = [way for way in left if way.changes.get(V2_RUNNER) != "0"]
    left = [way for way in left if all(_may_hold(way, n, config) for n in way.where)]
    left.sort(
        key=lambda way: sum(1 if value_of(n, config) is None else -1 for n in way.where)
    )
    unique: dict[str, Way] = {}
    for way in left:
        unique.setdefault(way.suggestion, way)
    return list(unique.values()) or [AS_STATED]


def is_taken(way: Way, config: Mapping[str, Value]) -> bool:
    """Whether a way only sets what the run has, or leaves out what it does without."""
    if way.changes:
        return all(
            str(config.get(name)) == str(value) for name, value in way.changes.items()
        )
    fewer = _FEWER.match(way.suggestion)
    if fewer is not None:
        return str(config.get(fewer[1].replace("-", "_"))) == "1"
    match = _LEFT_OUT.match(way.suggestion)
    name = match[1].replace("-", "_") if match is not None else ""
    return name in config and not is_on(config[name])


def _may_hold(way: Way, name: str, config: Mapping[str, Value]) -> bool:
    """Whether a setting may have the value that a way is for; whether the run states one that
    is on, where True stands for any."""
    wanted = way.where[name]
    value = value_of(name, config)
    if value is None:
        return wanted is not True
    return is_on(value) if wanted is True else str(value) == str(wanted)
