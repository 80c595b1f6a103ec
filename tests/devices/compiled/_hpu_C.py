"""`hpu/csrc/bindings.cpp`, `Stream.cpp`, `Event.cpp`, `Module.cpp`."""

from __future__ import annotations

import torch

from ._runtime import DEFAULT_STREAM, RUNTIME, HPUGraph

__all__ = ["HPUGraph"]  # and every function, below


def init():
    RUNTIME.acquire()


def cleanup():
    pass


def device_count():
    return 1


def current_device():
    RUNTIME.acquire()
    return 0


def get_device_name(id, /):
    return "GAUDI-STAND-IN"


def synchronize_device():
    RUNTIME.step_marker()


def get_mem_stats(id, /):
    used = RUNTIME.in_use
    names = (
        "NumAllocs", "NumFrees", "ActiveAllocs", "MaxAllocSize", "TotalSystemAllocs",
        "TotalSystemFrees", "TotalActiveAllocs",
    )  # fmt: skip
    return {
        "Limit": RUNTIME.limit, "InUse": used, "MaxInUse": RUNTIME.peak, **dict.fromkeys(names, 0)
    }  # fmt: skip


def reset_peak_memory_stats(id, /):
    RUNTIME.peak = 0


def get_view_hash(t, /):
    return 0


def is_autocast_hpu_enabled():
    return False


def capture_begin(graph, dry_run=False, /):
    graph.begin(dry_run)


def capture_end(graph, /):
    graph.end()


def replay(graph, asynchronous, /):
    graph.replay()


def replayV3(graph, inputs, asynchronous, /):
    graph.replay(inputs)


def clear_inputs(graph, /):
    pass


def mark_user_outputs(graph, outputs, /):
    pass


def mark_user_inputs(graph, static_inputs, /):
    graph.mark_inputs(static_inputs)


def get_user_input_match_indices(graph, /):
    return set(range(len(graph._marked)))


def destroy(graph, /):
    graph.destroy()


class _HpuStreamBase:
    def __new__(
        cls, priority=0, stream_id=0, device_index=0, device_type=0, stream_ptr=0,
        is_default_stream=False,
    ):  # fmt: skip
        self = object.__new__(cls)
        if is_default_stream:
            stream_id = DEFAULT_STREAM
        elif not stream_id:
            stream_id = RUNTIME.num_streams
            RUNTIME.num_streams += 1
        self.stream_id = self.hpu_stream = stream_id
        self.device, self.device_type = torch.device("hpu", device_index), device_type
        return self

    def query(self):
        return True

    def synchronize(self):
        pass

    def __eq__(self, other):
        return self.stream_id == other.stream_id

    __hash__ = None


class _HpuEventBase:
    pass


def _hpu_getCurrentStream(device_index, /):
    return RUNTIME.stream, 0, 0


def _hpu_getDefaultStream(device_index, /):
    return DEFAULT_STREAM, 0, 0


def _hpu_setStream(stream_id, device_index, device_type):
    RUNTIME.stream = stream_id


def _hpu_getStreamInfo(stream_id, device_index, device_type):
    return ""


def _hpu_getCurrentRawStream(device_index, /):
    return RUNTIME.stream


__all__ += [n for n, value in list(globals().items()) if callable(value)]
