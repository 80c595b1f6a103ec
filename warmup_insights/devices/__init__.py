"""Devices for the runner: one protocol, one module for each kind."""

from __future__ import annotations

from warmup_insights.devices.base import Device
from warmup_insights.devices.simulated import PROFILES, SimulatedDevice
from warmup_insights.errors import DeviceError, SettingError

_SIMULATED = {f"simulated:{name}": profile for name, profile in PROFILES.items()}
DEVICE_CHOICES = ("cpu", "cuda", "hpu", *_SIMULATED)


def open_device(
    choice: str, *, memory_bytes: int | None = None, num_threads: int | None = None
) -> Device:
    """The device of that name, ready for use.

    `memory_bytes` and `num_threads` are for the `cpu` device; the others have what they
    have.

    Raises:
        SettingError: there is no such device, or it takes no budget.
        DeviceError: it is not available here; the message names what is missing.
    """
    if choice not in DEVICE_CHOICES:
        known = ", ".join(DEVICE_CHOICES)
        raise SettingError(f"Unknown device {choice!r}; use one of {known}")
    if choice != "cpu" and (memory_bytes is not None or num_threads is not None):
        raise SettingError(
            f"--memory and --threads are for the cpu device only; {choice} has its own"
        )
    if choice in _SIMULATED:
        return SimulatedDevice(_SIMULATED[choice])
    try:
        return _open_torch_device(choice, memory_bytes, num_threads)
    except ModuleNotFoundError as error:
        remedy = (
            "use the Python of Intel's image for Gaudi"
            if choice == "hpu" and error.name != "torch"
            else "try `pip install 'warmup-insights[runner]'`"
        )
        raise DeviceError(
            f"Device {choice} needs the package {error.name!r}, which is not "
            f"installed; {remedy}, or a simulated device, which needs nothing"
        ) from error


def _open_torch_device(
    choice: str, memory_bytes: int | None, num_threads: int | None
) -> Device:
    if choice == "cuda":
        from warmup_insights.devices.cuda import CudaDevice

        return CudaDevice()
    if choice == "hpu":
        from warmup_insights.devices.hpu import HpuDevice

        return HpuDevice()
    from warmup_insights.devices.cpu import (
        DEFAULT_BUDGET_BYTES,
        DEFAULT_THREADS,
        CpuDevice,
    )

    return CpuDevice(
        DEFAULT_BUDGET_BYTES if memory_bytes is None else memory_bytes,
        num_threads=DEFAULT_THREADS if num_threads is None else num_threads,
    )
