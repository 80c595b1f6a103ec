"""When the program began: before the plugin, which comes with the first import of vLLM."""

from __future__ import annotations

import subprocess
import sys
import time

from tests.vllm_plugin.running import ROOT, run_standin
from warmup_insights.vllm_plugin import facts


def test_a_program_began_when_its_process_did():
    before = time.time()
    code = (
        "import time; imported = time.time(); "
        "from warmup_insights.vllm_plugin import facts; "
        "print(facts.program_started(), imported)"
    )
    done = subprocess.run(
        [sys.executable, "-c", code],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=True,
    )
    began, imported = map(float, done.stdout.split())
    assert before - 0.05 <= began <= imported + 0.05  # ticks of the system's clock


def test_an_interactive_program_tells_no_start(monkeypatch):
    """It may have been idle for hours before."""
    monkeypatch.setattr(sys, "ps1", ">>> ", raising=False)
    assert facts.program_started() is None


def test_a_system_without_the_file_tells_no_start(monkeypatch):
    monkeypatch.setattr(facts.Path, "read_text", lambda *_, **__: "nothing")
    assert facts.program_started() is None


def test_what_lies_before_the_plugin_is_the_phase_import(tmp_path):
    began = time.time()
    ran = run_standin("v0_26", tmp_path, STANDIN_STEPS="[]")
    (started,) = ran.events("run_started")
    first = next(e for e in ran.events("phase_marked"))
    assert (first.name, first.edge) == ("import", "start")
    assert first.time == started.time
    # The row of a run has the start of its summary, a text with microseconds.
    assert abs(ran.runs()[0].started_at - started.time) <= 1e-6
    loaded = ran.events("config_recorded")[0].time
    assert began - 0.05 <= started.time < loaded
