from __future__ import annotations

import resource

import pytest

from tests.storage.builders import make_run, make_steps
from warmup_insights.errors import InputError, StoreError
from warmup_insights.model.events import Note
from warmup_insights.storage import EventStore
from warmup_insights.storage.spill import (
    SpillFile,
    is_spill_file,
    read_spill,
    restore_spill,
)


@pytest.fixture
def spill(tmp_path):
    return SpillFile(make_run(label="ü\n", process="p"), [tmp_path], "a.db")


@pytest.fixture
def file_size_limit():
    """Files cannot grow beyond 20,000 bytes, as if the disk were full."""
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (20_000, before[1]))
    yield
    resource.setrlimit(resource.RLIMIT_FSIZE, before)


def test_events_come_back(spill):
    odd = Note(topic="lines", text="a\nb\x85\u2028\ud800")
    spill.append(make_steps(3))
    spill.append([odd])
    run, events, unreadable = read_spill(spill.path)
    assert run == make_run(label="ü\n", process="p")
    assert events == [*make_steps(3), Note(topic="lines", text="a\nb\x85\u2028?")]
    assert unreadable == 0
    assert is_spill_file(spill.path)


def test_a_file_that_was_cut_gives_what_is_whole(spill):
    """The process was killed in the middle of a line."""
    spill.append(make_steps(3))
    content = spill.path.read_bytes()
    spill.path.write_bytes(content[:-30])
    _, events, unreadable = read_spill(spill.path)
    assert events == make_steps(3)[:2]
    assert unreadable == 1


def test_restoring_twice_adds_nothing(spill, store):
    spill.append(make_steps(3))
    assert restore_spill(store, spill.path) == 3
    assert restore_spill(store, spill.path) == 0
    assert list(store.events("run1")) == make_steps(3)
    assert store.run("run1").label == "ü\n"


def test_ingest_takes_such_a_file(spill, store):
    """As the warning of the recorder says."""
    from warmup_insights.ingest import ingest_path

    spill.append(make_steps(3))
    for state in ("new", "unchanged"):
        answer = ingest_path(store, str(spill.path)).as_dict()
        assert answer["state"] == state
        assert (answer["runs"], answer["lines"], answer["events"]) == (["run1"], 4, 3)
        assert answer["dialects"] == ["recorder"]
        assert list(store.events("run1")) == make_steps(3)


def test_the_second_folder_is_tried(tmp_path):
    spill = SpillFile(make_run(), [tmp_path / "missing", tmp_path], "a.db")
    spill.append(make_steps(1))
    assert spill.path.parent == tmp_path


def test_a_full_disk_keeps_whole_lines(spill, file_size_limit):
    spill.append(make_steps(3))
    with pytest.raises(StoreError, match="takes no more events: File too large"):
        spill.append(make_steps(500))
    assert read_spill(spill.path)[1:] == (make_steps(3), 0)
    assert spill.num_events == 3
    spill.append(make_steps(2))
    assert read_spill(spill.path)[1:] == (make_steps(3) + make_steps(2), 0)


def test_a_disk_that_is_full_from_the_start(spill, file_size_limit, tmp_path):
    with pytest.raises(StoreError, match=r"No folder takes .* File too large"):
        spill.append(make_steps(500))
    assert list(tmp_path.iterdir()) == []


def test_a_removed_file_is_started_again(spill):
    spill.append(make_steps(3))
    spill.path.unlink()
    spill.append(make_steps(1))
    assert read_spill(spill.path)[1] == make_steps(1)


def test_a_run_id_is_no_path(tmp_path):
    spill = SpillFile(make_run("../../etc/x" * 99), [tmp_path], "a.db")
    spill.append(make_steps(1))
    assert spill.path.parent == tmp_path
    assert read_spill(spill.path)[0].run_id == "../../etc/x" * 99


def test_a_link_in_its_place_is_not_followed(tmp_path):
    """Somebody else may have put it into a folder for temporary files."""
    place, victim = tmp_path / "place", tmp_path / "victim"
    place.mkdir()
    victim.write_text("untouched")
    run = make_run()
    name = SpillFile(run, [tmp_path], "a.db")._name
    (place / name).symlink_to(victim)
    spill = SpillFile(run, [place, tmp_path], "a.db")
    spill.append(make_steps(1))
    assert spill.path.parent == tmp_path
    assert victim.read_text() == "untouched"


def test_its_end(spill):
    spill.append(make_steps(1))
    path = spill.path
    spill.remove()
    assert not path.exists()
    assert (spill.path, spill.num_events) == (None, 0)


@pytest.mark.parametrize(
    "content",
    [
        b"",
        b"INFO 08-02 17:38:31 text\n",
        b'{"warmup_insights_events":99,"run":{"run_id":"x"}}\n',
        b'{"warmup_insights_events":1,"run":{"label":"x"}}\n',
        b'{"warmup_insights_events":1}\n',
        b"[1]\n",
        b"\xff\xfe\n",
    ],
)
def test_other_files_are_refused(tmp_path, content):
    path = tmp_path / "other.events.jsonl"
    path.write_bytes(content)
    assert is_spill_file(path) == content.startswith(b'{"warmup_insights_events":1')
    with pytest.raises(InputError, match="other"):
        read_spill(path)
    with EventStore(tmp_path / "a.db") as store:
        with pytest.raises(InputError):
            restore_spill(store, path)
        assert store.sources() == []
