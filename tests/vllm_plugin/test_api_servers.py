"""Several API servers, each a process beside the one that starts the engine, and several
engines.

The classes here make the calls of vLLM 0.32 in their order (`cli/serve.py`,
`run_multi_api_server`; `v1/engine/utils.py`, `launch_core_engines`).
"""

from __future__ import annotations

import multiprocessing
import sys
import time
from contextlib import suppress
from types import SimpleNamespace

import msgspec
import pytest

from tests.vllm_plugin.listening import of_kind, session_with_list, watch_class
from tests.vllm_plugin.standin_config import config_of
from warmup_insights.model.events import EngineInitialized, RunFinished, ServerReady
from warmup_insights.testing import folded
from warmup_insights.vllm_plugin import engine_core
from warmup_insights.vllm_plugin.attach import Instrumentation

PARENT = SimpleNamespace(name="MainProcess")


def program():
    """The calls of a program, watched, and the events of its session."""
    session, events = session_with_list()

    class EngineArgs:
        def create_engine_config(self):
            return config_of(model_config=SimpleNamespace(model="m"))

    class AsyncLLM:
        def __init__(self, vllm_config, starts_cores):
            if starts_cores:
                calls.launch_core_engines(vllm_config)

    calls = SimpleNamespace(launch_core_engines=lambda vllm_config: None)
    watch_class(session, EngineArgs, create_engine_config=engine_core.configure)
    watch_class(session, AsyncLLM, __init__=engine_core.server_engine)
    watch_class(session, calls, launch_core_engines=engine_core.launch_cores)
    return EngineArgs(), AsyncLLM, calls, events


def marks(events):
    return [event.name for event in of_kind(events, "phase_marked")]


@pytest.fixture
def is_server(monkeypatch):
    monkeypatch.setattr(engine_core, "parent_process", lambda: PARENT)


def test_a_program_with_its_own_server_marks_the_engine_once():
    args, server, _, events = program()
    server(args.create_engine_config(), starts_cores=True)
    assert marks(events) == ["import", "configure", "start_engine"]


def test_a_program_with_several_servers_marks_the_engine_before_them():
    args, _, calls, events = program()
    calls.launch_core_engines(args.create_engine_config())
    assert marks(events) == ["import", "configure", "start_engine"]


def test_engines_whose_server_is_elsewhere_are_initialised_when_they_are():
    """`run_headless`: nothing in the program is ready, and it ends when it is stopped."""
    session, events = session_with_list()

    class EngineArgs:
        def create_engine_config(self):
            return config_of(model_config=SimpleNamespace(model="m"))

    class CoreEngineProcManager:
        def __init__(self, local_engine_count):
            pass

    watch_class(session, EngineArgs, create_engine_config=engine_core.configure)
    watch_class(session, CoreEngineProcManager, __init__=engine_core.launch_cores)
    EngineArgs().create_engine_config()
    CoreEngineProcManager(1)
    assert marks(events) == ["import", "configure", "start_engine"]
    stamped = [msgspec.structs.replace(e, time=float(n)) for n, e in enumerate(events)]
    initialised = EngineInitialized(duration_s=2.0, rank=1, time=50.0)
    found = folded(
        [*stamped, initialised, RunFinished(status="finished", time=400.0)],
        source_kind="recorder",
    ).summary.time
    assert found.wall_s == 50.0
    assert found.seconds_by_phase()["configure"] == 2.0


@pytest.mark.usefixtures("is_server")
def test_a_server_beside_the_program_starts_no_engine():
    args, server, _, events = program()
    server(args.create_engine_config(), starts_cores=False)
    assert "start_engine" not in marks(events)


def test_the_settings_are_those_of_the_program_from_the_first_moment():
    args, server, _, events = program()
    config = args.create_engine_config()
    assert [event.model for event in of_kind(events, "config_recorded")] == [None, "m"]
    server(config, starts_cores=True)
    assert len(of_kind(events, "config_recorded")) == 2


@pytest.mark.parametrize(
    ("config", "rank"),
    [
        (config_of(index=0), None),
        (config_of(index=1), 1),
        (config_of(index=2, world_size=2), 4),
        (config_of(data_parallel_rank=1, world_size=2), 2),
    ],
    ids=["the first", "the second", "of two ranks each", "older versions"],
)
def test_what_an_engine_core_records_is_of_its_first_rank(config, rank):
    session, events = session_with_list()

    class Executor:
        def __init__(self, vllm_config):
            pass

    watch_class(session, Executor, __init__=engine_core.start_workers)
    Executor(config)
    assert [event.rank for event in of_kind(events, "phase_marked")] == [rank]


def test_sleeping_takes_what_the_log_states_and_only_where_it_changes_something():
    session, events = session_with_list()

    class Executor:
        def __init__(self, vllm_config):
            self.sleeping_tags = set()

        def sleep(self, level=1):
            self.sleeping_tags |= {"weights", "kv_cache"}

        def wake_up(self, tags=None):
            self.sleeping_tags -= set(tags or self.sleeping_tags)

    watch_class(session, Executor, sleep=engine_core.sleep, wake_up=engine_core.wake_up)
    executor = Executor(config_of())
    executor.wake_up()
    executor.sleep(level=1)
    executor.sleep(level=1)
    executor.wake_up(tags=["weights"])
    executor.wake_up()
    changes = [(each.action, each.tags) for each in events]
    assert changes == [
        ("sleep", []),
        ("wake_up", ["weights"]),
        ("wake_up", ["kv_cache"]),
    ]
    assert all(0 <= each.duration_s < 1 for each in events)


