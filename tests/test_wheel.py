"""The wheel holds the three packages and works away from the source tree."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
import sysconfig
import venv
import zipfile
from email.parser import Parser
from importlib.metadata import Distribution, distribution
from pathlib import Path

import pytest
from packaging.requirements import Requirement

from warmup_insights.version import __version__

ROOT = Path(__file__).resolve().parents[1]
PACKAGES = {"warmup_insights", "parsers", "dashboard"}
SAMPLE = ROOT / "sample_logs" / "vllm-fork" / "warmup_doc_capture.log"

pytestmark = pytest.mark.long


@pytest.fixture(scope="module")
def wheel(tmp_path_factory) -> Path:
    """Built from a copy, so that nothing is left in the source tree."""
    source, out = (tmp_path_factory.mktemp(name) for name in ("source", "dist"))
    for name in PACKAGES:
        ignore = shutil.ignore_patterns("__pycache__")
        shutil.copytree(ROOT / name, source / name, ignore=ignore)
    for name in ("pyproject.toml", "README.md", "LICENSE"):
        shutil.copy(ROOT / name, source)
    run(
        sys.executable, "-m", "build", "--wheel", "--no-isolation",
        "--outdir", out, source, cwd=out,
    )  # fmt: skip
    (path,) = out.glob("*.whl")
    return path


@pytest.fixture(scope="module")
def installed(wheel, tmp_path_factory) -> Path:
    """A new environment with the wheel and what its core requires, and nothing else.

    The dependencies are linked from the environment of the tests, so no registry is
    asked; the extras are not among them.
    """
    folder = tmp_path_factory.mktemp("away") / "env"
    venv.create(folder, with_pip=False)
    packages = Path(
        sysconfig.get_path("purelib", vars={"base": str(folder)}, scheme="venv")
    )
    for found in core_dependencies(wheel):
        link(found, packages)
    pip(folder, "install", "--no-index", "--no-deps", "--quiet", wheel)
    return folder


def run(*command: str | Path, cwd: Path, **more) -> subprocess.CompletedProcess[str]:
    """Run a program that must succeed, without a way back to the source tree."""
    done = run_any(*command, cwd=cwd, **more)
    assert done.returncode == 0, done.stdout + done.stderr
    return done


def run_any(*command: str | Path, cwd: Path) -> subprocess.CompletedProcess[str]:
    hidden = ("PYTHONPATH", "PYTHONHOME", "VIRTUAL_ENV", "WARMUP_INSIGHTS_DB")
    env = {key: value for key, value in os.environ.items() if key not in hidden}
    return subprocess.run(
        command, cwd=cwd, env=env | {"PYTHONNOUSERSITE": "1"},
        capture_output=True, text=True, check=False, timeout=300,
    )  # fmt: skip


def pip(folder: Path, *arguments: str | Path) -> None:
    python = folder / "bin" / "python"
    run(sys.executable, "-m", "pip", "--python", python, *arguments, cwd=folder)


def required(lines: list[str]) -> list[str]:
    """Names of the requirements that hold here when no extra is asked for."""
    found = [Requirement(line) for line in lines]
    return [r.name for r in found if not r.marker or r.marker.evaluate({"extra": ""})]


def core_dependencies(wheel: Path) -> list[Distribution]:
    """What the wheel requires without extras, directly or not."""
    with zipfile.ZipFile(wheel) as archive:
        (name,) = (n for n in archive.namelist() if n.endswith(".dist-info/METADATA"))
        metadata = Parser().parsestr(archive.read(name).decode())
    todo, found = required(metadata.get_all("Requires-Dist") or []), {}
    while todo:
        name = todo.pop()
        if name not in found:
            found[name] = distribution(name)
            todo += required(found[name].requires or [])
    return list(found.values())


def link(found: Distribution, packages: Path) -> None:
    tops = {path.parts[0] for path in found.files or [] if path.parts[0] != ".."}
    for top in tops - {"__pycache__"}:
        if not (packages / top).exists():
            (packages / top).symlink_to(found.locate_file(top))


def test_wheel_holds_exactly_the_three_packages(wheel):
    """Every file of the packages is in it, and nothing beside them."""
    with zipfile.ZipFile(wheel) as archive:
        names = {n for n in archive.namelist() if ".dist-info/" not in n}
    expected = {
        str(path.relative_to(ROOT))
        for name in PACKAGES
        for path in (ROOT / name).rglob("*")
        if path.is_file() and "__pycache__" not in path.parts
    }
    assert names == expected


def test_the_changelog_begins_with_this_version():
    """`make release` checks the rest."""
    text = (ROOT / "CHANGELOG.md").read_text(encoding="utf-8")
    first, *_ = re.findall(r"^## \[(.+?)\]", text, re.MULTILINE)
    assert first in (__version__, "Unreleased")
    assert f"## [{__version__}]" in text


def test_wheel_names_its_command_and_plugin(wheel):
    with zipfile.ZipFile(wheel) as archive:
        (name,) = (n for n in archive.namelist() if n.endswith("entry_points.txt"))
        text = archive.read(name).decode()
    assert "warmup-insights = warmup_insights.cli:main" in text
    assert "[vllm.general_plugins]" in text


def test_declared_requirements_are_enough(installed):
    pip(installed, "check")


def test_help_and_version_away_from_the_source(installed, tmp_path):
    where = run(
        installed / "bin" / "python", "-c",
        "import warmup_insights; print(warmup_insights.__file__)", cwd=tmp_path,
    ).stdout  # fmt: skip
    assert where.startswith(str(installed))
    command = installed / "bin" / "warmup-insights"
    assert "ingest" in run(command, "--help", cwd=tmp_path).stdout
    assert "warmup-insights" in run(command, "--version", cwd=tmp_path).stdout


def test_ingest_away_from_the_source(installed, tmp_path):
    """A log becomes a run that can be shown, with the core dependencies alone."""
    command = installed / "bin" / "warmup-insights"
    shutil.copy(SAMPLE, tmp_path / "server.log")
    answer = json.loads(
        run(command, "ingest", "server.log", "--json", cwd=tmp_path).stdout
    )
    assert len(answer["files"][0]["runs"]) == 1
    summary = json.loads(run(command, "show", "latest", "--json", cwd=tmp_path).stdout)
    assert summary["memory"]["num_kv_blocks"] == 1519


def test_the_demo_works_away_from_the_source(installed, tmp_path):
    """All five steps, without PyTorch too: the last one is the log of a recorded run."""
    command = installed / "bin" / "warmup-insights"
    done = run(command, "demo", "--no-dashboard", cwd=tmp_path)
    assert done.stdout.count("http://127.0.0.1:8501/") == 5
    assert "15 of 24 prompt and 48 of 48 decode buckets have a graph" in done.stdout
    assert "pip install" in done.stderr


@pytest.mark.parametrize(
    ("command", "package"), [("dashboard", "streamlit"), ("run", "torch")]
)
def test_missing_extra_is_named_in_a_sentence(installed, tmp_path, command, package):
    done = run_any(installed / "bin" / "warmup-insights", command, cwd=tmp_path)
    assert done.returncode == 1
    assert "pip install" in done.stderr
    assert package in done.stderr.lower()
    assert "Traceback" not in done.stderr
