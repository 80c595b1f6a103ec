"""Switching the plugin on in a process: settings, session, hooks.

A hook is attached at once where its module is imported, else as soon as it is.
"""

from __future__ import annotations

import atexit
import importlib.abc
import importlib.machinery
import logging
import os
import sys
import threading
from collections import defaultdict
from collections.abc import Callable, Iterable, MutableMapping, Sequence
from types import ModuleType, TracebackType
from typing import Any, NoReturn

from packaging.version import Version

from warmup_insights.recorder import EXIT_S
from warmup_insights.vllm_plugin import facts
from warmup_insights.vllm_plugin.facts import installed_version
from warmup_insights.vllm_plugin.hooks import Attachment, Hook, is_attached
from warmup_insights.vllm_plugin.session import Session
from warmup_insights.vllm_plugin.settings import read_settings
from warmup_insights.vllm_plugin.table import hooks_for

logger = logging.getLogger(__name__)


class Instrumentation:
    """All hooks of one process; attaching twice changes nothing."""

    def __init__(self, session: Session, hooks: Iterable[Hook]) -> None:
        self.session = session
        self._by_module: dict[str, list[Hook]] = defaultdict(list)
        for hook in hooks:
            self._by_module[hook.module].append(hook)
        self._versions: dict[str, Version | None] = {}
        self.attachments: list[Attachment] = []
        self._listener = ImportListener(self._by_module, self.attach_module)

    def attach(self) -> None:
        """Attach what can be attached now, and the rest when it is imported."""
        self._listener.install()
        for name in self._by_module:
            if is_imported(name):
                self.attach_module(sys.modules[name])

    def watch_end(self) -> None:
        """Have an error that ends the program recorded before it is shown."""
        before = sys.excepthook

        def show(
            kind: type[BaseException], error: BaseException, trace: TracebackType | None
        ) -> None:
            try:
                self.session.note_end_of_program(error)
            except Exception as problem:  # the error itself must be shown
                logger.warning("The end of the program is not recorded: %s", problem)
            before(kind, error, trace)

        sys.excepthook = show

    def watch_exit(self) -> None:
        """Have the end of the run recorded where a program leaves without cleaning up.

        What is recorded last may read a device that hangs, and a second Ctrl-C may come
        meanwhile: the program ends either way, `2 * EXIT_S` later at most.
        """
        before = os._exit

        def record() -> None:
            try:
                self.session.end_run(EXIT_S)
            except Exception as problem:  # the program must end
                logger.warning("The end of the program is not recorded: %s", problem)

        def leave(status: int) -> NoReturn:
            try:
                if self.session.records:
                    ending = threading.Thread(target=record, daemon=True)
                    ending.start()
                    ending.join(2 * EXIT_S)
            finally:
                before(status)

        os._exit = leave

    def detach(self) -> None:
        """Take every hook off, and follow no imports any more: for measuring without."""
        if self._listener in sys.meta_path:
            sys.meta_path.remove(self._listener)
        for attachment in self.attachments:
            attachment.detach()
        self.attachments.clear()

    def attach_module(self, module: ModuleType) -> None:
        """Attach the hooks of a module that was just imported. Never raises."""
        hooks = self._by_module.get(module.__name__, ())
        try:
            topics = {hook.topic for hook in hooks if self._attach(hook, module)}
            topics |= {attachment.hook.topic for attachment in self.attachments}
            for hook in hooks:
                # Kept are the topics for which this version has nothing to attach to.
                if hook.topic not in topics and self._is_expected(hook):
                    self.session.lost.setdefault(hook.topic, hook.target)
        except Exception as error:  # an import by the engine must not fail
            logger.warning("%s is not recorded: %s", module.__name__, error)

    def _attach(self, hook: Hook, module: ModuleType) -> bool:
        """Attach a hook, unless it is; whether the module has its target."""
        owner: Any = getattr(module, hook.owner, None) if hook.owner else module
        if owner is None or not hasattr(owner, hook.name):
            return False
        if is_attached(owner, hook.name):
            return True
        places = [(owner, hook.name)]
        if hook.owner is None:
            places += _imported_by_name(getattr(owner, hook.name))
        for place, name in places:
            attachment = Attachment(hook, self.session, place, name)
            attachment.attach()
            self.attachments.append(attachment)
        return True

    def _is_expected(self, hook: Hook) -> bool:
        if hook.engine not in self._versions:
            self._versions[hook.engine] = installed_version(hook.engine)
        return hook.is_expected_in(self._versions[hook.engine])


def _imported_by_name(function: Any) -> list[tuple[ModuleType, str]]:
    """Modules of the same package that took a function by name, and as what.

    They did so before its own module was watched, and go on calling what they took.
    """
    home, _, _ = function.__module__.partition(".")
    return [
        (module, name)
        for path, module in list(sys.modules.items())
        if path.startswith(f"{home}.") and path != function.__module__
        for name, value in list(vars(module).items())
        if value is function
    ]


class ImportListener(importlib.abc.MetaPathFinder):
    """Calls `listener` after each of some modules was executed for the first time.

    It finds nothing itself: it calls the other finders, and puts a call behind the
    loader's `exec_module`, on that one loader and for that one import.
    """

    def __init__(
        self, modules: Iterable[str], listener: Callable[[ModuleType], None]
    ) -> None:
        self._waiting = set(modules)
        self._listener = listener

    def install(self) -> None:
        """Follow imports from now on, before all other finders."""
        if self not in sys.meta_path:
            sys.meta_path.insert(0, self)

    def find_spec(
        self,
        fullname: str,
        path: Sequence[str] | None,
        target: ModuleType | None = None,
    ) -> importlib.machinery.ModuleSpec | None:
        """The spec the other finders give, for the modules that are waited for."""
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
        except AttributeError:  # a loader that takes no attributes: no call
            return


def is_imported(name: str) -> bool:
    """Whether a module is there and executed to its end."""
    module = sys.modules.get(name)
    return module is not None and not getattr(
        getattr(module, "__spec__", None), "_initializing", False
    )


_running: Instrumentation | None = None


def start(environ: MutableMapping[str, str]) -> Session:
    """Attach every hook; a second call attaches what has been imported since."""
    global _running
    if _running is None:
        session = Session(read_settings(environ))
        hooks = hooks_for(facts.engine().name)
        _running = Instrumentation(session, hooks)
        os.register_at_fork(after_in_child=session.after_fork)
        atexit.register(session.end_run)
        _running.watch_end()
        _running.watch_exit()
    _running.attach()
    return _running.session
