"""Virtual environments with programs of a real vLLM, and how those are run."""

from __future__ import annotations

import os
import subprocess
import sysconfig
import venv

BUILD = ["setuptools>=77,<81", "setuptools-scm>=8", "setuptools-rust", "wheel"]
"""What builds vLLM's own packages."""


def new_environment(folder):
    """The interpreter of a new environment, which has what these tests run with too:
    torch above all; nothing of it changes."""
    venv.create(folder, with_pip=True)
    [packages] = (folder / "lib").glob("python*/site-packages")
    (packages / "tests.pth").write_text(sysconfig.get_path("purelib"), encoding="utf-8")
    return folder / "bin" / "python"


def run(*command, cwd, timeout=1200, with_errors=False, **more):
    """Run a program that must succeed; its output, maybe with that to standard error."""
    hidden = ("PYTHONPATH", "PYTHONHOME", "VIRTUAL_ENV", "WARMUP_INSIGHTS_DB")
    kept = {key: value for key, value in os.environ.items() if key not in hidden}
    done = subprocess.run(
        list(map(str, command)),
        cwd=cwd,
        env={**kept, "PYTHONNOUSERSITE": "1", **more},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT if with_errors else subprocess.PIPE,
        text=True,
        check=False,
        timeout=timeout,
    )
    assert done.returncode == 0, done.stdout[-4000:] + (done.stderr or "")[-4000:]
    return done.stdout
