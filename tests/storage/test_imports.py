"""What is loaded when: help and recording must not wait for SQLAlchemy."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]


def modules_after(statement):
    program = f"import sys; {statement}; print(*sys.modules)"
    result = subprocess.run(
        [sys.executable, "-c", program],
        capture_output=True,
        text=True,
        check=True,
        cwd=ROOT,
    )
    return set(result.stdout.split())


@pytest.mark.parametrize(
    "statement",
    [
        "from warmup_insights.storage.location import default_database",
        "import warmup_insights.recorder, warmup_insights.storage.spool",
        "import warmup_insights.cli.options, warmup_insights.cli.prune",
    ],
)
def test_sqlalchemy_is_loaded_only_by_the_store(statement):
    assert not {"sqlalchemy", "pandas"} & modules_after(statement)


def test_opening_a_store_does_not_load_pandas():
    loaded = modules_after(
        "from warmup_insights.storage import EventStore; EventStore('sqlite://')"
    )
    assert "sqlalchemy" in loaded
    assert "pandas" not in loaded


def test_unknown_names_are_attribute_errors():
    import warmup_insights.storage as storage

    with pytest.raises(AttributeError, match="no attribute 'Nonsense'"):
        storage.Nonsense  # noqa: B018
    for name in storage.__all__:
        assert getattr(storage, name) is not None
