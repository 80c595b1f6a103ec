"""How serving ends, and which process of the engine ended it.

The classes here make the calls of vLLM 0.32 (`v1/engine/core_client.py`, `v1/engine/core.py`,
`v1/executor/multiproc_executor.py`).
"""

from __future__ import annotations

import asyncio
import multiprocessing
import os
import runpy
import signal
from types import SimpleNamespace

import pytest

from tests.vllm_plugin.listening import of_kind, session_with_list, watch_class
from warmup_insights.model.events import kind_of
from warmup_insights.vllm_plugin import engine_core, facts, workers

ENDS = {0: 0, 1: 1, -9: signal.SIGKILL, -15: signal.SIGTERM, -2: signal.SIGINT}


def end(code):
    if code >= 0:
        os._exit(code)
    signal.signal(-code, signal.SIG_DFL) if code != -9 else None
    os.kill(os.getpid(), -code)


def ended(code):
    """A process that ended with an exit code."""
    context = multiprocessing.get_context("fork")
    process = context.Process(target=end, args=(code,))
    process.start()
    process.join(60)
    assert process.exitcode == code
    return process


def client(codes, *, is_dead):
    """A client of a server that is ready, and the events of its session."""
    session, events = session_with_list()

    class MPClient:
        def __init__(self):
            self.resources = SimpleNamespace(
                engine_dead=is_dead,
                engine_manager=SimpleNamespace(processes=[*map(ended, codes)]),
            )

        def shutdown(self, timeout=None):
            self.resources.engine_dead = True

    watch_class(session, MPClient, shutdown=engine_core.stop_engine)
    session.state.is_of_server = True
    session.note_ready()
    return MPClient(), session, events


@pytest.mark.parametrize(
    ("codes", "failure"),
    [((-9,), "killed"), ((1,), "error"), ((), "error"), ((0,), None), ((-15,), None)],
)
def test_a_core_that_ends_by_itself_ends_serving(codes, failure):
    """All of them ended by an order where a signal came to every process."""
    engine, _, events = client(codes, is_dead=True)
    engine.shutdown()
    engine.shutdown()
    found = [event.failure for event in of_kind(events, "serving_failure")]
    assert found == ([failure] if failure else [])
    assert len(of_kind(events, "shutdown_requested")) == (failure is None)


def test_a_server_that_is_stopped_stops_its_engine_once():
    engine, _, events = client((), is_dead=False)
    engine.shutdown(timeout=0)
    engine.shutdown()
    [stop] = of_kind(events, "shutdown_requested")
    assert stop.message == "the server was stopped"
    assert of_kind(events, "serving_failure") == []


def test_an_engine_without_a_server_that_is_ready_is_not_serving(monkeypatch):
    engine, session, events = client((-9,), is_dead=True)
    session.is_ready = False
    engine.shutdown()
    session.is_ready = True
    session.state.is_of_server = False
    engine.shutdown()
    session.state.is_of_server = True
    parent = SimpleNamespace(name="MainProcess")
    monkeypatch.setattr(engine_core, "parent_process", lambda: parent)
    engine.shutdown()
    assert [event.time for event in events if "erv" in type(event).__name__] == [None]


def test_an_error_in_a_batch_is_not_one_of_the_start():
    engine, session, events = client((), is_dead=False)
    session.is_ready = False
    events.clear()
    calls = SimpleNamespace(run_batch=run_batch)
    watch_class(session, calls, run_batch=engine_core.run_batch)
    error = asyncio.run(calls.run_batch(engine, None))
    session.note_end_of_program(error)
    engine.shutdown()
    assert [kind_of(event) for event in events] == ["server_ready"]


async def run_batch(engine_client, args):
    return ValueError("of a line of the file")


@pytest.mark.parametrize(
    ("codes", "failures"),
    [((), ["error"]), ((-9,), ["killed"]), ((1, -15), ["error"]), ((0, -15), [])],
)
def test_the_error_of_a_core_is_recorded_where_it_is_handled(codes, failures):
    session, events = session_with_list()

    class EngineCoreProc:
        def __init__(self):
            workers = [SimpleNamespace(proc=ended(code)) for code in codes]
            self.model_executor = SimpleNamespace(workers=workers)

        def run(self):
            try:
                raise RuntimeError("Executor failed.")
            except RuntimeError:
                self._send_engine_dead()

        def _send_engine_dead(self):
            pass

    watch_class(session, EngineCoreProc, _send_engine_dead=engine_core.core_failed)
    EngineCoreProc().run()
    found = of_kind(events, "failure")
    assert [event.failure for event in found] == failures
    assert {event.message for event in found} <= {"RuntimeError: Executor failed."}


def test_a_worker_that_ends_by_itself_is_the_cause_of_the_error_of_its_core():
    session, events = session_with_list()
    worker = ended(-4)

    class EngineCoreProc:
        model_executor = SimpleNamespace(
            workers=[SimpleNamespace(proc=ended(-15)), SimpleNamespace(proc=worker)],
            is_failed=True,
        )

        def _send_engine_dead(self):
            pass

    watch_class(session, EngineCoreProc, _send_engine_dead=engine_core.core_failed)
    try:
        raise RuntimeError("cancelled")
    except RuntimeError:
        EngineCoreProc()._send_engine_dead()
    [found] = of_kind(events, "failure")
    text = f"Worker proc {worker.name} died unexpectedly (exit code: -4)"
    assert (found.message, found.module) == (text, None)


@pytest.mark.parametrize(
    ("code", "failure"), [(-9, "killed"), (1, "error"), (-11, "error")]
)
def test_a_worker_that_is_killed_while_it_loads_is_found(code, failure):
    session, events = session_with_list()

    class WorkerProc:
        @staticmethod
        def wait_for_ready(unready_proc_handles):
            raise Exception("WorkerProc initialization failed")

    watch_class(session, WorkerProc, wait_for_ready=engine_core.wait_for_workers)
    with pytest.raises(Exception, match="WorkerProc"):
        WorkerProc.wait_for_ready([SimpleNamespace(proc=ended(code))])
    [found] = of_kind(events, "failure")
    assert (found.failure, found.phase) == (failure, "start_workers")
    assert found.message.endswith(
        f"(exit code: {code})" if code < 0 else "initialization failed"
    )


def test_the_error_of_a_worker_is_recorded_where_it_is_raised():
    """Its core gets the text of one worker, and makes an error of its own of that."""
    session, events = session_with_list()

    class Worker:
        def execute_model(self, scheduler_output):
            raise RuntimeError("no tensors")

    watch_class(session, Worker, execute_model=workers.step)
    with pytest.raises(RuntimeError):
        Worker().execute_model(None)
    [found] = of_kind(events, "failure")
    assert found.message == "RuntimeError: no tensors"


@pytest.mark.parametrize(
    ("line", "text"),
    [
        ("assert tensors is not None", "AssertionError: assert tensors is not None"),
        ("raise AssertionError", "AssertionError"),
        ("raise TimeoutError", "TimeoutError"),
    ],
)
def test_an_error_without_a_text_has_the_line_that_asserts(tmp_path, line, text):
    path = tmp_path / "source.py"
    path.write_text(f"tensors = None\n{line}\n", encoding="utf-8")
    with pytest.raises((AssertionError, TimeoutError)) as caught:
        runpy.run_path(str(path))
    assert facts.text_of(caught.value) == text
