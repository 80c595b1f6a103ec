"""Converters read the usual quickly, and everything as a plain search would."""

from __future__ import annotations

from hypothesis import example, given
from hypothesis import strategies as st

from parsers.engine.convert import _INT, bucket_of, settings_of


@given(st.from_regex(r"\(?[0-9, _+\-\u0663.]{0,40}\)?", fullmatch=True))
@example("(1, 128, 0)")
@example("35, 1, 99")
@example("(4,)")
@example("1_0, 2")
@example("1, 2, 3, 4, 5, 6, 7")
@example("(1234567890123456789, 2)")
def test_numbers_of_a_tuple_are_those_that_a_search_finds(text):
    assert bucket_of(text) == tuple(int(n) for n in _INT.findall(text)[:6])


def test_a_value_that_was_cut_off_is_left_out():
    """As by a terminal that shows so many columns."""
    assert settings_of("model='a/b', tokenizer='a/b-lon") == {"model": "a/b"}
    assert settings_of("{'model': 'a/b', 'max_model_len': 40") == {"model": "a/b"}
    assert settings_of("seed=0, compilation_config={'level': 3, 'x") == {"seed": 0}
    assert settings_of("{'model': 'a/b', 'seed': 0}") == {"model": "a/b", "seed": 0}
