"""Attaching after the import of a module, once, and saying what is missing."""

from __future__ import annotations

import importlib
import sys

import pytest

from tests.vllm_plugin.listening import of_kind, session_with_list
from warmup_insights.vllm_plugin.attach import Instrumentation
from warmup_insights.vllm_plugin.hooks import Hook

SOURCE = """
class Engine:
    def work(self):
        return "worked"

def alone():
    return "alone"
"""


def watch(session, call):
    session.begin_phase("seen")
    yield


def hook(name, owner="Engine", topic=None, **more):
    return Hook(
        engine="vllm",
        topic=topic or name,
        module="target_module_of_test",
        owner=owner,
        name=name,
        probe=watch,
        **more,
    )


@pytest.fixture
def target(tmp_path, monkeypatch):
    """A module that can be imported, and is forgotten afterwards."""
    (tmp_path / "target_module_of_test.py").write_text(SOURCE, encoding="utf-8")
    monkeypatch.syspath_prepend(str(tmp_path))
    yield lambda: importlib.import_module("target_module_of_test")
    sys.modules.pop("target_module_of_test", None)


@pytest.fixture
def instrument():
    made = []

    def make(*hooks):
        session, events = session_with_list()
        made.append(Instrumentation(session, hooks))
        made[-1].attach()
        return made[-1], session, events

    yield make
    for instrumentation in made:
        instrumentation.detach()


def test_a_module_imported_later_is_attached(target, instrument):
    instrumentation, _, events = instrument(hook("work"), hook("alone", owner=None))
    assert instrumentation.attachments == []
    module = target()
    assert module.Engine().work() == "worked"
    assert module.alone() == "alone"
    assert len(events) == 1  # the phase was open already the second time
    assert len(instrumentation.attachments) == 2


def test_a_module_imported_before_is_attached(target, instrument):
    module = target()
    instrument(hook("work"))
    module.Engine().work()
    assert hasattr(module.Engine.work, "__wrapped__")


def test_attaching_twice_changes_nothing(target, instrument):
    module = target()
    instrumentation, _, _ = instrument(hook("work"))
    once = module.Engine.work
    instrumentation.attach()
    other, _, _ = instrument(hook("work"))
    assert module.Engine.work is once
    assert other.attachments == []


def test_detaching_restores_everything(target, instrument):
    module = target()
    before = module.Engine.work
    instrumentation, _, _ = instrument(hook("work"))
    instrumentation.detach()
    assert module.Engine.work is before
    assert not any("ImportListener" in type(f).__name__ for f in sys.meta_path)


def test_the_loader_of_the_module_is_left_as_it_was(target, instrument):
    instrument(hook("work"))
    module = target()
    assert "exec_module" not in vars(module.__loader__)
    assert module.__spec__.loader is module.__loader__


def test_an_import_that_fails_is_attached_when_it_works(tmp_path, target, instrument):
    file = tmp_path / "target_module_of_test.py"
    file.write_text("raise RuntimeError('not yet')", encoding="utf-8")
    instrumentation, _, _ = instrument(hook("work"))
    with pytest.raises(RuntimeError, match="not yet"):
        target()
    file.write_text(
        SOURCE + "\n# longer now, so that it is compiled again", encoding="utf-8"
    )
    importlib.invalidate_caches()
    target()
    assert len(instrumentation.attachments) == 1


def test_a_missing_target_is_told_once_and_the_rest_works(target, instrument):
    _, session, events = instrument(
        hook("work"), hook("gone"), hook("other", owner="Nobody", topic="gone too")
    )
    module = target()
    assert module.Engine().work() == "worked"
    session.report_lost()
    session.report_lost()
    notes = of_kind(events, "note")
    assert [note.text for note in notes] == [
        "not instrumented: gone",
        "not instrumented: gone too",
    ]
    assert notes[0].values["target"] == "target_module_of_test.Engine.gone"


def test_only_rank_0_tells_what_is_missing(target, instrument):
    _, session, events = instrument(hook("gone"))
    target()
    session.rank = 1
    session.report_lost()
    assert of_kind(events, "note") == []


def test_rows_of_a_topic_stand_in_for_each_other(target, instrument):
    _, session, events = instrument(
        hook("work", topic="buckets"), hook("older", topic="buckets")
    )
    target()
    session.report_lost()
    assert of_kind(events, "note") == []


def test_what_another_version_has_is_not_missing(target, instrument):
    _, session, events = instrument(hook("older", until="0.0.1"))
    target()
    session.report_lost()
    assert of_kind(events, "note") == []


@pytest.fixture
def package(tmp_path, monkeypatch):
    """A package of which one module took a function of another by name."""
    folder = tmp_path / "package_of_test"
    folder.mkdir()
    (folder / "__init__.py").write_text("")
    (folder / "runtime.py").write_text("def settle():\n    return 'settled'\n")
    (folder / "runner.py").write_text(
        "from package_of_test.runtime import settle as other_name\n\n"
        "def run():\n    return other_name()\n"
    )
    monkeypatch.syspath_prepend(str(tmp_path))
    yield
    for name in [name for name in sys.modules if name.startswith("package_of_test")]:
        del sys.modules[name]


@pytest.mark.usefixtures("package")
@pytest.mark.parametrize("is_imported_before", [True, False])
def test_a_function_that_was_taken_by_name_is_watched(is_imported_before, instrument):
    runner = "package_of_test.runner"
    if is_imported_before:
        before = importlib.import_module(runner).other_name
    settle = Hook(
        engine="vllm", topic="t", module="package_of_test.runtime", owner=None,
        name="settle", probe=watch,
    )  # fmt: skip
    instrumentation, _, events = instrument(settle)
    module = importlib.import_module(runner)
    assert module.run() == "settled"
    assert len(of_kind(events, "phase_marked")) == 1
    instrumentation.detach()
    assert module.run() == "settled"
    assert len(of_kind(events, "phase_marked")) == 1
    if is_imported_before:
        assert module.other_name is before
