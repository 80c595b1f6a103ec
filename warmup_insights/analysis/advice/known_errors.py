"""Errors whose text names their cause, and what removes each.

Texts are those of vLLM, torch, CUDA, NCCL, Ray, the Hugging Face libraries, Triton and
the Gaudi bridge. The first row that matches counts, so a narrow text stands before a wide one.
"""

from __future__ import annotations

import re

from warmup_insights.analysis.advice import (
    known_devices,
    known_files,
    known_hosts,
    known_ranks,
    known_settings,
)
from warmup_insights.analysis.advice.known_texts import KnownError

KNOWN: tuple[KnownError, ...] = (
    *known_hosts.ROWS,
    *known_settings.ROWS,
    *known_devices.ROWS,
    *known_files.ROWS,
    *known_ranks.ROWS,
    *known_settings.LAST,
)


def known_error(message: str) -> tuple[KnownError, re.Match[str]] | None:
    """The first row that an error's text matches."""
    for known in KNOWN:
        match = known.match(message)
        if match is not None:
            return known, match
    return None
