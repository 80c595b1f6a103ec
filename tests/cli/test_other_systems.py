"""Reading logs needs nothing that Python has on Linux alone: what its modules lack on
Windows or macOS is taken away from ours, which is no run there."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from warmup_insights.cli.vllm import run_command
from warmup_insights.errors import InputError

SAMPLES = Path(__file__).resolve().parents[2] / "sample_logs"
LACKS = {
    "os": (
        "fork", "register_at_fork", "sched_getaffinity", "sched_yield", "nice", "getuid",
        "geteuid", "getgid", "getpgid", "setsid", "killpg", "uname", "fchmod", "pread",
        "pwrite", "statvfs", "sysconf", "getloadavg", "wait4", "waitid", "WNOHANG",
        "O_CLOEXEC", "O_NONBLOCK", "O_NOFOLLOW", "O_DIRECTORY", "posix_fadvise",
        "fdatasync", "fchdir", "mkfifo", "chown",
    ),
    "signal": (
        "SIGHUP", "SIGQUIT", "SIGKILL", "SIGUSR1", "SIGUSR2", "SIGCHLD", "SIGALRM",
        "SIGPIPE", "SIG_BLOCK", "SIG_SETMASK", "pthread_sigmask", "sigtimedwait", "alarm", "setitimer",
    ),
}  # fmt: skip
"""What the library reference marks as available on Unix or Linux."""
PRELUDE = """
import json, os, signal, sys, types
LACKS = json.loads(sys.argv.pop(1))

class Lacking(types.ModuleType):
    def __getattribute__(self, name):
        if name in LACKS[object.__getattribute__(self, "__name__")]:
            user = sys._getframe(1).f_globals.get("__name__", "")
            if user.partition(".")[0] in ("warmup_insights", "parsers", "dashboard"):
                raise AttributeError(name)
        return object.__getattribute__(self, name)

os.__class__ = signal.__class__ = Lacking
for name in ("fcntl", "resource", "pwd", "grp", "termios"):
    sys.modules[name] = None
from warmup_insights.cli import main
main()
"""
LOG = SAMPLES / "vllm-gaudi" / "made_tp2_defrag.log"
OTHER = SAMPLES / "vllm" / "made_v1_2026_tp2.log"


def lacking(*arguments: str, folder: Path) -> subprocess.CompletedProcess[str]:
    """A command of ours without what is lacking, in a folder of its own."""
    return subprocess.run(
        [sys.executable, "-c", PRELUDE, json.dumps(LACKS), *arguments],
        cwd=folder, capture_output=True, text=True, check=False,
    )  # fmt: skip


@pytest.mark.long
def test_logs_are_read_stored_and_shown(tmp_path: Path) -> None:
    """Commands on logs work without what Windows lacks."""
    commands = (
        ("ingest", str(LOG), str(OTHER), "--jobs", "2", "--db", "runs.db"),
        ("runs", "--db", "runs.db"),
        ("show", "latest", "--db", "runs.db"),
        ("compare", str(LOG), str(OTHER)),
        ("advise", str(LOG)),
        ("report", "latest", "--db", "runs.db", "-o", "report.html"),
    )
    for command in commands:
        done = lacking(*command, folder=tmp_path)
        assert done.returncode == 0, (command, done.stderr)
        assert "Traceback" not in done.stderr


def test_a_command_that_needs_linux_is_refused_before_it_starts_anything(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """macOS has a vLLM, but no way to wait for signals."""
    monkeypatch.delattr(signal, "sigtimedwait")
    begun: list[int] = []
    with pytest.raises(InputError, match="only Linux can; set WARMUP_INSIGHTS_DB"):
        run_command([sys.executable, "-c", ""], os.environ, lambda: begun.append(1))
    assert not begun
