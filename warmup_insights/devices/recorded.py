"""A graph for devices without graphs: the dispatcher's calls, replayed in place.

While work runs, every operator call is kept with the tensors it got and gave, as a
stream capture keeps kernels with their addresses. Replaying runs the same calls on
the same memory: results go into the tensors of the first run, views and buffers need
nothing, so a replay allocates next to nothing and a graph keeps the memory of all its
intermediates, as a device graph does.
"""

from __future__ import annotations

import weakref
from collections.abc import Callable, Iterable, Mapping
from functools import cache
from typing import Any

import torch
from torch.utils._python_dispatch import TorchDispatchMode

from warmup_insights.devices.base import Graph

Replayed = Callable[[], Any]


def record_graph(work: Callable[[], Any], *, check: Callable[[int], None]) -> Graph:
    """Run `work` once and keep its operator calls.

    `check` is called with the bytes kept so far and may raise to stop the recording.
    Work that reads a value back into Python cannot be recorded: it raises
    NotImplementedError, since a replay would not follow the value.
    """
    recorder = _Recorder(check)
    with torch.inference_mode(), recorder:
        work()
    calls = recorder.calls

    def replay() -> None:
        with torch.inference_mode():
            for call in calls:
                call()

    return Graph(replay, recorder.num_bytes)


class _Recorder(TorchDispatchMode):  # type: ignore[no-untyped-call]
    def __init__(self, check: Callable[[int], None]) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self.calls: list[Replayed] = []
        self.num_bytes = 0
        self._check = check

    def __torch_dispatch__(
        self,
        func: Any,
        types: Iterable[Any],
        args: tuple[Any, ...] = (),
        kwargs: Mapping[str, Any] | None = None,
    ) -> Any:
        kwargs = dict(kwargs or {})
        result = func(*args, **kwargs)
        outputs = _tensors(result)
        if not outputs:
            raise NotImplementedError(f"{func} gives Python a value; not recordable")
        fresh = _new_storages(result, [args, list(kwargs.values())])
        if func._schema.is_mutable:
            self.calls.append(lambda: func(*args, **kwargs))
        elif fresh:
            self.num_bytes += sum(storage.nbytes() for storage in fresh.values())
            self._check(self.num_bytes)
            self.calls.append(_into(func, args, kwargs, outputs))
        return result


def _into(
    func: Any,
    args: tuple[Any, ...],
    kwargs: dict[str, Any],
    outputs: list[torch.Tensor],
) -> Replayed:
    """The call with its results written into `outputs`."""
    variant = _out_variant(func)
    if variant is not None:
        overload, names = variant
        filled = {**kwargs, **dict(zip(names, outputs, strict=True))}
        return lambda: overload(*args, **filled)

    def call() -> None:
        results = _tensors(func(*args, **kwargs))
        for output, result in zip(outputs, results, strict=True):
            output.copy_(result)

    return call


@cache
def _out_variant(func: Any) -> tuple[Any, tuple[str, ...]] | None:
    """The overload of `func` that writes into given tensors, and their names."""
    wanted = [
        (argument.name, str(argument.type)) for argument in func._schema.arguments
    ]
    packet = func.overloadpacket
    for name in packet.overloads():
        overload = getattr(packet, name)
        arguments = overload._schema.arguments
        outs = tuple(argument.name for argument in arguments if argument.is_out)
        rest = [(a.name, str(a.type)) for a in arguments if not a.is_out]
        if outs and rest == wanted and len(outs) == len(func._schema.returns):
            return overload, outs
    return None


def _tensors(value: Any) -> list[torch.Tensor]:
    if isinstance(value, torch.Tensor):
        return [value]
    if isinstance(value, (list, tuple)):
        return [tensor for part in value for tensor in _tensors(part)]
    return []


def _new_storages(result: Any, inputs: Any) -> dict[int, torch.UntypedStorage]:
    """The storages in a result that no input has, by their address."""
    known = {tensor.untyped_storage()._cdata for tensor in _tensors(inputs)}
    found = [tensor.untyped_storage() for tensor in _tensors(result)]
    return {each._cdata: each for each in found if each._cdata not in known}


class PeakCounter(TorchDispatchMode):  # type: ignore[no-untyped-call]
    """Counts the bytes of storages that operators make and that are still alive.

    Memory that an operator takes and gives back before it returns is not seen.
    """

    def __init__(self) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self.live_bytes = 0
        self.peak_bytes = 0
        self._seen: set[int] = set()

    def __torch_dispatch__(
        self,
        func: Any,
        types: Iterable[Any],
        args: tuple[Any, ...] = (),
        kwargs: Mapping[str, Any] | None = None,
    ) -> Any:
        kwargs = dict(kwargs or {})
        result = func(*args, **kwargs)
        for storage in _new_storages(result, [args, list(kwargs.values())]).values():
            self._add(storage)
        return result

    def _add(self, storage: torch.UntypedStorage) -> None:
        key, num_bytes = storage._cdata, storage.nbytes()
        if key in self._seen:
            return
        self._seen.add(key)
        self.live_bytes += num_bytes
        self.peak_bytes = max(self.peak_bytes, self.live_bytes)
        weakref.finalize(storage, self._remove, key, num_bytes)

    def _remove(self, key: int, num_bytes: int) -> None:
        self._seen.discard(key)
        self.live_bytes -= num_bytes
