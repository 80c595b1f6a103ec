"""The order of storing does not depend on the order of reading."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from warmup_insights.ingest.turns import Turns


@given(st.data())
def test_alike_files_keep_their_order_and_every_file_gets_its_turn(data):
    heads = data.draw(st.lists(st.sampled_from("abc"), max_size=12))
    count = len(heads)
    begun = data.draw(st.permutations(range(count)))
    turns, stored, unread = Turns(count), [], list(begun)
    while not turns.is_over:
        if turns and (not unread or data.draw(st.booleans())):
            index = turns.next()
            turns.stored(index)
            stored.append(index)
        else:
            assert unread, "nothing is left to read, and nothing may be stored"
            index = unread.pop(0)
            turns.begins(index, heads[index])
            turns.read(index)
    assert sorted(stored) == list(range(count))
    for head in "abc":
        alike = [index for index in stored if heads[index] == head]
        assert alike == sorted(alike)


def test_other_files_need_not_wait_for_one_that_is_still_read():
    turns = Turns(3)
    turns.begins(0, "huge")
    for index, head in ((1, "b"), (2, "huge")):
        turns.begins(index, head)
        turns.read(index)
    assert turns.next() == 1
    turns.stored(1)
    assert not turns
    turns.read(0)
    assert turns.next() == 0
    assert not turns
    turns.stored(0)
    assert turns.next() == 2


def test_nothing_is_stored_before_the_beginnings_of_those_before_it_are_known():
    turns = Turns(2)
    turns.begins(1, "a")
    turns.read(1)
    assert not turns
    assert turns.alone == 0
    turns.begins(0, "b")
    assert turns.next() == 1
