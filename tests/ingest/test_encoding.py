"""What crosses between the processes arrives as it was."""

from __future__ import annotations

import io
import subprocess
import sys

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.helpers import ROOT
from tests.ingest.builders import SAMPLES
from warmup_insights.analysis.summary import Folded
from warmup_insights.ingest.log import Events, LogEnd, read_log
from warmup_insights.ingest.outcome import Options
from warmup_insights.ingest.worker import (
    read_part,
    write_parts,
)
from warmup_insights.model.events import Note, WarmupStep
from warmup_insights.model.summary import RunSummary, SourceName
from warmup_insights.storage.rows import careful_rows, event_rows


def sent(part):
    """A part after its way through a file."""
    file = io.BytesIO()
    list(write_parts(file, [part]))
    file.seek(0)
    return read_part(file)


@pytest.mark.parametrize("path", SAMPLES, ids=lambda p: f"{p.parent.name}/{p.name}")
def test_every_sample_arrives_as_it_was(path):
    with path.open("rb") as log:
        parts = list(read_log(log, path.name, Options()))
    file = io.BytesIO()
    assert sum(write_parts(file, parts)) == file.tell()
    file.seek(0)
    arrived = list(iter(lambda: read_part(file), None))
    assert [type(part) for part in arrived] == [type(part) for part in parts]
    for part, before in zip(arrived[:-1], parts[:-1], strict=True):
        assert part == before
        for (_, ours), (_, theirs) in zip(part.batch, before.batch, strict=True):
            assert event_rows("r", 0, ours) == event_rows("r", 0, theirs)
    assert arrived[-1].digest == parts[-1].digest
    assert arrived[-1].kept_lines == parts[-1].kept_lines


@given(st.text(alphabet=st.characters(exclude_categories=())), st.integers())
def test_odd_text_and_numbers_become_the_rows_that_the_store_makes_of_them(
    text, number
):
    events = [Note(topic="t", text=text), WarmupStep(phase="prompt", index=number)]
    arrived = sent(Events("d", [(0, events[:1]), (1, events[1:])]))
    rows = careful_rows("r", 0, [e for _, some in arrived.batch for e in some])
    assert arrived.digest == "d"
    assert rows == careful_rows("r", 0, events)


def test_text_that_no_database_takes_is_cleaned_on_its_way():
    summary = RunSummary(
        run_id="", source=SourceName(kind="log"), model="\ud800", config={"n": 2**70}
    )
    end = LogEnd("h", "d", 1, {}, [(1, None, "\ud800")], {0: Folded(summary, [])})
    arrived = sent(end)
    assert arrived.kept_lines == [(1, None, "?")]
    assert arrived.runs[0].summary.model == "?"


def test_processes_that_read_do_not_import_the_database():
    program = "import sys, warmup_insights.ingest.worker; print(*sys.modules)"
    loaded = subprocess.run(
        [sys.executable, "-c", program], cwd=ROOT, capture_output=True, text=True, check=True
    ).stdout.split()  # fmt: skip
    assert not {"sqlalchemy", "pandas", "click", "rich"} & set(loaded)
