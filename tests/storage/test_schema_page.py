from __future__ import annotations

import importlib.util
import sys
from pathlib import Path

import pytest

from warmup_insights.storage.schema import metadata

SCRIPT = Path(__file__).parents[2] / "docs" / "make_schema.py"


@pytest.fixture
def make_schema():
    spec = importlib.util.spec_from_file_location("make_schema", SCRIPT)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_the_page_is_current(make_schema):
    """If not: `python docs/make_schema.py`."""
    assert make_schema.PAGE.read_text(encoding="utf-8") == make_schema.page()


def test_the_page_names_every_table_and_column(make_schema):
    text = make_schema.page()
    for table in metadata.tables.values():
        assert f"## {table.name}\n\n{table.info['doc']}" in text
        assert all(f"| `{column.name}` |" in text for column in table.columns)


def test_an_old_page_is_noticed(make_schema, tmp_path, monkeypatch):
    monkeypatch.setattr(make_schema, "PAGE", tmp_path / "schema.md")
    monkeypatch.setattr(sys, "argv", ["make_schema.py", "--check"])
    assert make_schema.main() == 1
    monkeypatch.setattr(sys, "argv", ["make_schema.py"])
    assert make_schema.main() == 0
    monkeypatch.setattr(sys, "argv", ["make_schema.py", "--check"])
    assert make_schema.main() == 0
    with make_schema.PAGE.open("a") as page:
        page.write("more\n")
    assert make_schema.main() == 1
