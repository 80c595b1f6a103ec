"""Spans at a collector, and Parquet files in DuckDB: read back by other programs."""

from __future__ import annotations

import json
import subprocess
import sys
import threading
from http.server import BaseHTTPRequestHandler, HTTPServer

import duckdb
import pytest
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import (
    ExportTraceServiceRequest,
    ExportTraceServiceResponse,
)

from tests.analysis.builders import contradicting, start_up
from tests.cli.decisions import invoke, simulated_run
from tests.helpers import ROOT, folded
from tests.parsers.test_spans import BEGAN, TREE, exported
from warmup_insights.analysis.summary import Folded
from warmup_insights.errors import InputError
from warmup_insights.export import otlp
from warmup_insights.export.otlp import make_spans, send
from warmup_insights.export.parquet import write_parquet
from warmup_insights.model.events import BucketUsed, ConfigRecorded
from warmup_insights.model.figures import FIGURES, contradictory
from warmup_insights.runs import current
from warmup_insights.storage import EventStore

LOG = ROOT / "sample_logs" / "vllm-fork" / "warmup_doc_capture.log"
MISSED = ROOT / "sample_logs" / "vllm-gaudi" / "made_v0_26_bars.log"


class Collector(HTTPServer):
    """Receives OTLP over HTTP on this machine and decodes it."""

    def __init__(self, status: int = 200) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self.status = status
        self.paths: list[str] = []
        self.requests: list[ExportTraceServiceRequest] = []

    @property
    def address(self) -> str:
        return f"http://127.0.0.1:{self.server_address[1]}"

    def spans(self):
        """The spans of all requests."""
        return [
            span
            for request in self.requests
            for group in request.resource_spans
            for scope in group.scope_spans
            for span in scope.spans
        ]

    def resource(self) -> dict[str, str]:
        (group,) = self.requests[0].resource_spans
        return {a.key: a.value.string_value for a in group.resource.attributes}


class _Handler(BaseHTTPRequestHandler):
    def do_POST(self):
        body = self.rfile.read(int(self.headers["Content-Length"]))
        self.server.paths.append(self.path)
        self.server.requests.append(ExportTraceServiceRequest.FromString(body))
        self.send_response(self.server.status)
        self.end_headers()
        self.wfile.write(ExportTraceServiceResponse().SerializeToString())

    def log_message(self, *_):
        pass


def served(collector):
    thread = threading.Thread(target=collector.serve_forever, daemon=True)
    thread.start()
    return thread


@pytest.fixture
def collector():
    with Collector() as server:
        thread = served(server)
        yield server
        server.shutdown()
        thread.join()


def attributes(span):
    return {a.key: a.value for a in span.attributes}


@pytest.fixture(scope="module")
def database(tmp_path_factory):
    path = tmp_path_factory.mktemp("fleet") / "runs.db"
    simulated_run(path, "a" * 12, "base")
    for log in (LOG, MISSED):
        assert invoke("ingest", log, "--db", path).exit_code == 0
    return path


