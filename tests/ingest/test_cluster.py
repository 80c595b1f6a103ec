"""A Ray cluster of two nodes on this machine reads logs into a real PostgreSQL."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import sys
import zipfile
from pathlib import Path

import pytest
import sqlalchemy as sa
from click.testing import CliRunner

from tests.ingest.builders import CAPTURE, CLOCKS, SAMPLES, Recording, write_logs
from warmup_insights.cli import cli
from warmup_insights.errors import InputError
from warmup_insights.ingest.cluster import ingest_on_ray
from warmup_insights.ingest.find import find_files, find_remote
from warmup_insights.ingest.many import ingest_files
from warmup_insights.storage import EventStore

pytestmark = [
    pytest.mark.long,
    pytest.mark.postgres,
    # Ray leaves sockets and log files to the end of the process.
    pytest.mark.filterwarnings("ignore::ResourceWarning"),
    pytest.mark.filterwarnings("ignore::DeprecationWarning"),
    pytest.mark.filterwarnings("ignore::FutureWarning"),
]


@pytest.fixture(scope="module")
def cluster():
    """Two nodes of one core each, without a dashboard."""
    os.environ["RAY_USAGE_STATS_ENABLED"] = "0"
    pytest.importorskip("ray", reason="the extra `ray` is not installed")
    from ray.cluster_utils import Cluster

    node = {"num_cpus": 1, "object_store_memory": 80 << 20}
    head = {**node, "include_dashboard": False}
    nodes = Cluster(initialize_head=True, head_node_args=head)
    nodes.second = nodes.add_node(**node)
    yield nodes
    nodes.shutdown()


def workers(node) -> set[int]:
    """The processes of a node."""
    (raylet,) = node.all_processes["raylet"]
    tasks = Path(f"/proc/{raylet.process.pid}/task").glob("*/children")
    return {int(pid) for path in tasks for pid in path.read_text().split()}


def held_reader(node) -> int | None:
    """A process of a node that reads a log, held up in the middle of it."""
    for pid in workers(node):
        if is_reading(pid):
            os.kill(pid, signal.SIGSTOP)
            if is_reading(pid):
                return pid
            os.kill(pid, signal.SIGCONT)
    return None


def is_reading(pid: int) -> bool:
    """Whether a process does: Ray writes the name of the task over its command."""
    with contextlib.suppress(OSError):
        return Path(f"/proc/{pid}/cmdline").read_bytes().startswith(b"ray::read")
    return False


def kill_node(cluster, node) -> None:
    """All at once, like a machine that loses its power: first whoever reads there."""
    for pid in workers(node):
        os.kill(pid, signal.SIGKILL)
    cluster.remove_node(node, allow_graceful=False)


def rows(url: str, table: str) -> list[tuple]:
    """Every row of a table, without the times of storing."""
    engine = sa.create_engine(url.replace("postgresql:", "postgresql+psycopg:"))
    with engine.connect() as connection:
        found = connection.execute(sa.text(f"SELECT * FROM {table}"))
        kept = [
            tuple(value for name, value in row.items() if name not in CLOCKS)
            for row in found.mappings()
        ]
    engine.dispose()
    return sorted(kept, key=repr)


TABLES = (
    "runs",
    "sources",
    "source_lines",
    "events",
    "bucket_summaries",
    "run_summaries",
)


def test_samples_give_the_same_rows_as_here(cluster, postgres_server, tmp_path):
    """Also those in an archive, and a file with its longer copy."""
    lines = CAPTURE.read_bytes().splitlines(keepends=True)
    folder = tmp_path / "logs"
    folder.mkdir()
    for n, count in enumerate((10, 20, 15)):
        (folder / f"{n}.log").write_bytes(b"".join(lines[:count]))
    for path in SAMPLES[:12]:
        (folder / path.name).write_bytes(path.read_bytes())
    here, there = postgres_server.new_database(), postgres_server.new_database()
    files = [*find_files([str(folder)]), "/nowhere.log"]
    with EventStore(here) as store:
        expected = ingest_files(store, files)
    found = find_remote([f"file://{folder}", "/nowhere.log"])
    outcomes = ingest_on_ray(there, found, address=cluster.address)
    assert outcomes == expected
    assert outcomes[-1].state == "failed"
    for table in TABLES:
        assert rows(there, table) == rows(here, table)


def test_command_reads_addresses_and_skips_what_is_stored(
    cluster,
    postgres_url,
    tmp_path,
):
    with zipfile.ZipFile(tmp_path / "logs.zip", "w") as packed:
        packed.write(CAPTURE, CAPTURE.name)
    address = f"zip://*.log::file://{tmp_path}/logs.zip"
    arguments = ["ingest", address, str(CAPTURE), "--ray", cluster.address, "--json"]
    results = [
        CliRunner().invoke(cli, [*arguments, "--db", postgres_url]) for _ in "ab"
    ]
    answers = [json.loads(result.stdout)["files"] for result in results]
    assert [[a["state"] for a in files] for files in answers] == [
        ["new", "unchanged"], ["unchanged", "unchanged"]
    ]  # fmt: skip
    assert answers[0][0]["path"] == f"zip://{CAPTURE.name}::file://{tmp_path}/logs.zip"
    assert "2 of 2 files were stored already" in results[1].stderr
    with EventStore(postgres_url) as store:
        (run,) = store.runs()
        assert run.source_name == CAPTURE.name


def test_node_that_is_killed_costs_nothing_and_a_rerun_adds_nothing(
    cluster,
    postgres_server,
    tmp_path,
):
    """The last test: the cluster has one node afterwards."""
    import ray

    write_logs(tmp_path / "logs", 80, lines=500)
    files = find_remote([str(tmp_path / "logs")])
    here, there = postgres_server.new_database(), postgres_server.new_database()

    class Killing(Recording):
        def __init__(self) -> None:
            super().__init__()
            self.again_for: list[str] = []
            self.is_killed = False

        def done(self, outcome) -> None:
            super().done(outcome)
            if not self.is_killed and held_reader(cluster.second) is not None:
                assert len([n for n in ray.nodes() if n["Alive"]]) == 2
                kill_node(cluster, cluster.second)
                self.is_killed = True

        def again(self, path: str, problem: str) -> None:
            self.again_for.append(f"{path}: {problem}")

    watcher = Killing()
    outcomes = ingest_on_ray(there, files, address=cluster.address, watcher=watcher)
    assert [o.path for o in outcomes] == [file.shown for file in files]
    assert {o.state for o in outcomes} <= {"new", "unchanged"}
    assert watcher.is_killed, "the second node never read anything"
    assert watcher.again_for, "nobody said that the node had gone"
    rerun = ingest_on_ray(there, files, address=cluster.address)
    assert {o.state for o in rerun} == {"unchanged"}
    assert [o.run_ids for o in rerun] == [o.run_ids for o in outcomes]
    with EventStore(here) as store:
        ingest_files(store, [file.name for file in files])
    for table in TABLES:
        assert rows(there, table) == rows(here, table)


def test_sqlite_is_refused_before_anything_is_touched(tmp_path):
    db = tmp_path / "a.db"
    with pytest.raises(
        InputError, match="Other machines cannot write the SQLite database"
    ):
        ingest_on_ray(str(db), [], address="auto")
    assert not db.exists()


def test_missing_ray_is_a_sentence(postgres_url, monkeypatch):
    monkeypatch.setitem(sys.modules, "ray", None)
    with pytest.raises(InputError, match=r"pip install 'warmup-insights\[ray\]'"):
        ingest_on_ray(postgres_url, [], address="auto")


def test_options_that_do_not_go_together_are_usage_errors(tmp_path):
    for more in (["--follow"], ["--jobs", "2"]):
        arguments = ["ingest", "a.log", "--ray", "auto", *more]
        assert CliRunner().invoke(cli, arguments).exit_code == 2


@pytest.mark.parametrize("address", ["127.0.0.1:1", "ray://127.0.0.1:1", "[::1]:99999"])
def test_cluster_that_does_not_answer_is_a_sentence(postgres_url, address):
    pytest.importorskip("ray", reason="the extra `ray` is not installed")
    with pytest.raises(InputError, match=r"does not answer .*check the address"):
        ingest_on_ray(postgres_url, [], address=address)


def test_no_cluster_here_is_a_sentence(postgres_url, monkeypatch):
    ray = pytest.importorskip("ray", reason="the extra `ray` is not installed")

    def init(**_):
        raise ConnectionError("Could not find any running Ray instance.\nMore")

    monkeypatch.setattr(ray, "init", init)
    with pytest.raises(InputError, match="cluster auto cannot be used: Could not find"):
        ingest_on_ray(postgres_url, [], address="auto")
