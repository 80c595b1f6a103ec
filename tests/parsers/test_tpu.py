"""TPU engines pad to buckets and compile a graph for each."""

from __future__ import annotations

from tests.helpers import events, of
from warmup_insights.model.events import (
    BucketsGenerated,
    CompileFinished,
    WarmupStep,
)

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


RUNNER = "INFO 04-21 20:{:02d}:{:02d} [tpu_model_runner.py:1365] {}"


def test_in_the_tree_paddings_and_shapes_have_a_line_each():
    """vLLM 0.8 to 0.10, `v1/worker/tpu_model_runner.py`."""
    lines = [
        (0, 0, "Using exponential token paddings:"), (0, 0, "    16"), (0, 0, "    32"),
        (0, 0, "Preparing request paddings:"), (0, 0, "    8"),
        (1, 0, "Compiling the model with different input shapes."),
        (1, 0, "  -- num_tokens: 16"), (1, 20, "  -- num_tokens: 32"),
        (1, 50, "Compilation finished in 49.75 [secs]."),
        (1, 50, "Compiling compute_logits with different input shapes."),
        (1, 52, "  -- num_seqs: 8"),
        (1, 52, "Compilation finished in 1.50 [secs]."),
    ]  # fmt: skip
    found = events("\n".join(RUNNER.format(*line) for line in lines) + "\n")
    lists = {e.phase: e.buckets for e in of(BucketsGenerated, found)}
    assert lists == {"tokens": [(16,), (32,)], "requests": [(8,)]}
    steps = [(s.bucket, s.duration_s) for s in of(WarmupStep, found)]
    assert steps == [((16,), 20.0), ((32,), 30.0)]
    compiled = [
        (c.what, c.duration_s, c.from_cache) for c in of(CompileFinished, found)
    ]
    assert compiled == [("backbone", 49.75, None), ("compute_logits", 1.5, None)]
