"""A database that cannot be reached, a folder that takes nothing, a disk that is full."""

from __future__ import annotations

import subprocess

import pytest

from tests.vllm_plugin.running import executions, run_standin
from warmup_insights.ingest.single import ingest_path
from warmup_insights.storage import EventStore

SERVER = "postgresql://nobody@127.0.0.1:1/none"


def mounted(place, options):
    place.mkdir()
    mount = ["mount", "-t", "tmpfs", "-o", options, "none", str(place)]
    done = subprocess.run(mount, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        pytest.skip(f"cannot mount here: {done.stderr.strip()}")
    return place


@pytest.fixture(params=["server refused", "read-only folder", "full disk"])
def case(request, tmp_path):
    """Where to record, and the sentence that the user reads about it."""
    if request.param == "server refused":
        yield SERVER, "cannot be reached; check the URL"
        return
    options = "ro,size=400k" if request.param == "read-only folder" else "size=64k"
    place = mounted(tmp_path / "disk", options)
    sentence = (
        "Read-only file system" if "ro" in options else "is full; free some space"
    )
    yield str(place / "runs.db"), sentence
    subprocess.run(["umount", "--lazy", str(place)], check=True)


@pytest.mark.long
def test_the_engine_is_as_without_and_the_user_reads_why(case, tmp_path):
    database, sentence = case
    waiting = tmp_path / "waiting"
    waiting.mkdir()
    ran = run_standin(
        "v0_26",
        tmp_path,
        drained=True,
        WARMUP_INSIGHTS_DB=database,
        TMPDIR=str(waiting),
    )
    plain = run_standin("v0_26", tmp_path, records=False)
    assert ran.exit_code == plain.exit_code == 0
    assert ran.tokens == plain.tokens
    assert "Traceback" not in ran.stderr
    assert ran.stderr.count(sentence) == 1
    (kept,) = tmp_path.rglob("*.events.jsonl")
    assert ran.stderr.count(f"warmup-insights ingest {kept}") == 1
    with EventStore(tmp_path / "later.db") as store:
        ingest_path(store, str(kept))
        (run,) = store.runs()
        assert run.status == "finished"
        assert len(executions(store.events(run.run_id))) == 31
