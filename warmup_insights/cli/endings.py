"""Signals that end a command end it as Ctrl-C does."""

from __future__ import annotations

import signal
from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def endings_as_interrupts() -> Iterator[None]:
    """SIGTERM and SIGHUP end the work as Ctrl-C does, so that its end is recorded and no
    process outlives it; what is ignored, as SIGHUP is with `nohup`, stays so."""
    from warmup_insights.drainer import ENDINGS  # help loads no library of the store

    before = {
        number: signal.getsignal(number)
        for number in ENDINGS
        if signal.getsignal(number) is not signal.SIG_IGN
    }
    for number in before:
        signal.signal(number, _interrupt)
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def _interrupt(number: int, _: object) -> None:
    raise KeyboardInterrupt(signal.Signals(number).name)
