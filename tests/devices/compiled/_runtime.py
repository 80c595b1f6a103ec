"""What the compiled modules share: events, memory, steps, recipes, capture.

Rules taken over from the bridge 1.19: `backend/helpers/event_dispatcher.cpp`,
`backend/synapse_helpers/graph.cpp` and `device_memory.cpp`, `habana_device/HPUGraph.cpp`.
"""

from __future__ import annotations

import json
import os
import sys
from datetime import datetime
from pathlib import Path

import torch
from torch.utils._python_dispatch import TorchDispatchMode

from tests.vllm_plugin.standin.base.habana_frameworks.torch.utils.event_dispatcher import (
    EventDispatcher,
    EventId,
)
from warmup_insights.devices import host
from warmup_insights.devices.recorded import _Recorder

LIMIT = 1 << 30
RECIPE_BYTES = 1 << 16
COMPILE_US = 1500
LOOKED_AT = 1 << 20
"""Elements of a result from which on the end of the memory is noticed."""
DEFAULT_STREAM = 0


def emit(topic, **params):
    pairs = [(name, str(value)) for name, value in params.items()]
    EventDispatcher.instance().publish(topic, pairs, datetime.now())


def fail(text):
    """How the bridge ends what it cannot do."""
    raise RuntimeError(f"[Rank:0] FATAL ERROR :: MODULE:PT_DEVMEM {text}")


class Runtime:
    """The device of the process, once it is acquired."""

    def __init__(self):
        self.is_acquired = False
        self.stream = DEFAULT_STREAM
        self.num_streams = 1
        self.recipes = {}
        self.peak = 0
        self.capturing = False
        self.capture_graph = None
        self.dry_run = False
        self.steps = None
        self._base = 0

    def acquire(self):
        """The first use of the device."""
        if self.is_acquired:
            return
        self.is_acquired = True
        self._base = host.allocated_bytes()
        if os.environ.get("PT_HPU_LAZY_MODE", "1") != "0":
            self.steps = _Steps(self)
            self.steps.__enter__()
        emit(EventId.DEVICE_ACQUIRED)

    @property
    def limit(self):
        """Bytes of the pool; those of the stand-in engine, where it runs."""
        engine = sys.modules.get("standin")
        return engine.TOTAL if engine is not None else LIMIT

    @property
    def in_use(self):
        """Bytes of the pool: what this process allocated, and its recipes."""
        engine = sys.modules.get("standin")
        if engine is not None:
            self.peak = max(self.peak, engine.DEVICE.used)
            return engine.DEVICE.used
        used = max(0, host.allocated_bytes() - self._base)
        used += RECIPE_BYTES * len(self.recipes)
        self.peak = max(self.peak, used)
        return used

    def step_marker(self):
        """What was collected lazily becomes one recipe, compiled unless it is known."""
        pending = self.steps.take() if self.steps is not None else ()
        if pending:
            self.compile(pending)
        if self.capturing and self.capture_graph is not None:
            self.capture_graph.mark_step()
        emit(EventId.MARK_STEP)

    def compile(self, key):
        """One recipe, named as the bridge names them."""
        counts = os.environ.get("PT_HPU_ENABLE_CACHE_METRICS", "").lower() in (
            "1",
            "true",
        )
        number = self.recipes.get(key)
        if number is not None:
            if counts:
                emit(EventId.CACHE_HIT, recipe_id=number)
            return
        number = self.recipes[key] = len(self.recipes)
        if counts:
            emit(EventId.CACHE_MISS, recipe_id=number)
        name = f".graph_dumps/.GRAPH_{number}"
        emit(EventId.GRAPH_COMPILATION, duration=COMPILE_US, recipe=name)


class _Steps(TorchDispatchMode):
    """Which operators came since the last step; memory has an end."""

    def __init__(self, runtime):
        super().__init__()
        self._runtime = runtime
        self._pending = []

    def take(self):
        pending, self._pending = tuple(self._pending), []
        return pending

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        result = func(*args, **(kwargs or {}))
        shapes = tuple(tuple(a.shape) for a in args if isinstance(a, torch.Tensor))
        self._pending.append((str(func), shapes))
        size = result.numel() if isinstance(result, torch.Tensor) else 0
        if size > LOOKED_AT and self._runtime.in_use > LIMIT:
            size = result.untyped_storage().nbytes()
            del result
            fail(f"Allocation failed for size::{size} ({size >> 20})MB")
        return result


class HPUGraph:
    """Records what runs between `capture_begin` and `capture_end`."""

    def __init__(self):
        self._capture_stream = RUNTIME.stream
        self._capturing = False
        self._recorder = None
        self._calls = []
        self._marked = []

    def begin(self, dry_run):
        if self._capturing:
            fail("GRAPH:: graph Capture already in progress")
        self._capture_stream = RUNTIME.stream
        RUNTIME.step_marker()
        self._capturing = True
        RUNTIME.capturing, RUNTIME.capture_graph = True, self
        RUNTIME.dry_run = dry_run
        self._recorder = _Recorder(lambda _: None)
        self._recorder.__enter__()

    def mark_step(self):
        """What was recorded so far belongs to the graph."""
        self._calls = list(self._recorder.calls)

    def end(self):
        if not self._capturing:
            return
        if RUNTIME.stream != self._capture_stream:
            fail("GRAPH:: Capture must end on the same stream it began on.")
        self._recorder.__exit__(None, None, None)
        RUNTIME.step_marker()
        self._capturing = False
        RUNTIME.capturing, RUNTIME.capture_graph, RUNTIME.dry_run = False, None, False

    def replay(self, inputs=()):
        if self._capturing:
            fail("GRAPH:: Capture in progress")
        RUNTIME.step_marker()
        with torch.inference_mode():
            for recorded, given in zip(self._marked, inputs, strict=False):
                recorded.copy_(given)
            for call in self._calls:
                call()

    def destroy(self):
        """Frees the graph, and ends whatever capture is going on in the process."""
        self._calls, self._marked = [], []
        RUNTIME.capturing, RUNTIME.capture_graph = False, None

    def mark_inputs(self, tensors):
        if not self._capturing:
            fail("GRAPH:: mark_user_inputs must be while capturing in progress")
        self._marked = list(tensors)

    @property
    def num_calls(self):
        return len(self._calls)


RUNTIME = Runtime()


def define_operators():
    """The operators of the library of this mode: named, without an implementation."""
    mode = "eager" if os.environ.get("PT_HPU_LAZY_MODE", "1") == "0" else "lazy"
    known = json.loads(Path(__file__).with_name("operators.json").read_text())
    library = torch.library.Library("hpu", "DEF")
    for schema in dict.fromkeys(known[mode]):
        library.define(schema)
    return library


def many_batches(first, second):
    """`aten::bmm`: the one of the bridge takes any number of batch dimensions and repeats
    those of one, and its passes make use of that (`dynamo/compile_backend/passes.py`)."""
    batch = torch.broadcast_shapes(first.shape[:-2], second.shape[:-2])
    left = first.expand(*batch, *first.shape[-2:]).reshape(-1, *first.shape[-2:])
    right = second.expand(*batch, *second.shape[-2:]).reshape(-1, *second.shape[-2:])
    product = torch.baddbmm(left.new_zeros(()), left, right, beta=0)
    return product.reshape(*batch, first.shape[-2], second.shape[-1])


OPERATORS = define_operators()
PRODUCTS = torch.library.Library("aten", "IMPL")
if os.environ.get("PT_HPU_LAZY_MODE", "1") == "0":
    PRODUCTS.impl("bmm", many_batches, "CPU")
