"""The program and the engine cores of every vLLM V1: configuration, start, ready, the KV
cache, and how starting and serving end.

Source: vLLM `engine/arg_utils.py`, `v1/executor/abstract.py`, `v1/engine/core.py`,
`v1/core/kv_cache_utils.py`, `v1/engine/llm_engine.py`, `v1/engine/async_llm.py`,
`v1/engine/utils.py`, `v1/engine/core_client.py`, `v1/executor/multiproc_executor.py`,
`v1/utils.py`, `entrypoints/launchers/run_batch.py`, `ray/ray_env.py`; uvicorn `server.py`.
"""

from __future__ import annotations

import signal
import sys
import time
from collections.abc import Iterable, Sequence, Set
from functools import partial
from multiprocessing import current_process, parent_process
from multiprocessing.connection import wait
from multiprocessing.process import BaseProcess
from typing import Any

from packaging.version import Version

from warmup_insights.model.events import (
    ConfigRecorded,
    EngineInitialized,
    KVCacheAllocated,
    PhaseMarked,
    ServingFailure,
    ShutdownRequested,
    SleepModeChanged,
)
from warmup_insights.secrets import mask_text
from warmup_insights.vllm_plugin import facts
from warmup_insights.vllm_plugin.calls import Call, Outcome, Watch, attribute, whole
from warmup_insights.vllm_plugin.session import Session
from warmup_insights.vllm_plugin.settings import PREFIX

EXIT_CODE_S = 1.0
"""How long an engine that failed or whose core ended waits for the exit codes of its
processes."""
_ORDERED = {0, -signal.SIGINT, -signal.SIGTERM}
"""Exit codes of processes that were stopped."""
_API_SERVER = "ApiServer"
"""How the names begin of processes that are API servers (`APIServerProcessManager`)."""
_WHOLE_REQUESTS_SINCE = Version("0.20.2")
"""The first vLLM whose tokens of the KV cache are those of requests of full length."""


def configure(session: Session, call: Call) -> Watch:
    """`EngineArgs.create_engine_config`: options and the files of the model are read.

    A program does so right after it has loaded the plugins. A child process does so for an
    engine of its own or, as an API server that a program starts, beside the engine.
    """
    is_child, began = parent_process() is not None, time.time()
    if is_child:
        session.state.configured_at = began
    else:
        _begin_configuration(session, began, is_own=False)
    outcome = yield
    if is_child and isinstance(outcome.error, Exception):
        is_server = current_process().name.startswith(_API_SERVER)
        _begin_configuration(session, began, is_own=not is_server)
    model = getattr(call.owner, "model", None)
    if outcome.error is not None and isinstance(model, str):
        session.emit(ConfigRecorded, model=mask_text(model))
    session.note_failure(outcome, phase="configure")
    if outcome.error is None and not is_child:
        note_configuration(session, outcome.result)


def _begin_configuration(
    session: Session, began: float | None, *, is_own: bool
) -> None:
    session.begin_run(is_own=is_own)
    if began is not None:
        session.emit(PhaseMarked, name="configure", edge="start", time=began)


def start_workers(session: Session, call: Call) -> Watch:
    """`Executor.__init__`: the engine's configuration is complete, workers come next.

    The core of a later data-parallel engine has the rank of its first worker; that of the
    first one none, as the program has.
    """
    session.rank = facts.rank_of(call.arg("vllm_config"), 0) or session.rank
    session.emit(PhaseMarked, name="start_workers", edge="start")
    outcome = yield
    session.note_failure(outcome, phase="start_workers")


def copy_to_ray(session: Session, call: Call) -> Watch:
    """`get_env_vars_to_copy`: workers of Ray get the variables of the plugin, too.

    vLLM has a variable for further ones. Each of vLLM's variables is in the keys of its
    compile caches (`envs.compile_factors`): a start with another value finds none.
    """
    module = sys.modules.get("vllm.ray.ray_env")
    prefixes = getattr(module, "DEFAULT_ENV_VAR_PREFIXES", None)
    if isinstance(prefixes, set):
        prefixes.add(PREFIX)
    yield


def _watch_sleep(session: Session, call: Call, *, action: str) -> Watch:
    before, started = _sleeping(call), time.perf_counter()
    outcome = yield
    if outcome.error is None and before != (after := _sleeping(call)):
        session.emit(
            SleepModeChanged,
            action=action,
            tags=sorted(before - after),
            duration_s=time.perf_counter() - started,
        )


sleep = partial(_watch_sleep, action="sleep")
"""`Executor.sleep(level)`: the workers give memory back, unless they did before."""
wake_up = partial(_watch_sleep, action="wake_up")
"""`Executor.wake_up(tags)`: they take memory again, of some of its uses or all."""


def _sleeping(call: Call) -> set[str]:
    """The uses whose memory the workers have given back."""
    tags = getattr(call.owner, "sleeping_tags", None)
    return {tag for tag in tags or () if isinstance(tag, str)}


