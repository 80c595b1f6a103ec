"""A device that only words name which another kind prints as well is a guess."""

from __future__ import annotations

import pytest

from tests.helpers import folded, read

HEAD = "INFO 07-16 20:02:46 [gpu_model_runner.py:5780] "
CAPTURED = f"{HEAD}Graph capturing finished in 5 secs, took 0.62 GiB\n"
OWN = "INFO 07-16 20:02:40 [cuda.py:318] Using Flash Attention backend on V1 engine.\n"
FOUND = "INFO 07-16 20:02:40 [__init__.py:216] Automatically detected platform rocm.\n"


def device_of(log):
    runs, _ = read(log)
    (events,) = runs.values()
    summary = folded(list(events)).summary
    return summary.device.kind, "device.kind" in summary.guessed


@pytest.mark.parametrize(
    ("log", "kind", "is_guess"),
    [
        (f"{HEAD}Profiling CUDA graph memory: PIECEWISE=11\n{CAPTURED}", "cuda", True),
        (f"{OWN}{CAPTURED}", "cuda", False),
        (f"{FOUND}{CAPTURED}", "rocm", False),
    ],
)
def test_words_that_rocm_shares_are_a_guess(log, kind, is_guess):
    assert device_of(log) == (kind, is_guess)
