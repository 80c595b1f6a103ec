"""docs/bucketing.md and its pictures are what the code makes, and its examples run."""

from __future__ import annotations

import doctest
import importlib.util
import json
import re
import sys
from pathlib import Path
from xml.etree import ElementTree

import pytest
from click.testing import CliRunner

from warmup_insights.cli import cli

DOCS = Path(__file__).parents[2] / "docs"
PAGE = DOCS / "bucketing.md"


@pytest.fixture(scope="module")
def make_bucketing():
    path = DOCS / "make_bucketing.py"
    spec = importlib.util.spec_from_file_location("make_bucketing", path)
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module
    spec.loader.exec_module(module)
    yield module
    del sys.modules[spec.name]


def test_page_and_pictures_are_current(make_bucketing):
    """If not: `python docs/make_bucketing.py`."""
    assert make_bucketing.outdated() == []
    assert make_bucketing.main(["--check"]) == 0


def test_an_old_picture_is_noticed(make_bucketing, tmp_path, monkeypatch):
    monkeypatch.setattr(make_bucketing, "PICTURES", tmp_path)
    assert len(make_bucketing.outdated()) == 4
    assert make_bucketing.main(["--check"]) == 1


def test_a_lost_block_is_noticed(make_bucketing):
    with pytest.raises(SystemExit, match="linear"):
        make_bucketing.page("# no blocks")


def test_an_edited_block_is_made_anew(make_bucketing):
    text = PAGE.read_text(encoding="utf-8")
    edited = text.replace("padding-aware | 110", "padding-aware | 111")
    assert edited != text
    assert make_bucketing.page(edited) == text


def test_every_strategy_has_a_picture_on_the_page(make_bucketing):
    text = PAGE.read_text(encoding="utf-8")
    for name, svg in make_bucketing.pictures().items():
        assert f"(bucketing/{name})" in text
        root = ElementTree.fromstring(svg)
        assert root.tag.endswith("svg")
        assert root.find("{http://www.w3.org/2000/svg}title") is not None


def test_the_stairs_of_a_picture_are_the_values_of_the_range(make_bucketing):
    """One horizontal piece for each value: two points each."""
    root = ElementTree.fromstring(make_bucketing.staircase("linear"))
    lines = root.findall("{http://www.w3.org/2000/svg}polyline")
    stairs = max(len(line.get("points").split()) for line in lines)
    assert stairs == 2 * len(make_bucketing.RANGES["linear"])


def test_the_settings_file_of_the_page_is_accepted(tmp_path):
    text = PAGE.read_text(encoding="utf-8")
    document = re.search(r'^ +(\{"inputs".*?\]\})$', text, re.DOTALL | re.MULTILINE)[1]
    path = tmp_path / "settings.json"
    path.write_text(document)
    arguments = ["buckets", "generate", f"--settings={path}", "--json"]
    result = CliRunner().invoke(cli, arguments)
    assert result.exit_code == 0, result.exception
    assert json.loads(result.stdout)["lookups"] == [[1, 768, 4], [4, 1, 16]]


def test_the_python_example_of_the_page_says_what_it_gives():
    result = doctest.testfile(str(PAGE), module_relative=False)
    assert result.attempted == 5
    assert result.failed == 0
