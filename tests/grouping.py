"""Which tests stay in one process when there are several.

The mark `xdist_group` is for that, but since pytest 9.2 pytest-xdist (3.8) cannot read it:
it would have to change the id of a test. So the files are named here as well.
"""

from __future__ import annotations

from xdist.scheduler.loadscope import LoadScopeScheduling

TOGETHER = (
    "tests/ingest/test_cluster.py",
    "tests/test_wheel.py",
    "tests/vllm_plugin/test_real_vllm.py",
    "tests/vllm_plugin/test_vllm_release.py",
)
"""Files that build or start something slow once."""


class Grouping(LoadScopeScheduling):
    """Hands out a file of `TOGETHER` as a whole, and every other test on its own."""

    def _split_scope(self, nodeid: str) -> str:
        path = nodeid.split("::")[0]
        return path if path in TOGETHER else nodeid
