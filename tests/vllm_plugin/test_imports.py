"""The modules of the plugin import each other in one direction."""

from __future__ import annotations

import ast
from graphlib import TopologicalSorter
from pathlib import Path

import warmup_insights.vllm_plugin

PACKAGE = Path(warmup_insights.vllm_plugin.__file__).parent
NAME = "warmup_insights.vllm_plugin"


def imported(path):
    """Modules of the plugin that a file names anywhere, in functions too."""
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.ImportFrom) and node.module == NAME:
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module:
            package, _, module = node.module.rpartition(".")
            if package == NAME:
                yield module


def test_no_module_imports_itself_through_others():
    graph = {path.stem: set(imported(path)) for path in PACKAGE.glob("*.py")}
    assert len(graph) > 20
    TopologicalSorter(graph).prepare()  # raises CycleError
