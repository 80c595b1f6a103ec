"""One thread: the shapes are tiny, and waking a second one costs more than it saves."""

from __future__ import annotations

import pytest

torch = pytest.importorskip("torch")


@pytest.fixture(autouse=True, scope="session")
def one_thread():
    torch.set_num_threads(1)
