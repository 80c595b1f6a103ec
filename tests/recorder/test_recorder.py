from __future__ import annotations

import logging
import signal
import threading
import time

import pytest

from tests.recorder.spools import FailingSpool, GatedSpool, ListSpool, SmallSpool
from warmup_insights import recorder as recorder_module
from warmup_insights.model.events import (
    Failure,
    Note,
    PhaseMarked,
    RunFinished,
    ServerReady,
    WarmupFinished,
    WarmupStep,
)
from warmup_insights.recorder import Recorder

NEVER = 3600.0
"""A flush interval that does not come."""


def step(number):
    return WarmupStep(phase="prompt", index=number)


def numbers(events):
    return [event.index for event in events if isinstance(event, WarmupStep)]


@pytest.fixture
def warnings(caplog):
    caplog.set_level(logging.WARNING, logger="warmup_insights")
    return lambda: [record.getMessage() for record in caplog.records]


def wait_until(condition):
    deadline = time.monotonic() + 600
    while not condition():
        assert time.monotonic() < deadline, "did not happen"
        time.sleep(0.005)


def test_events_arrive_in_order_with_their_time():
    spool, times = ListSpool(), iter([10.0, 10.5, 11.0])
    with Recorder(spool, clock=lambda: next(times)) as recorder:
        recorder.record(step(1))
        recorder.record(WarmupStep(phase="prompt", index=2, time=5.0))
        recorder.record(step(3))
        assert recorder.flush()
        assert [(e.index, e.time) for e in spool.events] == [
            (1, 10.0),
            (2, 5.0),
            (3, 11.0),
        ]
    assert recorder.dropped == 0
    assert spool.calls == ["close"]


def test_events_arrive_without_a_flush():
    spool = ListSpool()
    with Recorder(spool, flush_interval_s=0.01) as recorder:
        recorder.record(step(1))
        wait_until(lambda: numbers(spool.events) == [1])


@pytest.mark.parametrize(
    "event",
    [
        Failure(failure="out_of_memory", message="no"),
        WarmupFinished(),
        ServerReady(),
        RunFinished(status="finished"),
    ],
    ids=lambda event: type(event).__name__,
)
def test_a_turning_point_does_not_wait_for_the_interval(event):
    spool = ListSpool()
    recorder = Recorder(spool, flush_interval_s=NEVER)
    recorder.record(step(1))
    wait_until(lambda: len(spool.events) == 1)  # the first event starts the thread
    recorder.record(step(2))
    recorder.record(event)
    wait_until(lambda: len(spool.events) == 3)
    recorder.close()


def test_a_phase_waits_for_the_interval():
    spool = ListSpool()
    recorder = Recorder(spool, flush_interval_s=NEVER)
    recorder.record(step(1))
    wait_until(lambda: len(spool.events) == 1)
    recorder.record(PhaseMarked(name="warmup", edge="end"))
    time.sleep(0.1)
    assert len(spool.events) == 1
    recorder.close()
    assert len(spool.events) == 2


def test_many_events_do_not_wait_for_the_interval(monkeypatch):
    monkeypatch.setattr(recorder_module, "WAKE_EVENTS", 50)
    spool = ListSpool()
    recorder = Recorder(spool, flush_interval_s=NEVER)
    recorder.record(step(0))
    wait_until(lambda: len(spool.events) == 1)
    for number in range(1, 52):
        recorder.record(step(number))
    wait_until(lambda: len(spool.events) >= 51)
    recorder.close()


def test_batches_are_bounded():
    spool = ListSpool()
    with Recorder(spool) as recorder:
        for number in range(5000):
            recorder.record(step(number))
    assert numbers(spool.events) == list(range(5000))
    assert max(len(batch) for batch in spool.batches) <= recorder_module.BATCH


def test_no_thread_without_an_event():
    before = threading.active_count()
    spool = ListSpool()
    recorder = Recorder(spool)
    assert recorder.flush()
    assert threading.active_count() == before
    recorder.close()
    recorder.close()
    assert spool.calls == ["close"]


def test_a_full_queue_drops_and_counts_and_warns_once(warnings):
    spool = GatedSpool()
    recorder = Recorder(spool, max_waiting=10)
    recorder.record(step(0))
    spool.entered.wait(5)
    for number in range(1, 31):
        recorder.record(step(number))
    assert recorder.dropped == 20
    spool.gate.set()
    assert not recorder.flush()
    for number in range(100, 150):
        recorder.record(step(number))
    recorder.close()
    assert numbers(spool.events)[:11] == list(range(11))
    assert len([text for text in warnings() if text.endswith("in the run")]) == 1
    notes = [event for event in spool.events if isinstance(event, Note)]
    assert sum(note.count for note in notes) == recorder.dropped
    assert {note.topic for note in notes} == {"events_dropped"}


def test_a_slow_spool_does_not_block_the_caller():
    spool = GatedSpool()
    recorder = Recorder(spool)
    recorder.record(step(0))
    spool.entered.wait(5)
    start = time.monotonic()
    recorder.record(step(1))
    assert not recorder.flush(timeout=0.05)
    assert time.monotonic() - start < 5
    spool.gate.set()
    assert recorder.flush()
    recorder.close()


def test_a_broken_spool_never_reaches_the_caller(warnings):
    spool = FailingSpool(failures=2)
    recorder = Recorder(spool)
    for number in range(2):
        recorder.record(step(number))
        assert not recorder.flush()
    assert recorder.dropped == 2
    recorder.record(step(2))
    assert recorder.flush()
    recorder.close()
    assert numbers(spool.events) == [2]
    assert spool.events[0].topic == "events_dropped"
    assert spool.events[0].count == 2
    assert warnings() == [
        "Events are lost: the spool is broken",
        "1 events are missing in the run",
        "2 events are missing in the run in all",
    ]


