"""Where the database is: from an option, the environment, or the current folder."""

from __future__ import annotations

import re
from collections.abc import Mapping

DATABASE_VARIABLE = "WARMUP_INSIGHTS_DB"
DEFAULT_DATABASE = "warmup_insights.db"


def default_database(option: str | None, env: Mapping[str, str]) -> str:
    """The database to use: the option, else `WARMUP_INSIGHTS_DB`, else a file here."""
    return option or env.get(DATABASE_VARIABLE) or DEFAULT_DATABASE


def shown_location(url: str) -> str:
    """The location as it may be shown: without a password."""
    without_password = re.sub(r"(://[^/@:]*):[^/]*@", r"\1:***@", url)
    return re.sub(r"([?&]password=)[^&]*", r"\1***", without_password)
