"""Which hooks would attach to the installed engines: read from their sources.

Nothing of an engine is imported, so this works without its device.
"""

from __future__ import annotations

import ast
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import NamedTuple

from packaging.version import Version

from warmup_insights.vllm_plugin import facts
from warmup_insights.vllm_plugin.facts import installed_version
from warmup_insights.vllm_plugin.hooks import Hook

ATTACHES = "attaches"
MISSING = "missing"
OTHER_VERSION = "other version"
NOT_INSTALLED = "not installed"


class Finding(NamedTuple):
    """What would become of one hook; `status` is a constant of this module."""

    engine: str
    topic: str
    target: str
    versions: str
    status: str


def check(hooks: Iterable[Hook]) -> list[Finding]:
    """The findings for every hook and the installed engines, in the order of the table."""
    definitions = Definitions(installed_source)
    # vllm-fork and vLLM are both a package `vllm`.
    is_fork = facts.engine().name == "vllm-fork"
    engines = ("vllm", "vllm-gaudi", "vllm-fork")
    versions = {engine: installed_version(engine) for engine in engines}
    return findings(
        (hook, status_of(hook, definitions, versions[hook.engine]))
        if facts.is_installed(hook.module.partition(".")[0])
        and (is_fork or hook.engine != "vllm-fork")
        else (hook, NOT_INSTALLED)
        for hook in hooks
    )


def findings(statuses: Iterable[tuple[Hook, str]]) -> list[Finding]:
    """What is missing is not so when another row of its topic attaches."""
    found = list(statuses)
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


def status_of(hook: Hook, definitions: Definitions, version: Version | None) -> str:
    """What would become of a hook in a source tree of a version."""
    if definitions.defines(hook.module, hook.owner, hook.name):
        return ATTACHES
    return MISSING if hook.is_expected_in(version) else OTHER_VERSION


@dataclass(frozen=True)
class _Module:
    """What a source file defines, as far as it matters here."""

    functions: frozenset[str]
    classes: dict[str, tuple[frozenset[str], tuple[str, ...]]]
    """Class to its methods and the names of its bases."""
    imported: dict[str, tuple[str, str]]
    """Name to the module it comes from, and its name there."""


class Definitions:
    """What the modules of a source tree define, from their syntax trees."""

    def __init__(self, source_of: Callable[[str], bytes | None]) -> None:
        """`source_of` gives the source of a module by its name; None without one."""
        self._source_of = source_of
        self._modules: dict[str, _Module | None] = {}

    def defines(self, module: str, owner: str | None, name: str) -> bool:
        """Whether a module has a function, or a class with a method, of these names.

        Methods of base classes count, wherever the bases are defined.
        """
        found = self._read(module)
        if found is None or owner is None:
            return found is not None and name in found.functions
        seen: set[tuple[str, str]] = set()
        waiting = [(module, owner)]
        while waiting:
            current = waiting.pop()
            if current in seen:
                continue
            seen.add(current)
            methods, bases = self._class_of(*current)
            if name in methods:
                return True
            waiting += bases
        return False

    def _class_of(
        self, module: str, owner: str
    ) -> tuple[frozenset[str], list[tuple[str, str]]]:
        """Methods of a class, and where its bases are."""
        found = self._read(module)
        if found is None:
            return frozenset(), []
        if owner not in found.classes:
            origin = found.imported.get(owner)
            return frozenset(), [origin] if origin else []
        methods, bases = found.classes[owner]
        return methods, [(module, base) for base in bases]

    def _read(self, module: str) -> _Module | None:
        if module not in self._modules:
            source = self._source_of(module)
            self._modules[module] = None if source is None else _parse(source)
        return self._modules[module]


def _parse(source: bytes) -> _Module | None:
    """The definitions in a source; None when it is no Python."""
    try:
        tree = ast.parse(source)
    except (SyntaxError, ValueError):
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


def installed_source(module: str) -> bytes | None:
    """The source of an installed module; nothing is imported."""
    package, *rest = module.split(".")
    folder = facts.package_folder(package)
    if folder is None:
        return None
    base = folder.joinpath(*rest)
    for place in (base.with_suffix(".py"), base / "__init__.py"):
        try:
            return place.read_bytes()
        except OSError:
            continue
    return None


def _functions_in(node: ast.Module | ast.ClassDef) -> frozenset[str]:
    kinds = (ast.FunctionDef, ast.AsyncFunctionDef)
    found = {item.name for item in node.body if isinstance(item, kinds)}
    for item in node.body:
        if isinstance(item, ast.If | ast.Try):
            found |= {sub.name for sub in ast.walk(item) if isinstance(sub, kinds)}
    return frozenset(found)
