"""A hook: which call of an engine is watched, and by what."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from packaging.version import Version

from warmup_insights.vllm_plugin.calls import Call, Watch
from warmup_insights.vllm_plugin.facts import version_of
from warmup_insights.vllm_plugin.session import Session

Probe = Callable[[Session, Call], Watch]
"""Runs to its `yield` before the call, and from there, with the outcome, after it.

A probe that does not yield is not interested in this call.
"""


@dataclass(frozen=True, kw_only=True, slots=True)
class Hook:
    """One row of the table."""

    engine: str
    """`vllm`, `vllm-gaudi` or `vllm-fork`."""
    topic: str
    """What is seen through it, in words; rows of one topic stand in for each other."""
    module: str
    owner: str | None
    """Name of the class; None for a function of the module."""
    name: str
    probe: Probe
    since: str | None = None
    """First version that has it; None for the first that is supported."""
    until: str | None = None
    """First version that does not have it any more."""

    @property
    def target(self) -> str:
        """Module, class and method, with dots."""
        return ".".join(part for part in (self.module, self.owner, self.name) if part)

    def is_expected_in(self, version: Version | None) -> bool:
        """Whether a version should have the target; an unknown one may have any."""
        if version is None:
            return self.until is None
        since, until = version_of(self.since), version_of(self.until)
        return (since is None or version >= since) and (
            until is None or version < until
        )
