"""The real vLLM, built without an accelerator: every upstream hook attaches.

Only where `WARMUP_INSIGHTS_REAL_VLLM` names versions, such as `0.26.0` or
`0.26.0,0.33.0`: each is built from its source distribution for the `empty` target, in an
environment of its own, with torch and about 25 packages from the registry. That takes
two to three minutes and 3 GB for each version on two cores.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import venv
from pathlib import Path

import pytest

from tests.audit.__main__ import coverage, rows_of, wrong

ROOT = Path(__file__).resolve().parents[2]
VERSIONS = [v for v in os.environ.get("WARMUP_INSIGHTS_REAL_VLLM", "").split(",") if v]
BUILD = ["torch==2.13.0", "setuptools>=77,<81", "setuptools-scm>=8", "wheel",
         "packaging", "ninja", "cmake", "numpy", "setuptools-rust"]  # fmt: skip
IMPORTED = [
    "cloudpickle", "pydantic", "tqdm", "regex", "cbor2", "psutil", "pyzmq", "urllib3",
    "transformers==5.12.0", "aiohttp", "requests", "openai-harmony", "openai", "msgspec",
    "pillow", "pybase64", "cachetools", "uvloop", "py-cpuinfo", "prometheus_client",
    "xgrammar", "fastapi", "partial-json-parser", "llguidance", "einops", "uvicorn",
    "jsonschema", "blake3", "sentencepiece", "tiktoken", "mistral_common",
]  # fmt: skip
OURS = ["sqlalchemy>=2,<3", "click>=8.1,<9", "rich", "zstandard"]

pytestmark = [
    pytest.mark.skipif(
        not VERSIONS, reason="WARMUP_INSIGHTS_REAL_VLLM names no version to build"
    ),
    pytest.mark.xdist_group("real vllm"),
]


def run(*command, cwd, timeout=1200, **more):
    """Run a program that must succeed; its output."""
    hidden = ("PYTHONPATH", "PYTHONHOME", "VIRTUAL_ENV", "WARMUP_INSIGHTS_DB")
    kept = {key: value for key, value in os.environ.items() if key not in hidden}
    done = subprocess.run(
        list(map(str, command)),
        cwd=cwd,
        env={**kept, "PYTHONNOUSERSITE": "1", **more},
        capture_output=True,
        text=True,
        check=False,
        timeout=timeout,
    )
    assert done.returncode == 0, done.stdout[-4000:] + done.stderr[-4000:]
    return done.stdout


def install_ours(python, folder):
    """This project, built from a copy, so that nothing is left in the source tree."""
    source = folder / "source"
    for name in ("warmup_insights", "parsers", "dashboard"):
        ignored = shutil.ignore_patterns("__pycache__")
        shutil.copytree(ROOT / name, source / name, ignore=ignored)
    for name in ("pyproject.toml", "README.md", "LICENSE"):
        shutil.copy(ROOT / name, source)
    pip = (python, "-m", "pip", "install", "--quiet", "--no-deps")
    run(*pip, "--no-build-isolation", source, cwd=folder)


@pytest.fixture(scope="module", params=VERSIONS)
def real(request, tmp_path_factory):
    """Version and interpreter of an environment with that vLLM and this project."""
    version = request.param
    folder = tmp_path_factory.mktemp(f"vllm-{version}")
    venv.create(folder / "env", with_pip=True)
    python = folder / "env" / "bin" / "python"
    pip = (python, "-m", "pip", "install", "--quiet")
    run(*pip, *BUILD, cwd=folder)
    run(
        *pip, "--no-deps", "--no-binary", "vllm", "--no-build-isolation",
        f"vllm=={version}", cwd=folder,
        VLLM_TARGET_DEVICE="empty", VLLM_VERSION_OVERRIDE=version,
        PATH=f"{python.parent}{os.pathsep}{os.environ['PATH']}",
    )  # fmt: skip
    run(*pip, *IMPORTED, *OURS, cwd=folder)
    install_ours(python, folder)
    return version, python, folder


@pytest.fixture(scope="module")
def found(real):
    """What attached in that environment."""
    _, python, folder = real
    program = Path(__file__).with_name("attach_real.py")
    output = run(
        python, "-B", program, cwd=folder, WARMUP_INSIGHTS_DB=str(folder / "runs.db")
    )
    return json.loads(output.splitlines()[-1])


def test_the_entry_point_is_found_and_called(real, found):
    assert found["version"].startswith(real[0])
    assert "warmup_insights" in found["entry_points"]
    assert found["was_loaded"]


def test_every_upstream_hook_attaches_to_the_real_classes(found):
    assert found["errors"] == {}
    assert found["lost"] == {}
    assert sorted(found["attached"]) == sorted(found["expected"])


def test_register_is_idempotent(found):
    assert found["is_same"]
    assert found["unchanged"]
    assert not found["database_made"]


def test_check_says_the_same(real):
    version, python, folder = real
    answer = json.loads(
        run(python, "-m", "warmup_insights", "vllm", "--check", "--json", cwd=folder)
    )
    assert (answer["engine"], answer["version"]) == ("vllm", version)
    statuses = {h["status"] for h in answer["hooks"] if h["engine"] == "vllm"}
    assert statuses == {"attaches"}


def test_what_this_version_prints_is_read(real):
    """Every rule against the sources of the release, figures put in and read back."""
    _, python, _ = real
    [installed] = (python.parents[1] / "lib").glob("python*/site-packages")
    rows = rows_of(installed)
    read, wanted = coverage(rows, "A")
    assert wanted > 50
    assert read >= 0.95 * wanted
    assert wrong(rows) == []


def test_the_command_passes_through_to_the_real_one(real):
    _, python, folder = real
    database = folder / "command.db"
    done = subprocess.run(
        [python, "-m", "warmup_insights", "vllm", "--db", database, "no-such-command"],
        cwd=folder,
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    assert done.returncode not in (0, None)
    assert "Recorded as run" in done.stderr
    assert sys.executable != str(python)
