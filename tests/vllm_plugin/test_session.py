"""One process's view of the run: phases, failures, forks, the end."""

from __future__ import annotations

import os
import subprocess
import sys
from types import SimpleNamespace

import msgspec
import pytest

from tests.vllm_plugin.listening import (
    ListRecorder,
    of_kind,
    session_with_list,
    watch_class,
)
from tests.vllm_plugin.running import environment
from tests.vllm_plugin.standin_config import config_of
from warmup_insights.drainer import open_store
from warmup_insights.model.events import (
    EngineInitialized,
    Note,
    RunFinished,
    kind_of,
)
from warmup_insights.testing import folded
from warmup_insights.units import GIB
from warmup_insights.vllm_plugin import engine_core, facts
from warmup_insights.vllm_plugin import session as session_module
from warmup_insights.vllm_plugin.calls import Call, Outcome
from warmup_insights.vllm_plugin.session import Session
from warmup_insights.vllm_plugin.settings import RUN, VARIABLES, Settings, read_settings

_PACKAGE_FILE = "/x/site-packages/vllm/lora/ops/shrink.py"


def test_a_phase_within_itself_is_one():
    session, events = session_with_list()
    session.begin_phase("kv_cache")
    session.begin_phase("kv_cache")
    assert session.end_phase("kv_cache") is None
    assert session.end_phase("kv_cache") > 0.0
    assert session.end_phase("kv_cache") is None
    marks = [(mark.name, mark.edge) for mark in of_kind(events, "phase_marked")]
    assert marks == [("kv_cache", "start"), ("kv_cache", "end")]


def test_an_error_that_passes_several_hooks_is_one_failure():
    session, events = session_with_list()
    outcome = Outcome(error=RuntimeError("out of memory"))
    session.note_failure(outcome, phase="inner")
    session.note_failure(outcome, phase="outer")
    session.note_failure(Outcome(error=KeyboardInterrupt()))
    session.note_failure(Outcome(result=1))
    (failure,) = of_kind(events, "failure")
    assert (failure.failure, failure.phase) == ("out_of_memory", "inner")


def test_a_failure_has_the_innermost_file_of_a_package():
    session, events = session_with_list()
    code = compile("def fail(text): raise ValueError(text)", _PACKAGE_FILE, "exec")
    names = {}
    exec(code, names)  # a frame of a file in a folder of packages
    with pytest.raises(ValueError, match="no such") as raised:
        names["fail"]("no such kernel")
    session.note_failure(Outcome(error=raised.value))
    session.note_failure(Outcome(error=ValueError("without a traceback")))
    modules = [failure.module for failure in of_kind(events, "failure")]
    assert modules == ["vllm/lora/ops/shrink.py", None]


def test_messages_of_failures_are_masked_and_cut():
    session, events = session_with_list()
    text = "could not fetch http://me:secret@host/x " + "y" * 5000
    session.note_failure(Outcome(error=OSError(text)))
    (failure,) = of_kind(events, "failure")
    assert "secret" not in failure.message
    assert len(failure.message) <= 2000


@pytest.mark.parametrize(
    ("message", "shown"),
    [
        ("1 validation error for VllmConfig\n  Value error, 4 heads do not divide by 3. "
         "[type=value_error, input_value=ArgsKwargs((), {'a': 1}), input_type=ArgsKwargs]\n"
         "    For further information visit https://errors.pydantic.dev/2.14/v/value_error",
         "ValueError: 4 heads do not divide by 3."),
        ("1 validation error for SchedulerConfig\nmax_num_seqs\n  Input should be greater "
         "than or equal to 1 [type=greater_than_equal, input_value=0, input_type=int]",
         "ValidationError: max_num_seqs: Input should be greater than or equal to 1"),
        ("no heading", "pydantic_core._pydantic_core.ValidationError: no heading"),
    ],
)  # fmt: skip
def test_a_refused_setting_is_stated_without_the_heading_of_pydantic(message, shown):
    names = {
        "__module__": "pydantic_core._pydantic_core",
        "__qualname__": "ValidationError",
    }
    ValidationError = type("ValidationError", (ValueError,), names)
    session, events = session_with_list()
    session.note_failure(Outcome(error=ValidationError(message)))
    (failure,) = of_kind(events, "failure")
    assert failure.message == shown


