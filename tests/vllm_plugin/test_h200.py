"""Two starts of the real vLLM 0.26 on an NVIDIA H200, each recorded and as its log has it.

The folder `h200` has the output and the events of both, as they came (paths replaced): model
runner V2 with the engine in a process of its own, and V1 within the program. vLLM had none of
its compiled operators there, attention by Triton and the others by PyTorch: what is compared
is that both ways tell the same of one start, and no time is a measure of vLLM.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from warmup_insights import api
from warmup_insights.model.events import decode
from warmup_insights.model.figures import BY_NAME, FIGURES
from warmup_insights.model.summary import Serving
from warmup_insights.testing import folded

FOLDER = Path(__file__).parent / "h200"
RUNNERS = ("runner_v1", "runner_v2")
OF_SOURCE = {"wall_s", "unlogged_s"}
"""A log begins after the imports, and has whole seconds."""

WHOLE_S = 1.0
"""The coarsest time of a line: `Graph capturing finished in 6 secs`."""


def read(runner):
    [run] = api.read_log(str(FOLDER / f"{runner}.log"))
    return run.summary


def recorded(runner):
    lines = (FOLDER / f"{runner}.jsonl").read_text(encoding="utf-8").splitlines()
    return folded([decode(line) for line in lines], source_kind="recorder").summary


@pytest.mark.parametrize("runner", RUNNERS)
def test_a_figure_that_both_have_is_equal(runner):
    log, recording = read(runner), recorded(runner)
    compared = []
    for figure in FIGURES:
        stated, known = figure.trusted(log), figure.trusted(recording)
        if None in (stated, known) or figure.name in OF_SOURCE:
            continue
        compared.append(figure.name)
        rounding = WHOLE_S / 2 if figure.unit == "s" else figure.doubt(log) + 0.005
        assert abs(stated - known) <= rounding, figure.name
    assert {
        "engine_init_s", "compile_s", "graph_capture_s", "weights_bytes",
        "kv_cache_tokens", "max_concurrency", "graphs_captured", "graph_memory_bytes",
        "margin_bytes", "captured_percent",
    } <= set(compared)  # fmt: skip
    assert log.contradictions == recording.contradictions == []


@pytest.mark.parametrize("runner", RUNNERS)
def test_a_compilation_is_counted_once(runner):
    """The total comes after the warm-up, and the whole function holds its graphs."""
    seconds = recorded(runner).time.seconds_by_phase()["compile"]
    assert 0.9 * 10.3 < seconds < BY_NAME["compile_s"].read(recorded(runner))
    assert abs(seconds - read(runner).time.seconds_by_phase()["compile"]) < 1.0


@pytest.mark.parametrize("runner", RUNNERS)
def test_both_take_it_for_the_same_kind_of_start(runner):
    log, recording = read(runner), recorded(runner)
    assert log.start.kind == recording.start.kind == "cold"
    for name, state in recording.start.caches.items():
        assert log.start.caches[name] == state


def test_all_graphs_count_and_not_those_of_decodes_alone():
    recording = recorded("runner_v2")
    decodes = recording.phase("decode").graph_used_bytes
    assert decodes < BY_NAME["graph_memory_bytes"].read(recording) == 140 * 2**20


def test_a_kernel_that_a_request_waited_for_is_in_the_log():
    serving = read("runner_v1").serving or Serving()
    assert [row.kernel for row in serving.jit] == ["kernel_unified_attention"]
