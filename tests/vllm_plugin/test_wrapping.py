"""The boundary: identity, exceptions, removal, coroutines, static methods."""

from __future__ import annotations

import asyncio
import logging
import traceback

import pytest

from tests.vllm_plugin.listening import of_kind, session_with_list
from warmup_insights.vllm_plugin.hooks import Attachment, Hook, is_attached


class Engine:
    """Something to watch."""

    def work(self, thing, *, again=None):
        """Work on a thing."""
        if thing is None:
            raise KeyError("engine")
        return thing

    @staticmethod
    def count(number):
        return number + 1

    @classmethod
    def make(cls, thing):
        return cls, thing

    async def wait(self, thing):
        await asyncio.sleep(0)
        return thing


class Special(Engine):
    """Inherits what is watched."""


def quiet(session, call):
    yield


def hook_for(name, probe, owner="Engine", **more):
    return Hook(
        engine="vllm", topic=name, module=__name__, owner=owner, name=name, probe=probe,
        **more,
    )  # fmt: skip


@pytest.fixture
def attach():
    attachments = []

    def on(name, probe=quiet, owner=Engine, session=None, **more):
        session = session or session_with_list()[0]
        hook = hook_for(name, probe, owner.__name__, **more)
        attachment = Attachment(hook, session, owner)
        attachment.attach()
        attachments.append(attachment)
        return attachment

    yield on
    for attachment in attachments:
        attachment.detach()


def test_arguments_and_result_are_the_same_objects(attach):
    seen = []

    def probe(session, call):
        seen.extend([call.owner, call.arg("thing"), call.arg("again")])
        outcome = yield
        seen.append(outcome.result)

    attach("work", probe)
    engine, thing, again = Engine(), object(), object()
    assert engine.work(thing, again=again) is thing
    assert seen == [engine, thing, again, thing]
    assert all(a is b for a, b in zip(seen, [engine, thing, again, thing], strict=True))


def test_name_and_documentation_stay(attach):
    before = Engine.work
    attach("work")
    assert Engine.work is not before
    assert Engine.work.__doc__ == "Work on a thing."
    assert Engine.work.__qualname__ == "Engine.work"


def test_an_exception_is_the_same_object_and_keeps_its_traceback(attach):
    seen = []

    def probe(session, call):
        outcome = yield
        seen.append(outcome.error)

    attach("work", probe)
    with pytest.raises(KeyError) as caught:
        Engine().work(None)
    assert seen == [caught.value]
    assert caught.value.__context__ is None
    assert caught.value.__cause__ is None
    names = [frame.name for frame in traceback.extract_tb(caught.value.__traceback__)]
    assert names[-2:] == ["watched", "work"]


def test_what_is_watched_for_errors_only_runs_its_probe_for_them_only(attach):
    seen = []

    def probe(session, call):
        seen.append(call.arg("again"))
        outcome = yield
        seen.append(outcome.error)

    attachment = attach("work", probe, only_errors=True)
    thing = object()
    assert Engine().work(thing) is thing
    assert seen == []
    with pytest.raises(KeyError) as caught:
        Engine().work(None, again=2)
    assert seen == [2, caught.value]
    assert caught.value.__context__ is None
    kept = Engine.work
    attachment.detach()
    with pytest.raises(KeyError):
        kept(Engine(), None)
    assert len(seen) == 2


@pytest.mark.parametrize("fails_after", [False, True])
def test_an_error_of_ours_is_said_once_and_the_target_restored(
    attach, caplog, fails_after
):
    before = Engine.work

    def probe(session, call):
        if not fails_after:
            raise ZeroDivisionError("ours")
        yield
        raise ZeroDivisionError("ours")

    session, events = session_with_list()
    attach("work", probe, session=session)
    with caplog.at_level(logging.WARNING):
        assert Engine().work("a") == "a"
        assert Engine().work("b") == "b"
    assert Engine.work is before
    (record,) = caplog.records
    assert (
        "Engine.work is not recorded any more: ZeroDivisionError: ours"
        in record.message
    )
    (note,) = of_kind(events, "note")
    assert note.topic == "hook_missing"


def test_who_kept_the_replacement_is_not_watched_any_more(attach):
    calls = []

    def probe(session, call):
        calls.append(1)
        raise ZeroDivisionError("ours")
        yield

    attach("work", probe)
    kept = Engine.work
    Engine().work("a")
    assert kept(Engine(), "b") == "b"
    assert calls == [1]


def test_an_interrupt_during_our_part_is_not_swallowed(attach):
    def probe(session, call):
        raise KeyboardInterrupt
        yield

    attach("work", probe)
    with pytest.raises(KeyboardInterrupt):
        Engine().work("a")


def test_a_probe_may_decline_a_call(attach):
    def probe(session, call):
        if call.arg("thing") == "boring":
            return
        yield

    attachment = attach("work", probe)
    assert Engine().work("boring") == "boring"
    assert attachment.is_on


def test_static_and_class_methods_stay_what_they_are(attach):
    attach("count")
    attach("make")
    assert Engine.count(1) == Engine().count(1) == 2
    assert Engine.make("x") == (Engine, "x")
    assert Special.make("x") == (Special, "x")
    assert isinstance(vars(Engine)["count"], staticmethod)


def test_coroutines_are_watched_until_they_end(attach):
    seen = []

    def probe(session, call):
        seen.append("begin")
        outcome = yield
        seen.append(outcome.result)

    attach("wait", probe)
    thing = object()
    assert asyncio.run(Engine().wait(thing)) is thing
    assert seen == ["begin", thing]


def test_an_inherited_method_is_watched_on_the_subclass_only(attach):
    seen = []

    def probe(session, call):
        seen.append(type(call.owner).__name__)
        yield

    attachment = attach("work", probe, owner=Special)
    Engine().work(1)
    Special().work(1)
    assert seen == ["Special"]
    attachment.detach()
    assert "work" not in vars(Special)


def test_detaching_leaves_what_others_put_there(attach):
    attachment = attach("work")
    ours = Engine.work

    def theirs(self, thing):
        return ours(self, thing)

    Engine.work = theirs
    attachment.detach()
    assert Engine.work is theirs
    assert Engine().work("x") == "x"
    Engine.work = attachment._original


def test_attached_is_recognised(attach):
    assert not is_attached(Engine, "work")
    attach("work")
    assert is_attached(Engine, "work")
