"""Every way of finding candidate lines finds the same lines."""

from __future__ import annotations

import re
import sys

import numpy
import pytest
from hypothesis import given
from hypothesis import strategies as st

from parsers.engine.dispatch import (
    Selector,
    any_of,
    count_lines,
    lines_at,
    make_selector,
    regex_selector,
    text_of,
)
from parsers.files import dispatcher
from tests.helpers import ROOT

words = st.lists(st.text("abc", min_size=1, max_size=4), min_size=1, max_size=8)


def naive(block: bytes, literals: list[str]) -> list[tuple[int, str]]:
    return [
        (number, line.decode("utf-8", "replace"))
        for number, line in enumerate(block.split(b"\n"))
        if any(literal.encode() in line for literal in literals)
    ]


def found(block: bytes, selector: Selector) -> list[tuple[int, str]]:
    return [
        (number, text_of(block, begin, behind))
        for number, begin, behind in lines_at(block, selector(block))
    ]


@given(words, st.text("abcx\n\xff\ud7ff", max_size=60), st.integers(0, 3))
def test_selectors_find_what_a_plain_search_finds(literals, text, broken):
    block = text.encode().replace(b"\xc3", b"\xc3"[: broken % 2])
    expected = naive(block, literals)
    for selector in (regex_selector(literals), make_selector(literals)):
        assert found(block, selector) == expected


@pytest.mark.parametrize("noise", [0, 20])
def test_lines_are_found_between_few_and_many_others(noise):
    block = (b"abc \xff\n" + b"noise\n" * noise) * 9 + b"abc"
    lines = found(block, make_selector(["bc"]))
    assert lines == naive(block, ["bc"])
    assert len(lines) == 10


@given(st.text("a\n", min_size=1, max_size=20))
def test_lines_are_counted_and_cut(text):
    block = text.encode()
    lines = text.splitlines(keepends=True)
    begins = [sum(map(len, lines[:index])) for index in range(len(lines) + 1)]
    assert [count_lines(block, at) for at in begins] == [*range(len(lines), -1, -1)]
    ends = [index + 1 for index, char in enumerate(text) if char == "a"]
    for number, begin, behind in lines_at(block, ends):
        assert lines[number].rstrip("\n") == text_of(block, begin, behind)
        assert block[behind:] == text[begins[number + 1] :].encode()


@pytest.mark.parametrize("is_loaded", [False, True])
def test_lines_between_others_are_counted_with_numpy_and_without(
    monkeypatch, is_loaded
):
    if is_loaded:
        monkeypatch.setitem(sys.modules, "numpy", numpy)
    else:
        monkeypatch.delitem(sys.modules, "numpy", raising=False)
    block = b"x\n" * 9000 + b"abc\n" + b"noise\n" * 5000 + b"abc"
    lines = [*lines_at(block, make_selector(["abc"])(block))]
    assert [number for number, _, _ in lines] == [9000, 14001]
    assert [count_lines(block, at) for at in (0, 2, 18001)] == [14002, 14001, 5002]


@given(words, st.text("abcx", max_size=40))
def test_pattern_of_many_finds_the_longest_at_the_first_place(literals, text):
    found = re.search(any_of(literals), text)
    places = [(text.find(word), -len(word)) for word in literals if word in text]
    if not places:
        assert found is None
    else:
        start, length = min(places)
        assert found is not None
        assert (found.start(), found.end()) == (start, start - length)


@pytest.mark.parametrize("name", ["warmup_doc_capture.log", "made_1_22.log"])
def test_samples_lose_no_event_when_only_candidates_are_read(name, monkeypatch):
    from parsers.engine import runs as engine
    from tests.helpers import read

    data = (ROOT / "sample_logs" / "vllm-fork" / name).read_bytes()
    whole, _ = read(data)
    monkeypatch.setattr(engine, "STARTUP_LINES", 1)
    short, _ = read(data.replace(b"\n", b"\n\n"))
    kinds = [
        type(e).__name__
        for e in whole[0]
        if type(e).__name__ not in ("GapSeen", "Note")
    ]
    assert kinds == [
        type(e).__name__
        for e in short[0]
        if type(e).__name__ not in ("GapSeen", "Note")
    ]


def test_noise_of_a_serving_log_holds_no_literal():
    noise = (
        '(APIServer pid=1) INFO:     10.0.0.1:48804 - "POST /v1/completions HTTP/1.1" 200 OK\n'
        "(APIServer pid=1) INFO 07-16 19:47:26 [logger.py:40] Received request cmpl-1: "
        "prompt: 'a', params: SamplingParams(n=1, temperature=0.0), lora_request: None.\n"
    )
    assert [text for text in dispatcher().literals if text in noise] == []


@pytest.mark.parametrize(
    "line",
    [
        '(EngineCore pid=2) ERROR 07-16 19:47:26 [core.py:866]   File "/x/dist-packages/'
        'vllm/layers/attention.py", line 7, in forward 3',
        '  File "/x/dist-packages/starlette/routing.py", line 7, in app',
        "    await self.app(scope, receive, send)",
        '(APIServer pid=1) INFO:     10.0.0.7:4000 - "POST /v1/completions HTTP/1.1" 200 OK',
    ],
)
def test_what_a_ready_server_prints_often_is_no_candidate(line):
    assert not [literal for literal in dispatcher().literals if literal in line]