def starts_of(monkeypatch, *results):
    """The events of each start of a program that configures engines: what is raised, or
    None for one that is ready then."""
    monkeypatch.setenv(RUN, "r")
    monkeypatch.setattr(engine_core, "parent_process", lambda: None)
    recorders = []

    def make(settings):
        recorders.append((settings.run_id, ListRecorder()))
        return recorders[-1][1]

    told = Settings(database="x.db", run_id="r", is_first=True)
    session = Session(told, make)
    for error in results:
        watch = engine_core.configure(session, Call(("self",), (object(),), {}))
        next(watch)
        with pytest.raises(StopIteration):
            watch.send(Outcome(result=config_of(), error=error))
        if error is None:
            session.note_ready()
    session.end_run()
    assert len({run_id for run_id, _ in recorders}) == len(recorders)
    return [each.events for _, each in recorders]


ENDS = {
    None: ("server_ready", "finished"),
    ValueError("too long"): ("failure", "failed"),
    KeyboardInterrupt(): ("shutdown_requested", "stopped"),
}


@pytest.mark.parametrize("first", ENDS, ids=repr)
@pytest.mark.parametrize("second", ENDS, ids=repr)
def test_an_engine_behind_one_that_ended_or_was_ready_is_a_run(
    monkeypatch, first, second
):
    """In a notebook: whether its configuration is accepted, refused or interrupted."""
    starts = starts_of(monkeypatch, first, second)
    assert len(starts) == 2
    for events, error in zip(starts, (first, second), strict=True):
        kinds = [kind_of(event) for event in events]
        assert (kinds[0], kinds[-1]) == ("run_started", "run_finished")
        kind, status = ENDS[error]
        assert [k for k, _ in ENDS.values() if k in kinds] == [kind]
        assert events[-1].status == status


def test_each_engine_in_a_process_of_its_own_is_a_run(monkeypatch):
    """`vllm bench startup` starts one after the other; all have the id of the program."""
    monkeypatch.setenv(RUN, "r")
    monkeypatch.setattr(engine_core, "parent_process", lambda: SimpleNamespace())
    runs = []
    for number in range(2):
        monkeypatch.setattr(session_module, "own_process", lambda n=number: f"h|{n}|1")
        recorder, ids = ListRecorder(), []
        told = Settings(database="x.db", run_id="r", is_first=False)
        session = Session(
            told, lambda settings, r=recorder, i=ids: i.append(settings.run_id) or r
        )
        call = Call(("self",), (object(),), {})
        watch = engine_core.configure(session, call)
        next(watch)
        with pytest.raises(StopIteration):
            watch.send(Outcome(result=config_of()))
        watch = engine_core.offline_engine(session, call)
        next(watch)
        with pytest.raises(StopIteration):
            watch.send(Outcome(result=None))
        session.end_run()
        marks = [event.name for event in of_kind(recorder.events, "phase_marked")]
        assert marks == ["import", "configure", "start_engine"]
        kinds = [kind_of(event) for event in recorder.events]
        assert (kinds[0], kinds[-1]) == ("run_started", "run_finished")
        assert "server_ready" in kinds
        runs += ids
    assert len({"r", *runs}) == 3


@pytest.mark.parametrize(
    ("name", "is_own"), [("Process-1", True), ("ApiServer_0", False)]
)
def test_a_configuration_that_a_child_process_is_refused_is_recorded(
    monkeypatch, name, is_own
):
    """An API server is of the run of the program that starts it."""
    monkeypatch.setenv(RUN, "r")
    monkeypatch.setattr(engine_core, "parent_process", lambda: SimpleNamespace())
    monkeypatch.setattr(engine_core.current_process(), "name", name)
    recorder, ids = ListRecorder(), []
    told = Settings(database="x.db", run_id="r", is_first=False)
    session = Session(told, lambda settings: ids.append(settings.run_id) or recorder)
    call = Call(("self",), (SimpleNamespace(model="a/b"),), {})
    watch = engine_core.configure(session, call)
    next(watch)
    with pytest.raises(StopIteration):
        watch.send(Outcome(error=ValueError("too long")))
    session.end_run()
    kinds = [kind_of(event) for event in recorder.events]
    (failure,) = of_kind(recorder.events, "failure")
    assert (failure.message, failure.phase) == ("ValueError: too long", "configure")
    assert (ids != ["r"], "run_started" in kinds) == (is_own, is_own)
    assert ("run_finished" in kinds) == is_own


