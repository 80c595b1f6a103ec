"""The library: the examples of its page, the same answers as the commands, a stable surface."""

from __future__ import annotations

import io
import json
import re
import subprocess
import sys

import nbclient
import nbformat
import pytest

import warmup_insights as wi
from tests.cli.decisions import invoke
from tests.helpers import ROOT, public
from warmup_insights.errors import InputError, StoreError

LOG = ROOT / "sample_logs" / "vllm-fork" / "warmup_doc_capture.log"
EXAMPLES = re.findall(
    r"```python\n(.*?)```", (ROOT / "docs" / "python.md").read_text("utf-8"), re.DOTALL
)
PUBLIC = {
    "Database": {"close", "run", "runs"},
    "Run": {
        "buckets", "events", "figures", "history", "id", "iter_events", "phases", "rows",
        "summary",
    },
    "Warmup": {"event", "generated", "ready", "stage", "step"},
    "WarmupInsightsError": {"add_note", "args", "with_traceback"},
}  # fmt: skip
"""What programs may rely on: a change here is a new major version, or an addition."""


def test_the_examples_of_the_page_run(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "sample_logs").symlink_to(ROOT / "sample_logs")
    names: dict[str, object] = {}
    assert len(EXAMPLES) >= 5
    for example in EXAMPLES:
        exec(example, names)
    printed = capsys.readouterr().out
    assert "62.5" in printed
    assert "finished 2" in printed


def test_the_surface_is_what_programs_rely_on():
    assert set(wi.__all__) == {
        *PUBLIC, "__version__", "advise", "compare", "follow", "open", "read_log", "record",
    }  # fmt: skip
    for name, members in PUBLIC.items():
        found = {m for m in dir(getattr(wi, name)) if not m.startswith("_")}
        assert found - {"add_note"} == members - {"add_note"}, name
    with pytest.raises(AttributeError):
        _ = wi.nothing


def test_importing_it_loads_no_store_and_no_parser():
    code = (
        "import sys, warmup_insights; "
        "print([m for m in sys.modules if m in ('sqlalchemy', 'parsers', 'pandas')])"
    )
    done = subprocess.run(
        [sys.executable, "-c", code],
        capture_output=True,
        text=True,
        check=True,
        cwd=ROOT,
    )
    assert done.stdout.strip() == "[]"


def test_a_log_has_the_summary_of_the_command():
    (run,) = wi.read_log(LOG)
    shown = json.loads(invoke("show", LOG, "--json", "--buckets").stdout)
    assert shown.pop("bucket_rows") == public(run.rows)
    assert shown == public(run.summary)
    advice = json.loads(invoke("advise", LOG, "--json").stdout)["findings"]
    assert [f.title for f in wi.advise(run)] == [f["title"] for f in advice]
    with LOG.open("rb") as file:
        (again,) = wi.read_log(file)
    assert again.figures() == run.figures()


def test_frames_have_a_row_for_each():
    (run,) = wi.read_log(LOG)
    assert len(run.buckets()) == len(run.rows) == 72
    assert list(run.phases().name) == [p.name for p in run.summary.time.phases]
    assert len(run.events()) == len(list(run.iter_events()))


def test_without_pandas_frames_are_lists(monkeypatch):
    monkeypatch.setitem(sys.modules, "pandas", None)
    (run,) = wi.read_log(LOG)
    assert isinstance(run.buckets(), list)
    assert run.buckets()[0]["phase"] == run.rows[0].phase


@pytest.mark.long
def test_the_notebook_of_the_documentation_runs(monkeypatch):
    monkeypatch.setenv("PYTHONPATH", str(ROOT))
    book = nbformat.read(ROOT / "docs" / "notebook.ipynb", as_version=4)
    assert not any(cell.get("outputs") for cell in book.cells), "outputs go stale"
    client = nbclient.NotebookClient(
        book, timeout=600, resources={"metadata": {"path": str(ROOT / "docs")}}
    )
    client.execute()
    shown = str([cell.get("outputs") for cell in book.cells])
    assert "62.5 %" in shown
    assert "prompt_graphs" in shown


def test_a_notebook_shows_text_as_text():
    log = io.BytesIO(LOG.read_bytes())
    log.name = "<script>alert(1)</script>.log"
    (run,) = wi.read_log(log)
    assert "<script>" not in run._repr_html_()
    assert "62.5 %" in run._repr_html_()


def test_a_program_that_fails_is_recorded_as_that(tmp_path):
    path = tmp_path / "runs.db"
    with (
        pytest.raises(ValueError, match="no weights"),
        wi.record(path, name="mine") as warmup,
        warmup.step("prompt", (1, 128)),
    ):
        raise ValueError("no weights")
    with wi.open(path) as database:
        run = database.run(warmup.run_id)
        assert run.summary.status == "failed"
        assert "no weights" in run.summary.failure.message
        assert [r.id for r in database.runs()] == [run.id]
        with pytest.raises(StoreError):
            database.run("nothing")


@pytest.mark.parametrize("is_ready", [False, True])
def test_a_program_that_is_interrupted_was_stopped(tmp_path, is_ready):
    db = tmp_path / "w.db"

    def program(warmup):
        if is_ready:
            warmup.ready()
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt), wi.record(db, name="mine") as warmup:
        program(warmup)
    with wi.open(db) as found:
        summary = found.runs()[0].summary
    assert summary.failure is None
    assert summary.status == ("finished" if is_ready else "stopped")
    assert (summary.stop is None) == is_ready


def test_what_cannot_be_read_is_one_sentence(tmp_path):
    with pytest.raises(InputError, match=r"absent\.log"):
        wi.read_log(tmp_path / "absent.log")
    with pytest.raises(StoreError):
        wi.open(tmp_path / "absent.db")
    assert not (tmp_path / "absent.db").exists()
