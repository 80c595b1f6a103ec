"""The innermost cause of a failure is told once; what follows readiness is serving."""

from __future__ import annotations

import pytest

from parsers.failures import kind_of_message, sizes_of
from tests.helpers import events, of
from warmup_insights.model.events import (
    Failure,
    Note,
    ServingFailure,
    ShutdownRequested,
)
from warmup_insights.units import GIB, MIB

CORE = "(EngineCore pid=7) ERROR 07-16 10:00:{:02d} [core.py:866] {}"
API = "(APIServer pid=1) "
START = (
    "(APIServer pid=1) INFO 07-16 10:00:00 [api_utils.py:345] vLLM API server version 0.26.0\n"
    "(EngineCore pid=7) INFO 07-16 10:00:01 [core.py:116] Initializing a V1 LLM engine "
    "(v0.26.0) with config: model='a/b', device_config=cuda\n"
)
FAILED = "\n".join(
    (
        CORE.format(5, "EngineCore failed to start."),
        CORE.format(5, "Traceback (most recent call last):"),
        CORE.format(5, '  File "/x/core.py", line 1, in run'),
        CORE.format(5, "RuntimeError: Could not find nvcc"),
        "(EngineCore pid=7) Traceback (most recent call last):",
        "(EngineCore pid=7) RuntimeError: Could not find nvcc",
        API + "RuntimeError: Engine core initialization failed. See root cause above.",
    )
)
READY = "(APIServer pid=1) INFO:     Application startup complete.\n"
STOP = (
    "(EngineCore pid=7) INFO 07-16 11:00:00 [core.py:1214] [shutdown] EngineCore: "
    "trigger received signal=SIGTERM\n"
)
DEAD = (
    CORE.format(6, "vllm.v1.engine.exceptions.EngineDeadError: EngineCore encountered")
    + "\n"
)


def test_the_error_raised_first_is_the_cause():
    (failure,) = of(Failure, events(START + FAILED))
    assert failure.message == "RuntimeError: Could not find nvcc"
    assert (failure.line, failure.failure) == (6, "error")


def test_a_heading_alone_is_still_a_failure():
    (failure,) = of(
        Failure, events(START + CORE.format(5, "EngineCore failed to start."))
    )
    assert failure.message == "EngineCore failed to start."


def test_memory_is_the_cause_of_what_wraps_it():
    text = (
        CORE.format(
            5, "Exception: WorkerProc initialization failed due to an exception"
        )
        + "\n"
        + CORE.format(
            5, "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate "
        )
        + "2.00 GiB. GPU 0 has a total capacity of 15.47 GiB of which 115.31 MiB is free."
    )
    (failure,) = of(Failure, events(START + text))
    assert failure.failure == "out_of_memory"
    assert failure.needed_bytes == 2 * GIB
    assert failure.free_bytes == round(115.31 * MIB)


def test_an_error_before_readiness_did_not_fail_the_start():
    found = events(START + FAILED + "\n" + READY)
    assert of(Failure, found) == []
    assert any(note.topic == "error" for note in of(Note, found))


def test_a_requested_shutdown_is_no_failure():
    found = events(START + READY + STOP + DEAD)
    assert (of(Failure, found), of(ServingFailure, found)) == ([], [])
    assert len(of(ShutdownRequested, found)) == 1


def test_killing_workers_at_a_shutdown_is_no_failure():
    text = (
        "(EngineCore pid=7) WARNING 07-16 11:00:05 [multiproc_executor.py:603] [shutdown] "
        "Executor: workers still running after SIGTERM; sending SIGKILL count=4\n"
    )
    found = events(START + READY + text)
    assert (of(Failure, found), of(ServingFailure, found)) == ([], [])


def test_an_engine_that_dies_while_serving_did_start():
    found = events(START + READY + DEAD)
    assert of(Failure, found) == []
    (failure,) = of(ServingFailure, found)
    assert "EngineDeadError" in failure.message


def test_the_error_of_a_request_is_no_failure():
    text = (
        "(APIServer pid=1) ERROR 07-16 11:00:05 [serving.py:6] ValueError: too long\n"
    )
    found = events(START + READY + text)
    assert of(ServingFailure, found) == []


def test_lines_of_other_programs_before_a_good_start_are_nobodys_failure():
    found = events("RuntimeError: something else\n" + START + READY)
    assert (of(Failure, found), of(Note, found)) == ([], [])


@pytest.mark.parametrize(
    ("message", "kind", "needed", "free"),
    [
        (
            "HIP out of memory. Tried to allocate 80.00 MiB. GPU 0 has a total capacity "
            "of 15.92 GiB of which 0 bytes is free.",
            "out_of_memory", 80 * MIB, 0,
        ),
        (
            "CUDA out of memory. Tried to allocate 2.00 GiB (GPU 0; 79.10 GiB total "
            "capacity; 76.00 GiB already allocated; 1.50 GiB free; 77.00 GiB reserved)",
            "out_of_memory", 2 * GIB, round(1.5 * GIB),
        ),
        (
            "FATAL ERROR :: MODULE:PT_DEVMEM Allocation failed for size::268435456 "
            "(256)MB",
            "out_of_memory", 256 * MIB, None,
        ),
        (
            "RESOURCE_EXHAUSTED: Error allocating device buffer: Attempting to allocate "
            "2.64G. That was not possible. There are 1.50G free.; (0x0x0_HBM0)",
            "out_of_memory", round(2.64 * GIB), round(1.5 * GIB),
        ),
        (
            "ValueError: Free memory on device cuda:0 (13.58/15.99 GiB) on startup is "
            "less than desired GPU memory utilization (0.85, 13.59 GiB). Decrease",
            "out_of_memory", round(13.59 * GIB), round(13.58 * GIB),
        ),
        (
            "ValueError: To serve at least one request with the model's max seq len "
            "(262144), (18.35 GiB KV cache is needed, which is larger than the available "
            "KV cache memory (8.72 GiB).",
            "no_kv_cache", round(18.35 * GIB), round(8.72 * GIB),
        ),
        (
            "ValueError: Cannot auto-fit max_model_len: not enough GPU memory available",
            "no_kv_cache", None, None,
        ),
        (
            "ValueError: Available memory on node 0 (10.0/64.0 GiB) on kv cache "
            "allocation is less than requested memory for kv (20.0 GiB).",
            "no_kv_cache", 20 * GIB, 10 * GIB,
        ),
    ],
)  # fmt: skip
def test_sizes_are_read_in_every_wording(message, kind, needed, free):
    assert kind_of_message(message) == kind
    assert sizes_of(message) == (needed, free)