def test_a_start_that_goes_on_behind_an_interrupt_was_not_stopped():
    session, events = session_with_list()
    session.begin_run()
    session.note_failure(Outcome(error=KeyboardInterrupt()))
    session.note_ready()
    session.end_run()
    assert events[-1].status == "finished"
    stamped = [msgspec.structs.replace(e, time=float(n)) for n, e in enumerate(events)]
    summary = folded(stamped, source_kind="recorder").summary
    assert (summary.status, summary.stop) == ("finished", None)


def test_a_program_that_fails_before_it_configures_an_engine_has_begun():
    session, events = session_with_list()
    session.note_end_of_program(RuntimeError("no device"))
    session.end_run()
    kinds = [kind_of(event) for event in events]
    assert kinds[0] == "run_started"
    assert kinds[-2:] == ["failure", "run_finished"]
    assert events[-1].status == "failed"


@pytest.mark.parametrize(("is_up", "status"), [(True, "finished"), (False, "unknown")])
def test_a_program_that_leaves_without_cleaning_up_has_an_end(tmp_path, is_up, status):
    """`os._exit` runs neither `atexit` nor finalizers."""
    program = tmp_path / "program.py"
    program.write_text(
        "import os\n"
        "from warmup_insights.vllm_plugin.attach import start\n"
        "session = start(os.environ)\n"
        "session.begin_run()\n"
        f"session.note_ready() if {is_up} else None\n"
        "os._exit(3)\n",
        encoding="utf-8",
    )
    database = tmp_path / "runs.db"
    done = subprocess.run(
        [sys.executable, str(program)],
        env=environment("v0_26", WARMUP_INSIGHTS_DB=str(database)),
        check=False,
    )
    assert done.returncode == 3
    with open_store(database) as store:
        (run,) = store.runs()
        assert [e.status for e in store.events(run.run_id, ["run_finished"])] == [
            status
        ]


@pytest.mark.parametrize(
    "last",
    ["time.sleep(10_000)", "signal.raise_signal(signal.SIGINT)", "sys.exit(1)"],
)
def test_a_program_leaves_whatever_its_last_events_do(tmp_path, last):
    """A device that hangs, a second Ctrl-C, an exit in what is recorded last."""
    program = tmp_path / "program.py"
    program.write_text(
        "import os, signal, sys, time\n"
        "from warmup_insights.vllm_plugin.attach import start\n"
        "session = start(os.environ)\n"
        "session.begin_run()\n"
        f"session.before_end(lambda: {last})\n"
        "os._exit(3)\n",
        encoding="utf-8",
    )
    done = subprocess.run(
        [sys.executable, str(program)],
        env=environment("v0_26", WARMUP_INSIGHTS_DB=str(tmp_path / "runs.db")),
        check=False,
        timeout=600,
    )
    assert done.returncode == 3


def test_a_program_that_ends_before_it_is_ready_did_not_finish():
    """Whether an engine in another process is up is left to its own events."""
    session, events = session_with_list()
    session.begin_run()
    session.end_run()
    assert events[-1].status == "unknown"
    stamped = [msgspec.structs.replace(e, time=float(n)) for n, e in enumerate(events)]
    up = EngineInitialized(duration_s=1.0, rank=0, time=1.5)
    for found, status in (stamped, "unknown"), ([*stamped, up], "finished"):
        assert folded(found, source_kind="recorder").summary.status == status


def test_a_program_without_an_engine_does_not_import_until_its_end():
    """`vllm bench serve`, or the program whose child processes have the engines."""
    session, events = session_with_list()
    session.begin_run()
    session.end_run()
    *start, end = [msgspec.structs.replace(each, time=0.0) for each in events]
    stamped = [*start, msgspec.structs.replace(end, time=9.0)]
    time = folded(stamped, source_kind="recorder").summary.time
    assert time.seconds_by_phase() == {}
    assert not time.wall_s
    stopped = RunFinished(status="stopped", time=stamped[-1].time)
    time = folded([*stamped[:-1], stopped], source_kind="recorder").summary.time
    assert time.seconds_by_phase()["import"] > 0


