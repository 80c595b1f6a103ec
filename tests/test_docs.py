"""The documentation is that of the program, and its commands run."""

from __future__ import annotations

import os
import re
import shlex
import subprocess
import sys
from pathlib import Path

import pytest

from warmup_insights.cli import COMMANDS
from warmup_insights.cli.export import export

ROOT = Path(__file__).resolve().parents[1]
DOCS = ROOT / "docs"
PAGES = sorted([*ROOT.glob("*.md"), *DOCS.rglob("*.md")])
README = (ROOT / "README.md").read_text(encoding="utf-8")
REFERENCE = (DOCS / "cli.md").read_text(encoding="utf-8")
MAKERS = [
    p for p in sorted(DOCS.glob("make_*.py")) if "--check" in p.read_text("utf-8")
]
REASONS = {"needs a cluster", "needs an accelerator", "needs vLLM"}
REASONS |= {"stays open until it is stopped", "needs uv or pipx"}


@pytest.fixture(scope="module")
def readme():
    """The module that reads the commands out of README.md."""
    sys.path.insert(0, str(DOCS))
    try:
        import readme_commands

        return readme_commands
    finally:
        sys.path.remove(str(DOCS))


def python(*arguments: str, **more) -> subprocess.CompletedProcess[str]:
    env = os.environ | {"PYTHONPATH": str(ROOT)}
    return subprocess.run(
        [sys.executable, *arguments], cwd=ROOT, env=env,
        capture_output=True, text=True, check=False, timeout=300, **more,
    )  # fmt: skip


def test_generated_blocks_are_current():
    done = python(
        "-m",
        "cogapp",
        "--check",
        "-I",
        "docs",
        "README.md",
        "docs/cli.md",
        "docs/export.md",
    )
    assert done.returncode == 0, done.stdout + done.stderr + "`make docs` renews them"


CHECK = """
import runpy, sys
sys.path.insert(0, "docs")
for maker in sys.argv[1:]:
    sys.argv = [maker, "--check"]
    try:
        runpy.run_path(maker, run_name="__main__")
    except SystemExit as end:
        if end.code:
            print(maker, end.code)
"""
"""Runs scripts one after the other in one process, and names those that fail."""


def test_generated_pages_are_current():
    done = python("-c", CHECK, *map(str, MAKERS))
    assert done.returncode == 0, done.stdout + done.stderr
    assert done.stdout == "", "`make docs` renews them"


@pytest.mark.parametrize("name", COMMANDS)
def test_every_command_is_in_the_readme_and_the_reference(name):
    """Also what guards against a generated block that came out empty."""
    assert f"| `{name}` | {COMMANDS[name]} |" in README
    assert f"Usage: warmup-insights {name} " in REFERENCE


def test_every_format_has_a_row_on_its_page():
    choice = next(o for o in export.params if o.name == "form").type
    page = (DOCS / "export.md").read_text("utf-8")
    missing = [name for name in choice.choices if f"\n| `{name}` |" not in page]
    assert missing == [], "the table of docs/export.md has a row for each format"


@pytest.mark.parametrize("page", PAGES, ids=lambda p: str(p.relative_to(ROOT)))
def test_links_lead_somewhere(page):
    text = re.sub(r"```.*?```|`[^`\n]*`", "", page.read_text("utf-8"), flags=re.DOTALL)
    targets = re.findall(r"\]\(([^)\s]+)\)", text)
    local = {t.partition("#")[0] for t in targets if not re.match(r"[a-z]+:|#", t)}
    local -= {"sample-report.html"}  # made with the site
    assert [target for target in local if not (page.parent / target).exists()] == []


@pytest.mark.parametrize("page", PAGES, ids=lambda p: str(p.relative_to(ROOT)))
def test_every_module_that_a_page_names_exists(page):
    """Of this project; those of engines are other paths. `<dialect>` is any name."""
    ours = r"`((?:warmup_insights|parsers|dashboard|benchmarks|rules|runner)/[^`\s]*)`"
    named = re.findall(ours, page.read_text("utf-8"))
    places = (ROOT, ROOT / "warmup_insights")
    patterns = {path: re.sub(r"<\w+>", "*", path) for path in named}
    missing = [
        path
        for path, pattern in patterns.items()
        if not any(any(place.glob(pattern)) for place in places)
    ]
    assert missing == []


def test_readme_begins_with_two_complete_commands(readme):
    first, second = readme.setups()
    for command in (first, second):
        assert command.startswith(
            "python3 -m venv .venv && . .venv/bin/activate && pip"
        )
        assert "pip install -c constraints.txt -e" in command
    assert first.endswith("'.[all]' && warmup-insights demo")
    assert second.endswith("'.[dev]' && pytest")


def test_commands_that_are_not_run_name_a_known_command_and_reason(readme):
    left_out = readme.left_out()
    assert {reason for reason, _ in left_out} <= REASONS
    names = {re.search(r"warmup-insights (\w+)", c)[1] for _, c in left_out}
    assert names <= set(COMMANDS)


@pytest.fixture
def reader(tmp_path):
    """Runs a command as a reader types it, in a folder with the samples."""
    program = tmp_path / "bin" / "warmup-insights"
    program.parent.mkdir()
    arguments = f'exec {shlex.quote(sys.executable)} -m warmup_insights "$@"'
    program.write_text(f"#!/bin/sh\n{arguments}\n")
    program.chmod(0o755)
    (tmp_path / "sample_logs").symlink_to(ROOT / "sample_logs")
    env = os.environ | {"PYTHONPATH": str(ROOT)}
    env["PATH"] = f"{program.parent}{os.pathsep}{env['PATH']}"
    env["WARMUP_INSIGHTS_DB"] = str(tmp_path / "runs.db")

    def run(command: str) -> str:
        done = subprocess.run(
            ["/bin/sh", "-c", command], cwd=tmp_path, env=env,
            capture_output=True, text=True, check=False, timeout=300,
        )  # fmt: skip
        assert done.returncode == 0, f"{command}\n{done.stdout}{done.stderr}"
        shown = done.stdout + done.stderr
        assert shown.strip(), f"{command} printed nothing"
        return done.stdout

    return run


@pytest.mark.long
def test_the_questions_of_operators_are_answered_as_printed(readme, reader):
    """Every command runs, and what the page quotes is what they print."""
    page = DOCS / "operators.md"
    printed = "".join(reader(command) for command in readme.commands(page))
    quoted = re.findall(r"^```text\n(.*?)^```$", page.read_text("utf-8"), re.M | re.S)
    lines = [line for block in quoted for line in block.splitlines()]
    assert len(lines) == 5
    assert [line for line in lines if line not in printed] == []
