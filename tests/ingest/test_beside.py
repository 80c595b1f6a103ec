"""Files beside a log: metrics of the Gaudi bridge, output of collect_env; their runs."""

from __future__ import annotations

import json

import pytest

from parsers.formats.metric_files import looks_like_metrics, read_metrics
from tests.cli.decisions import invoke
from tests.helpers import ROOT
from warmup_insights.errors import StoreError
from warmup_insights.model.bridge import metric_note
from warmup_insights.runs import current
from warmup_insights.storage import EventStore

LOG = ROOT / "sample_logs" / "vllm-gaudi" / "made_v0_26_bars.log"
ENVIRONMENT = """\
Collecting environment information...
PyTorch version: 2.6.0+hpu_1.21.3-57.gitabf798b
Is debug build: False
HPU devices: 8x HL-325L
"""
WRITTEN = "2026-08-21T09:59:00.000001"
COMPILED = {"TotalNumber": 36, "TotalTime": 12_400_000, "AvgTime": 344444.4}
FALLBACKS = {"TotalNumber": 12, "FallbackOps": {"aten::sort": 5, "aten::nonzero": 7}}
MOVES = {"TotalNumber": 4, "TotalSuccessful": 3, "AvgTime": 7, "MaxTime": 12}
CACHE = {"TotalHit": 100, "RecipeHit": {}, "TotalMiss": 36, "RecipeMiss": {}}
ALL = {
    "graph_compilation": COMPILED, "cpu_fallback": FALLBACKS,
    "memory_defragmentation": MOVES, "recipe_cache": CACHE,
}  # fmt: skip


def as_json(metrics, written=WRITTEN, end="]\n"):
    entries = [
        json.dumps(
            {
                "metric_name": name, "triggered_by": "process_exit",
                "generated_on": written, "statistics": figures,
            }
        )
        for name, figures in metrics.items()
    ]  # fmt: skip
    return "[" + ",\n".join(entries) + end


def as_text(metrics, written=WRITTEN):
    return "".join(
        f"Metric name: {name}\nTriggered by: MetricDumpTrigger.process_exit\n"
        f"Generated on: {written.replace('T', ' ')}\nStatistics:\n"
        + "".join(f"\t{key}: {value}\n" for key, value in figures.items())
        + "\n"
        for name, figures in metrics.items()
    )


@pytest.mark.parametrize("written", [as_json, as_text])
def test_both_formats_give_the_same_notes(written):
    text = written(ALL)
    assert looks_like_metrics(text.encode())
    assert [note.text for note in read_metrics(text, "m")] == [
        "36 recipes compiled in 12.4 s",
        "Operators fell back to the CPU 12 times: aten::nonzero (7), aten::sort (5)",
        "Device memory was defragmented 4 times, 3 with success, at most 12 ms",
        "Recipe cache: 100 hits, 36 misses",
    ]


def test_figures_add_up_so_the_last_entry_counts():
    more = {"TotalNumber": 40, "TotalTime": 20_000_000}
    text = as_json({"graph_compilation": COMPILED}, end=",\n") + as_json(
        {"graph_compilation": more}
    ).removeprefix("[")
    [note] = read_metrics(text, "metrics-rank3.json")
    assert (note.values["compiled"], note.rank) == (40, 3)


def test_the_array_of_a_killed_process_is_read_as_far_as_it_goes():
    text = as_json(ALL, end="")
    assert len(read_metrics(text, "m")) == 4
    assert len(read_metrics(text[:-30], "m")) == 3


def test_the_slowest_recipes_are_kept_by_name():
    details = {**COMPILED, "recipe": [["a", 2_000_000], ["b", 9_000_000]]}
    for written in (as_json, as_text):
        [note] = read_metrics(written({"graph_compilation": details}), "m")
        assert note.values["slowest"] == [["b", 9.0], ["a", 2.0]]


@pytest.mark.parametrize(
    "figures",
    [
        {}, {"TotalNumber": "x", "TotalTime": 1}, {"TotalNumber": None},
        {"TotalNumber": float("inf"), "TotalTime": 1},
        {"TotalNumber": 1, "TotalTime": 1, "recipe": [[1]]},
    ],
)  # fmt: skip
def test_figures_that_cannot_be_read_give_nothing(figures):
    assert metric_note("graph_compilation", figures) is None
    assert metric_note("of_another_bridge", figures) is None


