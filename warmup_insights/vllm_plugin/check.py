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
    """The findings for every hook, in the order of the table.

    What is missing is not so when another row of its topic attaches.
    """
    found = [(hook, _status(hook)) for hook in hooks]
    seen = {(hook.engine, hook.topic) for hook, status in found if status == ATTACHES}
    return [
        Finding(
            hook.engine,
            hook.topic,
            hook.target,
            versions_of(hook),
            OTHER_VERSION
            if status == MISSING and (hook.engine, hook.topic) in seen
            else status,
        )
        for hook, status in found
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
    if not facts.is_installed(package) or not _is_of_engine(hook):
        return NOT_INSTALLED
    if defines(hook.module, hook.owner, hook.name):
        return ATTACHES
    is_expected = hook.is_expected_in(installed_version(hook.engine))
    return MISSING if is_expected else OTHER_VERSION


def _is_of_engine(hook: Hook) -> bool:
    """vllm-fork and vLLM are both a package `vllm`."""
    is_fork = facts.engine().name == "vllm-fork"
    return is_fork if hook.engine == "vllm-fork" else True


@dataclass(frozen=True)
class _Module:
    """What a source file defines, as far as it matters here."""

    functions: frozenset[str]
    classes: dict[str, tuple[frozenset[str], tuple[str, ...]]]
    """Class to its methods and the names of its bases."""
    imported: dict[str, tuple[str, str]]
    """Name to the module it comes from, and its name there."""


def defines(module: str, owner: str | None, name: str) -> bool:
    """Whether a module has a function, or a class with a method, of these names.

    Methods of base classes count, wherever the bases are defined.
    """
    found = _read(module)
    if found is None or owner is None:
        return found is not None and name in found.functions
    seen: set[tuple[str, str]] = set()
    waiting = [(module, owner)]
    while waiting:
        current = waiting.pop()
        if current in seen:
            continue
        seen.add(current)
        methods, bases = _class_of(*current)
        if name in methods:
            return True
        waiting += bases
    return False


def _class_of(module: str, owner: str) -> tuple[frozenset[str], list[tuple[str, str]]]:
    """Methods of a class, and where its bases are."""
    found = _read(module)
    if found is None:
        return frozenset(), []
    if owner not in found.classes:
        origin = found.imported.get(owner)
        return frozenset(), [origin] if origin else []
    methods, bases = found.classes[owner]
    return methods, [(module, base) for base in bases]


@functools.lru_cache(maxsize=256)
def _read(module: str) -> _Module | None:
    """The definitions of a module, from its source; None when it has none."""
    source = _source_of(module)
    if source is None:
        return None
    try:
        tree = ast.parse(source.read_bytes())
    except (SyntaxError, OSError, ValueError):
        return None
    classes = {
        node.name: (
            _functions_in(node),
            tuple(base.id for base in node.bases if isinstance(base, ast.Name)),
        )
        for node in ast.walk(tree)
        if isinstance(node, ast.ClassDef)
    }
    imported = {
        alias.asname or alias.name: (node.module, alias.name)
        for node in ast.walk(tree)
        if isinstance(node, ast.ImportFrom) and node.module and not node.level
        for alias in node.names
    }
    return _Module(_functions_in(tree), classes, imported)


def _source_of(module: str) -> Path | None:
    package, *rest = module.split(".")
    folder = facts.package_folder(package)
    if folder is None:
        return None
    base = folder.joinpath(*rest)
    places = base.with_suffix(".py"), base / "__init__.py"
    return next((place for place in places if place.is_file()), None)


def _functions_in(node: ast.Module | ast.ClassDef) -> frozenset[str]:
    kinds = (ast.FunctionDef, ast.AsyncFunctionDef)
    found = {item.name for item in node.body if isinstance(item, kinds)}
    for item in node.body:
        if isinstance(item, ast.If | ast.Try):
            found |= {sub.name for sub in ast.walk(item) if isinstance(sub, kinds)}
    return frozenset(found)
