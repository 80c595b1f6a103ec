"""A dashboard server and a browser for tests, screenshots and benchmarks."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

CHROMIUM = "/usr/bin/chromium"
IDLE = '[data-testid="stApp"][data-test-script-state="notRunning"]'
ARGUMENTS = ["--no-sandbox", "--disable-dev-shm-usage", "--disable-gpu"]
ROOT = Path(__file__).resolve().parents[2]


def free_port() -> int:
    """A port that nobody listens on."""
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        return int(listener.getsockname()[1])


@contextmanager
def serving(database: Path | str, *options: str) -> Iterator[tuple[str, int]]:
    """The dashboard of a database, started by its command; address and process id."""
    port = free_port()
    command = [
        sys.executable, "-m", "warmup_insights", "dashboard", "--no-browser",
        "--port", str(port), "--db", str(database), *options,
    ]  # fmt: skip
    path = os.pathsep.join([str(ROOT), os.environ.get("PYTHONPATH", "")])
    process = subprocess.Popen(
        command,
        env={**os.environ, "PYTHONPATH": path},
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        start_new_session=True,
    )
    address = f"http://127.0.0.1:{port}"
    try:
        wait_until_healthy(f"{address}/_stcore/health", process)
        yield address, process.pid
    finally:
        os.killpg(process.pid, 15)
        process.wait(timeout=20)


def wait_until_healthy(
    address: str, process: subprocess.Popen[Any], timeout_s: float = 60.0
) -> None:
    """Return as soon as a server answers; raises RuntimeError when it ends before."""
    end = time.monotonic() + timeout_s
    while time.monotonic() < end:
        if process.poll() is not None:
            raise RuntimeError(f"the server ended with {process.returncode}")
        try:
            with urllib.request.urlopen(address, timeout=2) as answer:
                if answer.status == 200:
                    return
        except (urllib.error.URLError, OSError):
            time.sleep(0.05)
    raise RuntimeError("the server did not answer in time")


def settle(page: Any) -> None:
    """Wait until the script of a page has ended and its figures are drawn."""
    page.wait_for_selector(IDLE, timeout=60_000)
    page.wait_for_timeout(150)
    page.wait_for_selector(IDLE, timeout=60_000)
