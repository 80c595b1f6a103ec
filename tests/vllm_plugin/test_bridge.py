"""What the Gaudi bridge publishes, through the stand-in of its dispatcher."""

from __future__ import annotations

import json
import sys
import threading
import types
from collections import Counter
from datetime import datetime

import pytest

from tests.vllm_plugin.listening import of_kind, session_with_list
from tests.vllm_plugin.running import STANDIN, run_standin
from warmup_insights.analysis.summary.fold import summarize
from warmup_insights.drainer import open_store
from warmup_insights.model.events import Note, RecipeCompiled, RuntimeCompile
from warmup_insights.model.figures import BY_NAME
from warmup_insights.vllm_plugin import device
from warmup_insights.vllm_plugin.hpu import bridge
from warmup_insights.vllm_plugin.state import Step


@pytest.fixture(scope="module")
def ran(tmp_path_factory):
    steps = json.dumps([[[100, 0]], [[5000, 3]]])
    return run_standin("v0_26", tmp_path_factory.mktemp("bridge"), STANDIN_STEPS=steps)


def folded(ran):
    with open_store(ran.database) as store:
        (run,) = store.runs()
        return summarize(run, store.events(run.run_id))


class TestWholeStart:
    def test_each_recipe_is_an_event_with_its_bucket(self, ran):
        recipes = ran.events("recipe_compiled")
        of_steps = Counter(
            {(s.phase, s.bucket): s.compiled for s in ran.steps() if s.compiled}
        )
        assert Counter((r.phase, r.bucket) for r in recipes) == of_steps
        assert len({recipe.recipe for recipe in recipes}) == len(recipes)
        assert {recipe.duration_s for recipe in recipes} == {0.0015}

    def test_a_recipe_lies_within_its_step(self, ran):
        steps = {(s.phase, s.bucket): s for s in ran.steps()}
        for recipe in ran.events("recipe_compiled"):
            step = steps[recipe.phase, recipe.bucket]
            assert step.time <= recipe.time <= step.time + step.duration_s + 0.01

    def test_one_compiled_while_serving_is_named_with_its_shape(self, ran):
        (late,) = ran.events("runtime_compile")
        assert late.what == bridge.RECIPE_WHILE_SERVING
        number = len(ran.events("recipe_compiled")) + 1
        assert late.kernel == f".graph_dumps/r_{number}"
        assert late.detail == "prompt [1, 5120, 3]"
        assert late.duration_s == 0.0015

    def test_figures_of_the_summary(self, ran):
        found = folded(ran)
        summary = found.summary
        count = len(ran.events("recipe_compiled"))
        assert summary.recipes.count == count
        assert summary.recipes.seconds == pytest.approx(0.0015 * count)
        assert summary.recipes.outside == 0
        assert len(summary.recipes.slowest) == 20
        assert BY_NAME["recipes"].read(summary) == count
        assert BY_NAME["runtime_compiles"].read(summary) == 1
        assert summary.serving.jit[0].duration_s == 0.0015
        nothing = [s for s in ran.steps("decode") if s.compiled == 0]
        assert BY_NAME["decode_reused"].read(summary) == len(nothing)
        for row in found.rows:
            if row.compiled is None:
                assert not row.warmed
                continue
            assert row.compile_s == pytest.approx(0.0015 * row.compiled)

    def test_without_a_dispatcher_the_metric_counts(self, tmp_path):
        steps = json.dumps([[[100, 0]], [[5000, 3]]])
        ran = run_standin("v0_26", tmp_path, STANDIN_STEPS=steps, STANDIN_STEP_S="0.11",
                          STANDIN_NO_DISPATCHER="1", VLLM_SKIP_WARMUP="true")  # fmt: skip
        assert ran.exit_code == 0
        assert ran.events("recipe_compiled") == []
        late = ran.events("runtime_compile")
        assert [event.kernel for event in late] == ["recipe", "recipe"]
        assert late[1].detail == "prompt [1, 5120, 3]"
        assert late[1].duration_s == pytest.approx(0.0015)
        (lost,) = [n for n in ran.events("note") if n.topic == "hook_missing"]
        assert lost.text == "not instrumented: events of the bridge"

    def test_nothing_compiled_while_serving_is_zero_and_not_unknown(self, tmp_path):
        steps = json.dumps([[[100, 0]]])
        ran = run_standin("v0_26", tmp_path, STANDIN_STEPS=steps)
        assert BY_NAME["runtime_compiles"].read(folded(ran).summary) == 0


@pytest.fixture
def dispatcher(monkeypatch):
    """The module of the stand-in, in this process."""
    path = STANDIN / "base/habana_frameworks/torch/utils/event_dispatcher.py"
    module = types.ModuleType(bridge.DISPATCHER)
    exec(compile(path.read_text(), str(path), "exec"), vars(module))
    parents = bridge.DISPATCHER.split(".")
    for end in range(1, len(parents)):
        name = ".".join(parents[:end])
        monkeypatch.setitem(sys.modules, name, types.ModuleType(name))
    monkeypatch.setitem(sys.modules, bridge.DISPATCHER, module)
    monkeypatch.setattr(device, "kind", lambda: "hpu")

    def emit(name, **params):
        """What the C++ of the bridge does; names and values are text."""
        pairs = [(key, str(value)) for key, value in params.items()]
        topic = getattr(module.EventId, name)
        module.EventDispatcher.instance().publish(topic, pairs, datetime.now())

    module.emit = emit
    return module


