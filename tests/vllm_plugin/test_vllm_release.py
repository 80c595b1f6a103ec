"""The sources of a release of vLLM beside the rules and hooks; nothing of it is built.

Only where `WARMUP_INSIGHTS_VLLM_SOURCES` names a release, such as `0.33.0`.
"""

from __future__ import annotations

import os
import tarfile

import pytest

from tests.audit.__main__ import coverage, rows_of, wrong
from tests.vllm_plugin.environments import BUILD, new_environment, run
from warmup_insights.vllm_plugin.check import MISSING, Definitions, findings, status_of
from warmup_insights.vllm_plugin.facts import version_of
from warmup_insights.vllm_plugin.table import UPSTREAM

SOURCES = os.environ.get("WARMUP_INSIGHTS_VLLM_SOURCES")
pytestmark = [
    pytest.mark.long,
    pytest.mark.skipif(
        not SOURCES, reason="WARMUP_INSIGHTS_VLLM_SOURCES names no release"
    ),
]


@pytest.fixture(scope="module")
def sources(tmp_path_factory):
    """The source tree of the release, out of its source distribution."""
    folder = tmp_path_factory.mktemp(f"vllm-{SOURCES}")
    python = new_environment(folder / "env")
    pip = (python, "-m", "pip")
    run(*pip, "install", "--quiet", "--no-compile", *BUILD, cwd=folder)
    run(
        *pip, "download", "--quiet", "--no-deps", "--no-binary", "vllm",
        "--no-build-isolation", f"vllm=={SOURCES}", cwd=folder,
        VLLM_TARGET_DEVICE="empty", VLLM_VERSION_OVERRIDE=SOURCES,
    )  # fmt: skip
    [archive] = folder.glob(f"vllm-{SOURCES}.tar.gz")
    with tarfile.open(archive) as packed:
        packed.extractall(folder, filter="data")
    return folder / f"vllm-{SOURCES}"


def test_what_a_release_prints_is_read(sources):
    """Every rule against the sources of the release, figures put in and read back."""
    rows = rows_of(sources)
    read, wanted = coverage(rows, "A")
    assert wanted > 50
    assert read >= 0.95 * wanted
    assert wrong(rows) == []


def test_the_calls_of_a_release_are_where_the_hooks_look(sources):
    def source_of(module):
        path = sources.joinpath(*module.split("."))
        places = (path.with_suffix(".py"), path / "__init__.py")
        return next((p.read_bytes() for p in places if p.is_file()), None)

    hooks = [hook for hook in UPSTREAM if hook.module.startswith("vllm.")]
    definitions, version = Definitions(source_of), version_of(SOURCES)
    found = findings((hook, status_of(hook, definitions, version)) for hook in hooks)
    assert [each.target for each in found if each.status == MISSING] == []
