"""The documentation as a site: every link and anchor leads somewhere, a report is inside."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys

import pytest

from tests.helpers import ROOT

pytestmark = pytest.mark.long


def build(config, out):
    env = os.environ | {"PYTHONPATH": str(ROOT), "NO_MKDOCS_2_WARNING": "1"}
    return subprocess.run(
        [sys.executable, "-m", "mkdocs", "build", "--strict", "-f", config, "-d", out],
        cwd=ROOT, env=env, capture_output=True, text=True, check=False, timeout=300,
    )  # fmt: skip


@pytest.fixture(scope="module")
def site(tmp_path_factory):
    out = tmp_path_factory.mktemp("site")
    done = build(ROOT / "mkdocs.yml", out)
    assert done.returncode == 0, done.stdout + done.stderr
    return out


def test_every_page_is_in_it_and_found(site):
    pages = {page.stem for page in (ROOT / "docs").glob("*.md")} | {"changelog"}
    found = {p.parent.name for p in site.glob("*/index.html")} | {"index"}
    assert pages <= found
    index = json.loads((site / "search" / "search_index.json").read_text("utf-8"))
    assert {doc["location"].partition("/")[0] for doc in index["docs"]} >= pages - {
        "index"
    }


def test_operators_come_first_and_a_report_is_inside(site):
    text = (site / "index.html").read_text(encoding="utf-8")
    places = [
        text.index(f'href="{name}/"') for name in ("operators", "dialects", "cli")
    ]
    assert places == sorted(places)
    assert 'href="sample-report.html"' in text
    assert "62.5 %" in (site / "sample-report.html").read_text(encoding="utf-8")


def test_nothing_is_loaded_from_elsewhere(site):
    for page in site.rglob("index.html"):
        text = page.read_text(encoding="utf-8")
        loaded = re.findall(r"<(?:script|img)[^>]* src=\"?([^\" >]+)", text)
        loaded += re.findall(r'<link[^>]* rel="stylesheet"[^>]*>', text)
        assert [one for one in loaded if "//" in one] == [], page


def test_a_dead_link_ends_the_build(tmp_path):
    """Or the checks above would find nothing."""
    (tmp_path / "docs").mkdir()
    (tmp_path / "docs" / "index.md").write_text("[gone](gone.md) [there](#nowhere)")
    config = (ROOT / "mkdocs.yml").read_text(encoding="utf-8")
    kept = re.search(r"^validation:\n(?:  .*\n)+", config, re.MULTILINE)[0]
    path = tmp_path / "mkdocs.yml"
    path.write_text(f"site_name: x\n{kept}", encoding="utf-8")
    done = build(path, tmp_path / "out")
    assert done.returncode == 1
    assert "gone.md" in done.stderr
    assert "#nowhere" in done.stderr
