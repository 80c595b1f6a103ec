"""What the text of an error means, and what removes it: the one place that decides it.

A text that a row of the tables `known_*.py` matches has its meaning and its ways out, with
the remedy that the text states besides. Any other text has what it states of itself
(`stated.py`): a remedy, a refusal, a requirement, a value.
"""

from __future__ import annotations

import re
from collections.abc import Mapping

from warmup_insights.analysis.advice import (
    known_devices,
    known_files,
    known_ranks,
    known_settings,
)
from warmup_insights.analysis.advice.finding import Value
from warmup_insights.analysis.advice.known_texts import KnownError, Statement
from warmup_insights.analysis.advice.stated import missing_remedy, statement

KNOWN: tuple[KnownError, ...] = (
    *known_settings.ROWS, *known_devices.ROWS, *known_files.ROWS, *known_ranks.ROWS,
)  # fmt: skip
"""Errors whose text names their cause: texts of vLLM, torch, CUDA, NCCL, Ray, the Hugging
Face libraries, Triton and the Gaudi bridge. The first row that matches counts, so a narrow
text stands before a wide one."""


def known_error(message: str) -> tuple[KnownError, re.Match[str]] | None:
    """The first row that an error's text matches."""
    matches = ((known, known.match(message)) for known in KNOWN)
    return next(((known, match) for known, match in matches if match), None)


def statement_of(
    message: str, stage: str, config: Mapping[str, Value]
) -> Statement | None:
    """What the text of an error explains of itself, in a stage; None where it is nothing."""
    row = known_error(message)
    if row is None:
        return statement(message, stage, config)
    known, match = row
    ways = known.filled(match)
    more = missing_remedy(message, ways, config)
    return Statement(known.rule, known.title, (*ways, *more))
