"""Stand-in for `vllm/v1/engine/utils.py`."""

from __future__ import annotations

from standin import Bag


def wait_for_engine_startup(handshake_socket, proc_manager):
    """Raises when a process has ended; often its exit code is not known by then."""
    try:
        has_failed = handshake_socket.recv() is not None
    except EOFError:
        has_failed = True
    if has_failed:
        raise RuntimeError(
            "Engine core initialization failed. See root cause above. Failed core "
            "proc(s): {}"
        )


def launch_core_engines(pipe, process):
    wait_for_engine_startup(pipe, proc_manager=Bag(processes=[process]))