def test_a_spool_that_breaks_at_the_end(warnings):
    class Broken(ListSpool):
        def close(self, last=()):
            raise OSError("no disk")

    with Recorder(Broken()) as recorder:
        recorder.record(step(1))
    assert warnings() == ["Events are lost: no disk"]


def test_what_is_no_event_is_counted():
    spool = ListSpool()
    recorder = Recorder(spool)
    recorder.record("text")
    recorder.record(None)
    recorder.record(step(1))
    assert not recorder.flush()
    recorder.close()
    assert numbers(spool.events) == [1]
    assert recorder.dropped == 2


def test_a_broken_clock_never_reaches_the_caller():
    def clock():
        raise OSError("no clock")

    recorder = Recorder(ListSpool(), clock=clock)
    recorder.record(step(1))
    assert recorder.dropped == 1
    recorder.close()


def test_a_clock_that_goes_back_is_noted_and_the_order_stays():
    spool, times = ListSpool(), iter([1000.0, 1000.2, 1000.1, 400.0, 400.5])
    with Recorder(spool, clock=lambda: next(times)) as recorder:
        for number in range(5):
            recorder.record(step(number))
    assert numbers(spool.events) == [0, 1, 2, 3, 4]
    (note,) = [event for event in spool.events if isinstance(event, Note)]
    assert note.topic == "clock_backwards"
    assert note.values["step_s"] == pytest.approx(600.1)
    assert spool.events.index(note) == 3


def test_what_finds_no_room_is_counted_in_the_run(warnings):
    """The beginning is kept, and of the rest how the run ended."""
    spool = SmallSpool(room=1)
    with Recorder(spool) as recorder:
        for number in range(8):
            recorder.record(step(number))
            recorder.flush()
        recorder.record(RunFinished(status="finished"))
        assert not recorder.flush()
        assert recorder.dropped == 8
    assert numbers(spool.events) == [0]
    note, finished = spool.events[1:]
    assert (note.topic, note.count) == ("events_dropped", 7)
    assert finished.status == "finished"
    assert recorder.dropped == 7
    assert warnings()[0] == "Events are lost: No room"
    assert warnings()[-1] == "7 events are missing in the run in all"


def test_room_that_comes_back_is_used_after_a_count_of_what_is_missing():
    spool = SmallSpool(room=1)
    with Recorder(spool) as recorder:
        for number in range(2):
            recorder.record(step(number))
            recorder.flush()
        spool.room = 10
        recorder.record(step(2))
        assert recorder.flush()
    first, note, last = spool.events
    assert (first.index, note.count, last.index) == (0, 1, 2)


def test_events_after_the_end_are_counted():
    spool = ListSpool()
    recorder = Recorder(spool)
    recorder.record(step(1))
    recorder.close()
    recorder.record(step(2))
    assert numbers(spool.events) == [1]
    assert recorder.dropped == 1
    assert not recorder.flush()


def test_closing_gives_up_in_time_and_says_what_is_missing(warnings):
    spool = GatedSpool()
    recorder = Recorder(spool)
    recorder.record(step(0))
    spool.entered.wait(5)
    for number in range(7):
        recorder.record(step(number))
    start = time.monotonic()
    recorder.close(timeout=0.6)
    assert time.monotonic() - start < 3
    assert recorder.dropped == 7
    assert "The program ended before 7 events were written" in warnings()
    spool.gate.set()


def test_a_quiet_recorder_touches_its_spool(monkeypatch):
    monkeypatch.setattr(recorder_module, "HEARTBEAT_S", 0.02)
    spool = ListSpool()
    recorder = Recorder(spool, flush_interval_s=0.01)
    recorder.record(step(1))
    wait_until(lambda: spool.calls.count("alive") >= 2)
    recorder.close()


def test_threads_lose_nothing():
    spool = ListSpool()
    recorder = Recorder(spool)

    def record(rank):
        for number in range(2000):
            recorder.record(WarmupStep(phase="prompt", index=number, rank=rank))

    threads = [threading.Thread(target=record, args=(rank,)) for rank in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    recorder.close()
    assert len(spool.events) == 16_000
    for rank in range(8):
        own = [event.index for event in spool.events if event.rank == rank]
        assert own == list(range(2000))


def test_a_signal_handler_may_record():
    """Also while the interrupted thread is recording: no lock is taken twice."""
    spool = ListSpool()
    recorder = Recorder(spool, max_waiting=500)
    handled = []

    def handle(number, frame):
        handled.append(number)
        recorder.record(Note(topic="signal", text="x"))

    previous = signal.signal(signal.SIGALRM, handle)
    signal.setitimer(signal.ITIMER_REAL, 0.001, 0.001)
    try:
        for number in range(100_000):
            recorder.record(step(number))
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, previous)
    recorder.close()
    assert handled
    stored = len([event for event in spool.events if isinstance(event, WarmupStep)])
    signals = len(
        [e for e in spool.events if isinstance(e, Note) and e.topic == "signal"]
    )
    total = stored + signals + recorder.dropped
    # on Python 3.10 a handler may run in the middle of `dropped += 1`
    assert 100_000 + len(handled) - 20 <= total <= 100_000 + len(handled)


def test_an_error_in_the_block_keeps_the_events():
    spool = ListSpool()

    def run_out_of_memory():
        with Recorder(spool) as recorder:
            recorder.record(step(1))
            raise MemoryError

    with pytest.raises(MemoryError):
        run_out_of_memory()
    assert numbers(spool.events) == [1]