def folder_with(tmp_path, text):
    log = tmp_path / "engine.log"
    log.write_bytes(LOG.read_bytes())
    metrics = tmp_path / "metrics.json.1"
    metrics.write_text(text, encoding="utf-8")
    return log, metrics, tmp_path / "runs.db"


def notes_of(db):
    with EventStore(db) as store:
        [run] = store.runs()
        summary = current(store, run).summary
    return [note.text for note in summary.notes if note.topic.startswith("bridge_")]


def time_of_log(tmp_path):
    db = tmp_path / "time.db"
    invoke("ingest", LOG, "--db", db)
    with EventStore(db) as store:
        [run] = store.runs()
        times = [e.time for e in store.events(run.run_id) if e.time is not None]
    from datetime import datetime, timezone

    return datetime.fromtimestamp(max(times), timezone.utc).replace(tzinfo=None)


def test_a_file_beside_the_log_joins_its_run(tmp_path):
    written = time_of_log(tmp_path).isoformat()
    log, metrics, db = folder_with(tmp_path, as_json(ALL, written))
    for state in ("new", "unchanged"):
        done = invoke("ingest", metrics, log, "--db", db, "--json")
        assert done.exit_code == 0, done.output
        states = {
            f["path"].rpartition("/")[2]: f["state"]
            for f in json.loads(done.stdout)["files"]
        }
        assert states == {"engine.log": state, "metrics.json.1": state}
    assert len(notes_of(db)) == 4


def test_the_time_of_a_run_is_not_that_of_its_metric_file(tmp_path):
    written = time_of_log(tmp_path).isoformat()
    log, metrics, db = folder_with(tmp_path, as_json(ALL, written))
    invoke("ingest", log, "--db", db)
    with EventStore(db) as store:
        before = current(store, *store.runs()).summary
    invoke("ingest", metrics, "--db", db, "--run", "latest")
    with EventStore(db) as store:
        after = current(store, *store.runs()).summary
    assert (after.time, after.status) == (before.time, before.status)
    assert len(notes_of(db)) == 4


def test_a_file_of_another_time_names_what_to_give(tmp_path):
    log, metrics, db = folder_with(tmp_path, as_json(ALL, "2020-01-01T00:00:00"))
    done = invoke("ingest", metrics, log, "--db", db)
    assert "name its run with --run" in done.output
    assert notes_of(db) == []


def test_a_run_that_is_not_there_is_named(tmp_path):
    _, metrics, db = folder_with(tmp_path, as_json(ALL))
    done = invoke("ingest", metrics, "--db", db, "--run", "nobody")
    assert isinstance(done.exception, StoreError)


def test_output_of_collect_env_beside_a_log_joins_its_runs(tmp_path):
    (tmp_path / "a.log").write_bytes(LOG.read_bytes())
    (tmp_path / "env.txt").write_text(ENVIRONMENT)
    db = str(tmp_path / "w.db")
    done = invoke(
        "ingest", str(tmp_path / "a.log"), str(tmp_path / "env.txt"), "--db", db
    )
    assert done.exit_code == 0, done.output
    with EventStore(db) as store:
        (run,) = store.runs()
        config = current(store, run).summary.config
    assert config["devices"] == "8x HL-325L"
    again = invoke("ingest", str(tmp_path / "env.txt"), "--db", db)
    assert "unchanged" in again.output


def test_output_of_collect_env_beside_two_logs_needs_a_name(tmp_path):
    for name in ("a.log", "b.log"):
        (tmp_path / name).write_bytes(LOG.read_bytes() + name.encode())
    (tmp_path / "env.txt").write_text(ENVIRONMENT)
    db = str(tmp_path / "w.db")
    done = invoke("ingest", str(tmp_path), "--db", db)
    assert "name its run with --run" in done.output
    done = invoke("ingest", str(tmp_path / "env.txt"), "--run", "latest", "--db", db)
    assert done.exit_code == 0, done.output
