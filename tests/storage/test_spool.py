"""The file that a recorder appends to, whatever happens to its disk."""

from __future__ import annotations

import os
import resource
import tempfile
import time
from pathlib import Path

import pytest

from tests.storage.builders import make_run, make_steps
from warmup_insights.errors import InputError, StoreError
from warmup_insights.model.events import Note
from warmup_insights.storage import spool as spool_module
from warmup_insights.storage.spool import (
    CLOSED,
    Spool,
    find_spools,
    is_spool,
    read_spool,
)

GB = 1 << 30


@pytest.fixture
def places(tmp_path, monkeypatch):
    """A folder for the database, and one for temporary files."""
    beside, temporary = tmp_path / "beside", tmp_path / "temporary"
    beside.mkdir()
    temporary.mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(temporary))
    return beside, temporary


@pytest.fixture
def database(places):
    return places[0] / "a.db"


@pytest.fixture
def spool(database):
    return Spool(database, make_run(label="ü\n"))


@pytest.fixture
def file_size_limit():
    """Files cannot grow beyond 20,000 bytes, as with a quota."""
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (20_000, before[1]))
    yield
    resource.setrlimit(resource.RLIMIT_FSIZE, before)


def full(folders, monkeypatch):
    """Let these folders have no room."""
    real = os.open

    def open_file(path, *more):
        if Path(path).parent in folders:
            raise OSError(28, "No space left on device")
        return real(path, *more)

    monkeypatch.setattr(spool_module.os, "open", open_file)


def events_in(path):
    return [event for _, event in read_spool(path).read(0)]


def test_events_come_back(spool, database):
    odd = Note(topic="lines", text="a\nb\x85\u2028\ud800")
    spool.append(make_steps(3))
    spool.append([odd])
    assert spool.path.parent == database.parent
    assert is_spool(spool.path)
    (found,) = find_spools(database)
    assert (found.run.label, found.run.status) == ("ü\n", "running")
    assert found.run.process.split("|")[1] == str(os.getpid())
    assert events_in(spool.path) == [
        *make_steps(3),
        Note(topic="lines", text="a\nb\x85\u2028?"),
    ]


def test_no_file_without_an_event(spool, places):
    spool.append([])
    spool.close()
    assert list(places[0].iterdir()) == []


def test_a_line_that_was_cut_is_not_read(spool):
    """The process was killed in the middle of a line."""
    spool.append(make_steps(3))
    spool.path.write_bytes(spool.path.read_bytes()[:-30])
    assert events_in(spool.path) == make_steps(3)[:2]


def test_a_spool_is_over_when_it_is_closed(spool, database):
    spool.append(make_steps(1))
    assert not find_spools(database)[0].is_over()
    spool.close(make_steps(2))
    assert find_spools(database)[0].is_over()
    assert events_in(spool.path) == make_steps(1) + make_steps(2)
    assert spool.path.read_bytes().endswith(CLOSED)


def test_a_spool_of_another_machine_is_over_after_a_day(database):
    spool = Spool(database, make_run(process="elsewhere|1|1"))
    spool.append(make_steps(1))
    assert not find_spools(database)[0].is_over()
    old = time.time() - 100_000
    os.utime(spool.path, (old, old))
    assert find_spools(database)[0].is_over()


def test_spools_of_other_databases_and_runs_are_left(places, database):
    for name, run_id in (("a.db", "x"), ("a.db.b", "x"), ("b.db", "x"), ("a.db", "y")):
        Spool(places[0] / name, make_run(run_id)).append(make_steps(1))
    assert [s.run.run_id for s in find_spools(database, "x")] == ["x"]
    assert sorted(s.run.run_id for s in find_spools(database)) == ["x", "y"]


def test_the_folder_for_temporary_files_is_the_second(places, monkeypatch, caplog):
    """There the whole path tells for which database a spool is."""
    full({places[0]}, monkeypatch)
    spool = Spool(places[0] / "a.db", make_run())
    spool.append(make_steps(1))
    assert spool.path.parent == places[1]
    (record,) = caplog.records
    assert f"go to {spool.path}" in record.getMessage()
    assert "No space left" in record.getMessage()
    assert len(find_spools(places[0] / "a.db")) == 1
    assert find_spools("elsewhere/a.db") == []


