"""Where the database is: from an option, the environment, or the current folder."""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path

DATABASE_VARIABLE = "WARMUP_INSIGHTS_DB"
DEFAULT_DATABASE = "warmup_insights.db"


def default_database(option: str | None, env: Mapping[str, str]) -> str:
    """The database to use: the option, else `WARMUP_INSIGHTS_DB`, else a file here."""
    return option or env.get(DATABASE_VARIABLE) or DEFAULT_DATABASE


def shown_location(url: str) -> str:
    """The location as it may be shown: without a password."""
    without_password = re.sub(r"(://[^/@:]*):[^/]*@", r"\1:***@", url)
    return re.sub(r"([?&]password=)[^&]*", r"\1***", without_password)


def database_path(location: str | Path) -> Path | None:
    """The SQLite file of a path or URL; None for memory and for servers."""
    name = str(location)
    if not isinstance(location, Path) and "://" in name:
        scheme, _, rest = name.partition("://")
        name = (
            rest.partition("?")[0].removeprefix("/") if scheme[:6] == "sqlite" else ""
        )
    return None if name in ("", ":memory:") else Path(name).absolute()
