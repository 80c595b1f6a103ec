"""A session whose events are kept in a list, for tests inside one process."""

from __future__ import annotations

import msgspec

from warmup_insights.model.events import kind_of
from warmup_insights.vllm_plugin.hooks import Attachment, Hook
from warmup_insights.vllm_plugin.session import Session
from warmup_insights.vllm_plugin.settings import Settings


class ListRecorder:
    """Keeps what is recorded."""

    dropped = 0

    def __init__(self):
        self.events = []
        self.is_closed = False

    def record(self, event):
        self.events.append(event)

    def flush(self, timeout=5.0):
        return True

    def close(self, timeout=5.0):
        self.is_closed = True


def session_with_list(**settings):
    """A session, and the list its events go to."""
    recorder = ListRecorder()
    told = Settings(database="x.db", run_id="r", is_first=True, **settings)
    return Session(told, lambda _: recorder), recorder.events


def of_kind(events, kind):
    return [event for event in events if kind_of(event) == kind]


def fields(event):
    """What is set in an event, without its time."""
    found = msgspec.to_builtins(event)
    return {k: v for k, v in found.items() if k not in ("time", "kind", "duration_s")}


def watch_class(session, owner, **probes):
    """Watch methods of a class, or functions of a namespace, by their probes."""
    for name, probe in probes.items():
        hook = Hook(
            engine="vllm",
            topic=name,
            module="tests",
            owner=getattr(owner, "__name__", None),
            name=name,
            probe=probe,
        )
        Attachment(hook, session, owner).attach()
