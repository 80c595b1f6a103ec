"""A call when a module has been imported, without importing it."""

from __future__ import annotations

import importlib.abc
import importlib.machinery
import sys
from collections.abc import Callable, Iterable, Sequence
from types import ModuleType

Listener = Callable[[ModuleType], None]


class ImportListener(importlib.abc.MetaPathFinder):
    """Calls `listener` after each of some modules was executed for the first time.

    It finds nothing itself: it asks the other finders, and puts a call behind the
    loader's `exec_module`, on that one loader and for that one import.
    """

    def __init__(self, modules: Iterable[str], listener: Listener) -> None:
        self._waiting = set(modules)
        self._listener = listener

    def install(self) -> None:
        """Listen from now on, before all other finders."""
        if self not in sys.meta_path:
            sys.meta_path.insert(0, self)

    def remove(self) -> None:
        """Stop listening."""
        if self in sys.meta_path:
            sys.meta_path.remove(self)

    def find_spec(
        self,
        fullname: str,
        path: Sequence[str] | None,
        target: ModuleType | None = None,
    ) -> importlib.machinery.ModuleSpec | None:
        """The spec the other finders give, for the modules waited for."""
        if fullname not in self._waiting:
            return None
        for finder in sys.meta_path:
            find = None if finder is self else getattr(finder, "find_spec", None)
            spec: importlib.machinery.ModuleSpec | None = (
                find(fullname, path, target) if find is not None else None
            )
            if spec is not None:
                self._follow(spec)
                return spec
        return None

    def _follow(self, spec: importlib.machinery.ModuleSpec) -> None:
        loader = spec.loader
        execute = getattr(loader, "exec_module", None)
        if loader is None or execute is None:
            return

        def exec_module(module: ModuleType) -> None:
            del loader.exec_module
            execute(module)
            self._waiting.discard(spec.name)
            self._listener(module)

        try:
            loader.exec_module = exec_module  # type: ignore[method-assign]
        except AttributeError:  # a loader that takes no attributes: never told
            return


def is_imported(name: str) -> bool:
    """Whether a module is there and executed to its end."""
    module = sys.modules.get(name)
    return module is not None and not getattr(
        getattr(module, "__spec__", None), "_initializing", False
    )
