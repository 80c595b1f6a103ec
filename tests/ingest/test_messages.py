"""What crosses between the processes arrives as it was."""

from __future__ import annotations

import io

import pytest
from hypothesis import given
from hypothesis import strategies as st

from parsers.files import LogReader
from tests.ingest.builders import SAMPLES
from warmup_insights.ingest.messages import (
    EVENTS,
    MESSAGE,
    ODD_EVENTS,
    Known,
    Parsed,
    pack_batch,
    read_frame,
    read_parsed,
    read_question,
    send,
    unpack_batch,
    write_frame,
)
from warmup_insights.model.events import Note, WarmupStep
from warmup_insights.storage.rows import careful_rows, event_rows


@pytest.mark.parametrize("path", SAMPLES, ids=lambda p: f"{p.parent.name}/{p.name}")
def test_events_of_every_sample_arrive_as_they_were(path):
    with path.open("rb") as file:
        for batch in LogReader(file, path.name):
            kind, body = pack_batch(batch)
            assert kind == EVENTS
            arrived = unpack_batch(kind, body)
            assert arrived == batch
            for (_, before), (_, after) in zip(batch, arrived, strict=True):
                assert event_rows("r", 0, after) == event_rows("r", 0, before)


@given(st.text(alphabet=st.characters(exclude_categories=())), st.integers())
def test_odd_text_and_numbers_become_the_rows_that_the_store_makes_of_them(
    text, number
):
    batch = [
        (0, [Note(topic="t", text=text)]),
        (1, [WarmupStep(phase="prompt", index=number)]),
    ]
    arrived = [
        event for _, events in unpack_batch(*pack_batch(batch)) for event in events
    ]
    given_rows = careful_rows(
        "r", 0, [event for _, events in batch for event in events]
    )
    assert careful_rows("r", 0, arrived) == given_rows


def test_half_a_surrogate_pair_goes_as_odd_events():
    kind, _ = pack_batch([(0, [Note(topic="t", text="\ud800")])])
    assert kind == ODD_EVENTS


def test_frames_follow_each_other_and_a_cut_one_is_the_end():
    file = io.BytesIO()
    write_frame(file, EVENTS, b"abc")
    send(file, Known(["d"], [3]))
    whole = file.getvalue()
    file.seek(0)
    assert read_frame(file) == (EVENTS, b"abc")
    kind, body = read_frame(file)
    assert (kind, read_question(body)) == (MESSAGE, Known(["d"], [3]))
    assert read_frame(file) is None
    for cut in (3, 6):
        assert read_frame(io.BytesIO(whole[:cut])) is None


def test_lines_that_no_database_takes_are_cleaned_on_their_way():
    parsed = Parsed(
        digest="d", head_digest="h", size=1, beginnings={5: "b"}, starts={0: (1, "k")},
        summaries={0: ({"a": None}, [])}, report={}, kept_lines=[(1, None, "\ud800")],
    )  # fmt: skip
    file = io.BytesIO()
    send(file, parsed)
    file.seek(0)
    arrived = read_parsed(read_frame(file)[1])
    assert arrived.kept_lines == [(1, None, "?")]
    assert (arrived.beginnings, arrived.starts) == ({5: "b"}, {0: (1, "k")})
