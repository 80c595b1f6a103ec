"""The modules of the plugin import each other in one direction."""

from __future__ import annotations

import ast
from graphlib import TopologicalSorter
from pathlib import Path

import warmup_insights.vllm_plugin

PACKAGE = Path(warmup_insights.vllm_plugin.__file__).parent
NAME = "warmup_insights.vllm_plugin"


def name_of(path):
    parts = path.relative_to(PACKAGE).with_suffix("").parts
    return ".".join((NAME, *parts)).removesuffix(".__init__")


MODULES = {name_of(path) for path in PACKAGE.rglob("*.py")}


def imported(path):
    """Modules of the plugin that a file names anywhere, in functions too."""
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.ImportFrom) and f"{node.module}.".startswith(
            f"{NAME}."
        ):
            names = {f"{node.module}.{alias.name}" for alias in node.names}
            yield from names & MODULES or {node.module}


def test_no_module_imports_itself_through_others():
    graph = {name_of(path): set(imported(path)) for path in PACKAGE.rglob("*.py")}
    assert len(graph) > 15
    TopologicalSorter(graph).prepare()  # raises CycleError
