"""Every sample log gives the events and the report of its golden file."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from tests.helpers import ROOT, read
from warmup_insights.model.events import encode

SAMPLES = sorted(
    path
    for path in (ROOT / "sample_logs").rglob("*")
    if path.is_file() and path.name != "README.md"
)
GOLDEN = ROOT / "tests" / "golden"


def golden_path(sample: Path) -> Path:
    return GOLDEN / sample.parent.name / f"{sample.name}.json"


def result_of(sample: Path) -> dict[str, Any]:
    runs, report = read(sample.read_bytes(), sample.name)
    return {
        "runs": [
            [json.loads(encode(event)) for event in runs[ordinal]]
            for ordinal in sorted(runs)
        ],
        "report": report.as_dict(),
    }


@pytest.mark.parametrize("sample", SAMPLES, ids=lambda p: f"{p.parent.name}/{p.name}")
def test_sample_gives_its_golden_events(sample: Path, update_golden: bool):
    result, path = result_of(sample), golden_path(sample)
    if update_golden:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(json.dumps(result, indent=1, ensure_ascii=False) + "\n")
    assert path.exists(), f"no golden file for {sample.name}: pytest --update-golden"
    assert result == json.loads(path.read_text())


def test_every_golden_file_has_its_sample():
    wanted = {golden_path(sample) for sample in SAMPLES}
    assert set(GOLDEN.rglob("*.log*.json")) <= wanted


@pytest.mark.parametrize("sample", SAMPLES, ids=lambda p: f"{p.parent.name}/{p.name}")
def test_nothing_relevant_in_a_sample_is_unknown(sample: Path):
    report = result_of(sample)["report"]
    assert report["unknown_lines"] == []
    assert report["failed_lines"] == []


@pytest.mark.parametrize("sample", SAMPLES, ids=lambda p: f"{p.parent.name}/{p.name}")
def test_every_sample_is_explained_in_the_readme(sample: Path):
    readme = (ROOT / "sample_logs" / "README.md").read_text()
    assert f"`{sample.parent.name}/{sample.name}`" in readme
