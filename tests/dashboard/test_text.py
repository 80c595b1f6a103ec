"""Log text does nothing on a page: no markup, no escapes, no direction overrides."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dashboard.text import (
    LIMIT,
    NAME,
    figure_text,
    markdown,
    sentence,
    short_name,
    visible,
)

HOSTILE = [
    "<script>alert(1)</script>",
    "**bold** [link](http://evil.example) ![i](http://evil.example/x.png)",
    "$\\frac{1}{2}$ :red[x] :smile: `code` :material/delete:",
    "\x1b[31m\x1b[2J\x07 bomb",
    "user\u202egpj.exe",
    "a" * 100_000,
]


@pytest.mark.parametrize("text", HOSTILE)
def test_hostile_text_is_cut_and_holds_no_control(text):
    shown = visible(text)
    assert len(shown) <= 4 * LIMIT
    assert not any(ord(c) < 32 or c in "\u202e\u200b" for c in shown)


def test_controls_are_named_so_that_they_are_seen():
    assert visible("\x1b[2J\u202e") == "\\x1b[2J\\u202e"


@pytest.mark.parametrize("text", HOSTILE[:3])
def test_markup_is_escaped_for_markdown(text):
    shown = markdown(text)
    for sign in "<*[`$:":
        assert all(
            shown[place - 1] == "\\" for place, c in enumerate(shown) if c == sign
        ), sign


@given(st.text(max_size=200))
def test_markdown_reads_the_same_once_unescaped(text):
    unescaped = []
    escaped = markdown(text)
    position = 0
    while position < len(escaped):
        if escaped[position] == "\\" and position + 1 < len(escaped):
            position += 1
        unescaped.append(escaped[position])
        position += 1
    assert "".join(unescaped) == visible(text).replace("\n", " ")


def test_figures_get_no_html():
    assert figure_text("<b>x</b> & <a href='y'>") == (
        "&lt;b&gt;x&lt;/b&gt; &amp; &lt;a href='y'&gt;"
    )


def test_names_are_cut_in_the_middle():
    name = "cuda_v1_2026-07-25_tp4_dcp4_mrv2_specdecode_stdout.log"
    assert short_name(name) == "cuda_v1_2026-07-25_\u2026pecdecode_stdout.log"
    assert len(short_name(name)) == NAME
    assert short_name("short") == "short"


def test_commands_in_messages_are_code_and_nothing_else_is_markup():
    shown = sentence("No *run*; `warmup-insights runs` lists <b>them</b>")
    assert shown == "No \\*run\\*; `warmup-insights runs` lists \\<b\\>them\\<\\/b\\>"
    assert sentence("an odd ` in it") == markdown("an odd ` in it")
