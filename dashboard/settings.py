"""The settings that the `dashboard` command passes to the app in the environment."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass

from warmup_insights.storage.location import default_database

ALLOW_PATHS = "WARMUP_INSIGHTS_ALLOW_PATHS"
"""Set to `1` when visitors may name files of the server."""


@dataclass(frozen=True)
class Settings:
    """Where the runs are, and what visitors may do."""

    database: str
    allow_paths: bool = False


def read_settings(env: Mapping[str, str] | None = None) -> Settings:
    """The settings in an environment."""
    env = os.environ if env is None else env
    return Settings(default_database(None, env), env.get(ALLOW_PATHS) == "1")
