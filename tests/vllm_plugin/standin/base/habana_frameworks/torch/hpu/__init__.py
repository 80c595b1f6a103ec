"""Stand-in for `habana_frameworks.torch.hpu`: a device that only counts."""

from __future__ import annotations

from standin import DEVICE, TOTAL


def mem_get_info(device=None):
    return TOTAL - DEVICE.used, TOTAL


def get_device_name(device=None):
    return "GAUDI-STANDIN"


def synchronize():
    DEVICE.waits += 1


def memory_stats(device=None):
    return {"Limit": TOTAL, "InUse": DEVICE.used, "MaxInUse": DEVICE.used}