def test_a_server_that_is_interrupted_behind_its_engine_was_stopped():
    session, events = session_with_list()
    session.begin_run()
    session.state.is_of_server = True
    session.note_end_of_program(KeyboardInterrupt("terminated"))
    session.end_run()
    up = EngineInitialized(duration_s=1.0, rank=0, time=1.5)
    stamped = [msgspec.structs.replace(e, time=float(n)) for n, e in enumerate(events)]
    summary = folded([*stamped[:3], up, *stamped[3:]], source_kind="recorder").summary
    assert (summary.status, summary.failure) == ("stopped", None)


@pytest.mark.parametrize("place", ["server", "below a server", "program"])
def test_an_engine_without_a_web_server_is_ready_when_it_is_up(monkeypatch, place):
    monkeypatch.setitem(sys.modules, "uvicorn", sys)
    if place != "server":
        monkeypatch.delitem(sys.modules, "uvicorn")
    if place == "below a server":
        monkeypatch.setattr(engine_core, "parent_process", lambda: sys)
    session, events = session_with_list()
    watch = engine_core.server_engine(session, Call(("self",), (object(),), {}))
    next(watch)
    with pytest.raises(StopIteration):
        watch.send(Outcome(result=None))
    assert len(of_kind(events, "server_ready")) == (place == "program")


MEMORY = "CUDA out of memory. Tried to allocate 2.00 GiB."


@pytest.mark.parametrize(
    ("inner", "is_cause", "recorded"),
    [
        (AttributeError("no size"), True, "AttributeError: no size"),
        (KeyError("k"), False, "ValueError: could not be applied"),
        (RuntimeError(MEMORY), True, f"RuntimeError: {MEMORY}"),
        (RuntimeError(MEMORY), False, f"RuntimeError: {MEMORY}"),
    ],
)
def test_of_errors_that_are_wrapped_the_first_is_recorded_once(
    inner, is_cause, recorded
):
    session, events = session_with_list()
    outer = ValueError("could not be applied")
    try:
        try:
            raise inner
        except Exception as error:
            if is_cause:
                raise outer from error
            raise outer  # noqa: B904
    except ValueError as error:
        session.note_failure(Outcome(error=error))
        again = RuntimeError("the engine failed")
        again.__cause__ = error
        session.note_failure(Outcome(error=again))
    [failure] = of_kind(events, "failure")
    assert failure.message == recorded
    assert failure.needed_bytes == (2 * 2**30 if MEMORY in recorded else None)


def test_an_error_that_is_its_own_cause_is_recorded():
    session, events = session_with_list()
    error = ValueError("x")
    error.__cause__ = error
    session.note_failure(Outcome(error=error))
    assert [event.message for event in of_kind(events, "failure")] == ["ValueError: x"]


def test_a_refused_setting_has_the_model_that_was_given(monkeypatch):
    monkeypatch.setattr(engine_core, "parent_process", lambda: None)
    session, events = session_with_list()
    call = Call(("self",), (SimpleNamespace(model="owner/model"),), {})
    watch = engine_core.configure(session, call)
    next(watch)
    with pytest.raises(StopIteration):
        watch.send(Outcome(error=ValueError("refused")))
    models = [event.model for event in of_kind(events, "config_recorded")]
    assert models[-1:] == ["owner/model"]


def test_a_failure_keeps_the_figures_of_its_text():
    """What the engine compared counts before what is free on the device now."""
    text = (
        "To serve at least one request with the model's max seq len (262144), (18.00 GiB "
        "KV cache is needed, which is larger than the available KV cache memory (9.00 GiB)."
    )
    session, events = session_with_list()
    session.note_failure(Outcome(error=ValueError(text)))
    (failure,) = of_kind(events, "failure")
    assert (failure.needed_bytes, failure.free_bytes) == (18 * GIB, 9 * GIB)
    assert failure.max_model_len == 262144


@pytest.mark.filterwarnings("ignore:.*multi-threaded:DeprecationWarning")
def test_a_forked_child_starts_again_with_nothing():
    session, events = session_with_list()
    session.begin_run()
    session.rank = 3
    session.begin_phase("warmup")
    session.collector.switch_on()
    os.register_at_fork(after_in_child=session.after_fork)
    child = os.fork()
    if child == 0:
        code = 1
        try:
            events.clear()
            session.emit(Note, topic="t", text="x")
            session.begin_run()
            session.end_run()
            fresh = session.rank is None and session.collector.total_s == 0.0
            kinds = [type(event).__name__ for event in events]
            code = 0 if fresh and kinds == ["Note"] else 1
        finally:
            os._exit(code)
    assert os.waitpid(child, 0)[1] == 0
    session.collector.switch_off()
    session.end_run()
    assert type(events[-1]).__name__ == "RunFinished"