def test_workers_that_do_not_start_are_a_failure_of_their_start():
    session, events = session_with_list()

    class Executor:
        def __init__(self, vllm_config):
            raise RuntimeError("WorkerProc initialization failed")

    watch_class(session, Executor, __init__=engine_core.start_workers)
    with pytest.raises(RuntimeError, match="WorkerProc"):
        Executor(config_of())
    [failure] = of_kind(events, "failure")
    assert (failure.failure, failure.phase) == ("error", "start_workers")


@pytest.mark.parametrize("ready_at", [None, 5.0], ids=["starting", "serving"])
@pytest.mark.parametrize(
    ("error", "failure"),
    [
        (SystemExit(), None),
        (None, None),
        (RuntimeError("Process ApiServer_0 died with exit code 1"), "error"),
    ],
    ids=["a signal", "all end well", "one fails"],
)
def test_servers_beside_the_program_end_serving_or_their_start(
    error, failure, ready_at
):
    session, events = session_with_list()

    def wait_for_completion_or_failure(api_server_manager, engine_manager=None):
        if error is not None:
            raise error

    calls = SimpleNamespace(
        wait_for_completion_or_failure=wait_for_completion_or_failure
    )
    watch_class(
        session, calls, wait_for_completion_or_failure=engine_core.wait_for_servers
    )
    session.begin_run()
    with suppress(SystemExit, RuntimeError):
        calls.wait_for_completion_or_failure(SimpleNamespace(processes=[]))
    *before, last = [msgspec.structs.replace(each, time=9.0) for each in events]
    ready = [] if ready_at is None else [ServerReady(time=ready_at)]
    found = folded([*before, *ready, last], source_kind="recorder").summary
    if ready:
        assert found.status == "finished"
        assert found.serving.end.kind == (failure or "shutdown")
        assert found.serving.duration_s == 4.0
    else:
        assert found.status == ("failed" if failure else "stopped")
        assert found.serving is None


@pytest.fixture
def end_with(monkeypatch):
    """Ends a program with an error, and whether that was shown as ever."""
    shown = []
    monkeypatch.setattr(sys, "excepthook", lambda *error: shown.append(error[1]))

    def end(session, error):
        running = Instrumentation(session, ())
        running.watch_end()
        sys.excepthook(type(error), error, None)
        return shown == [error]

    return end


@pytest.mark.parametrize("is_up", [False, True], ids=["before", "behind its engine"])
def test_an_error_that_ends_a_server_before_it_is_ready_is_its_failure(
    end_with, is_up, monkeypatch
):
    monkeypatch.setitem(sys.modules, "uvicorn", sys)
    session, events = session_with_list()

    class AsyncLLM:
        def __init__(self, vllm_config):
            pass

    watch_class(session, AsyncLLM, __init__=engine_core.server_engine)
    if is_up:
        AsyncLLM(config_of())
    assert end_with(session, ValueError("no tokenizer"))
    [failure] = of_kind(events, "failure")
    assert failure.message == "ValueError: no tokenizer"
    assert failure.phase == ("server_start" if is_up else None)


def test_an_error_that_ends_a_program_with_an_engine_is_not_that_of_the_engine(
    end_with,
):
    session, events = session_with_list()
    session.note_ready()
    assert end_with(session, ValueError("of the program"))
    assert of_kind(events, "failure") == []


def test_an_error_is_shown_where_it_cannot_be_recorded(end_with, monkeypatch):
    session, _ = session_with_list()
    monkeypatch.setattr(session, "note_failure", None)
    assert end_with(session, ValueError("no tokenizer"))


@pytest.mark.parametrize("is_newer", [False, True])
def test_a_core_that_was_killed_is_found_where_a_version_has_it(is_newer):
    process = multiprocessing.get_context("spawn").Process(
        target=time.sleep, args=(60,)
    )
    process.start()
    process.kill()
    session, events = session_with_list()
    manager = SimpleNamespace(processes=[process])

    def wait_for_engine_startup(proc_manager=None):
        raise RuntimeError("Engine core initialization failed")

    def wait_for_engine_startup_of_newer(launch=None):
        raise RuntimeError("Engine core initialization failed")

    calls = SimpleNamespace(
        wait_for_engine_startup=wait_for_engine_startup_of_newer
        if is_newer
        else wait_for_engine_startup
    )
    watch_class(session, calls, wait_for_engine_startup=engine_core.start_cores)
    given = SimpleNamespace(engine_manager=manager) if is_newer else manager
    with pytest.raises(RuntimeError, match="Engine core"):
        calls.wait_for_engine_startup(given)
    [failure] = of_kind(events, "failure")
    assert failure.failure == "killed"
