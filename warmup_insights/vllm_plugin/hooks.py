"""Hooks: which call of an engine is watched, by what, and what replaces it.

The replacement is the boundary between the engine and us: the engine's call gets the very
arguments, its result or exception goes on unchanged. An exception of ours ends here: it
is logged once, and the hook is taken off.
"""

from __future__ import annotations

import functools
import inspect
import logging
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from packaging.version import Version

from warmup_insights.vllm_plugin.calls import Call, Outcome, Watch, parameter_names
from warmup_insights.vllm_plugin.facts import version_of
from warmup_insights.vllm_plugin.session import Session

MARK = "__warmup_insights_hook__"

logger = logging.getLogger(__name__)

Probe = Callable[[Session, Call], Watch]
"""Runs to its `yield` before the call, and from there, with the outcome, after it.

A probe that does not yield is not interested in this call.
"""


@dataclass(frozen=True, kw_only=True, slots=True)
class Hook:
    """One row of the table."""

    engine: str
    """`vllm`, `vllm-gaudi` or `vllm-fork`."""
    topic: str
    """What is seen through it, in words; rows of one topic stand in for each other."""
    module: str
    owner: str | None
    """Name of the class; None for a function of the module."""
    name: str
    probe: Probe
    since: str | None = None
    """First version that has it; None for the first that is supported."""
    until: str | None = None
    """First version that does not have it any more."""
    only_errors: bool = False
    """The probe is run when a call has failed, and costs the others next to nothing."""

    @property
    def target(self) -> str:
        """Module, class and method, with dots."""
        return ".".join(part for part in (self.module, self.owner, self.name) if part)

    def is_expected_in(self, version: Version | None) -> bool:
        """Whether a version should have the target; an unknown one may have any."""
        if version is None:
            return self.until is None
        since, until = version_of(self.since), version_of(self.until)
        return (since is None or version >= since) and (
            until is None or version < until
        )


class Attachment:
    """One hook on one target, and how to take it off again."""

    def __init__(
        self, hook: Hook, session: Session, owner: Any, name: str | None = None
    ) -> None:
        """The target is called `name` in its owner, if not as in the hook."""
        self.hook = hook
        self.is_on = True
        self._session = session
        self._owner = owner
        self._name = name or hook.name
        self._is_inherited = self._name not in vars(owner)
        original = self._original = inspect.getattr_static(owner, self._name)
        if isinstance(original, staticmethod | classmethod):
            self._replacement: Any = type(original)(self._wrap(original.__func__))
        else:
            self._replacement = self._wrap(original)

    def attach(self) -> None:
        """Put the replacement in the place of the target."""
        setattr(self._owner, self._name, self._replacement)

    def detach(self) -> None:
        """Restore the target, unless it was replaced again since."""
        self.is_on = False
        if inspect.getattr_static(self._owner, self._name) is self._replacement:
            if self._is_inherited:
                delattr(self._owner, self._name)
            else:
                setattr(self._owner, self._name, self._original)

    def _wrap(self, original: Callable[..., Any]) -> Callable[..., Any]:
        names = parameter_names(original)
        if self.hook.only_errors:
            return self._wrap_errors(original, names)

        def watched(*args: Any, **kwargs: Any) -> Any:
            watch = self._enter(names, args, kwargs) if self.is_on else None
            if watch is None:
                return original(*args, **kwargs)
            try:
                result = original(*args, **kwargs)
            except BaseException as error:
                self._leave(watch, Outcome(error=error))
                raise
            self._leave(watch, Outcome(result=result))
            return result

        async def awaited(*args: Any, **kwargs: Any) -> Any:
            watch = self._enter(names, args, kwargs) if self.is_on else None
            if watch is None:
                return await original(*args, **kwargs)
            try:
                result = await original(*args, **kwargs)
            except BaseException as error:
                self._leave(watch, Outcome(error=error))
                raise
            self._leave(watch, Outcome(result=result))
            return result

        is_coroutine = inspect.iscoroutinefunction(original)
        wrapper = functools.wraps(original)(awaited if is_coroutine else watched)
        setattr(wrapper, MARK, self.hook)
        return wrapper

    def _wrap_errors(
        self, original: Callable[..., Any], names: tuple[str, ...]
    ) -> Callable[..., Any]:
        @functools.wraps(original)
        def guarded(*args: Any, **kwargs: Any) -> Any:
            try:
                return original(*args, **kwargs)
            except BaseException as error:
                watch = self._enter(names, args, kwargs) if self.is_on else None
                if watch is not None:
                    self._leave(watch, Outcome(error=error))
                raise

        setattr(guarded, MARK, self.hook)
        return guarded

    def _enter(
        self, names: tuple[str, ...], args: tuple[Any, ...], kwargs: dict[str, Any]
    ) -> Watch | None:
        try:
            watch = self.hook.probe(self._session, Call(names, args, kwargs))
            next(watch)
        except StopIteration:
            return None
        except Exception as error:  # ours: the engine goes on without this hook
            self._give_up(error)
            return None
        return watch

    def _leave(self, watch: Watch, outcome: Outcome) -> None:
        try:
            watch.send(outcome)
        except StopIteration:
            return
        except Exception as error:  # ours: the engine goes on without this hook
            self._give_up(error)
            return
        watch.close()

    def _give_up(self, error: Exception) -> None:
        self.detach()
        logger.warning(
            "%s is not recorded any more: %s: %s",
            self.hook.target,
            type(error).__name__,
            error,
            exc_info=logger.isEnabledFor(logging.DEBUG),
        )
        self._session.note_lost(self.hook.target, error)


def is_attached(owner: Any, name: str) -> bool:
    """Whether a target is watched already."""
    found = inspect.getattr_static(owner, name)
    return hasattr(getattr(found, "__func__", found), MARK)