def test_the_run_id_is_made_once_and_handed_on():
    environ = {"WARMUP_INSIGHTS_DB": "x.db"}
    first = read_settings(environ)
    second = read_settings(dict(environ))
    assert first.is_first
    assert not second.is_first
    assert first.run_id == second.run_id == environ["WARMUP_INSIGHTS_RUN"]


@pytest.mark.parametrize(
    ("text", "expected"), [("1", True), ("true", True), ("0", False), ("", False)]
)
def test_switches(text, expected):
    environ = {"WARMUP_INSIGHTS_DB": "x.db"} | dict.fromkeys(
        ("WARMUP_INSIGHTS_SYNC", "WARMUP_INSIGHTS_FREEZE_GC"), text
    )
    settings = read_settings(environ)
    assert settings.syncs is settings.freezes_gc is expected


def test_every_variable_is_explained():
    assert all(name.startswith("WARMUP_INSIGHTS_") for name in VARIABLES)
    assert all(VARIABLES.values())


def test_command_lines_without_secrets_and_folders():
    shown = facts.command_line(
        ["/opt/venv/bin/vllm", "serve", "m", "--api-key", "a b", "--hf-token=c",
         "--url", "http://u:p@h"]
    )  # fmt: skip
    assert shown == "vllm serve m --api-key '***' '--hf-token=***' --url 'http://***@h'"


def test_only_plain_values_are_taken():
    class Enumeration:
        name = "FULL"

    assert facts.plain(Enumeration()) == "FULL"
    assert facts.plain([1, "a", None]) is None
    assert facts.plain((1, 2)) == [1, 2]
    assert facts.plain(object()) is None


@pytest.mark.parametrize(
    ("is_v2", "has_gaudi", "expected"),
    [
        (False, False, "V1"),
        (True, False, "V2"),
        (False, True, "V1"),
        (True, True, None),  # vllm-gaudi has a runner of its own
        (None, False, None),
    ],
)
def test_the_model_runner_is_that_of_the_configuration(
    monkeypatch, is_v2, has_gaudi, expected
):
    monkeypatch.setattr(facts, "is_installed", lambda name: has_gaudi)
    config = config_of() if is_v2 is None else config_of(use_v2_model_runner=is_v2)
    assert facts.configuration(config).get("model_runner") == expected


def test_a_configuration_that_cannot_be_asked_for_its_runner_has_none():
    class Config:
        @property
        def use_v2_model_runner(self):
            return self.model_config.is_diffusion

    assert facts.configuration(Config()) == {}


def test_ray_workers_get_our_variables_where_vllm_copies_some(monkeypatch):
    """`get_env_vars_to_copy` of vLLM 0.17.1 and later reads its prefixes at each call."""
    module = SimpleNamespace(DEFAULT_ENV_VAR_PREFIXES={"VLLM_"})
    module.get_env_vars_to_copy = lambda: set(module.DEFAULT_ENV_VAR_PREFIXES)
    monkeypatch.setitem(sys.modules, "vllm.ray.ray_env", module)
    session, _ = session_with_list()
    watch_class(session, module, get_env_vars_to_copy=engine_core.copy_to_ray)
    assert module.get_env_vars_to_copy() == {"VLLM_", "WARMUP_INSIGHTS_"}


def test_the_plugin_leaves_the_variables_of_vllm_as_they_are(tmp_path):
    """They are in the keys of its compile caches: a recorded start would find none."""
    program = (
        "import os, sys, types\n"
        "sys.modules['vllm.envs'] = types.SimpleNamespace(environment_variables="
        "{'VLLM_RAY_EXTRA_ENV_VAR_PREFIXES_TO_COPY': None})\n"
        "before = dict(os.environ)\n"
        "from warmup_insights.vllm_plugin.attach import start\n"
        "start(os.environ)\n"
        "print([n for n in os.environ if os.environ[n] != before.get(n)])\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", program],
        env=environment("v0_26", WARMUP_INSIGHTS_DB=str(tmp_path / "runs.db")),
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=True,
    )
    assert done.stdout == "['WARMUP_INSIGHTS_RUN']\n"
