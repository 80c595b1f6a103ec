"""Logs at addresses: found as in folders, and a broken connection is no end of a file."""

from __future__ import annotations

import json
import sys
import time
import zipfile
from typing import BinaryIO

import pytest
from click.testing import CliRunner

from tests.ingest.builders import CAPTURE
from warmup_insights.cli import cli
from warmup_insights.errors import InputError
from warmup_insights.ingest import cluster
from warmup_insights.ingest.find import (
    RemoteFile,
    Steady,
    UnsteadyError,
    find_remote,
    open_remote,
)
from warmup_insights.ingest.outcome import Outcome

fsspec = pytest.importorskip("fsspec", reason="the extra `ray` is not installed")


@pytest.fixture
def folder(tmp_path):
    (tmp_path / "logs" / "deep").mkdir(parents=True)
    for name in ("b.log", "deep/a.log.gz", "c.py"):
        (tmp_path / "logs" / name).write_bytes(b"12345")
    return tmp_path / "logs"


@pytest.fixture
def archive(tmp_path, folder):
    with zipfile.ZipFile(tmp_path / "logs.zip", "w") as packed:
        for path in sorted(folder.rglob("*.*")):
            if path.is_file():
                packed.write(path, path.relative_to(folder))
    return tmp_path / "logs.zip"


@pytest.fixture
def memory():
    files = fsspec.filesystem("memory")
    files.pipe(
        {"/bucket/b.log": b"12345", "/bucket/x/a.log": b"1", "/bucket/c.py": b""}
    )
    yield files
    files.rm("/bucket", recursive=True)


def test_plain_paths_and_file_addresses_are_the_same(folder, monkeypatch):
    monkeypatch.chdir(folder.parent)
    expected = [
        RemoteFile(None, str(folder / name), str(folder / name), 5)
        for name in ("b.log", "deep/a.log.gz")
    ]
    for text in ("logs", str(folder), f"file://{folder}"):
        assert find_remote([text]) == expected
    assert find_remote([f"file://{folder}/*.log"]) == expected[:1]


def test_folders_patterns_and_files_of_other_storages(memory):
    shown = [[f.shown for f in find_remote([f"memory://bucket{rest}"])]
             for rest in ("", "/*.log", "/b.log")]  # fmt: skip
    both = ["memory:///bucket/b.log", "memory:///bucket/x/a.log"]
    assert shown == [both, both[:1], both[:1]]
    assert [f.size_bytes for f in find_remote(["memory://bucket"])] == [5, 1]


def test_a_storage_inside_another_is_opened_by_its_whole_address(archive):
    found = find_remote([f"zip://*.log::file://{archive}"])
    assert [f.shown for f in found] == [f"zip://b.log::file://{archive}"]
    with open_remote(found[0]) as (file, modified):
        assert (file.read(), modified) == (b"12345", None)


def test_time_of_writing_is_known_where_the_storage_tells_it(memory):
    with open_remote(find_remote(["memory://bucket/b.log"])[0]) as (file, modified):
        assert file.read() == b"12345"
    assert abs(modified - time.time()) < 600


@pytest.mark.parametrize(
    ("address", "sentence"),
    [
        ("-", "Standard input cannot be read by other machines"),
        ("memory://nowhere/a.log", "There is no file memory://nowhere/a.log"),
        ("memory://nowhere/*.log", "holds no log files; check the address"),
        ("file:///nowhere/*.log", "Nothing matches /nowhere"),
        ("nonsense://a/b", "cannot be read"),
    ],
)
def test_what_cannot_be_found_is_a_sentence(address, sentence):
    with pytest.raises(InputError, match=sentence.replace("*", r"\*")):
        find_remote([address])


def test_missing_driver_of_a_storage_is_a_sentence(monkeypatch):
    monkeypatch.setitem(sys.modules, "s3fs", None)
    with pytest.raises(
        InputError, match=r"s3://bucket/logs cannot be read here: .*s3fs"
    ):
        find_remote(["s3://bucket/logs"])


def test_missing_fsspec_is_a_sentence(monkeypatch):
    monkeypatch.setitem(sys.modules, "fsspec.core", None)
    with pytest.raises(InputError, match=r"pip install 'warmup-insights\[ray\]'"):
        find_remote(["s3://bucket/logs"])


def test_connection_that_breaks_is_an_error_and_not_an_end(tmp_path):
    """Nothing of the log is stored; the same bytes from a damaged disk would be."""
    from warmup_insights.ingest.single import ingest_file
    from warmup_insights.storage import EventStore

    class Broken:
        def __init__(self, file: BinaryIO) -> None:
            self._file = file
            self._left = 6

        def seek(self, *where: int) -> int:
            return self._file.seek(*where)

        def read(self, size: int = -1) -> bytes:
            self._left -= 1
            if self._left < 0:
                raise OSError("connection reset")
            return self._file.read(300)

        def readline(self, size: int = -1) -> bytes:
            return self._file.readline(size)

    with EventStore(tmp_path / "a.db") as store:
        with (
            CAPTURE.open("rb") as file,
            pytest.raises(UnsteadyError, match="connection reset"),
        ):
            ingest_file(store, Steady(Broken(file), "s3://a.log"), "a.log")
        assert store.runs() == []
        assert store.sources() == []
        with CAPTURE.open("rb") as file:
            damaged = ingest_file(store, Broken(file), "a.log")
        assert damaged.report["problems"]


def test_an_empty_folder_among_the_sources_is_named_and_the_others_are_read(
    folder, tmp_path, monkeypatch
):
    """The cluster is a stand-in; an address without logs counts as a folder does."""
    (tmp_path / "empty").mkdir()
    given = []

    def read(db, files, options, **_):
        given.extend(file.shown for file in files)
        return [Outcome(file.shown, ["a1"]) for file in files]

    monkeypatch.setattr(cluster, "ingest_on_ray", read)
    sources = [str(tmp_path / "empty"), str(folder), "memory://nothing/here"]
    arguments = ["ingest", *sources, "--ray", "auto", "--db", str(tmp_path / "a.db")]
    result = CliRunner().invoke(cli, [*arguments, "--json"])
    assert given == [str(folder / "b.log"), str(folder / "deep" / "a.log.gz")]
    files = json.loads(result.stdout)["files"]
    assert [each["state"] for each in files] == ["new", "new", "failed", "failed"]
    assert "empty holds no log files" in files[2]["error"]
    assert "memory://nothing/here" in files[3]["error"]
    assert result.exit_code == 1
    only = CliRunner().invoke(cli, ["ingest", sources[0], "--ray", "auto"])
    assert "holds no log files" in str(only.exception)