def server_engine(session: Session, call: Call) -> Watch:
    """`AsyncLLM.__init__`: the engine of a server is about to start. vLLM has loaded the
    server by then; a program without one has prompts of its own.

    Also `LLMEngine.__init__` of V0, which runs in a process below the server, where that
    need not be loaded (`engine/multiprocessing/engine.py`).
    """
    _begin(session, call)
    outcome = yield
    session.note_failure(outcome)
    has_server = "uvicorn" in sys.modules or parent_process() is not None
    session.state.is_of_server = outcome.error is None and has_server
    if outcome.error is None and not has_server:
        session.note_ready()


def _begin(session: Session, call: Call) -> None:
    session.begin_run()
    note_configuration(session, call.arg("vllm_config"))
    logs = call.arg("log_stats")
    if isinstance(logs, bool):
        session.emit(ConfigRecorded, settings={"disable_log_stats": not logs})
    if parent_process() is None:
        _mark_engine(session)


def _mark_engine(session: Session) -> None:
    """The engine starts, once in the program; it does before several API servers, each
    a process beside it, come to theirs. It ends with what an engine core, maybe in
    another process, records first."""
    if not session.state.is_engine_marked:
        session.state.is_engine_marked = True
        session.emit(PhaseMarked, name="start_engine", edge="start")


def offline_engine(session: Session, call: Call) -> Watch:
    """`LLMEngine.__init__`, inside of `LLM`: afterwards prompts are accepted.

    `LLM.__init__` itself is under way when plugins are loaded. A program may start such
    processes one after the other, as `vllm bench startup` does.
    """
    began = session.state.configured_at
    _begin_configuration(session, began, is_own=parent_process() is not None)
    _begin(session, call)
    _mark_engine(session)
    outcome = yield
    session.note_failure(outcome)
    if outcome.error is None:
        session.note_ready()


def server_started(session: Session, call: Call) -> Watch:
    """`uvicorn.Server.startup`: when it is done, requests are accepted."""
    outcome = yield
    if outcome.error is None:
        session.note_ready()


def run_batch(session: Session, call: Call) -> Watch:
    """`run_batch`: the engine takes the requests of a file, and no server comes."""
    session.state.is_of_server = False
    session.note_ready()
    yield


def note_configuration(session: Session, config: Any) -> None:
    """Record a `VllmConfig`, unless it was recorded as it is now."""
    found = facts.configuration(config)
    if found == session.state.configuration:
        return
    session.state.configuration = found
    engine = facts.engine()
    session.emit(
        ConfigRecorded,
        engine=engine.name,
        version=engine.version,
        model=facts.model_of(config),
        settings={**found, **engine.settings},
    )


def initialize(session: Session, call: Call) -> Watch:
    """`_initialize_kv_caches`: profile, create the KV cache, warm up.

    The constructor of the engine loads the plugins, so it cannot be watched itself.
    """
    config = call.arg("vllm_config", default=getattr(call.owner, "vllm_config", None))
    note_configuration(session, config)
    started = time.perf_counter()
    outcome = yield
    if outcome.error is not None:
        is_killed = was_killed(_workers_of(call.owner))
        session.note_failure(outcome, phase="init_engine", is_killed=is_killed)
        return
    # Only vLLM's own compilation is counted there; 0 is also what no other kind adds.
    compile_s = attribute(config, "compilation_config.compilation_time")
    is_known = isinstance(compile_s, int | float) and compile_s
    session.emit(
        EngineInitialized,
        duration_s=time.perf_counter() - started,
        compile_s=compile_s if is_known else None,
    )


def launch_cores(session: Session, call: Call) -> Watch:
    """`launch_core_engines`: they are about to be started, after the coordinator of data
    parallel engines; `CoreEngineProcManager.__init__` where the server is elsewhere."""
    if parent_process() is None:
        _mark_engine(session)
    yield


def start_cores(session: Session, call: Call) -> Watch:
    """`wait_for_engine_startup`: the processes of the engine cores come up.

    It fails when one of them ends, maybe before its exit code is there.
    """
    outcome = yield
    if outcome.error is not None:
        in_launch = attribute(call.arg("launch"), "engine_manager")  # newer versions
        manager = call.arg("proc_manager", default=in_launch)
        processes = getattr(manager, "processes", ())
        session.note_failure(outcome, is_killed=was_killed(processes))


def wait_for_workers(session: Session, call: Call) -> Watch:
    """`WorkerProc.wait_for_ready`: the processes of the workers load the model.

    It fails when one of them ends; vLLM ends the others after it.
    """
    outcome = yield
    if outcome.error is not None:
        workers = _processes(call.arg("unready_proc_handles"))
        is_killed = was_killed(workers)
        # One that ends otherwise has recorded why.
        of_signal = [worker for worker in _died(workers) if worker.exitcode < 0]
        session.note_failure(
            outcome, phase="start_workers", cause=_death(of_signal), is_killed=is_killed
        )