@pytest.mark.parametrize("name", ["base", str(LOG), str(MISSED)])
def test_a_collector_gets_every_stage_and_step(collector, database, name):
    done = invoke(
        "export", name, "--format", "otlp", "--otlp-endpoint", collector.address,
        "--db", database,
    )  # fmt: skip
    assert done.exit_code == 0, done.output
    assert set(collector.paths) == {"/v1/traces"}
    shown = json.loads(invoke("show", name, "--json", "--db", database).stdout)
    trace = json.loads(
        invoke("export", name, "--format", "trace", "--db", database).stdout
    )
    slices = [one for one in trace["traceEvents"] if one["ph"] == "X"]
    root, *others = collector.spans()
    assert len(others) == len(slices)
    assert f"Sent {len(others) + 1:,} spans" in done.output
    assert (root.end_time_unix_nano - root.start_time_unix_nano) / 1e9 == pytest.approx(
        shown["time"]["wall_s"], abs=1e-5
    )
    lengths = [(s.end_time_unix_nano - s.start_time_unix_nano) // 1000 for s in others]
    assert lengths == [one["dur"] for one in slices]
    begins = [s.start_time_unix_nano // 1000 for s in others]
    first = root.start_time_unix_nano // 1000
    assert [begin - first for begin in begins] == [one["ts"] for one in slices]
    assert collector.resource()["warmup_insights.run_id"] == shown["run_id"]
    assert collector.resource()["service.name"] == shown["engine"]["name"]
    missed = [one for one in trace["traceEvents"] if one["ph"] == "i"]
    assert [event.name for event in root.events] == [one["name"] for one in missed]


def test_spans_are_one_tree_with_the_names_of_vllm(collector, database):
    with EventStore(database) as store:
        record = store.find_run("base")
        send(current(store, record), store.events(record.run_id), collector.address)
    root, *others = collector.spans()
    by_id = {span.span_id: span for span in collector.spans()}
    assert len(by_id) == len(others) + 1
    assert {span.trace_id for span in by_id.values()} == {root.trace_id}
    assert root.name == "Overall Loading"
    names = {span.name for span in others if span.parent_span_id == root.span_id}
    assert {"Load model", "Prompt graphs"} <= names
    steps = [span for span in others if span.name.startswith("prompt (")]
    assert steps
    assert {by_id[span.parent_span_id].name for span in steps} <= {
        "Prompt warmup", "Prompt graphs",
    }  # fmt: skip
    assert all(attributes(s)["warmup_insights.category"].string_value for s in steps)


def test_the_same_run_has_the_same_ids(collector, database):
    with EventStore(database) as store:
        run = current(store, store.find_run("base"))
    ids = [
        [span.get_span_context().span_id for span in make_spans(run, [])]
        for _ in range(2)
    ]
    assert ids[0] == ids[1]


def test_a_failed_start_is_an_error(tmp_path):
    failing = {("Load weights", "Worker_0"), ("Overall Loading", "")}
    log = tmp_path / "spans.jsonl"
    log.write_text(exported(TREE[:9], errors=failing), encoding="utf-8")
    with Collector() as server:
        thread = served(server)
        done = invoke(
            "export", log, "--format", "otlp", "--otlp-endpoint", server.address
        )
        server.shutdown()
        thread.join()
    assert done.exit_code == 0, done.output
    root = server.spans()[0]
    assert root.status.code == 2
    assert root.status.message == "RuntimeError: CUDA out of memory"
    assert root.start_time_unix_nano == BEGAN * 10**9


@pytest.mark.parametrize("address", ["http://127.0.0.1:1", "localhost:4317", "nothing"])
def test_a_collector_that_is_not_there_is_one_sentence(address, monkeypatch):
    monkeypatch.setattr(otlp, "TIMEOUT_S", 0.2)
    run = folded(start_up())
    with pytest.raises(InputError, match="ollector"):
        send(run, [], address)


def test_a_collector_that_refuses_is_one_sentence():
    with Collector(status=400) as server:
        thread = served(server)
        with pytest.raises(InputError, match="did not take the spans"):
            send(folded(start_up()), [], server.address)
        server.shutdown()
        thread.join()


def test_a_run_without_times_has_no_spans():
    with pytest.raises(InputError, match="no times"):
        make_spans(folded([]), [])


def test_the_fleet_is_in_duckdb(database, tmp_path):
    out = tmp_path / "fleet"
    done = invoke("export", "--format", "parquet", "-o", out, "--db", database)
    assert done.exit_code == 0, done.output
    with EventStore(database) as store:
        folds = {r.run_id: current(store, r) for r in store.runs(limit=None)}
        counts = {run_id: len(list(store.events(run_id))) for run_id in folds}
    table = duckdb.sql(
        "select * exclude started_at, epoch(started_at) as started_at "
        f"from '{out}/runs.parquet'"
    )
    rows = [dict(zip(table.columns, row, strict=True)) for row in table.fetchall()]
    assert {row["run_id"] for row in rows} == set(folds)
    for row in rows:
        summary = folds[row["run_id"]].summary
        for figure in FIGURES:
            assert row[figure.name] == figure.trusted(summary), figure.name
        assert row["synthetic"] == summary.synthetic
        assert row["started_at"] == pytest.approx(summary.time.started, abs=1e-5)
        assert len(row["phases"]) == len(summary.time.phases)
    buckets = duckdb.sql(
        f"select run_id, count(*), coalesce(sum(captured::int), 0) from '{out}/buckets.parquet' "
        "group by run_id"
    ).fetchall()
    assert {row[0]: row[1:] for row in buckets} == {
        run_id: (len(fold.rows), sum(row.captured is True for row in fold.rows))
        for run_id, fold in folds.items()
        if fold.rows
    }
    found = duckdb.sql(
        f"select run_id, count(*), min(seq), count(event->>'kind') "
        f"from '{out}/events.parquet' group by run_id"
    ).fetchall()
    assert {row[0]: row[1:] for row in found} == {
        run_id: (count, 0, count) for run_id, count in counts.items()
    }
    again = invoke("export", "--format", "parquet", "-o", out, "--db", database)
    assert "--force" in str(again.exception)
    again = invoke("export", "--format", "parquet", "-o", database, "--db", database)
    assert str(again.exception) == (
        f"{database} is a file; name a folder for the Parquet files"
    )


def test_spans_are_not_written_to_a_file(database, tmp_path):
    out = tmp_path / "spans"
    done = invoke("export", "latest", "--format", "otlp", "-o", out, "--db", database)
    assert (done.exit_code, out.exists()) == (2, False)
    assert "otlp is sent to --otlp-endpoint, not written; leave -o out" in done.output


def test_hostile_numbers_and_text_are_written(tmp_path):
    event = BucketUsed(phase="prompt", shape=(1 << 80, 1), bucket=(1, 1), line=1 << 70)
    text = ConfigRecorded(model="\udcff", settings={"x": 1 << 80})
    run = folded([*start_up(), event])
    summary = contradicting(run.summary, "warmup_s")
    assert write_parquet(tmp_path, [(Folded(summary, run.rows), [event])]) == 1
    (line,) = duckdb.sql(f"select line from '{tmp_path}/events.parquet'").fetchall()
    assert line == (None,)
    (found,) = duckdb.sql(
        f"select warmup_s, contradictory from '{tmp_path}/runs.parquet'"
    ).fetchall()
    assert found == (None, sorted(contradictory(summary)))
    model = folded([text])
    assert write_parquet(tmp_path, [(model, [])], force=True) == 1


WITHOUT_EXTRAS = """
import sys
sys.modules |= dict.fromkeys(("pyarrow", "opentelemetry"))
from click.testing import CliRunner
from warmup_insights.cli import cli
for form in ("csv", "parquet", "otlp"):
    command = ["export", sys.argv[1], "--format", form]
    command += [] if form == "otlp" else ["-o", sys.argv[2] + form]
    print(form, CliRunner().invoke(cli, command).exception)
"""


def test_an_extra_costs_nothing_until_it_is_used(tmp_path):
    """Other formats load nothing of it; without it there is one sentence."""
    done = subprocess.run(
        [sys.executable, "-c", WITHOUT_EXTRAS, str(LOG), f"{tmp_path}/"],
        cwd=ROOT, capture_output=True, text=True, check=True,
    )  # fmt: skip
    csv, parquet, otlp = done.stdout.splitlines()
    assert csv == "csv None"
    assert parquet.endswith("install warmup-insights[parquet]")
    assert otlp.endswith("install warmup-insights[otel]")


def test_what_cannot_be_exported_leaves_nothing(tmp_path):
    out = tmp_path / "fleet"
    for names in ((), (LOG, tmp_path / "absent.log")):
        done = invoke(
            "export", *names, "--format", "parquet", "-o", out,
            "--db", tmp_path / "absent.db",
        )  # fmt: skip
        assert done.exit_code == 1
        assert list(tmp_path.iterdir()) == []


def test_usage(tmp_path):
    for arguments in ((), (LOG, LOG)):
        assert invoke("export", *arguments).exit_code == 2
    assert invoke("export", LOG, "--format", "parquet").exit_code == 2
    both = invoke("export", LOG, MISSED, "--format", "prometheus")
    assert both.stdout.count("vllm_startup_status{") == 2
