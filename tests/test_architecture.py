"""The tables of ARCHITECTURE.md hold, and modules stay small enough to be read."""

from __future__ import annotations

import ast
import re
import sys
from collections import Counter
from functools import cache
from graphlib import TopologicalSorter
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]
PACKAGES = ("warmup_insights", "parsers", "dashboard")
SOURCES = sorted(
    path.relative_to(ROOT) for name in PACKAGES for path in (ROOT / name).rglob("*.py")
)
TOP = {Path("warmup_insights", name) for name in ("__init__.py", "__main__.py")}
"""The package itself: re-exports the public names, starts the command line."""
PAGE = (ROOT / "ARCHITECTURE.md").read_text(encoding="utf-8")


FILES = re.compile(
    r"`((?:warmup_insights|parsers|dashboard|docs|tests|benchmarks|sample_logs)/[^`\s]*"
    r"|[\w/.-]*\w\.(?:py|md|toml|json))`"
)
"""What looks like a file or folder of this repository, in backticks."""


def read_table(first_head: str, second_head: str) -> dict[str, frozenset[str]]:
    """The rows below a heading of two columns: every name of the first, with the second's."""
    head = f"| {first_head} | {second_head} |\n|---|---|\n"
    rows = PAGE.partition(head)[2].partition("\n\n")[0]
    cells = [line.strip("|\n").split("|") for line in rows.splitlines()]
    return {
        name: frozenset(re.findall(r"`(\w+)`", second))
        for first, second in cells
        for name in re.findall(r"`(\w+)`", first)
    }


MAY_IMPORT = read_table("part", "may import")
HOMES = read_table("package", "only in")


def part_of(module: str) -> str:
    """The row that a module belongs to: `storage` for `warmup_insights.storage.rows`."""
    top, _, rest = module.partition(".")
    return rest.partition(".")[0] if top == "warmup_insights" and rest else top


@cache
def imports_of(source: str) -> frozenset[str]:
    """Every module that a source names in an import, wherever it stands."""
    found: set[str] = set()
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"relative import in line {node.lineno}"
            found.add(node.module or "")
            found |= {f"{node.module}.{alias.name}" for alias in node.names}
    return frozenset(found)


def names_of_parts(modules: frozenset[str]) -> set[str]:
    """Which of our parts these modules are in; `from warmup_insights import units` too."""
    ours = {name for name in modules if name.partition(".")[0] in PACKAGES}
    return {part for part in map(part_of, ours) if part in MAY_IMPORT}


def part_of_file(path: Path) -> str:
    return part_of(".".join(path.with_suffix("").parts))


def forbidden(path: Path, source: str) -> list[str]:
    """What a file imports although the tables do not allow it."""
    part, modules = part_of_file(path), imports_of(source)
    tops = {name.partition(".")[0] for name in modules}
    wrong = {name for name in tops & set(HOMES) if part not in HOMES[name]}
    if part != "cli":
        wrong |= names_of_parts(modules) - MAY_IMPORT.get(part, frozenset()) - {part}
    return sorted(wrong)


def test_tables_are_read() -> None:
    """A reworded heading must not switch the check off."""
    assert MAY_IMPORT["recorder"] == {"storage", "model", "errors"}
    assert HOMES["sqlalchemy"] == {"storage"}


def test_every_path_that_the_page_names_exists() -> None:
    """`<dialect>` and its like stand for any name."""
    named = FILES.findall(PAGE)
    assert len(named) > len(MAY_IMPORT), "the pattern finds the paths of the tables"
    patterns = {path: re.sub(r"<\w+>", "*", path) for path in named}
    assert [path for path, like in patterns.items() if not any(ROOT.glob(like))] == []


def test_every_part_has_a_row() -> None:
    parts = {part_of_file(path) for path in SOURCES if path not in TOP}
    assert parts == set(MAY_IMPORT)


def test_imports_point_up() -> None:
    texts = {p: (ROOT / p).read_text(encoding="utf-8") for p in SOURCES if p not in TOP}
    found = {str(path): forbidden(path, text) for path, text in texts.items()}
    assert {path: wrong for path, wrong in found.items() if wrong} == {}


def test_forbidden_imports_are_found() -> None:
    """The check itself fails where it should, however the import is written."""
    cases = {
        "warmup_insights/model/events.py": "from warmup_insights.storage import EventStore",
        "warmup_insights/recorder.py": "def f():\n    import warmup_insights.units",
        "parsers/dialects/vllm.py": "from warmup_insights import analysis",
        "warmup_insights/analysis/x.py": "import sqlalchemy.orm",
        "warmup_insights/cli/x.py": "if True:\n    from streamlit.web import cli",
        "dashboard/x.py": "from warmup_insights.cli import main",
    }
    found = {path: forbidden(Path(path), text) for path, text in cases.items()}
    assert list(found.values()) == [
        ["storage"], ["units"], ["analysis"], ["sqlalchemy"], ["streamlit"], ["cli"],
    ]  # fmt: skip


def module_of(path: Path) -> str:
    parts = path.with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


def test_no_modules_import_each_other_in_a_circle() -> None:
    """Not even inside a function, or for types alone."""
    modules = {module_of(path): path for path in SOURCES}
    graph = {}
    for name, path in modules.items():
        named = imports_of((ROOT / path).read_text(encoding="utf-8"))
        # `from package import module` names both; only the deepest one counts.
        deepest = {n for n in named if not any(m.startswith(f"{n}.") for m in named)}
        found = {n if n in modules else n.rpartition(".")[0] for n in deepest}
        graph[name] = (found & set(modules)) - {name}
    order = TopologicalSorter(graph)
    order.prepare()


def test_analysis_reads_no_clock_and_opens_nothing() -> None:
    for path in SOURCES:
        if part_of_file(path) == "analysis":
            text = (ROOT / path).read_text(encoding="utf-8")
            assert not imports_of(text) & {"time", "os", "datetime"}, path
            assert not re.search(r"(?<![.\w])open\(", text), path


@pytest.mark.parametrize("package", PACKAGES)
def test_only_declared_packages_are_imported(package: str) -> None:
    """Nothing is used that an extra does not bring; what is optional has a home."""
    known = {*HOMES, *PACKAGES, *sys.stdlib_module_names}
    named = Counter(
        name.partition(".")[0]
        for path in SOURCES
        if path.parts[0] == package
        for name in imports_of((ROOT / path).read_text(encoding="utf-8"))
    )
    assert set(named) - known == set()
