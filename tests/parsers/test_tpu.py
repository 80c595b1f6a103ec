"""TPU engines pad to buckets and compile a graph for each."""

from __future__ import annotations

from tests.helpers import events, of
from warmup_insights.model.events import CompileFinished

HEAD = "INFO 10-21 20:57:{:02d} [compilation_manager.py:58] "


def test_a_compilation_is_named_by_the_line_that_began_it():
    text = HEAD.format(1) + "Precompile backbone --> {'num_tokens': 16}\n"
    text += HEAD.format(40) + "Compilation finished in 39.64 [secs].\n"
    (found,) = of(CompileFinished, events(text))
    assert (found.what, found.detail) == ("backbone", "{'num_tokens': 16}")
    assert found.duration_s == 39.64


def test_a_compilation_whose_beginning_was_cut_off_has_no_shape():
    (found,) = of(
        CompileFinished,
        events(HEAD.format(40) + "Compilation finished in 39.64 [secs].\n"),
    )
    assert (found.what, found.detail) == ("graph", None)
