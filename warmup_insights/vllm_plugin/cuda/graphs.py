"""CUDA graph capture in both model runners of vLLM V1.

Source: vLLM `v1/worker/gpu_model_runner.py` (`capture_model`, `_dummy_run`),
`v1/worker/gpu/cudagraph_utils.py` (`CudaGraphManager.capture`,
`prepare_inputs_to_capture`). Free memory is read between captures, never inside one.
"""

from __future__ import annotations

import time
from typing import Any

from packaging.version import Version

from warmup_insights.model.events import GraphCaptured, GraphsCaptured
from warmup_insights.vllm_plugin import device
from warmup_insights.vllm_plugin.calls import Call, Watch, whole
from warmup_insights.vllm_plugin.facts import installed_version
from warmup_insights.vllm_plugin.session import Session
from warmup_insights.vllm_plugin.state import Capturing, Expected

_PREPARES_TWICE = Version("0.21.0")
_ORDER = ("PIECEWISE", "FULL")
"""In which order model runner V2 captures (`CudaGraphManager.capture`)."""


def capture_model(session: Session, call: Call) -> Watch:
    """`capture_model`: all graphs; returns the bytes they took."""
    if session.state.capturing is not None:
        return  # inside of an estimate, and a part of it
    capturing = session.state.capturing = Capturing()
    outcome, duration = yield from session.watch_phase("graph_capture")
    session.state.capturing = None
    if outcome.error is None:
        result = outcome.result
        memory = int(result) if isinstance(result, int | float) else None
        # None observed, but memory taken: captured in a way that is not watched.
        is_certain = capturing.is_certain and bool(capturing.count or memory == 0)
        session.emit(
            GraphsCaptured,
            count=capturing.count if is_certain else None,
            duration_s=duration,
            memory_bytes=memory,
        )


def dummy_run(session: Session, call: Call) -> Watch:
    """`_dummy_run` of model runner V1: runs without a graph, then one that captures."""
    capturing = session.state.capturing
    if capturing is None or capturing.is_estimate:
        return
    mode = _mode_name(call.arg("cudagraph_runtime_mode"))
    _begin(capturing)
    if mode is None:
        return
    outcome = yield
    session.wait_for_device()
    if outcome.error is not None:
        session.note_failure(outcome, phase="graph_capture")
        return
    _end(
        session,
        capturing,
        mode,
        whole(call.arg("num_tokens")),
        is_uniform=bool(call.arg("uniform_decode")),
    )


def _mode_name(mode: Any) -> str | None:
    """`FULL` or `PIECEWISE`; None for a run that captures nothing."""
    name = getattr(mode, "name", None)
    return name if name in _ORDER else None


def capture_all(session: Session, call: Call) -> Watch:
    """`CudaGraphManager.capture` of model runner V2: what it will capture, in order."""
    capturing = session.state.capturing
    if capturing is None or capturing.is_estimate:
        return
    if not _prepares_all(call.owner):
        capturing.is_certain = False
        return
    capturing.expected = expected_captures(call.owner)
    yield
    _finish_current(session, capturing)
    if capturing.expected:
        _lose_order(capturing)


def expected_captures(manager: Any) -> list[Expected]:
    """The descriptors of a manager, in the order in which it captures them.

    Inputs are prepared once for a piecewise graph, twice for any other.
    """
    by_mode = getattr(manager, "_capture_descs", None) or {}
    breakable = bool(getattr(manager, "use_breakable_cg", False))
    named = {mode.name: descriptors for mode, descriptors in by_mode.items()}
    return [
        Expected(
            mode=name,
            num_tokens=descriptor.num_tokens,
            is_uniform=getattr(descriptor, "uniform_token_count", None) is not None,
            calls_left=1 if name == "PIECEWISE" and not breakable else 2,
        )
        for name in _ORDER
        for descriptor in named.get(name, ())
    ]


def _prepares_all(manager: Any) -> bool:
    """Whether inputs are prepared for each graph as often as expected.

    Before 0.21 they are prepared once for any graph, and never for one of a batch that
    is split in two (dual batch overlap, 0.30 and later).
    """
    version = installed_version("vllm")
    parallel = getattr(getattr(manager, "vllm_config", None), "parallel_config", None)
    splits = getattr(parallel, "use_ubatching", False)
    return (version is None or version >= _PREPARES_TWICE) and not splits


def _lose_order(capturing: Capturing) -> None:
    """Graphs are captured in another way than expected: count none from here on."""
    capturing.expected = []
    capturing.is_certain = False
    capturing.step_time = None


def prepare_inputs(session: Session, call: Call) -> Watch:
    """`prepare_inputs_to_capture`: called before each capture, outside of the graph."""
    capturing = session.state.capturing
    if capturing is None or capturing.is_estimate or not capturing.expected:
        return
    if capturing.expected[0].calls_left == 0:
        _finish_current(session, capturing)
    if capturing.expected and capturing.expected[0].num_tokens == call.arg(
        "num_tokens"
    ):
        capturing.expected[0].calls_left -= 1
        _begin(capturing)
    else:
        _lose_order(capturing)
    yield


def _finish_current(session: Session, capturing: Capturing) -> None:
    if not capturing.expected or capturing.expected[0].calls_left:
        return
    current = capturing.expected.pop(0)
    _end(
        session,
        capturing,
        current.mode,
        current.num_tokens,
        is_uniform=current.is_uniform,
    )


def _begin(capturing: Capturing) -> None:
    """A capture begins, with the runs that prepare it."""
    if capturing.step_time is None:
        capturing.step_time = time.time()
        capturing.step_started = time.perf_counter()
        capturing.free_before, _ = device.free_and_total()


def _end(
    session: Session,
    capturing: Capturing,
    mode: str,
    num_tokens: int | None,
    *,
    is_uniform: bool,
) -> None:
    free, _ = device.free_and_total()
    before = capturing.free_before
    capturing.count += 1
    session.emit(
        GraphCaptured,
        phase="decode" if is_uniform else "mixed",
        bucket=(num_tokens,) if num_tokens is not None else (),
        mode=mode,
        index=capturing.count,
        duration_s=time.perf_counter() - capturing.step_started,
        memory_bytes=before - free if before is not None and free is not None else None,
        time=capturing.step_time,
    )
    capturing.step_time = None
