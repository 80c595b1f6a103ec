"""A dashboard server and a browser for tests, screenshots and benchmarks."""

from __future__ import annotations

import os
import re
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
from urllib.parse import urlsplit

CHROMIUM = "/usr/bin/chromium"
IDLE = '[data-testid="stApp"][data-test-script-state="notRunning"]'
LATER = ".st-key-rest-of-overview"
"""Stands for the figures that follow in the first run of a session."""
ARGUMENTS = ["--no-sandbox", "--disable-dev-shm-usage", "--disable-gpu"]
ROOT = Path(__file__).resolve().parents[2]
PROBE = re.compile(r"/[a-z]+/_stcore/(health|host-config)$")
"""Requests of Streamlit's client below the address of a page, whose status is 404."""


def free_port() -> int:
    """A port that is free."""
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
        process.wait(timeout=600)


def wait_until_healthy(
    address: str, process: subprocess.Popen[Any], timeout_s: float = 600.0
) -> None:
    """Return when the status of an address is 200; RuntimeError when the server ends."""
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
    raise RuntimeError("the server was not ready in time")


def settle(page: Any) -> None:
    """Wait until the script of a page has ended and its figures are drawn."""
    page.wait_for_selector(IDLE, timeout=600_000)
    page.wait_for_timeout(150)
    page.wait_for_selector(LATER, state="detached", timeout=600_000)
    page.wait_for_selector(IDLE, timeout=600_000)


STYLED = """() => [...document.querySelectorAll('style')]
  .some(style => style.textContent.includes('canvas:focus-visible'))"""
"""A page draws its styles first; Streamlit's navigation is there before them."""
PICTURES = "WARMUP_INSIGHTS_PICTURES"
"""The folder that the pictures of walks are written to; none are without it."""


def picture(page: Any, name: str) -> None:
    """Keep what a walk sees, where a folder for it is set."""
    folder = os.environ.get(PICTURES)
    if folder:
        settle(page)
        page.wait_for_timeout(1000)
        page.screenshot(path=str(Path(folder) / f"{name}.png"))


class Visitor:
    """A page of a browser that notes what must not happen."""

    def __init__(self, browser, address: str, **options) -> None:
        self.address = address
        self.context = browser.new_context(**options)
        self.page = self.context.new_page()
        self.troubles: list[str] = []
        self.hosts: set[str] = set()
        self.page.on("request", self._requested)
        self.page.on("response", self._answered)
        self.page.on("console", self._logged)
        self.page.on("pageerror", lambda error: self.troubles.append(str(error)))

    def _requested(self, request) -> None:
        parts = urlsplit(request.url)
        if parts.scheme in ("http", "https", "ws", "wss"):
            self.hosts.add(parts.netloc)

    def _answered(self, response) -> None:
        if response.status >= 400 and not PROBE.search(response.url):
            self.troubles.append(f"{response.status} {response.url}")

    def _logged(self, message) -> None:
        # Failed requests stand here without their address; `_answered` has it.
        if message.type == "error" and "Failed to load resource" not in message.text:
            self.troubles.append(message.text)

    def open(self, path: str):
        self.page.goto(self.address + path, wait_until="commit")
        self.page.wait_for_function(STYLED, timeout=600_000)
        settle(self.page)
        return self.page

    def close(self) -> None:
        self.context.close()
        assert self.troubles == []
        assert self.hosts == {urlsplit(self.address).netloc}
