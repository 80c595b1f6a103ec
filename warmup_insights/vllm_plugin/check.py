"""Which hooks would attach to the installed engines: read from their sources.

Nothing of an engine is imported, so this works without its device.
"""

from __future__ import annotations

import ast
import functools
from collections.abc import Iterable
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from warmup_insights.vllm_plugin import facts
from warmup_insights.vllm_plugin.attach import installed_version
from warmup_insights.vllm_plugin.hooks import Hook

ATTACHES = "attaches"
MISSING = "missing"
OTHER_VERSION = "other version"
NOT_INSTALLED = "not installed"


@dataclass(frozen=True)
class Finding:
    """What would become of one hook."""

    engine: str
    topic: str
    target: str
    versions: str
    status: str
    """One of the constants of this module."""

    def as_dict(self) -> dict[str, Any]:
        """For JSON."""
        return asdict(self)


def check(hooks: Iterable[Hook]) -> list[Finding]:
    """The findings for every hook, in the order of the table."""
    return [
        Finding(hook.engine, hook.topic, hook.target, versions_of(hook), _status(hook))
        for hook in hooks
    ]


def versions_of(hook: Hook) -> str:
    """The range of versions in words, `all` when it has no limits."""
    parts = []
    if hook.since:
        parts.append(f"since {hook.since}")
    if hook.until:
        parts.append(f"before {hook.until}")
    return ", ".join(parts) or "all"


def _status(hook: Hook) -> str:
    package = hook.module.partition(".")[0]
    folder = facts.package_folder(package)
    if folder is None or not _is_of_engine(hook):
        return NOT_INSTALLED
    source = source_of(folder, hook.module)
    if source is not None and defines(source, hook.owner, hook.name):
        return ATTACHES
    is_expected = hook.is_expected_in(installed_version(hook.engine))
    return MISSING if is_expected else OTHER_VERSION


def _is_of_engine(hook: Hook) -> bool:
    """vllm-fork and vLLM are both a package `vllm`."""
    is_fork = facts.engine().name == "vllm-fork"
    return is_fork if hook.engine == "vllm-fork" else True


def source_of(folder: Path, module: str) -> Path | None:
    """The source file of a module below the folder of its top-level package."""
    relative = Path(*module.split(".")[1:])
    places = (folder / relative).with_suffix(".py"), folder / relative / "__init__.py"
    return next((place for place in places if place.is_file()), None)


def defines(source: Path, owner: str | None, name: str) -> bool:
    """Whether a file defines a function, or a class with a method, of these names.

    A class whose bases lie in the same file has their methods too.
    """
    functions, classes = _definitions(source)
    if owner is None:
        return name in functions
    seen: set[str] = set()
    waiting = [owner]
    while waiting:
        current = waiting.pop()
        if current in seen or current not in classes:
            continue
        seen.add(current)
        methods, bases = classes[current]
        if name in methods:
            return True
        waiting += bases
    return False


@functools.lru_cache(maxsize=64)
def _definitions(
    source: Path,
) -> tuple[frozenset[str], dict[str, tuple[frozenset[str], list[str]]]]:
    try:
        tree = ast.parse(source.read_bytes())
    except (SyntaxError, OSError, ValueError):
        return frozenset(), {}
    classes = {
        node.name: (
            _functions_in(node),
            [base.id for base in node.bases if isinstance(base, ast.Name)],
        )
        for node in ast.walk(tree)
        if isinstance(node, ast.ClassDef)
    }
    return _functions_in(tree), classes


def _functions_in(node: ast.Module | ast.ClassDef) -> frozenset[str]:
    kinds = (ast.FunctionDef, ast.AsyncFunctionDef)
    found = {item.name for item in node.body if isinstance(item, kinds)}
    for item in node.body:
        if isinstance(item, ast.If | ast.Try):
            found |= {sub.name for sub in ast.walk(item) if isinstance(sub, kinds)}
    return frozenset(found)