@pytest.fixture
def session(dispatcher):
    session, events = session_with_list()
    bridge.subscribe(session)
    return session, events


def test_subscribing_again_changes_nothing(session, dispatcher):
    session, events = session
    bridge.subscribe(session)
    dispatcher.emit("GRAPH_COMPILATION", duration=5, recipe="r")
    assert len(of_kind(events, "recipe_compiled")) == 1


def test_a_recipe_outside_of_a_bucket_has_none(session, dispatcher):
    _, events = session
    dispatcher.emit("GRAPH_COMPILATION", duration=2_500_000, recipe="load")
    assert events == [RecipeCompiled(recipe="load", duration_s=2.5)]


def test_an_event_of_a_compiler_thread_belongs_to_the_bucket_that_runs(
    session, dispatcher
):
    session, events = session
    session.state.step = Step(phase="decode", bucket=(4, 1, 8))
    thread = threading.Thread(
        target=dispatcher.emit, args=("GRAPH_COMPILATION",),
        kwargs={"duration": 7, "recipe": "r"},
    )  # fmt: skip
    thread.start()
    thread.join()
    (event,) = events
    assert (event.phase, event.bucket) == ("decode", (4, 1, 8))


@pytest.mark.parametrize(
    "parameters",
    [
        [],
        [("recipe", "r")],
        [("duration", "soon"), ("recipe", "r")],
        [("duration", "-5"), ("recipe", "r")],
        [("recipe", None)],
        None,
        [("a", "b", "c")],
    ],
)
def test_other_parameters_never_raise_into_the_bridge(session, dispatcher, parameters):
    """An exception in a callback would end a thread of the compiler."""
    _, events = session
    for topic in ("GRAPH_COMPILATION", "CPU_FALLBACK", "MEMORY_DEFRAGMENTATION"):
        publish = dispatcher.EventDispatcher.instance().publish
        publish(dispatcher.EventId[topic], parameters, datetime.now())
    assert all(event.duration_s is None for event in of_kind(events, "recipe_compiled"))


def test_a_recorder_that_fails_does_not_raise_into_the_bridge(dispatcher):
    session, _ = session_with_list()
    bridge.subscribe(session)

    def fail(*args, **kwargs):
        raise RuntimeError("no more")

    session.emit = fail
    dispatcher.emit("GRAPH_COMPILATION", duration=1, recipe="r")
    dispatcher.emit("CPU_FALLBACK", op_name="aten::sort")
    dispatcher.emit("MEMORY_DEFRAGMENTATION", success=0)
    assert bridge.TOPIC in session.lost


def test_an_operator_on_the_cpu_is_named_once_with_its_first_bucket(
    session, dispatcher
):
    session, events = session
    session.state.step = Step(phase="prompt", bucket=(1, 128, 0))
    for _ in range(3):
        dispatcher.emit("CPU_FALLBACK", op_name="aten::sort")
    session.state.step = None
    dispatcher.emit("CPU_FALLBACK", op_name="aten::topk")
    texts = [event.text for event in events]
    assert texts == [
        "Operator aten::sort falls back to the CPU, first in prompt [1, 128, 0]",
        "Operator aten::topk falls back to the CPU",
    ]


def test_defragmentations_have_their_outcome(session, dispatcher):
    _, events = session
    dispatcher.emit("MEMORY_DEFRAGMENTATION", success=1, milliseconds=12)
    dispatcher.emit("MEMORY_DEFRAGMENTATION", success=0)
    assert [event.text for event in events] == [
        "Device memory was defragmented in 12 ms",
        "Device memory could not be defragmented: not enough of it is free",
    ]
    assert [event.values["successful"] for event in events] == [True, False]
    assert events[0].values["duration_s"] == 0.012


def test_a_bridge_without_one_of_the_events_keeps_the_others(dispatcher):
    dispatcher.EventId = type(
        "EventId", (), {"GRAPH_COMPILATION": dispatcher.EventId.GRAPH_COMPILATION}
    )
    session, events = session_with_list()
    bridge.subscribe(session)
    assert bridge.is_published(session)
    assert bridge.TOPIC in session.lost
    dispatcher.EventDispatcher.instance().publish(
        dispatcher.EventId.GRAPH_COMPILATION, [("recipe", "r")], datetime.now()
    )
    assert events == [RecipeCompiled(recipe="r")]


def test_no_gaudi_no_subscription(monkeypatch):
    session, _ = session_with_list()
    monkeypatch.setattr(device, "kind", lambda: "cuda")
    bridge.subscribe(session)
    assert not session.subscriptions
    assert not session.lost


def test_late_recipes_are_not_of_the_start(session, dispatcher):
    session, events = session
    session.state.serving.has_begun = True
    session.state.serving.executed = ("decode", (8, 1, 64))
    dispatcher.emit("GRAPH_COMPILATION", duration=1500, recipe="r")
    assert events == [
        RuntimeCompile(
            what=bridge.RECIPE_WHILE_SERVING, kernel="r", detail="decode [8, 1, 64]",
            duration_s=0.0015,
        )
    ]  # fmt: skip
    assert of_kind(events, "note") == [e for e in events if isinstance(e, Note)]
