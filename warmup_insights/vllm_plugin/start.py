"""Switching the plugin on in a process: settings, session, hooks."""

from __future__ import annotations

import atexit
import os
from collections.abc import MutableMapping
from dataclasses import dataclass

from warmup_insights.vllm_plugin import facts
from warmup_insights.vllm_plugin.attach import Instrumentation
from warmup_insights.vllm_plugin.session import Session
from warmup_insights.vllm_plugin.settings import read_settings
from warmup_insights.vllm_plugin.table import hooks_for


@dataclass
class _Running:
    instrumentation: Instrumentation
    session: Session


_running: _Running | None = None


def start(environ: MutableMapping[str, str]) -> Session:
    """Attach every hook; a second call attaches what has been imported since."""
    global _running
    if _running is None:
        session = Session(read_settings(environ))
        hooks = hooks_for(facts.engine().name)
        _running = _Running(Instrumentation(session, hooks), session)
        os.register_at_fork(after_in_child=session.after_fork)
        atexit.register(session.end_run)
    _running.instrumentation.attach()
    return _running.session


def stop() -> None:
    """Take every hook off and close the recorder; `start` begins anew."""
    global _running
    if _running is None:
        return
    running, _running = _running, None
    running.instrumentation.detach()
    atexit.unregister(running.session.end_run)
    running.session.end_run()
