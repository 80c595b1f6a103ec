"""`utils/experimental/csrc/bindings.cpp`, as far as it is imported."""

from __future__ import annotations

import enum


class synDeviceType(enum.Enum):
    synDeviceGaudi = 1
    synDeviceGaudi2 = 4
    synDeviceGaudi3 = 5


def get_device_type():
    return synDeviceType.synDeviceGaudi2
