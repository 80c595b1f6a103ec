"""What waits for its turn takes bounded memory."""

from __future__ import annotations

import tempfile

import pytest

from warmup_insights.errors import InputError
from warmup_insights.ingest.held import Held


@pytest.fixture
def held():
    with_room_for_ten = Held(memory_bytes=10)
    yield with_room_for_ten
    with_room_for_ten.close()


def test_bytes_come_back_from_memory_and_from_the_file(held):
    bodies = [bytes([n]) * 4 for n in range(1, 6)]
    slips = [held.add(body) for body in bodies]
    assert [slip.body is None for slip in slips] == [False, False, True, True, True]
    assert [held.get(slip) for slip in reversed(slips)] == bodies[::-1]
    assert held.is_full


def test_what_is_dropped_makes_room_and_empties_the_file(held):
    slips = [held.add(b"x" * 8) for _ in range(3)]
    held.drop(slips[1])
    held.drop(slips[2])
    assert held.add(b"y" * 8).offset == 0
    assert held._file is not None
    assert held._file.seek(0, 2) == 8
    held.drop(slips[0])
    assert held.add(b"z" * 8).body == b"z" * 8


def test_no_room_on_disk_is_a_sentence(held, monkeypatch, tmp_path):
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path / "missing"))
    with pytest.raises(InputError, match="set TMPDIR to another one"):
        held.add(b"x" * 11)
