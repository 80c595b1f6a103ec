"""Checks of a device: whether what is read of it is right, against known amounts.

`python -m warmup_insights.devices.checks DEVICE` makes them all and prints them, each as a
line of JSON behind a prefix.
"""

from __future__ import annotations

import functools
import itertools
import json
import statistics
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from importlib.util import find_spec
from typing import Any

from warmup_insights.devices import open_device
from warmup_insights.devices.base import Device, DeviceOutOfMemory
from warmup_insights.errors import WarmupInsightsError
from warmup_insights.units import MIB, format_bytes, format_duration

OK = "ok"
WRONG = "wrong"
NOT_APPLICABLE = "not applicable here"
GOING_ON = "going on"

KNOWN_BYTES = 256 * MIB
"""What is allocated to see whether the reading follows."""
TOLERANCE = 0.02
"""Share of it that an allocator may round by."""
GRAPH_SIZE = 256
REPLAYS = 20
READINGS = 20_000
COARSE_S = 1e-3
"""A clock with larger steps than this measures no bucket."""
CHILD_S = 300.0
BEYOND_ANY = 1 << 60
"""Bytes that no machine has; a host lends more than it has."""
PIECES = 64
PREFIX = "warmup-insights check: "
MAX_TEXT = 4000
NOT_KNOWN = "Attach the file: this error is not known"


@dataclass(frozen=True)
class Check:
    """One thing that was looked at: `ok`, `wrong` or `not applicable here`."""

    name: str
    result: str
    figure: str = ""
    advice: str = ""
    values: dict[str, Any] = field(default_factory=dict)


def judged(
    name: str, is_right: bool, figure: str, advice: str, values: dict[str, Any]
) -> Check:
    """A check that was made; the advice is for where it is wrong."""
    if is_right:
        return Check(name, OK, figure, values=values)
    return Check(name, WRONG, figure, advice, values)


def present_device() -> str:
    """The device that this environment is made for, by what is installed."""
    if find_spec("habana_frameworks") is not None:
        return "hpu"
    if find_spec("torch") is None:
        return "simulated:gaudi2"
    import torch

    return "cuda" if torch.cuda.is_available() else "cpu"


def check_mode(name: str, device: Device) -> Check:
    """Lazy or compiled, where a bridge has both."""
    mode = device.settings().get("bridge_mode")
    if mode is None:
        return Check(name, NOT_APPLICABLE, f"{device.kind} has one mode")
    return Check(name, OK, str(mode), values={"bridge_mode": mode})


def check_memory(name: str, device: Device) -> Check:
    """The reading grows by what was allocated, once the kernels that fill it are loaded."""
    _allocate(device, MIB)
    before = device.memory()
    held = _allocate(device, KNOWN_BYTES)
    grown = device.memory().used_bytes - before.used_bytes
    del held
    kept = device.memory().used_bytes - before.used_bytes
    return judged(
        name,
        abs(grown - KNOWN_BYTES) <= TOLERANCE * KNOWN_BYTES,
        f"{format_bytes(KNOWN_BYTES)} allocated, {format_bytes(grown)} read"
        + ("" if device.is_synthetic else f"; {format_bytes(kept)} after it was freed"),
        "Run again with nothing else on the device; if it stays, attach the file to an "
        "issue",
        {
            "total_bytes": before.total_bytes,
            "used_before_bytes": before.used_bytes,
            "allocated_bytes": KNOWN_BYTES,
            "grown_bytes": grown,
            "kept_bytes": kept,
        },
    )


def _allocate(device: Device, num_bytes: int) -> Any:
    """That much of the device, until the result is dropped."""
    if device.is_synthetic:
        device.allocate(num_bytes)  # type: ignore[attr-defined]
        return None
    import torch

    held = torch.ones(num_bytes, dtype=torch.uint8, device=device.torch_name)
    device.synchronize()
    return held


def check_graph(name: str, device: Device) -> Check:
    """A graph computes with what its input holds when it is replayed."""
    if device.is_synthetic:
        return Check(name, NOT_APPLICABLE, "nothing is computed on a simulated device")
    import torch

    value = torch.ones(GRAPH_SIZE, GRAPH_SIZE, device=device.torch_name)
    result = torch.zeros_like(value)

    def work() -> None:
        result.copy_(value @ value)

    work()  # loads the libraries, which is no memory of the graph
    before = device.memory().used_bytes
    graph = device.capture(work)
    taken = device.memory().used_bytes - before
    with torch.inference_mode():
        value.fill_(2.0)
    durations = [_timed(device, graph.replay) for _ in range(REPLAYS)]
    replay_s = statistics.median(durations)
    expected = 4.0 * GRAPH_SIZE
    found = float(result[0, 0])
    return judged(
        name,
        abs(found - expected) <= 1e-2 * expected,
        f"{format_bytes(taken)}, replayed in {format_duration(replay_s)}",
        "The replay computes something else; attach the file",
        {
            "memory_bytes": taken,
            "storage_bytes": graph.storage_bytes,
            "replay_s": replay_s,
            "result": found,
            "expected": expected,
            "num_compiled": device.num_compiled(),
        },
    )


def _timed(device: Device, work: Callable[[], Any]) -> float:
    started = time.perf_counter()
    work()
    device.synchronize()
    return time.perf_counter() - started


