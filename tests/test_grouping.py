"""Tests that share something slow run in one process."""

from __future__ import annotations

import os
import subprocess
import sys
import textwrap

import pytest

from tests.grouping import TOGETHER

MARK = "xdist_group"
CONFTEST = """
    from tests.grouping import Grouping

    def pytest_xdist_make_scheduler(config, log):
        return Grouping(config, log)
"""
TESTS = """
    import os, time
    import pytest

    @pytest.mark.parametrize("number", range(6))
    def test_it(number):
        time.sleep(0.2)
        with open("workers", "a") as stream:
            stream.write(os.environ["PYTEST_XDIST_WORKER"] + " ")
"""


def workers_of(folder, root, file):
    """Which workers ran the tests of a file."""
    path = folder / file
    path.parent.mkdir(parents=True)
    path.write_text(textwrap.dedent(TESTS))
    (folder / "conftest.py").write_text(textwrap.dedent(CONFTEST))
    subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-n", "2", "-p", "no:cacheprovider",
         "--rootdir", str(folder), "--import-mode", "importlib", "-c", os.devnull, file],
        cwd=folder, env={**os.environ, "PYTHONPATH": str(root)}, check=True,
        capture_output=True,
    )  # fmt: skip
    return set((folder / "workers").read_text().split())


@pytest.mark.long
def test_a_named_file_has_one_worker_and_any_other_has_all(tmp_path, root):
    for name, file, expected in (
        ("named", TOGETHER[0], 1), ("other", "tests/test_other.py", 2),
    ):  # fmt: skip
        assert len(workers_of(tmp_path / name, root, file)) == expected


def test_every_marked_file_is_named(root):
    marked = {
        path.relative_to(root).as_posix()
        for path in (root / "tests").rglob("test_*.py")
        if f"pytest.mark.{MARK}(" in path.read_text(encoding="utf-8")
    }
    assert marked == set(TOGETHER)
