"""A graph for devices without graphs: the dispatcher's calls, replayed in place.

While work runs, every operator call is kept with the tensors it got and gave, as a
stream capture keeps kernels with their addresses. Replaying runs the same calls on
the same memory: results go into the tensors of the first run, views and buffers need
nothing, so a replay allocates next to nothing and a graph keeps the memory of all its
intermediates, as a device graph does.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from functools import cache
from typing import Any

import torch
from torch.utils._python_dispatch import TorchDispatchMode

Replayed = Callable[[], Any]


class RecordedGraph:
    """Operator calls in order, and the tensors that they read and write."""

    def __init__(self, calls: list[Replayed], storage_bytes: int) -> None:
        self._calls = calls
        self.storage_bytes: int | None = storage_bytes

    def replay(self) -> None:
        """Run every call again."""
        with torch.inference_mode():
            for call in self._calls:
                call()

    def release(self) -> None:
        """Drop the calls, and with them the tensors."""
        self._calls = []
        self.storage_bytes = 0


def record_graph(
    work: Callable[[], Any], *, check: Callable[[int], None]
) -> RecordedGraph:
    """Run `work` once and keep its operator calls.

    `check` is called with the bytes kept so far and may raise to stop the recording.
    Work that reads a value back into Python cannot be recorded: it raises
    NotImplementedError, since a replay would not follow the value.
    """
    recorder = _Recorder(check)
    with torch.inference_mode(), recorder:
        work()
    return RecordedGraph(recorder.calls, recorder.num_bytes)


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
        outputs = [item for item in _flat(result) if isinstance(item, torch.Tensor)]
        if not outputs:
            raise NotImplementedError(f"{func} gives Python a value; not recordable")
        inputs = {_storage(item) for item in _flat([args, list(kwargs.values())])}
        fresh = {
            _storage(item): item for item in outputs if _storage(item) not in inputs
        }
        if func._schema.is_mutable:
            self.calls.append(lambda: func(*args, **kwargs))
        elif fresh:
            self.num_bytes += sum(t.untyped_storage().nbytes() for t in fresh.values())
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
        results = [
            t for t in _flat(func(*args, **kwargs)) if isinstance(t, torch.Tensor)
        ]
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


def _flat(value: Any) -> list[Any]:
    if isinstance(value, (list, tuple)):
        return [item for part in value for item in _flat(part)]
    return [value]


def _storage(value: Any) -> int | None:
    if isinstance(value, torch.Tensor):
        return int(value.untyped_storage()._cdata)
    return None