def test_a_server_has_its_spools_in_the_current_folder(places, monkeypatch):
    monkeypatch.chdir(places[0])
    url = "postgresql://me:secret@host/db"
    spool = Spool(url, make_run())
    spool.append(make_steps(1))
    assert spool.path.parent == places[0]
    assert b"secret" not in spool.path.read_bytes()
    assert len(find_spools(url)) == 1
    assert find_spools("postgresql://me@host/other") == []


def in_batches(spool, steps):
    """Append in batches of ten; how many events found room."""
    number = 0
    for start in range(0, len(steps), 10):
        try:
            spool.append(steps[start : start + 10])
        except StoreError:
            break
        number += 10
    return number


def stored_in(database):
    """The events of all parts of a process, in the order of the parts."""
    found = sorted(find_spools(database), key=lambda each: each.part)
    return [event for each in found for event in events_in(each.path)]


def test_a_disk_that_gets_full_is_followed_by_the_other(
    spool, database, file_size_limit, places, caplog
):
    steps = make_steps(200)
    assert in_batches(spool, steps) == 200
    assert {found.path.parent for found in find_spools(database)} == set(places)
    assert stored_in(database) == steps
    (record,) = caplog.records
    assert "File too large" in record.getMessage()


def test_the_beginning_is_kept_where_no_disk_has_room(
    spool, file_size_limit, database, monkeypatch
):
    steps = make_steps(2000)
    number = in_batches(spool, steps)
    assert 200 < number < 2000
    assert stored_in(database) == steps[:number]
    monkeypatch.setattr(spool, "_retry_at", 0.0)
    spool.append(steps[:3])  # with room again


def test_a_disk_that_is_nearly_full_keeps_room_for_the_end(spool, monkeypatch):
    spool.append(make_steps(1))
    real = os.fstatvfs(spool._file)
    fields = list(real)
    fields[4] = spool_module.RESERVE // real.f_frsize  # free blocks
    monkeypatch.setattr(
        spool_module.os, "fstatvfs", lambda _: os.statvfs_result(fields)
    )
    with pytest.raises(StoreError):
        spool.append(make_steps(1))
    spool.close(make_steps(1))
    assert spool.path.read_bytes().endswith(CLOSED)
    assert events_in(spool.path) == make_steps(1) * 2


def test_a_disk_that_is_full_from_the_start(spool, places, monkeypatch):
    full(set(places), monkeypatch)
    for write in (spool.append, spool.close):
        with pytest.raises(StoreError, match="No folder has room"):
            write(make_steps(1))
    assert [*places[0].iterdir(), *places[1].iterdir()] == []


def test_a_removed_file_is_started_again(spool):
    spool.append(make_steps(3))
    spool.path.unlink()
    spool.append(make_steps(1))
    assert events_in(spool.path) == make_steps(1)


def test_a_run_id_is_no_path(database):
    spool = Spool(database, make_run("../../etc/x" * 99))
    spool.append(make_steps(1))
    assert spool.path.parent == database.parent
    assert read_spool(spool.path).run.run_id == "../../etc/x" * 99


def test_the_program_may_change_its_folder(places, monkeypatch):
    monkeypatch.chdir(places[0])
    spool = Spool("a.db", make_run())
    monkeypatch.chdir(places[1])
    spool.append(make_steps(1))
    assert spool.path.parent == places[0]


@pytest.mark.parametrize(
    "content",
    [
        b"",
        b"INFO 08-02 17:38:31 text\n",
        b'{"warmup_insights_events":99,"run":{"run_id":"x"}}\n',
        b'{"warmup_insights_events":1,"run":{"label":"x"}}\n',
        b'{"warmup_insights_events":1,"run":{"run_id":"x"},"part":"x"}\n',
        b'{"warmup_insights_events":1}\n',
        b"[1]\n",
        b"\xff\xfe\n",
    ],
)
def test_other_files_are_refused(places, content):
    path = places[0] / "a.db.x.events.jsonl"
    path.write_bytes(content)
    assert is_spool(path) == content.startswith(b'{"warmup_insights_events":1,')
    with pytest.raises(InputError, match=r"a\.db"):
        read_spool(path)
    assert find_spools(places[0] / "a.db") == []