def core_failed(session: Session, call: Call) -> Watch:
    """`EngineCoreProc._send_engine_dead`: called where the error of a core is handled.

    A signal to all processes ends workers before their core. Of a worker that ended by
    itself the core has an error of its own, at its queue.
    """
    ended = [worker for worker in _workers_of(call.owner) if not worker.is_alive()]
    died = _died(ended)
    if died or not ended:
        is_failed = attribute(call.owner, "model_executor.is_failed")
        session.note_failure(
            Outcome(error=sys.exc_info()[1]),
            cause=_death(died) if is_failed else None,
            is_killed=was_killed(ended),
        )
    yield


def stop_engine(session: Session, call: Call) -> Watch:
    """`MPClient.shutdown`: a server stops its engine, by an order or because a core ended.

    Not of a server beside the program, which is stopped in both cases.
    """
    is_serving = session.is_ready and session.state.is_of_server
    if is_serving and parent_process() is None:
        session.state.is_of_server = False
        is_dead = attribute(call.owner, "resources.engine_dead")
        processes = attribute(call.owner, "resources.engine_manager.processes", ())
        codes = exit_codes(processes) if is_dead else set()
        if is_dead and not (codes and codes <= _ORDERED):
            session.emit(
                ServingFailure,
                failure="killed" if _are_of_kill(codes) else "error",
                message="A process of the engine ended",
            )
        else:
            session.emit(ShutdownRequested, message="the server was stopped")
    yield


def wait_for_servers(session: Session, call: Call) -> Watch:
    """`wait_for_completion_or_failure`: several API servers run beside this program, until
    a process ends or a signal comes, maybe before one of them is ready."""
    outcome = yield
    if isinstance(outcome.error, Exception):
        servers, engines = call.arg("api_server_manager"), call.arg("engine_manager")
        processes = [
            *getattr(servers, "processes", ()),
            *getattr(engines, "processes", ()),
        ]
        session.note_failure(outcome, is_killed=was_killed(processes))
    else:
        session.note_stop("the servers were stopped")


def _workers_of(core: Any) -> list[BaseProcess]:
    """The processes of an engine core's workers; none where they are threads of it."""
    return _processes(attribute(core, "model_executor.workers"))


def _processes(handles: Iterable[Any] | None) -> list[BaseProcess]:
    found = [getattr(handle, "proc", None) for handle in handles or ()]
    return [process for process in found if isinstance(process, BaseProcess)]


def _died(processes: Iterable[BaseProcess]) -> list[Any]:
    """Those that have ended and were not stopped."""
    return [each for each in processes if each.exitcode not in {None, *_ORDERED}]


def _death(died: Sequence[BaseProcess]) -> str | None:
    """The words of vLLM's `multiproc_executor.py monitor_workers`, which may print them
    before the exit code is there."""
    if not died:
        return None
    return (
        f"Worker proc {died[0].name} died unexpectedly (exit code: {died[0].exitcode})"
    )


def was_killed(processes: Iterable[Any]) -> bool:
    """Whether a process of the engine was killed, and none ended in another way.

    vLLM kills those that are left when one has failed (SIGTERM, then SIGKILL).
    """
    return _are_of_kill(exit_codes(processes))


def _are_of_kill(codes: Set[int | None]) -> bool:
    return -signal.SIGKILL in codes and codes <= {-signal.SIGKILL, -signal.SIGTERM}


def exit_codes(processes: Iterable[Any]) -> set[int | None]:
    """Those of the processes that have ended; waits `EXIT_CODE_S` for the first of them."""
    known = {
        process.sentinel: process
        for process in processes
        if isinstance(process, BaseProcess)
    }
    codes = set()
    for ended in wait(list(known), timeout=EXIT_CODE_S) if known else ():
        process = known[ended]  # type: ignore[index]
        process.join(EXIT_CODE_S)
        codes.add(process.exitcode)
    return codes


def concurrency(session: Session, call: Call) -> Watch:
    """`get_max_concurrency_for_kv_cache_config(vllm_config, kv_cache_config)`."""
    outcome = yield
    known = session.state.concurrency
    if isinstance(outcome.result, int | float) and outcome.result != known:
        session.state.concurrency = float(outcome.result)
        longest = whole(
            attribute(call.arg("vllm_config"), "model_config.max_model_len")
        )
        session.emit(
            KVCacheAllocated,
            num_tokens=(
                int(outcome.result * longest)
                if longest is not None and counts_whole_requests()
                else None
            ),
            max_concurrency=float(outcome.result),
            tokens_per_request=longest,
        )


def counts_whole_requests() -> bool:
    """Whether the tokens of the KV cache are those of requests of full length.

    They are all slots of its blocks in older versions; the last block of a request may
    not be full.
    Source: vLLM `v1/core/kv_cache_utils.py`, `GPU KV cache size`.
    """
    version = facts.installed_version("vllm")
    return version is not None and version >= _WHOLE_REQUESTS_SINCE
