"""`core/bindings.cpp`."""

from __future__ import annotations

import torch

from ._runtime import RUNTIME


def _hb_get_default_device():
    return "hpu:0"


def _iter_mark_step():
    RUNTIME.step_marker()


def _mark_step(device_str="", sync=False):
    RUNTIME.step_marker()


def _get_default_generator():
    return torch.default_generator