def check_clock(name: str, device: Device) -> Check:
    """The clock has fine steps and never goes back; a virtual one obeys."""
    if device.is_synthetic:
        before = device.now()
        device.wait(1.0)
        return Check(name, OK, f"virtual: {device.now() - before:g} s after 1 s")
    readings = [device.now() for _ in range(READINGS)]
    steps = [later - earlier for earlier, later in itertools.pairwise(readings)]
    backwards = sum(step < 0 for step in steps)
    finest = min((step for step in steps if step > 0), default=COARSE_S)
    away = time.time() - device.now()
    return judged(
        name,
        not backwards and finest < COARSE_S,
        f"steps of {format_duration(finest)}, went back {backwards} times, "
        f"{1e3 * abs(away):.1f} ms from the wall clock",
        "Times of buckets are not to be relied on here",
        {"step_s": finest, "went_back": backwards, "from_wall_clock_s": away},
    )


def check_out_of_memory(name: str, device: Device) -> Check:
    """Allocate more than there is: which error it gives, and that the device works afterwards."""
    sizes = _too_many(device)
    held: list[Any] = []
    needed = free = None
    is_known = False
    error_text = ""
    try:
        with device.guard():
            held.extend(_allocate(device, size) for size in sizes)
    except DeviceOutOfMemory as error:
        is_known = True
        needed, free = error.needed_bytes, error.free_bytes
    except (RuntimeError, MemoryError) as error:
        error_text = str(error)[:MAX_TEXT]
    requested = sum(sizes[: len(held) + 1])
    held.clear()
    last = _allocate(device, MIB)
    works = device.is_synthetic or bool(last[0] == 1)
    return judged(
        name,
        is_known and works,
        f"{format_bytes(requested)} requested, the last {format_bytes(needed)} refused, "
        f"{format_bytes(free)} free; {'works' if works else 'does not work'} afterwards",
        NOT_KNOWN,
        {
            "requested_bytes": requested,
            "needed_bytes": needed,
            "free_bytes": free,
            "is_known": is_known,
            "works_after": works,
            "error": error_text,
        },
    )


def _too_many(device: Device) -> list[int]:
    """Sizes of tensors that a device has no room for together.

    A Gaudi is this process's alone: there they are many, because of one tensor the number
    of elements could be what fails. Elsewhere one is refused, and no other process runs out.
    """
    if device.kind == "cpu":
        return [BEYOND_ANY]
    total = device.memory().total_bytes
    is_alone = device.kind == "hpu"
    return [total // PIECES] * (2 * PIECES) if is_alone else [2 * total]


CHECKS = {
    "mode": check_mode,
    "memory reading": check_memory,
    "graph": check_graph,
    "clock": check_clock,
    "out of memory": check_out_of_memory,
}
"""By name, in the order in which they are made."""


def tried(name: str, check: Callable[[], Check]) -> Check:
    """The check; an error in it is a result, too."""
    try:
        return check()
    except Exception as error:  # whatever a library of the device raises
        text = f"{type(error).__name__}: {error}"
        return Check(name, WRONG, text, "Attach the file to an issue")


def checks_of(choice: str) -> list[Check]:
    """Every check of a device, made in a process of its own.

    A Gaudi belongs to one process until that ends, and some devices end the process that
    requests too much memory: then the check that was going on is wrong.
    """
    command = [sys.executable, "-m", "warmup_insights.devices.checks", choice]
    try:
        done = subprocess.run(
            command, capture_output=True, text=True, errors="replace", timeout=CHILD_S,
            check=False,
        )  # fmt: skip
        printed, ending = done.stdout, f"the process ended with {done.returncode}"
        errors = done.stderr
    except subprocess.TimeoutExpired as error:
        printed, errors = _text(error.stdout), _text(error.stderr)
        ending = f"the process did not end within {CHILD_S:.0f} s"
    found = {check.name: check for check in _printed(printed)} or {
        "device": Check("device", GOING_ON)
    }
    last = (errors.strip().splitlines() or ["no word of it"])[-1]
    return [
        Check(
            name, WRONG, f"{ending}: {last}", NOT_KNOWN, {"stderr": errors[-MAX_TEXT:]}
        )
        if check.result == GOING_ON
        else check
        for name, check in found.items()
    ]


def _text(output: str | bytes | None) -> str:
    return (
        output.decode(errors="replace") if isinstance(output, bytes) else output or ""
    )


def _printed(text: str) -> Iterator[Check]:
    """The checks among what a process printed; libraries print there as well."""
    for line in text.splitlines():
        if line.startswith(PREFIX):
            yield Check(**json.loads(line.removeprefix(PREFIX)))


def main(choice: str) -> None:
    """Print each check of a device when it begins, and when it is done."""

    def put(check: Check) -> Check:
        sys.stdout.write(f"\n{PREFIX}{json.dumps(vars(check))}\n")
        sys.stdout.flush()
        return check

    put(Check("device", GOING_ON))
    try:
        device = open_device(choice)
    except WarmupInsightsError as error:
        put(Check("device", WRONG, str(error), "See the message"))
        return
    synthetic = "; simulated: nothing is measured" if device.is_synthetic else ""
    facts = {"kind": device.kind, **device.settings()}
    put(Check("device", OK, f"{device.name}{synthetic}", values=facts))
    for name, check in CHECKS.items():
        put(Check(name, GOING_ON))
        put(tried(name, functools.partial(check, name, device)))
    device.close()


if __name__ == "__main__":
    main(sys.argv[1])
