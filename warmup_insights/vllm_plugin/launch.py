"""Running the `vllm` command with recording on, as if it had been called directly."""

from __future__ import annotations

import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Collection, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from warmup_insights.errors import InputError
from warmup_insights.storage.location import database_path
from warmup_insights.vllm_plugin import facts, settings

PLUGIN_NAME = "warmup_insights"
PLUGINS_VARIABLE = "VLLM_PLUGINS"
_STOPPING = ("SIGINT", "SIGTERM", "SIGHUP")
_WATCHED = (*_STOPPING, "SIGQUIT", "SIGUSR1", "SIGUSR2", "SIGCHLD")
_FROM_KERNEL = 128
"""`SI_KERNEL`: the terminal sent it, to the whole process group."""


@dataclass(frozen=True)
class Ending:
    """How a command ended."""

    exit_code: int
    """Its own, or 128 plus the signal that killed it, like a shell gives."""
    at: float
    """When it was seen to have ended, seconds since the epoch."""
    stops: tuple[float, ...] = ()
    """When signals came that stop it."""
    killed_by: int | None = None
    """Number of the signal that it did not survive."""

    @property
    def is_failure(self) -> bool:
        """Whether it ended by itself and not well."""
        return self.exit_code != 0 and not self.stops


def vllm_command(executable: str = sys.executable) -> list[str]:
    """How to call vLLM of this environment.

    Raises:
        InputError: vLLM is not installed here, where the plugin is.
    """
    script = Path(executable).with_name("vllm")
    if facts.is_installed("vllm"):
        if script.is_file():
            return [str(script)]
        return [executable, "-m", "vllm.entrypoints.cli.main"]
    other = shutil.which("vllm")
    where = f" ({other} belongs to another)" if other else ""
    raise InputError(
        f"No vLLM is installed in the environment of {executable}{where}; install "
        "warmup-insights with the same pip as vLLM"
    )


def recording_environment(
    environ: Mapping[str, str],
    *,
    database: str,
    run_id: str,
    source: str,
    label: str | None = None,
    freezes_gc: bool = False,
) -> dict[str, str]:
    """The environment in which vLLM records into a database, with us as drainer."""
    changed = dict(environ)
    # Right in whatever folder a worker runs.
    changed[settings.DATABASE] = str(database_path(database) or database)
    changed[settings.RUN] = run_id
    changed[settings.SOURCE] = source
    changed[settings.DRAINER] = settings.drainer_of(run_id)
    if label:
        changed[settings.LABEL] = label
    if freezes_gc:
        changed[settings.FREEZE_GC] = "1"
    allowed = changed.get(PLUGINS_VARIABLE)
    if allowed is not None and PLUGIN_NAME not in allowed.split(","):
        changed[PLUGINS_VARIABLE] = ",".join(filter(None, [allowed, PLUGIN_NAME]))
    return changed


def run_command(
    command: Sequence[str],
    environ: Mapping[str, str],
    begin: Callable[[], object] | None = None,
) -> Ending:
    """Run a command to its end with our input and output, and pass signals on.

    A signal from the terminal reaches the command without us, because it belongs to
    the same process group; only signals sent to this process alone are passed on.
    `begin` is called once the command runs; threads that it starts get no signals.

    Raises:
        InputError: this system has no way to wait for signals, as macOS and Windows.
    """
    if not hasattr(signal, "sigtimedwait"):
        raise InputError(
            "`warmup-insights vllm` passes signals on as only Linux can; set "
            "WARMUP_INSIGHTS_DB to a database and start vllm itself"
        )
    watched = {signal.Signals[name] for name in _WATCHED}
    before = signal.pthread_sigmask(signal.SIG_BLOCK, watched)
    try:
        child = subprocess.Popen(
            command,
            env=dict(environ),
            preexec_fn=lambda: signal.pthread_sigmask(signal.SIG_SETMASK, before),
        )
        if begin is not None:
            begin()
        stops = _wait(child, watched)
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)
    code = child.returncode
    return Ending(
        exit_code=code if code >= 0 else 128 - code,
        at=time.time(),
        stops=tuple(stops),
        killed_by=-code if code < 0 else None,
    )


def _wait(
    child: subprocess.Popen[bytes], watched: Collection[signal.Signals]
) -> list[float]:
    stops = []
    while child.poll() is None:
        received = signal.sigtimedwait(watched, 1.0)
        if received is None or received.si_signo == signal.SIGCHLD:
            continue
        if signal.Signals(received.si_signo).name in _STOPPING:
            stops.append(time.time())
        if received.si_code != _FROM_KERNEL:
            with suppress(ProcessLookupError):
                child.send_signal(received.si_signo)
    return stops
